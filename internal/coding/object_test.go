package coding_test

import (
	"math/big"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
	ctymsgpack "github.com/zclconf/go-cty/cty/msgpack"

	"github.com/millipede-iac/millipede/internal/coding"
)

func TestAttributesOfAnyTypeAreReadAsCtyReadsThem(t *testing.T) {
	huge, _, err := big.ParseFloat("123456789012345678901234567890.5", 10, 512, big.ToNearestEven)
	if err != nil {
		t.Fatal(err)
	}
	deep := cty.StringVal("x")
	for range 40 {
		deep = cty.TupleVal([]cty.Value{deep})
	}
	ty := cty.Object(map[string]cty.Type{"id": cty.String, "any": cty.DynamicPseudoType, "list": cty.List(cty.Number)})
	for name, any := range map[string]cty.Value{
		"a string":            cty.StringVal("é<\n"),
		"an empty string":     cty.StringVal(""),
		"a long string":       cty.StringVal(strings.Repeat("y", 300)),
		"a number":            cty.NumberIntVal(-7),
		"a huge number":       cty.NumberVal(huge),
		"a bool":              cty.False,
		"null of no type":     cty.NullVal(cty.DynamicPseudoType),
		"null of a type":      cty.NullVal(cty.Number),
		"unknown of no type":  cty.DynamicVal,
		"unknown of a type":   cty.UnknownVal(cty.String).RefineNotNull(),
		"a list":              cty.ListVal([]cty.Value{cty.True}),
		"an object":           cty.ObjectVal(map[string]cty.Value{"a": cty.StringVal("b"), "d": cty.Zero}),
		"a map of any values": cty.MapVal(map[string]cty.Value{"k": cty.StringVal("v")}),
		"tuples in tuples":    deep,
		"a tuple": cty.TupleVal([]cty.Value{cty.StringVal("a"), cty.NullVal(cty.DynamicPseudoType), cty.EmptyObjectVal,
			cty.UnknownVal(cty.Map(cty.Bool)), cty.EmptyTupleVal}),
		"an object of objects": cty.ObjectVal(map[string]cty.Value{"<": cty.ObjectVal(map[string]cty.Value{
			"l": cty.ListVal([]cty.Value{cty.StringVal("x")}), "u": cty.UnknownVal(cty.String).RefineNotNull()}),
			strings.Repeat("n", 300): cty.SetValEmpty(cty.Bool)}),
	} {
		t.Run(name, func(t *testing.T) {
			for _, id := range []cty.Value{cty.StringVal("i"), cty.NullVal(cty.String), cty.UnknownVal(cty.String),
				cty.StringVal(strings.Repeat("z", 200))} {
				v := cty.ObjectVal(map[string]cty.Value{"id": id, "any": any,
					"list": cty.ListVal([]cty.Value{cty.Zero})})
				data, err := coding.EncodeValue(v, ty)
				if err != nil {
					t.Fatal(err)
				}
				got, err := coding.DecodeValue(data, ty)
				if err != nil {
					t.Fatal(err)
				}
				want, err := ctymsgpack.Unmarshal(data, ty)
				if err != nil {
					t.Fatal(err)
				}
				if !got.RawEquals(want) || !got.RawEquals(v) {
					t.Errorf("%#v was read as %#v", want, got)
				}
			}
		})
	}
}

// BenchmarkDecodeValue is an object of the built-in provider.
func BenchmarkDecodeValue(b *testing.B) {
	ty := cty.Object(map[string]cty.Type{"id": cty.String, "input": cty.DynamicPseudoType,
		"output": cty.DynamicPseudoType, "triggers_replace": cty.DynamicPseudoType})
	data, err := coding.EncodeValue(cty.ObjectVal(map[string]cty.Value{
		"id": cty.StringVal("i"), "input": cty.StringVal("v"), "output": cty.StringVal("v"),
		"triggers_replace": cty.NullVal(cty.DynamicPseudoType),
	}), ty)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("here", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := coding.DecodeValue(data, ty); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("by cty", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := ctymsgpack.Unmarshal(data, ty); err != nil {
				b.Fatal(err)
			}
		}
	})
}
