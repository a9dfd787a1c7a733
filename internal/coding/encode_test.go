package coding_test

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
	ctymsgpack "github.com/zclconf/go-cty/cty/msgpack"

	"github.com/millipede-iac/millipede/internal/coding"
)

// valueMaker makes values at random, among them those at the borders of each form.
type valueMaker struct{ *rand.Rand }

func (m valueMaker) pick(n int) int { return m.IntN(n) }

func (m valueMaker) ofType(ty cty.Type) cty.Value {
	switch m.pick(12) {
	case 0:
		return cty.NullVal(ty)
	case 1:
		return cty.UnknownVal(ty)
	case 2:
		if ty != cty.DynamicPseudoType {
			return cty.UnknownVal(ty).RefineNotNull()
		}
	}
	switch {
	case ty == cty.DynamicPseudoType:
		return m.ofType([]cty.Type{cty.String, cty.Number, cty.Bool, cty.DynamicPseudoType, cty.List(cty.String),
			cty.Object(map[string]cty.Type{"x": cty.Number, "<é\"": cty.DynamicPseudoType}),
			cty.Tuple([]cty.Type{cty.String, cty.DynamicPseudoType, cty.Map(cty.String)}), cty.EmptyTuple,
			cty.Object(map[string]cty.Type{strings.Repeat("n", 300): cty.Set(cty.String)})}[m.pick(9)])
	case ty == cty.String:
		return cty.StringVal([]string{"", "plain", "é<&>\u2028\"\\\n\x01", strings.Repeat("a", 31), strings.Repeat("b", 32),
			strings.Repeat("c", 255), strings.Repeat("d", 256), strings.Repeat("e", 65536), "\xff\xfe"}[m.pick(9)])
	case ty == cty.Number:
		huge, _, _ := big.ParseFloat("123456789012345678901234567890.5", 10, 512, big.ToNearestEven)
		return []cty.Value{cty.Zero, cty.NumberIntVal(127), cty.NumberIntVal(128), cty.NumberIntVal(255),
			cty.NumberIntVal(256), cty.NumberIntVal(65535), cty.NumberIntVal(65536), cty.NumberIntVal(-1),
			cty.NumberIntVal(-200), cty.NumberFloatVal(1.5), cty.NumberVal(huge), cty.PositiveInfinity,
			cty.MustParseNumberVal("0.1"), cty.MustParseNumberVal("1e40"), cty.NumberFloatVal(math.Copysign(0, -1))}[m.pick(15)]
	case ty == cty.Bool:
		return cty.BoolVal(m.pick(2) == 0)
	case ty.IsObjectType():
		attrs := map[string]cty.Value{}
		for name, of := range ty.AttributeTypes() {
			attrs[name] = m.ofType(of)
		}
		if m.pick(20) == 0 {
			delete(attrs, "b") // does not conform
		}
		if m.pick(20) == 0 {
			attrs["b"] = cty.True // must be converted
		}
		return cty.ObjectVal(attrs)
	case ty.IsTupleType():
		elements := []cty.Value{}
		for _, of := range ty.TupleElementTypes() {
			elements = append(elements, m.ofType(of))
		}
		return cty.TupleVal(elements)
	case ty.IsListType():
		n := []int{0, 1, 15, 16, 20}[m.pick(5)]
		if n == 0 || ty.ElementType() == cty.DynamicPseudoType {
			return cty.ListValEmpty(ty.ElementType())
		}
		one := m.ofType(ty.ElementType())
		if !one.Type().Equals(ty.ElementType()) {
			return cty.ListValEmpty(ty.ElementType())
		}
		list := make([]cty.Value, n)
		for i := range list {
			list[i] = one
		}
		return cty.ListVal(list)
	case ty.IsSetType():
		elements := []cty.Value{cty.StringVal("b"), cty.StringVal(""), cty.StringVal("a"), cty.NullVal(cty.String)}
		if n := m.pick(len(elements) + 1); n > 0 {
			return cty.SetVal(elements[:n])
		}
		return cty.SetValEmpty(cty.String)
	case ty.IsMapType():
		elements := map[string]cty.Value{}
		for i := range []int{0, 1, 15, 16, 20}[m.pick(5)] {
			elements[[]string{"k", "\"", "é", "<"}[i%4]+fmt.Sprint(i)] = m.ofType(cty.String)
		}
		if len(elements) == 0 {
			return cty.MapValEmpty(cty.String)
		}
		return cty.MapVal(elements)
	}
	panic(fmt.Sprintf("no values of %#v", ty))
}

