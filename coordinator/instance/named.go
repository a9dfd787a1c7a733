package instance

import (
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph"
	"github.com/millipede-iac/millipede/lang/diag"
)

// Value evaluates, in one instance of its module, the named value of a vertex of the plan graph, or the
// repetition of a module call. Other vertices have no value.
func Value(m *values.Module, n *graph.Node) (diags diag.List) {
	switch n.Kind {
	case graph.VariableNode:
		_, diags = m.VariableValue(n.Variable.Name)
	case graph.LocalNode:
		_, diags = m.LocalValue(n.Local.Name)
	case graph.OutputNode:
		_, diags = m.EvalOutput(n.Output.Name)
	case graph.CallNode:
		diags = m.Call(n.Call.Name).Diags
	}
	return diags
}

// Rules evaluates, in one instance of its module, the rules of a variable, an output or a check, and returns
// the outcomes to record. Other vertices have none; the rules of resources belong to their instances.
func Rules(m *values.Module, n *graph.Node) ([]Outcome, diag.List) {
	var c values.Conditions
	kind := ""
	switch n.Kind {
	case graph.VariableNode:
		kind, c = "input_variable", m.CheckVariable(n.Variable)
	case graph.OutputNode:
		kind, c = "output_value", m.CheckOutput(n.Output)
	case graph.CheckNode:
		kind, c = "check", m.CheckAsserts(n.Check)
	}
	return Outcomes(kind, n.Address(), c), c.Diags
}
