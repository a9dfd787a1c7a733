package marks

import (
	"testing"

	"github.com/zclconf/go-cty/cty"
)

// A sensitive value that is not found here would be written to the state as if it were not sensitive.
func TestAMarkIsFoundWhereverItIs(t *testing.T) {
	secret := cty.StringVal("s").Mark(Sensitive)
	for name, v := range map[string]cty.Value{
		"itself":                secret,
		"null":                  cty.NullVal(cty.String).Mark(Sensitive),
		"unknown":               cty.UnknownVal(cty.List(cty.String)).Mark(Sensitive),
		"attribute":             cty.ObjectVal(map[string]cty.Value{"a": cty.True, "b": secret}),
		"element of a list":     cty.ListVal([]cty.Value{cty.StringVal("a"), secret}),
		"element of a tuple":    cty.TupleVal([]cty.Value{cty.True, cty.EmptyTupleVal, secret}),
		"element of a map":      cty.MapVal(map[string]cty.Value{"a": secret}),
		"element of a set":      cty.SetVal([]cty.Value{secret}),
		"in an object in a map": cty.MapVal(map[string]cty.Value{"a": cty.ObjectVal(map[string]cty.Value{"b": secret})}),
	} {
		bare, paths := Separate(v, Sensitive)
		if len(paths) != 1 || bare.ContainsMarked() || !Contains(v, Sensitive) {
			t.Errorf("%s: separated into %#v and %#v", name, bare, paths)
		}
	}
}

func TestAValueWithoutMarksStaysAsItIs(t *testing.T) {
	for _, v := range []cty.Value{cty.True, cty.DynamicVal, cty.NullVal(cty.DynamicPseudoType), cty.EmptyObjectVal,
		cty.UnknownVal(cty.Map(cty.String)), cty.ListValEmpty(cty.String),
		cty.ObjectVal(map[string]cty.Value{"a": cty.SetVal([]cty.Value{cty.Zero}), "u": cty.UnknownVal(cty.EmptyObject)}),
	} {
		if bare, paths := Separate(v, Sensitive); paths != nil || !bare.RawEquals(v) {
			t.Errorf("%#v became %#v with %#v", v, bare, paths)
		}
	}
}
