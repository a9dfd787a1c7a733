package funcs

import (
	"maps"
	"testing"

	"github.com/zclconf/go-cty/cty"
)

// toy is a function that is added by the recipe of ARCHITECTURE.md: an entry of a family, and the family's line in the
// table, which the test replaces.
func toy() family {
	return family{"twice": {onFloats("times", func(x, times float64) float64 { return x * times * 2 }),
		"Doubles a number, as often as a second one says."}}
}

func TestAFunctionIsAddedByTheRecipe(t *testing.T) {
	all := maps.Clone(timeless())
	all.add(toy())
	for _, name := range []string{"twice", "core::twice"} {
		fn, ok := all[name]
		if !ok {
			t.Fatalf("there is no %s", name)
		}
		got, err := fn.Call([]cty.Value{cty.NumberIntVal(4), cty.NumberIntVal(3)})
		if err != nil || !got.RawEquals(cty.NumberIntVal(24)) {
			t.Errorf("%s(4, 3) is %#v, %v", name, got, err)
		}
		if got := SignatureOf(fn); got.Description == "" || len(got.Parameters) != 2 || got.ReturnType != cty.Number {
			t.Errorf("tools are told %+v of %s", got, name)
		}
	}
	unknown, err := all["twice"].Call([]cty.Value{cty.UnknownVal(cty.Number), cty.NumberIntVal(3)})
	if err != nil || unknown.IsKnown() {
		t.Errorf("of an unknown number it is %#v, %v", unknown, err)
	}
}
