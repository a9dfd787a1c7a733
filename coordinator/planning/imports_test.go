package planning_test

import (
	"testing"

	"github.com/millipede-iac/millipede/graph/plan"
)

// An import block with an empty ID, for example the default of a variable, was treated as if it were not there: the
// object that was to be imported was created a second time.
func TestAnEmptyIDIsRefused(t *testing.T) {
	e := newStage(t)
	for _, id := range []string{`""`, "var.id"} {
		e.configure("variable \"id\" { default = \"\" }\nimport {\n to = fake_thing.a\n id = " + id + "\n}\n" +
			block("a", `name = "a"`))
		if _, diags := e.tryPlan(plan.Options{}); !says(diags, "cannot be empty") {
			t.Errorf("the ID %s: %v", id, diags)
		}
	}
}

// A resource whose import could not be evaluated was planned as an object to create, in a plan that had failed because
// of it.
func TestAResourceWhoseImportIsNotKnownIsNotPlanned(t *testing.T) {
	e := newStage(t)
	e.configure("import {\n to = fake_thing.a\n id = fake_thing.b.id\n}\n" + block("a", `name = "a"`) +
		block("b", `name = "b"`))
	p, diags := e.tryPlan(plan.Options{})
	if !says(diags, "Invalid import id argument") {
		t.Errorf("said: %v", diags)
	}
	e.equal("plan", changes(p), []string{"create fake_thing.b"})
}
