package plan_test

import (
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
)

func at(t *testing.T, text string) addr.Instance {
	t.Helper()
	a, diags := addr.ParseInstance(text)
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	return a
}

// A plan is applied if that changes something, including the state. -detailed-exitcode counts what differs, and to a
// refresh an address that has moved is no difference.
func TestAPlanSaysWhetherThereIsAnythingToDo(t *testing.T) {
	a, b := at(t, "t.a"), at(t, "t.b")
	change := func(action plan.Action, from addr.Instance) []*plan.Change {
		return []*plan.Change{{Addr: a, Previous: from, Action: action, Before: cty.NullVal(cty.String),
			After: cty.NullVal(cty.String)}}
	}
	imported := change(plan.NoOp, a)
	imported[0].Importing = &plan.Importing{ID: "i"}
	output := func(action plan.Action) []*plan.OutputChange {
		return []*plan.OutputChange{{Name: "o", Action: action}}
	}
	for sentence, c := range map[string]struct {
		plan                        plan.Plan
		applyable, pending, differs bool
	}{
		"nothing":                     {plan.Plan{}, false, false, false},
		"an object that stays":        {plan.Plan{Changes: change(plan.NoOp, a)}, false, false, false},
		"an object that changes":      {plan.Plan{Changes: change(plan.Update, a)}, true, true, true},
		"an object that has moved":    {plan.Plan{Changes: change(plan.NoOp, b)}, true, true, true},
		"an object that is imported":  {plan.Plan{Changes: imported}, true, true, true},
		"an output that changes":      {plan.Plan{Outputs: output(plan.Create)}, true, true, true},
		"an output that stays":        {plan.Plan{Outputs: output(plan.NoOp)}, false, false, false},
		"a doubt that ends":           {plan.Plan{EndsDoubts: true}, false, true, false},
		"a failed plan of a change":   {plan.Plan{Changes: change(plan.Update, a), Errored: true}, false, false, true},
		"a failed plan ends no doubt": {plan.Plan{EndsDoubts: true, Errored: true}, false, false, false},
		"drift, which only a refresh writes": {
			plan.Plan{Drift: change(plan.Update, a)}, false, false, false,
		},
		"a refresh with drift": {
			plan.Plan{Mode: plan.RefreshOnly, Drift: change(plan.Update, a)}, true, true, true,
		},
		"a refresh with a moved address": {
			plan.Plan{Mode: plan.RefreshOnly, Drift: change(plan.NoOp, b)}, true, true, false,
		},
		"a refresh with an output that changes": {
			plan.Plan{Mode: plan.RefreshOnly, Outputs: output(plan.Update)}, true, true, true,
		},
	} {
		p := &c.plan
		if p.Applyable() != c.applyable || p.Pending() != c.pending || p.Differs() != c.differs {
			t.Errorf("%s: applyable %t, pending %t, differs %t", sentence, p.Applyable(), p.Pending(), p.Differs())
		}
	}
}

// Progress shows operations on objects, and neither named values nor what only the state forgets.
func TestTheVerticesWithoutAnOperationAreHidden(t *testing.T) {
	p := &plan.Plan{Changes: []*plan.Change{
		{Addr: at(t, "t.stays"), Action: plan.NoOp},
		{Addr: at(t, "t.replaced"), Action: plan.DeleteThenCreate},
		{Addr: at(t, "t.forgotten"), Action: plan.Forget},
		{Addr: at(t, "t.left"), Action: plan.ForgetThenCreate},
		{Addr: at(t, "data.t.read"), Action: plan.Read},
	}}
	for sentence, c := range map[string]struct {
		vertex plan.Vertex
		hidden bool
	}{
		"a named value":             {plan.Vertex{Kind: plan.Sync, Change: -1}, true},
		"an output":                 {plan.Vertex{Kind: plan.EvalOutput, Change: -1}, true},
		"an object that stays":      {plan.Vertex{Kind: plan.ApplyObject, Change: 0}, true},
		"the new object":            {plan.Vertex{Kind: plan.ApplyObject, Change: 1}, false},
		"the old object":            {plan.Vertex{Kind: plan.DestroyObject, Change: 1}, false},
		"a forgotten object":        {plan.Vertex{Kind: plan.DestroyObject, Change: 2}, true},
		"the old one that is left":  {plan.Vertex{Kind: plan.DestroyObject, Change: 3}, true},
		"the new one beside it":     {plan.Vertex{Kind: plan.ApplyObject, Change: 3}, false},
		"data that the apply reads": {plan.Vertex{Kind: plan.ReadObject, Change: 4}, false},
	} {
		p.Graph.Vertices = []plan.Vertex{c.vertex}
		if got := p.Hidden(0); got != c.hidden {
			t.Errorf("%s: hidden is %t", sentence, got)
		}
	}
	if n := p.Forgotten(); n != 1 {
		t.Errorf("%d objects are forgotten; a replaced one is not, because another takes its place", n)
	}
}
