package operation_test

import (
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
)

// Objects could not be destroyed any more if a validation was added later that refuses the value with which they were
// made.
func TestAFailingValidationDoesNotBlockADestroy(t *testing.T) {
	text := func(max string) string {
		return `
variable "size" {
  type = number
  validation {
    condition     = var.size < ` + max + `
    error_message = "too large"
  }
}
module "m" {
  source = "./child"
  size   = var.size
}
resource "fake_thing" "a" {
  name = "a"
  size = var.size
}
`
	}
	child := func(max string) string {
		return `
variable "size" {
  validation {
    condition     = var.size < ` + max + `
    error_message = "much too large"
  }
}
resource "fake_thing" "b" { name = "b" }
`
	}
	for what, o := range map[string]plan.Options{
		"with refreshing":    {Mode: plan.Destroy},
		"without refreshing": {Mode: plan.Destroy, SkipRefresh: true},
	} {
		t.Run(what, func(t *testing.T) {
			e := newEstate(t)
			e.session.Inputs = map[string]values.Input{"size": {Value: cty.NumberIntVal(5)}}
			e.apply(text("10"), child("10"))
			e.configure(text("3"), child("3"))
			if _, diags := e.tryPlan(plan.Options{}); !says(diags, "too large") {
				t.Errorf("an ordinary plan: %v", diags)
			}
			p := e.plan(o)
			e.equal("plan", changes(p), []string{"delete fake_thing.a", "delete module.m.fake_thing.b"})
			_, diags := e.tryApply(p)
			e.clean(diags)
			e.equal("state", existing(e.state()), nil)
		})
	}
}

// A refresh-only plan of an output of an object that is gone had a change, also after it had been accepted: the output
// was unknown in each plan, so that plan -refresh-only -detailed-exitcode never ended with 0 again.
func TestAnAcceptedRefreshHasNoFurtherChanges(t *testing.T) {
	e := newEstate(t)
	e.apply(`
resource "fake_thing" "a" { name = "a" }
resource "fake_thing" "b" { name = "b" }
output "a" { value = fake_thing.a.id }
output "both" { value = [fake_thing.a.id, fake_thing.b.id] }
`)
	e.cloud.mu.Lock()
	for id, o := range e.cloud.objects {
		if o.GetAttr("name").AsString() == "a" {
			delete(e.cloud.objects, id)
		}
	}
	e.cloud.mu.Unlock()
	p := e.plan(plan.Options{Mode: plan.RefreshOnly})
	if !p.Differs() {
		t.Error("the first plan finds nothing")
	}
	_, diags := e.tryApply(p)
	e.clean(diags)
	if p := e.plan(plan.Options{Mode: plan.RefreshOnly}); p.Differs() || p.Applyable() {
		t.Errorf("the second plan has changes: %+v", p.Outputs)
	}
}

// A destroy that found data which cannot be read made an ordinary plan, which read all objects again.
func TestADestroyReadsNoObjectTwice(t *testing.T) {
	const things = `
resource "fake_thing" "a" { name = "a" }
resource "fake_thing" "b" { name = "b" }
`
	e := newEstate(t)
	e.apply(things)
	reads := map[string]int{}
	e.cloud.onRead = func(name string) error {
		e.cloud.mu.Lock()
		defer e.cloud.mu.Unlock()
		reads[name]++
		return nil
	}
	e.configure(things + `data "fake_lookup" "d" { key = fake_thing.a.name == "a" ? "nothing" : "something" }`)
	planned, diags := e.session.Plan(t.Context(), e.state(), plan.Options{Mode: plan.Destroy})
	if planned != nil || !diags.HasErrors() {
		t.Fatalf("the destroy does not fail: %v", diags)
	}
	for name, n := range reads {
		if n != 1 {
			t.Errorf("%s was read %d times", name, n)
		}
	}
	if len(reads) != 2 {
		t.Errorf("read: %v", reads)
	}
}
