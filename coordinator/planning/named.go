package planning

import (
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/instance"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/millipede-iac/millipede/wire"
)

// The vertices of this file are evaluated in place; each does so for all instances of its module.

// named evaluates a variable, a local value, or count and for_each of a module call.
func (p *Planner) named(node int, n *graph.Node) program.Step {
	var step program.Step
	f := &found{}
	// A destroy only needs the values of providers. Conditions of other values are relevant only to the refreshing
	// before it, and not to the plan.
	idle := p.Mode == plan.Destroy && !p.configures(node)
	if n.Kind == graph.VariableNode && p.Mode != plan.Destroy && len(n.Variable.Validations) > 0 {
		f.expected = &expectation{kind: "input_variable", config: n.Address()}
	}
	failed := false
	for _, m := range p.Store.Instances(n.Module) {
		diags := instance.Value(m, n)
		if n.Kind == graph.CallNode && !diags.HasErrors() && m.Call(n.Call.Name).Expansion.Unknown {
			f.unknownCall = true
		}
		given := n.Kind == graph.VariableNode && n.Module.IsRoot() // the user's values must be right in any case
		if idle && !given && diags.HasErrors() {
			f.unevaluable = f.unevaluable || p.refreshesToDestroy()
			continue // a value that is used only by objects which are about to be destroyed may be wrong
		}
		step.Diags = step.Diags.Append(diags)
		failed = failed || diags.HasErrors()
		if !diags.HasErrors() {
			checks, more := instance.Rules(m, n)
			if !idle {
				f.checks = append(f.checks, checks...)
			}
			if p.endsAll() && n.Kind == graph.VariableNode {
				more = asWarnings(more)
			}
			if !idle || p.refreshesToDestroy() {
				step.Diags = step.Diags.Append(more)
			}
		}
	}
	if failed && n.Kind == graph.VariableNode {
		f.expected, f.checks = nil, nil // as in OpenTofu, nothing is known about the validations
	}
	step.Value = f
	return step
}

// endsAll reports whether the plan destroys, or is the ordinary plan before a destroy. Values that a validation refuses
// do not keep objects from being destroyed: it is better to end objects that were made with them.
func (p *Planner) endsAll() bool { return p.Mode == plan.Destroy || p.BeforeDestroy }

// asWarnings returns a list with errors as warnings.
func asWarnings(l diag.List) diag.List {
	out := make(diag.List, len(l))
	for i, d := range l {
		warning := *d
		warning.Severity = diag.Warning
		out[i] = &warning
	}
	return out
}

// configures reports whether a vertex contributes to the configuration of a provider that has stored objects. The
// references of a resource block do not count: in a destroy, the value of a resource is that of its stored objects.
func (p *Planner) configures(node int) bool {
	p.configuringOnce.Do(func() {
		var open []int
		for _, r := range p.Prior.Resources {
			if i, ok := p.Static.Find(graph.ProviderNode, r.Provider.Module, r.Provider); ok {
				open = append(open, i)
			}
		}
		p.configuring = map[int]bool{}
		for len(open) > 0 {
			i := open[len(open)-1]
			open = open[:len(open)-1]
			if k := p.Static.Nodes[i].Kind; p.configuring[i] || k == graph.ResourceNode || k == graph.ResourceDone {
				continue
			}
			p.configuring[i] = true
			open = slices.AppendSeq(open, p.Static.Graph.Before(i))
		}
	})
	return p.configuring[node]
}

func (p *Planner) output(n *graph.Node) program.Step {
	var step program.Step
	f := &found{}
	if p.Mode != plan.Destroy && len(n.Output.Preconditions) > 0 {
		f.expected = &expectation{kind: "output_value", config: n.Address()}
	}
	for _, m := range p.Store.Instances(n.Module) {
		if p.Mode != plan.Destroy {
			checks, more := instance.Rules(m, n)
			step.Diags = step.Diags.Append(more)
			f.checks = append(f.checks, checks...)
			if more.HasErrors() {
				continue
			}
		}
		v, diags := m.EvalOutput(n.Output.Name)
		if p.Mode == plan.Destroy {
			f.unevaluable = f.unevaluable || p.refreshesToDestroy() && (diags.HasErrors() || failing(m, n))
			diags = unwarned(warningsOnly(diags), n.Module.IsRoot()) // removed values may be wrong
		}
		step.Diags = step.Diags.Append(diags)
		if n.Module.IsRoot() && !diags.HasErrors() {
			f.output = p.outputChange(n.Output.Name, n.Output.Sensitive, v)
		}
	}
	step.Value = f
	return step
}

