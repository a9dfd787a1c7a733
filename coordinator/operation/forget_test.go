package operation_test

import (
	"testing"

	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/graph/plan"
)

// A mistake in lifecycle.destroy, evaluated like any other expression, counted as true: what was to be kept was destroyed.
func TestAMistakeInLifecycleDestroyDestroysNothing(t *testing.T) {
	block := func(destroy string) string {
		return "locals {\n  no = false\n}\nresource \"fake_thing\" \"a\" {\n  name = \"a\"\n  lifecycle {\n    destroy = " + destroy + "\n  }\n}\n"
	}
	for _, mistake := range []string{"nosuch.thing", "var.undeclared", "local.no", "null", `"false"`, "0", "[]", `tobool("false")`, "each.key", `sensitive(false)`} {
		t.Run(mistake, func(t *testing.T) {
			e := newEstate(t)
			e.apply(block("false"))
			e.configure(block(mistake))
			for _, mode := range []plan.Mode{plan.Normal, plan.Destroy, plan.RefreshOnly} {
				planned, diags := e.session.Plan(t.Context(), e.state(), operation.PlanOptions{Mode: mode})
				if planned != nil || !diags.HasErrors() {
					t.Errorf("mode %d plans %v: %v", mode, planned, diags)
				}
			}
		})
	}
	for constant, want := range map[string]string{"false": "forget fake_thing.a", "1 == 2": "forget fake_thing.a", "!false": "delete fake_thing.a"} {
		t.Run(constant, func(t *testing.T) {
			e := newEstate(t)
			e.apply(block(constant))
			e.equal("plan", changes(e.plan(operation.PlanOptions{Mode: plan.Destroy})), []string{want})
			// The object remembers it, also when its block, or the module around it, is gone.
			e.configure("")
			e.equal("plan without a block", changes(e.plan(operation.PlanOptions{})), []string{want})
		})
	}
}

// A removed block is what the user said last; it was overruled by the lifecycle argument that the object remembered.
func TestARemovedBlockDecidesOverWhatAnObjectRemembers(t *testing.T) {
	e := newEstate(t)
	e.apply("resource \"fake_thing\" \"a\" {\n  name = \"a\"\n  lifecycle {\n    destroy = false\n  }\n}\n")
	e.configure("removed {\n  from = fake_thing.a\n  lifecycle {\n    destroy = true\n  }\n}\n")
	e.equal("plan", changes(e.plan(operation.PlanOptions{})), []string{"delete fake_thing.a"})
}
