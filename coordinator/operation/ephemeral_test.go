package operation_test

import (
	"slices"
	"testing"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
)

// As OpenTofu documents: an ephemeral resource is opened in each phase that uses it, and closed when its users have
// ended; nothing about it is stored.
func TestAnEphemeralObjectIsOpenWhileItsUsersNeedIt(t *testing.T) {
	const text = `
ephemeral "fake_token" "t" {
  provider = fake.plain
  count    = 2
  name     = "t${count.index}"
  lifecycle {
    precondition {
      condition     = count.index < 2
      error_message = "too many"
    }
    postcondition {
      condition     = self.value != ""
      error_message = "no value"
    }
  }
}
provider "fake" { token = ephemeral.fake_token.t[1].value }
ephemeral "fake_token" "inner" {
  name     = "inner"
  provider = fake.plain
}
provider "fake" { alias = "plain" }
resource "fake_thing" "a" { name = "a" }
`
	e := newEstate(t)
	e.configure(text)
	p := e.plan(plan.Options{})
	order := func(what string, log []string, first, second string) {
		t.Helper()
		i, j := slices.Index(log, first), -1
		for k, done := range log {
			if done == second {
				j = k
			}
		}
		if i < 0 || j < 0 || i > j {
			t.Errorf("%s: %q is not before %q in the log: %v", what, first, second, log)
		}
	}
	log := e.cloud.done()
	for _, name := range []string{"t0", "t1", "inner"} {
		order("plan", log, "open "+name, "close "+name)
	}
	order("plan", log, "open t1", "configure with token of t1")
	order("plan", log, "configure with token of t1", "close t1")
	_, diags := e.tryApply(p)
	e.clean(diags)
	// An apply checked the conditions and did not store the results, so the state said "unknown".
	if checks := e.state().Checks; len(checks) != 1 || len(checks[0].Objects) != 2 ||
		checks[0].Status != state.CheckPass {
		t.Errorf("the state has the checks %+v", checks)
	}
	log = e.cloud.done()
	order("apply", log, "open t1", "create a")
	order("apply", log, "create a", "close t1")
	for a := range e.state().Resources {
		if a.Resource.Mode == addr.Ephemeral {
			t.Errorf("the state has %s", a)
		}
	}
	_, diags = e.tryApply(e.plan(plan.Options{Mode: plan.Destroy}))
	e.clean(diags)
	log = e.cloud.done()
	order("destroy", log, "open t1", "delete a")
	order("destroy", log, "delete a", "close t1")
}

func TestAnEphemeralObjectThatCannotBeOpenedFailsThePlanAndOthersAreClosed(t *testing.T) {
	e := newEstate(t)
	e.configure(`
ephemeral "fake_token" "good" { name = "good" }
ephemeral "fake_token" "bad" { name = "locked" }
resource "fake_thing" "a" { name = "a" }
`)
	_, diags := e.tryPlan(plan.Options{})
	if !says(diags, "it is locked") {
		t.Error(diags)
	}
	if log := e.cloud.done(); !slices.Contains(log, "close good") || slices.Contains(log, "close locked") {
		t.Errorf("the log is %v", log)
	}
}

func TestAnEphemeralObjectThatNeedsWhatIsNotThereYetIsOpenedInTheApply(t *testing.T) {
	e := newEstate(t)
	e.configure(`
resource "fake_thing" "a" { name = "a" }
ephemeral "fake_token" "t" {
  name = fake_thing.a.id
  lifecycle {
    postcondition {
      condition     = self.value != ""
      error_message = "no value"
    }
  }
}
`)
	p := e.plan(plan.Options{})
	if log := e.cloud.done(); len(log) > 0 {
		t.Errorf("the operations of the plan are %v", log)
	}
	_, diags := e.tryApply(p)
	e.clean(diags)
	e.equal("apply", e.cloud.done(), []string{"create a", "open id1", "close id1"})
}
