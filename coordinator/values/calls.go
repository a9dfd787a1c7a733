package values

import (
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"

	"github.com/millipede-iac/millipede/graph"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
)

// Calls returns the calls of providers' functions in the expressions that a vertex evaluates in the module of its
// block. The arguments of a module call are expressions of another module: see ArgumentCalls.
func (c *Code) Calls(n *graph.Node) []eval.Call {
	var out []eval.Call
	add := func(list ...hcl.Expression) {
		for _, e := range list {
			out = append(out, c.Expr(e).Calls()...)
		}
	}
	rules := func(list []*config.CheckRule) {
		for _, r := range list {
			add(r.Condition, r.ErrorMessage)
		}
	}
	switch n.Kind {
	case graph.VariableNode:
		rules(n.Variable.Validations)
	case graph.LocalNode:
		add(n.Local.Expr)
	case graph.OutputNode:
		add(n.Output.Expr)
		rules(n.Output.Preconditions)
	case graph.CallNode:
		add(n.Call.Count, n.Call.ForEach, n.Call.Enabled)
	case graph.ProviderNode:
		add(n.Provider.ForEach)
		if ps := c.Schemas.Provider(n.ProviderAddr.Provider); ps != nil && ps.Provider.Block != nil &&
			n.Provider.Mock == nil {
			out = append(out, c.Body(n.Provider.Config, ps.Provider.Block).Calls()...)
		}
	case graph.ResourceNode:
		r := n.Resource
		if body := c.Resource(r).Body; body != nil {
			out = slices.Concat(out, body.Calls())
		}
		add(r.Count, r.ForEach, r.Enabled)
		rules(r.Preconditions)
		rules(r.Postconditions)
	case graph.TriggerNode:
		for _, t := range n.Resource.Triggers {
			add(t.Condition)
		}
	case graph.CheckNode:
		rules(n.Check.Asserts)
	}
	return out
}

// ArgumentCalls returns the calls of providers' functions in the argument that a module call gives to a variable. The
// names of the providers are those of the calling module.
func (c *Code) ArgumentCalls(node *config.Node, variable string) []eval.Call {
	attr := c.Arguments(node.Call)[variable]
	if attr == nil {
		return nil
	}
	return c.Expr(attr.Expr).Calls()
}

// UnknownProvider is the problem of a call of a function whose provider the module does not require; nil if it does.
func UnknownProvider(m *config.Module, f eval.ProviderFunction, rng hcl.Range) *diag.Diagnostic {
	if source, ok := m.Required[f.Provider.Name]; ok && !source.Implied {
		return nil
	}
	return diag.New(diag.Error, "Unknown function provider",
		fmt.Sprintf("Provider %q does not exist within the required_providers of this module", f.Provider.Name), &rng)
}
