package operation_test

import (
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/graph/plan"
)

// Outputs that refer to objects which refreshing does not find kept their old values: they were unknown in the plan,
// and only known values were stored.
func TestARefreshOnlyApplyLeavesNothingOfWhatIsGoneInOutputs(t *testing.T) {
	e := newEstate(t)
	e.apply(`
resource "fake_thing" "one" {
  name = "one"
}
resource "fake_thing" "many" {
  count = 3
  name  = "many${count.index}"
}
resource "fake_thing" "each" {
  for_each = toset(["x", "y"])
  name     = each.key
}
output "one" {
  value = fake_thing.one.name
}
output "many" {
  value = [for t in fake_thing.many : try(t.name, "gone")]
}
output "each" {
  value = keys(fake_thing.each)
}
`)
	e.cloud.mu.Lock()
	for id, o := range e.cloud.objects {
		switch o.GetAttr("name").AsString() {
		case "one", "many1", "many2", "x":
			delete(e.cloud.objects, id)
		}
	}
	e.cloud.mu.Unlock()
	_, diags := e.tryApply(e.plan(operation.PlanOptions{Mode: plan.RefreshOnly}))
	e.clean(diags)
	for name, want := range map[string]cty.Value{
		"one":  cty.NullVal(cty.String),
		"many": cty.TupleVal([]cty.Value{cty.StringVal("many0")}),
		"each": cty.TupleVal([]cty.Value{cty.StringVal("y")}),
	} {
		if got := e.state().Outputs[name].Value; !got.RawEquals(want) {
			t.Errorf("the output %q is %#v, want %#v", name, got, want)
		}
	}
}
