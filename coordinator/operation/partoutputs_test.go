package operation_test

import (
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/graph/plan"
)

// An output with all instances of a resource was not stored if an apply with -target had excluded one of them, because
// the value of the excluded one was not known. Instances that do not exist are left out of the output, as in OpenTofu;
// a gap is null.
func TestAnOutputOfWhatATargetedApplyHasMadeIsStored(t *testing.T) {
	e := newEstate(t)
	e.configure(`
resource "fake_thing" "c" {
  count = 3
  name  = "c${count.index}"
}
resource "fake_thing" "f" {
  for_each = { a = "fa", b = "fb" }
  name     = each.value
}
output "c" { value = fake_thing.c[*].name }
output "f" { value = { for k, v in fake_thing.f : k => v.name } }
output "n" { value = length(fake_thing.c) }
`)
	c := func(names ...any) cty.Value {
		var list []cty.Value
		for _, n := range names {
			if n == nil {
				list = append(list, cty.NullVal(cty.String))
				continue
			}
			list = append(list, cty.StringVal(n.(string)))
		}
		return cty.TupleVal(list)
	}
	f := cty.ObjectVal(map[string]cty.Value{"a": cty.StringVal("fa")})
	for _, step := range []struct {
		target  string
		outputs map[string]cty.Value
	}{
		{`fake_thing.f["a"]`, map[string]cty.Value{"f": f}},
		{"fake_thing.c[0]", map[string]cty.Value{"f": f, "c": c("c0"), "n": cty.NumberIntVal(1)}},
		{"fake_thing.c[2]", map[string]cty.Value{"f": f, "c": c("c0", nil, "c2"), "n": cty.NumberIntVal(3)}},
	} {
		_, diags := e.tryApply(e.plan(plan.Options{Targets: targets(step.target)}))
		e.clean(diags)
		outputs := e.state().Outputs
		if len(outputs) != len(step.outputs) {
			t.Errorf("after %s there are %d outputs", step.target, len(outputs))
		}
		for name, want := range step.outputs {
			if o := outputs[name]; o == nil || !o.Value.RawEquals(want) {
				t.Errorf("after %s, %s is %#v", step.target, name, o)
			}
		}
	}
}
