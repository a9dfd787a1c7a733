package operation_test

import (
	"testing"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/graph/plan/planfile"
	"github.com/millipede-iac/millipede/state"
)

const keptConfig = `
variable "size" { default = 1 }
resource "fake_thing" "a" {
  count = 2
  name  = "a${count.index}"
  lifecycle {
    precondition {
      condition     = count.index < 5
      error_message = "too many"
    }
  }
}
resource "fake_thing" "b" {
  name = "b"
  size = var.size
  note = fake_thing.a[1].id
}
`

// Each plan decoded the values of all objects that verdicts keep, and each saved plan contained them, although only
// documents show them.
func TestAnObjectThatAVerdictKeepsIsOnlyNamedInThePlan(t *testing.T) {
	e := newEstate(t)
	e.apply(keptConfig)
	e.plan(onlyChanged) // records the verdicts
	e.configure(`variable "size" { default = 2 }` + keptConfig[len("\nvariable \"size\" { default = 1 }"):])
	made := e.plan(onlyChanged)
	data, err := planfile.Encode(planfile.Saved{Plan: made})
	e.check(err)
	for how, p := range map[string]*plan.Plan{"made": made, "saved": e.decode(data)} {
		e.equal(how, changes(p), []string{"update fake_thing.b"})
		for _, c := range p.Changes[:2] {
			if !c.Kept || c.Action != plan.NoOp || !c.Before.IsNull() || !c.After.IsNull() || c.Moved() {
				t.Errorf("%s: %s is %+v", how, c.Addr, c)
			}
		}
	}

	schemas, diags := e.session.Schemas(t.Context(), e.state())
	e.clean(diags)
	whole, err := values.FillKept(made, schemas)
	e.check(err)
	for i, c := range whole.Changes[:2] {
		id := e.attribute(c.Addr.String(), "id").(string)
		if c.Kept || c.Before.GetAttr("id").AsString() != id || !c.After.RawEquals(c.Before) || !made.Changes[i].Kept {
			t.Errorf("with its values, %s is %+v", c.Addr, c)
		}
		if _, marked := c.After.UnmarkDeep(); len(marked) == 0 {
			t.Errorf("%s has no sensitive attributes, although its schema has", c.Addr)
		}
	}
	without := *made
	without.Prior = state.Empty()
	if _, err := values.FillKept(&without, schemas); err == nil {
		t.Error("a value was found without a state")
	}

	_, diags = e.tryApply(e.decode(data))
	e.clean(diags)
	if got, want := e.attribute("fake_thing.b", "note"), e.attribute("fake_thing.a[1]", "id"); got != want {
		t.Errorf("the note is %v, want %v", got, want)
	}
}
