package coding_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/internal/coding"
)

// transcoded are types with all parts that ObjectJSON knows, and with some that it does not know.
var transcoded = []cty.Type{
	cty.Object(map[string]cty.Type{"id": cty.String, "input": cty.DynamicPseudoType, "output": cty.DynamicPseudoType}),
	cty.Object(map[string]cty.Type{"a": cty.Number, "b": cty.Bool, "c": cty.List(cty.String), "d": cty.Set(cty.String),
		"e": cty.Map(cty.String)}),
	cty.Object(map[string]cty.Type{"<": cty.String, "in": cty.List(cty.Object(map[string]cty.Type{"n": cty.Number}))}),
	cty.Object(map[string]cty.Type{"t": cty.Tuple([]cty.Type{cty.String})}),
	cty.EmptyObject,
}

// asTheValue reports whether ObjectJSON knows the data. What it returns must be the JSON of the value.
func asTheValue(t *testing.T, data []byte, ty cty.Type) bool {
	t.Helper()
	got, ok := coding.ObjectJSON(data, ty)
	if !ok {
		return false
	}
	v, err := coding.DecodeValue(data, ty)
	if err != nil || v.IsNull() {
		t.Fatalf("%x is %s, but as a value %#v (%v)", data, got, v, err)
	}
	want, err := coding.EncodeJSON(v, ty)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%x is\n%s, but the JSON of its value (%v) is\n%s", data, got, err, want)
	}
	return true
}

func TestAnObjectBecomesTheJSONOfItsValue(t *testing.T) {
	m := valueMaker{rand.New(rand.NewPCG(3, 4))}
	for _, ty := range transcoded {
		known := 0
		for range 800 {
			v := m.ofType(ty)
			data, err := coding.EncodeValue(v, ty)
			if err != nil || data == nil {
				continue
			}
			if asTheValue(t, data, ty) {
				known++
			}
			for range 3 {
				data[m.pick(len(data))] = byte(m.pick(256))
				asTheValue(t, data, ty)
			}
		}
		if known == 0 {
			t.Errorf("no object of the type %#v is known", ty)
		}
	}
	if _, ok := coding.ObjectJSON([]byte{0xc0}, transcoded[0]); ok {
		t.Error("null is an object")
	}
}

func FuzzAnObjectBecomesTheJSONOfItsValue(f *testing.F) {
	m := valueMaker{rand.New(rand.NewPCG(5, 6))}
	for i, ty := range transcoded {
		for range 20 {
			if data, err := coding.EncodeValue(m.ofType(ty), ty); err == nil {
				f.Add(byte(i), data)
			}
		}
	}
	f.Fuzz(func(t *testing.T, i byte, data []byte) { asTheValue(t, data, transcoded[int(i)%len(transcoded)]) })
}

func BenchmarkObjectJSON(b *testing.B) {
	ty := transcoded[0]
	data, err := coding.EncodeValue(cty.ObjectVal(map[string]cty.Value{"id": cty.StringVal("0123-4567-89ab-cdef"),
		"input": cty.StringVal("value-17"), "output": cty.StringVal("value-17")}), ty)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("direct", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, ok := coding.ObjectJSON(data, ty); !ok {
				b.Fatal("unknown")
			}
		}
	})
	b.Run("value", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			v, err := coding.DecodeValue(data, ty)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := coding.EncodeJSON(v, ty); err != nil {
				b.Fatal(err)
			}
		}
	})
}
