package document

import (
	"testing"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
)

func TestAPlanIsCountedByWhatItDoesToObjects(t *testing.T) {
	at := func(text string) addr.Instance {
		a, diags := addr.ParseInstance(text)
		if diags.HasErrors() {
			t.Fatal(diags.Err())
		}
		return a
	}
	thing, elsewhere := at("t.a"), at("t.b")
	for sentence, c := range map[string]struct {
		change plan.Change
		want   Summary
	}{
		"an object to create":     {plan.Change{Action: plan.Create}, Summary{Add: 1}},
		"an object to update":     {plan.Change{Action: plan.Update}, Summary{Change: 1}},
		"an object to destroy":    {plan.Change{Action: plan.Delete}, Summary{Remove: 1}},
		"an object to replace":    {plan.Change{Action: plan.DeleteThenCreate}, Summary{Add: 1, Remove: 1}},
		"the other way round":     {plan.Change{Action: plan.CreateThenDelete}, Summary{Add: 1, Remove: 1}},
		"one to forget":           {plan.Change{Action: plan.Forget}, Summary{Forget: 1}},
		"one to leave and create": {plan.Change{Action: plan.ForgetThenCreate}, Summary{Add: 1, Forget: 1}},
		"one that stays":          {plan.Change{Action: plan.NoOp}, Summary{}},
		"one that has only moved": {plan.Change{Action: plan.NoOp, Previous: elsewhere}, Summary{}},
		"data to read":            {plan.Change{Action: plan.Read, Addr: at("data.t.d")}, Summary{}},
		"data that is dropped":    {plan.Change{Action: plan.Delete, Addr: at("data.t.d")}, Summary{}},
		"an ephemeral object":     {plan.Change{Action: plan.Create, Addr: at("ephemeral.t.e")}, Summary{}},
		"one to import and keep": {
			plan.Change{Action: plan.NoOp, Importing: &plan.Importing{}}, Summary{Import: 1},
		},
		"one to import and change": {
			plan.Change{Action: plan.Update, Importing: &plan.Importing{}}, Summary{Import: 1, Change: 1},
		},
	} {
		if c.change.Addr == (addr.Instance{}) {
			c.change.Addr = thing
		}
		if c.change.Previous == (addr.Instance{}) {
			c.change.Previous = c.change.Addr
		}
		c.want.Operation = PlanOperation
		if got := PlanSummary(&plan.Plan{Changes: []*plan.Change{&c.change}}); got != c.want {
			t.Errorf("%s: %+v", sentence, got)
		}
	}
}

// Scripts search for these sentences, which are those of OpenTofu.
func TestASummaryNamesImportsAndForgottenObjectsOnlyIfThereAreSome(t *testing.T) {
	for want, s := range map[string]Summary{
		"Plan: 1 to add, 2 to change, 3 to destroy.": {
			Operation: PlanOperation, Add: 1, Change: 2, Remove: 3},
		"Plan: 4 to import, 0 to add, 0 to change, 0 to destroy, 5 to forget.": {
			Operation: PlanOperation, Import: 4, Forget: 5},
		"Apply complete! Resources: 1 added, 2 changed, 3 destroyed.": {
			Operation: ApplyOperation, Add: 1, Change: 2, Remove: 3},
		"Apply complete! Resources: 4 imported, 0 added, 0 changed, 0 destroyed, 5 forgotten.": {
			Operation: ApplyOperation, Import: 4, Forget: 5},
		"Destroy complete! Resources: 3 destroyed.": {
			Operation: DestroyOperation, Add: 1, Remove: 3, Forget: 5},
	} {
		if got := s.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
