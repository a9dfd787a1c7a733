package validating

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph"
	"github.com/millipede-iac/millipede/lang/eval"
)

// action evaluates an action block, and has its provider check it. caller may be any object.
func (v *Validator) action(step *program.Step, n *graph.Node, r *values.Resource, rep eval.Repetition) {
	if encoded, ok := v.configBlock(step, r, rep, cty.DynamicVal); ok {
		v.ask(step, n, r.Code.Config.Source, "action", n.Resource.Addr.Type, encoded)
	}
}

// triggers evaluates the action_trigger blocks of a resource.
func (v *Validator) triggers(step *program.Step, m *values.Module, n *graph.Node) {
	rep := first(m.ResourceBlock(n.Resource.Addr))
	for _, t := range n.Resource.Triggers {
		_, _, diags := m.TriggerCondition(t, rep)
		step.Diags = step.Diags.Append(diags)
		for _, e := range t.Actions {
			_, _, diags := m.TriggeredAction(e, rep)
			step.Diags = step.Diags.Append(diags)
		}
	}
	step.Diags = step.Diags.WithAddress(n.Address())
}
