package planning

import (
	"sort"

	"github.com/millipede-iac/millipede/coordinator/instance"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/graph"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
)

// checkState has the outcomes of one configuration object.
type checkState struct {
	kind    string
	objects map[string]state.CheckObject
	// expected are the existing instances, whether their rules are evaluated or not.
	expected []string
}

// expectation is the existing instances of a configuration object with rules. An object without instances passes.
type expectation struct {
	kind, config string
	instances    []string
}

// expect requires the lock.
func (p *Planner) expect(e *expectation) {
	s := p.checksOf(e.kind, e.config)
	s.expected = e.instances
}

func (p *Planner) checksOf(kind, config string) *checkState {
	s := p.checks[config]
	if s == nil {
		s = &checkState{kind: kind, objects: map[string]state.CheckObject{}}
		p.checks[config] = s
	}
	return s
}

// record requires the lock. A later outcome of the same object (postconditions after preconditions) never improves
// an earlier one.
func (p *Planner) record(c instance.Outcome) {
	if p.Mode == plan.Destroy && c.Kind == "resource" {
		return // conditions of objects to be destroyed are ignored
	}
	s := p.checksOf(c.Kind, c.Config)
	if old, ok := s.objects[c.Object.Address]; ok {
		c.Object = instance.Both(old, c.Object)
	}
	s.objects[c.Object.Address] = c.Object
}

// checkResults requires the lock.
func (p *Planner) checkResults() []state.CheckResult {
	var out []state.CheckResult
	for _, r := range p.unchecked() {
		if p.checks[r.Config] == nil {
			out = append(out, r)
		}
	}
	for config, s := range p.checks {
		r := state.CheckResult{Kind: s.kind, Config: config, Status: state.CheckPass}
		for _, a := range s.expected {
			if _, evaluated := s.objects[a]; !evaluated {
				s.objects[a] = state.CheckObject{Address: a, Status: state.CheckUnknown}
			}
		}
		for _, o := range s.objects {
			r.Objects = append(r.Objects, o)
			r.Status = instance.Worst(o.Status, r.Status)
		}
		sort.Slice(r.Objects, func(i, j int) bool { return r.Objects[i].Address < r.Objects[j].Address })
		out = append(out, r)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Config < out[j].Config })
	return out
}

// unchecked returns the objects of the configuration that have rules, with unknown outcomes.
func (p *Planner) unchecked() []state.CheckResult {
	var out []state.CheckResult
	for i := range p.Static.Nodes {
		n := &p.Static.Nodes[i]
		r := state.CheckResult{Config: n.Address(), Status: state.CheckUnknown}
		switch {
		case n.Kind == graph.VariableNode && len(n.Variable.Validations) > 0:
			r.Kind = "input_variable"
		case n.Kind == graph.OutputNode && len(n.Output.Preconditions) > 0:
			r.Kind = "output_value"
			if p.Mode == plan.Destroy && n.Module.IsRoot() && p.Scope.Node(i) {
				r.Objects = []state.CheckObject{{Address: n.Address(), Status: state.CheckUnknown}}
			}
		case n.Kind == graph.ResourceNode && len(n.Resource.Preconditions)+len(n.Resource.Postconditions) > 0:
			r.Kind = "resource"
		case n.Kind == graph.CheckNode:
			r.Kind = "check"
			for _, m := range p.Store.Instances(n.Module) {
				if p.Mode != plan.Destroy && p.Scope.Node(i) {
					r.Objects = append(r.Objects, state.CheckObject{Address: m.CheckAddress(n.Check),
						Status: state.CheckUnknown})
				}
			}
		default:
			continue
		}
		out = append(out, r)
	}
	return out
}

// checkFailed reports whether an instance of a check has already failed.
func (p *Planner) checkFailed(config, instance string) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	s := p.checks[config]
	return s != nil && s.objects[instance].Status == state.CheckFail
}

// check evaluates the assertions of a check block.
func (p *Planner) check(n *graph.Node) program.Step {
	var step program.Step
	if p.Mode == plan.Destroy {
		return p.evaluable(n)
	}
	f := &found{expected: &expectation{kind: "check", config: n.Address()}}
	for _, m := range p.Store.Instances(n.Module) {
		if p.checkFailed(n.Address(), m.CheckAddress(n.Check)) {
			continue // its data could not be read
		}
		checks, diags := instance.Rules(m, n)
		step.Diags = step.Diags.Append(diags)
		f.checks = append(f.checks, checks...)
	}
	step.Value = f
	return step
}

// evaluable reports whether a check can be evaluated in a destroy that refreshes. Objects that are about to be
// destroyed may be in any condition, so the outcome does not matter.
func (p *Planner) evaluable(n *graph.Node) program.Step {
	if !p.refreshesToDestroy() {
		return program.Step{}
	}
	f := &found{}
	for _, m := range p.Store.Instances(n.Module) {
		f.unevaluable = f.unevaluable || m.CheckAsserts(n.Check).Diags.HasErrors()
	}
	return program.Step{Value: f}
}

// closeEphemerals closes the opened instances of an ephemeral resource, one task after the other.
func (p *Planner) closeEphemerals(n *graph.Node) program.Step {
	o := p.nextToClose(addr.ConfigResource{Module: n.Module, Resource: n.Resource.Addr})
	if o == nil {
		return program.Step{}
	}
	return program.Step{Task: p.closeTask(o), Lane: program.Fast, Place: &o.work.Place}
}
