package operation

import (
	"context"
	"maps"
	"slices"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
)

// PlanGraph returns the graph for planning, to be shown to people. Cycles are errors, but the graph is returned
// nevertheless; it is nil if there is none.
func (s *Session) PlanGraph(ctx context.Context, prior *state.State) (static *graph.Static, diags diag.List) {
	defer caught(&diags)
	diags = s.Tree.Check()
	schemas, more := s.Schemas(ctx, prior)
	diags = diags.Append(more)
	if diags.HasErrors() {
		return nil, diags
	}
	static = graph.Build(s.Tree, prior, values.NewCode(s.Tree, schemas))
	return static, diags.Append(cycleDiags(static))
}

// DestroyPlan returns a plan that destroys all objects, complete only with respect to its graph.
func DestroyPlan(static *graph.Static, prior *state.State) *plan.Plan {
	p := &plan.Plan{Mode: plan.Destroy, Prior: prior}
	for _, at := range prior.Addrs() {
		r := prior.Resources[at.Abs()]
		i := r.Instances[at.Key]
		provider := addr.ProviderInstance{Module: i.ProviderModule, Provider: r.Provider.Provider,
			Alias: r.Provider.Alias, Key: i.ProviderKey}
		add := func(key state.DeposedKey, o *state.Object) {
			p.Changes = append(p.Changes, &plan.Change{
				Addr: at, Deposed: key, Action: plan.Delete, Provider: provider,
				CreateBeforeDestroy: o.CreateBeforeDestroy,
			})
		}
		if at.Resource.Mode != addr.Managed {
			continue // data sources are not destroyed
		}
		if i.Current != nil {
			add(state.CurrentObject, i.Current)
		}
		for _, key := range slices.Sorted(maps.Keys(i.Deposed)) {
			add(key, i.Deposed[key])
		}
	}
	return withGraph(static, p)
}

// EmptyPlan returns a plan without changes, complete only with respect to its graph.
func EmptyPlan(static *graph.Static, prior *state.State) *plan.Plan {
	return withGraph(static, &plan.Plan{Mode: plan.Normal, Prior: prior})
}

func withGraph(static *graph.Static, p *plan.Plan) *plan.Plan {
	all := func(int) bool { return true }
	whole := func(*plan.Change, *graph.Node) []graph.InstanceReference { return nil }
	// a cycle is drawn as such
	p.Graph, _ = graph.BuildApply(static, p, graph.ApplyOptions{Covered: all, References: whole})
	return p
}