// Two ways to write a value must produce the same bytes: otherwise states, digests and saved plans would depend on the
// writer.
func TestValuesAreWrittenAsCtyWritesThem(t *testing.T) {
	wide := map[string]cty.Type{}
	for i := range 40 {
		wide[fmt.Sprintf("a%d", i)] = cty.String
	}
	types := []cty.Type{
		cty.String, cty.Number, cty.Bool, cty.DynamicPseudoType, cty.List(cty.Number), cty.Object(wide),
		cty.Object(map[string]cty.Type{"b": cty.String, "a": cty.DynamicPseudoType, "é": cty.Number,
			"l": cty.List(cty.Bool), "m": cty.Map(cty.String), "s": cty.Set(cty.String),
			"o": cty.Object(map[string]cty.Type{"b": cty.DynamicPseudoType})}),
		cty.List(cty.Object(map[string]cty.Type{"b": cty.String})), cty.List(cty.DynamicPseudoType),
		cty.EmptyObject,
	}
	m := valueMaker{rand.New(rand.NewPCG(1, 2))}
	for range 3_000 {
		ty := types[m.pick(len(types))]
		v := m.ofType(ty)
		if m.pick(30) == 0 {
			v = v.Mark("m")
		}
		if !v.IsNull() { // which is nothing here
			got, err := encoded(coding.EncodeValue, v, ty)
			want, wantErr := encoded(ctymsgpack.Marshal, v, ty)
			if (err == nil) != (wantErr == nil) || !bytes.Equal(got, want) {
				t.Fatalf("msgpack of %#v as %#v:\n%x, %v\ncty writes\n%x, %v", v, ty, got, err, want, wantErr)
			}
		}
		got, err := encoded(coding.EncodeJSON, v, ty)
		want, wantErr := encoded(ctyjson.Marshal, v, ty)
		if (err == nil) != (wantErr == nil) || !bytes.Equal(got, want) {
			t.Fatalf("JSON of %#v as %#v:\n%s, %v\ncty writes\n%s, %v", v, ty, got, err, want, wantErr)
		}
	}
}

// encoded calls an encoder, which may panic where cty's does.
func encoded(encode func(cty.Value, cty.Type) ([]byte, error), v cty.Value, ty cty.Type) (data []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return encode(v, ty)
}

// BenchmarkEncode is an object of the built-in provider.
func BenchmarkEncode(b *testing.B) {
	ty := cty.Object(map[string]cty.Type{"id": cty.String, "input": cty.DynamicPseudoType,
		"output": cty.DynamicPseudoType, "triggers_replace": cty.DynamicPseudoType})
	v := cty.ObjectVal(map[string]cty.Value{"id": cty.StringVal("i"), "input": cty.StringVal("v"),
		"output": cty.StringVal("v"), "triggers_replace": cty.NullVal(cty.DynamicPseudoType)})
	for name, encode := range map[string]func(cty.Value, cty.Type) ([]byte, error){
		"msgpack": coding.EncodeValue, "msgpack by cty": ctymsgpack.Marshal,
		"JSON": coding.EncodeJSON, "JSON by cty": ctyjson.Marshal,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := encode(v, ty); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestWholeNumbersInJSONAreWrittenAsBigFloatWritesThem(t *testing.T) {
	for _, prec := range []uint{24, 53, 64, 512} {
		for shift := range uint(70) {
			for d := int64(-3); d <= 3; d++ {
				f := new(big.Float).SetPrec(prec).SetMantExp(big.NewFloat(1), int(shift))
				f.Add(f, new(big.Float).SetInt64(d))
				for _, f := range []*big.Float{f, new(big.Float).Neg(f)} {
					got, err := coding.EncodeJSON(cty.NumberVal(f), cty.Number)
					if want := f.Text('f', -1); err != nil || string(got) != want {
						t.Errorf("2^%d%+d with %d bits is written %s instead of %s", shift, d, prec, got, want)
					}
				}
			}
		}
	}
	minus := new(big.Float).Neg(new(big.Float))
	if got, err := coding.EncodeJSON(cty.NumberVal(minus), cty.Number); err != nil || string(got) != minus.Text('f', -1) {
		t.Errorf("minus zero is written %s, %v", got, err)
	}
}
