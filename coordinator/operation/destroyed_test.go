package operation_test

import (
	"slices"
	"testing"

	"github.com/millipede-iac/millipede/graph/plan"
)

// A destroy plan listed the changes that its own refresh had found, and the former addresses of moved objects. In
// OpenTofu a destroy plan begins with the refreshed state, and lists neither.
func TestADestroyPlanListsNoDrift(t *testing.T) {
	e := newEstate(t)
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
