package planning

import (
	"slices"
	"sort"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/graph"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
)

// Plan returns the plan after the run has ended. failed is set if the run has failed: then the plan can be shown,
// but not applied. The same is true if the changes cannot be ordered, which is reported. The caller adds the data
// that the planner does not have: variables, providers, backend.
func (p *Planner) Plan(failed bool) (*plan.Plan, diag.List) {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := &plan.Plan{
		Mode: p.Mode, Timestamp: p.Now, Replace: p.Replace,
		Targets: p.Scope.targets, Excludes: p.Scope.excludes, Invoke: p.Invoke,
		Drift: p.drift, Checks: p.checkResults(), Prior: p.refreshed,
		BaseLineage: p.Prior.Lineage, BaseSerial: p.Prior.Serial, Errored: failed,
		EndsDoubts: p.endsDoubts.Load(),
	}
	for _, c := range p.changes {
		out.Changes = append(out.Changes, c)
	}
	sortChanges(out.Changes)
	sortChanges(out.Drift)
	p.outputChanges(out)
	out.Invocations = p.sortedInvocations()
	left := p.settle(out)
	if failed {
		return out, nil
	}
	o := graph.ApplyOptions{
		Covered:    func(v int) bool { return p.Scope.Node(v) && (left == nil || !left[v]) },
		References: p.references(), Unrefreshed: p.SkipRefresh && !p.Refreshed,
	}
	graphed, circle := graph.BuildApply(p.Static, out, o)
	if circle == nil {
		out.Graph = graphed
		out.Dependencies = graph.PlanDependencies(p.Static, out, p.Stored, o)
		return out, nil
	}
	out.Errored, out.Circle = true, circle
	return out, Unordered(circle)
}

// Unordered returns the error of a plan whose changes have a dependency cycle.
func Unordered(circle []string) diag.List {
	if slices.ContainsFunc(circle, func(name string) bool {
		a, diags := addr.ParseInstance(name)
		return !diags.HasErrors() && a.Resource.Mode == addr.Action
	}) {
		return diag.Errors("Cycle: "+strings.Join(circle, ", "), "Each of these waits for the next one, and the last one "+
			"for the first, so the plan has no order. An action waits for everything that its config block refers to, and "+
			"what depends on the object that triggers it waits for the action. Remove one of the references, or use "+
			"another event.", nil)
	}
	return diag.Errors("Cycle: "+strings.Join(circle, ", "),
		"Each of these waits for the next one, and the last one for the first, so the plan has no order. The "+
			"dependencies that the state recorded when the objects were made contradict the present references of their "+
			"blocks. Change the objects in two steps, with -target.", nil)
}

func sortChanges(list []*plan.Change) {
	sort.Slice(list, func(i, j int) bool {
		a, b := list[i], list[j]
		if a.Addr != b.Addr {
			return a.Addr.Less(b.Addr)
		}
		return a.Deposed < b.Deposed
	})
}

// outputChanges adds the outputs that the configuration no longer declares.
func (p *Planner) outputChanges(out *plan.Plan) {
	for name, before := range p.Prior.Outputs {
		_, declared := p.Code.Tree.Root.Module.Outputs[name]
		if _, evaluated := p.outputs[name]; !declared && !evaluated && p.Scope.Whole() {
			p.outputs[name] = &plan.OutputChange{
				Name: name, Action: plan.Delete, Before: before.Value, BeforeSensitive: before.Sensitive,
				After: cty.NullVal(cty.DynamicPseudoType), Sensitive: before.Sensitive,
			}
		}
	}
	for _, o := range p.outputs {
		out.Outputs = append(out.Outputs, o)
	}
	sort.Slice(out.Outputs, func(i, j int) bool { return out.Outputs[i].Name < out.Outputs[j].Name })
}

// references returns, for the builder of the apply graph, the single instance to which a reference refers, if it is
// known.
func (p *Planner) references() graph.InstanceReferences {
	return func(c *plan.Change, n *graph.Node) []graph.InstanceReference {
		m := p.Store.Module(c.Addr.Module)
		if m == nil {
			return nil
		}
		r := m.ResourceBlock(c.Addr.Resource)
		if r == nil {
			return nil
		}
		e, _ := r.Expansion()
		rep := e.Repetition(c.Addr.Key)
		out := make([]graph.InstanceReference, 0, len(r.Code.References))
		for _, ref := range r.Code.References {
			ir := graph.InstanceReference{Reference: ref.Reference}
			if p.WholeEdges {
				out = append(out, ir)
				continue
			}
			if resource, ok := ref.Subject.(addr.Resource); ok && ref.KeyByRepetition {
				if k, known := ref.InstanceKey(m.Scope, rep); known {
					ir.Instance = resource.Absolute(c.Addr.Module).Instance(k)
				}
			}
			if rr, ok := ref.Subject.(addr.ResourceRef); ok {
				ir.Instance = rr.Resource.Absolute(c.Addr.Module).Instance(rr.Key)
			}
			out = append(out, ir)
		}
		return out
	}
}
