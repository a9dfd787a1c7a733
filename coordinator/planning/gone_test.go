package planning_test

import (
	"slices"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/graph/plan"
)

// A destroy plan listed the changes that its own refresh had found, and the former addresses of moved objects. In
// OpenTofu a destroy plan begins with the refreshed state, and lists neither.
func TestADestroyPlanListsNoDrift(t *testing.T) {
	e := newStage(t)
	e.apply(`
resource "fake_thing" "gone" { name = "gone" }
resource "fake_thing" "old" { name = "kept" }
`)
	for id, o := range e.cloud.objects {
		if o.GetAttr("name").AsString() == "gone" {
			delete(e.cloud.objects, id)
		}
	}
	e.configure(`
moved {
  from = fake_thing.old
  to   = fake_thing.new
}
`)
	p := e.plan(plan.Options{Mode: plan.Destroy})
	e.equal("plan", changes(p), []string{"delete fake_thing.new"})
	if len(p.Drift) > 0 {
		t.Errorf("the drift is %v", p.Drift)
	}
	if c := p.Changes[0]; c.Moved() {
		t.Errorf("the plan reports that %s was moved from %s", c.Addr, c.Previous)
	}
	if c := e.plan(plan.Options{Mode: plan.Destroy, SkipRefresh: true}).Changes; !slices.ContainsFunc(c,
		(*plan.Change).Moved) {
		t.Error("without refreshing, the former address of the object is not reported")
	}
}

// The drift had the paths of the replacement that follows from it; in OpenTofu's JSON only the change has them.
func TestDriftItselfReplacesNothing(t *testing.T) {
	e := newStage(t)
	e.apply(`resource "fake_thing" "a" { name = "a" }`)
	vals := e.cloud.objects["new fake_thing.a"].AsValueMap()
	vals["name"] = cty.StringVal("b")
	e.cloud.objects["new fake_thing.a"] = cty.ObjectVal(vals)
	p := e.plan(plan.Options{})
	if len(p.Drift) != 1 || len(p.Drift[0].ReplacePaths) > 0 {
		t.Errorf("the drift is %+v", p.Drift)
	}
	if len(p.Changes) != 1 || len(p.Changes[0].ReplacePaths) != 1 {
		t.Errorf("the changes are %+v", p.Changes)
	}
}
