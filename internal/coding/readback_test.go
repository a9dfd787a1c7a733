package coding_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/zclconf/go-cty/cty"
	ctymsgpack "github.com/zclconf/go-cty/cty/msgpack"

	"github.com/millipede-iac/millipede/internal/coding"
)

// cloudObject is of the size, and has the kinds of attributes, that objects of clouds have.
var cloudObject = cty.Object(map[string]cty.Type{
	"id": cty.String, "name": cty.String, "region": cty.String, "size": cty.Number, "on": cty.Bool,
	"tags": cty.Map(cty.String), "zones": cty.List(cty.String), "groups": cty.Set(cty.String),
	"disk": cty.List(cty.Object(map[string]cty.Type{"gb": cty.Number, "kind": cty.String})),
	"arn":  cty.String, "owner": cty.String, "image": cty.String, "timeout": cty.Number, "private": cty.Bool,
})

// The short way must read the same value as cty from any input, and return the same errors.
func TestValuesAreReadAsCtyReadsThem(t *testing.T) {
	m := valueMaker{rand.New(rand.NewPCG(3, 4))}
	types := []cty.Type{cloudObject, cty.Object(map[string]cty.Type{"any": cty.DynamicPseudoType, "one": cloudObject}),
		cty.List(cty.Number), cty.Map(cty.String), cty.Number, cty.String, cty.Bool, cty.DynamicPseudoType}
	for range 3_000 {
		ty := types[m.pick(len(types))]
		data, err := encoded(ctymsgpack.Marshal, m.ofType(ty), ty)
		if err != nil || len(data) == 0 {
			continue
		}
		if m.pick(5) == 0 {
			data[m.pick(len(data))] = byte(m.pick(256))
		}
		got, err := coding.DecodeValue(data, ty)
		want, wantErr := readByCty(data, ty)
		switch {
		case err == nil && wantErr != nil:
			t.Fatalf("%x was read as %#v, and cty says %v", data, got, wantErr)
		case err == nil && !got.RawEquals(want):
			t.Fatalf("%x was read as %#v, and cty reads %#v", data, got, want)
		}
	}
}

// readByCty calls cty's decoder, which panics on some bytes.
func readByCty(data []byte, ty cty.Type) (v cty.Value, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	return ctymsgpack.Unmarshal(data, ty)
}

func BenchmarkDecodeCloudObject(b *testing.B) {
	data := cloudBytes(b)
	b.Run("here", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := coding.DecodeValue(data, cloudObject); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("by cty", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := ctymsgpack.Unmarshal(data, cloudObject); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func cloudBytes(b *testing.B) []byte {
	b.Helper()
	text := func(s string) cty.Value { return cty.StringVal(s) }
	data, err := coding.EncodeValue(cty.ObjectVal(map[string]cty.Value{
		"id": text("i-0123456789abcdef"), "name": text("web-17"), "region": text("eu-central-1"),
		"size": cty.NumberIntVal(4), "on": cty.True, "tags": cty.MapVal(map[string]cty.Value{"team": text("a")}),
		"zones": cty.ListVal([]cty.Value{text("a"), text("b")}), "groups": cty.SetVal([]cty.Value{text("g")}),
		"disk": cty.ListVal([]cty.Value{cty.ObjectVal(map[string]cty.Value{"gb": cty.NumberIntVal(100),
			"kind": text("ssd")})}),
		"arn": text("arn:of:something"), "owner": text("me"), "image": cty.NullVal(cty.String),
		"timeout": cty.NullVal(cty.Number), "private": cty.False,
	}), cloudObject)
	if err != nil {
		b.Fatal(err)
	}
	return data
}