// failing reports whether a precondition of an output cannot be evaluated.
func failing(m *values.Module, n *graph.Node) bool {
	_, diags := instance.Rules(m, n)
	return diags.HasErrors()
}

func warningsOnly(l diag.List) diag.List {
	var out diag.List
	for _, d := range l {
		if d.Severity == diag.Warning {
			out = append(out, d)
		}
	}
	return out
}

// unwarned removes warnings about deprecated values in a root output that is about to be removed: nobody has to
// replace them.
func unwarned(l diag.List, root bool) diag.List {
	if !root {
		return l
	}
	return slices.DeleteFunc(l, func(d *diag.Diagnostic) bool {
		_, deprecated := d.Extra.(marks.Deprecated)
		return deprecated
	})
}

// outputChange compares a root output with its stored value.
func (p *Planner) outputChange(name string, sensitive bool, after cty.Value) *plan.OutputChange {
	c := &plan.OutputChange{Name: name, Before: cty.NullVal(cty.DynamicPseudoType), Sensitive: sensitive}
	c.After, _ = after.UnmarkDeep()
	c.After = values.PlainZeros(c.After)
	if p.Mode == plan.Destroy {
		c.After, c.Sensitive = cty.NullVal(cty.DynamicPseudoType), false
	}
	if before := p.Prior.Outputs[name]; before != nil {
		c.Before, c.BeforeSensitive = before.Value, before.Sensitive
	}
	exists := p.Prior.Outputs[name] != nil
	bare, _ := after.UnmarkDeep()
	refreshes := p.refreshesToDestroy() && bare.IsWhollyKnown()
	if p.Mode == plan.Destroy && !exists && (!refreshes || bare.IsNull()) {
		return nil // not stored, also not by refreshing
	}
	if refreshes {
		c.Before, c.BeforeSensitive = bare, sensitive // a destroy refreshes the outputs, too
	}
	switch {
	case p.Mode == plan.Destroy:
		c.Action = plan.Delete
	case !exists && c.After.IsKnown() && c.After.IsNull():
		c.Action = plan.NoOp
	case !exists:
		c.Action = plan.Create
	case c.After.IsWhollyKnown() && c.After.RawEquals(c.Before) && c.Sensitive == c.BeforeSensitive:
		c.Action = plan.NoOp
	case p.Mode == plan.RefreshOnly && cty.UnknownAsNull(c.After).RawEquals(c.Before) && c.Sensitive == c.BeforeSensitive:
		// Nothing will become known, because nothing is created. An earlier refresh has stored missing values as null.
		c.After, c.Action = c.Before, plan.NoOp
	default:
		c.Action = plan.Update
	}
	if p.Mode == plan.Destroy {
		c.Sensitive = c.BeforeSensitive
	}
	return c
}

// provider evaluates a provider block. The provider's own validation is reported by the first worker that
// configures it.
func (p *Planner) provider(node int, n *graph.Node) program.Step {
	var step program.Step
	// A destroy only needs the providers that have objects.
	idle := p.Mode == plan.Destroy && !p.configures(node)
	for _, m := range p.Store.Instances(n.Module) {
		for _, k := range m.ProviderKeys(n.Provider) {
			_, diags := p.Store.Provider(n.ProviderAddr.Instance(m.Addr, k))
			if idle && diags.HasErrors() {
				step.Value = &found{unevaluable: p.refreshesToDestroy()}
				continue
			}
			step.Diags = step.Diags.Append(diags)
		}
	}
	return step
}

// answered processes the result of a task of a static node: only closing ephemeral objects has any.
func (p *Planner) answered(n *graph.Node, v int, r *wire.Result) program.Step {
	diags := p.renewing(n).Append(values.WireDiags(r.Diagnostics, nil))
	next := p.closeEphemerals(n)
	next.Diags = diags.Append(next.Diags)
	return next
}
