package operation

import (
	"context"

	"github.com/millipede-iac/millipede/coordinator/planning"
	"github.com/millipede-iac/millipede/graph"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
)

// planDestroy plans to destroy the objects of a state, after reading them. If that could find something else than an
// ordinary plan would, an ordinary plan is made before; see destroyByPlan. stored is the state that such a plan has
// refreshed already, with prior as the result; nil if there was none.
func (s *Session) planDestroy(ctx context.Context, prior, stored *state.State, o plan.Options) (*Planned, diag.List) {
	d := s.draft(prior, o)
	d.refreshed = stored != nil
	if !d.prelude(ctx) {
		return nil, d.diags
	}
	reads := !o.SkipRefresh && !prior.IsEmpty()
	if reads && beyondState(s.Tree, d.static, d.moved.State, d.scope) {
		return s.destroyByPlan(ctx, prior, nil, o)
	}
	with := d.plannerOptions()
	if stored != nil {
		with.Stored, with.Refreshed = stored, true
	}
	if !d.run(ctx, with) {
		return nil, d.diags
	}
	if d.planner.Unevaluable() && !d.outcome.Interrupted && !d.planner.Unreadable(d.outcome.Failed) {
		return s.destroyByPlan(ctx, prior, d.planner.Found(), o)
	}
	if !d.configured(ctx) {
		return nil, d.diags
	}
	if reads && d.diags.HasErrors() && !d.outcome.Interrupted {
		return nil, d.diags // the existing objects are unknown, so there is nothing to show, as in OpenTofu
	}
	if !d.placed() {
		return nil, d.diags
	}
	planned, whole := d.planned()
	if whole {
		d.warnUnmatched()
	}
	return planned, d.diags
}

// destroyByPlan first makes an ordinary plan, which finds the existing objects, and then plans to destroy these. As in
// OpenTofu, errors of the ordinary plan prevent the destroy plan, and data that it would read only during the apply is
// not read. The ordinary plan is made only if it could find differences from the state. found is the state that the
// destroy plan had refreshed before it needed the ordinary plan; nil if it has refreshed nothing.
func (s *Session) destroyByPlan(ctx context.Context, prior, found *state.State, o plan.Options) (*Planned, diag.List) {
	before, diags := s.planBeforeDestroy(ctx, prior, found, o)
	if diags.HasErrors() || before.Outcome.Interrupted {
		return nil, diags
	}
	exists := before.Plan.Prior
	for _, c := range before.Plan.Outputs {
		if c.After.IsWhollyKnown() && !c.After.IsNull() {
			exists.Outputs[c.Name] = &state.Output{Value: c.After, Sensitive: c.Sensitive}
		}
	}
	o.SkipRefresh = true
	// It repeats all warnings except those of the ordinary plan alone, which are left out as in OpenTofu.
	return s.planDestroy(ctx, exists, prior, o)
}

// planBeforeDestroy makes the ordinary plan that precedes a destroy plan with these options: in it, failed conditions
// are warnings. found is as in destroyByPlan.
func (s *Session) planBeforeDestroy(ctx context.Context, prior, found *state.State, o plan.Options) (*Planned,
	diag.List) {
	o.Mode = plan.Normal
	if found != nil { // nothing is refreshed twice
		prior, o.SkipRefresh = found, true
	}
	d := s.draft(prior, o)
	if !d.prelude(ctx) {
		return nil, d.diags
	}
	d.store.Lenient = true
	with := d.plannerOptions()
	with.BeforeDestroy, with.Refreshed = true, found != nil
	if !d.run(ctx, with) || !d.configured(ctx) || !d.placed() {
		return nil, d.diags
	}
	planned, _ := d.planned()
	d.storeObservations(ctx, planned.Plan, false)
	return planned, d.diags
}

// beyondState reports whether a plan covers a resource block that has an instance for certain and no objects, or the
// data of a check. Then an ordinary plan is made before a destroy from the beginning, so that nothing is read twice.
// Blocks that are repeated may have no instances (count = 0): whether one lacks an object is known when they are
// expanded.
func beyondState(tree *config.Tree, static *graph.Static, prior *state.State, scope planning.Scope) bool {
	stored := map[addr.ConfigResource]bool{}
	for abs := range prior.Resources {
		stored[abs.Config()] = true
	}
	for i := range static.Nodes {
		n := &static.Nodes[i]
		if n.Kind != graph.ResourceNode || !scope.Node(i) {
			continue
		}
		managed := n.Resource.Addr.Mode == addr.Managed
		if managed && !stored[n.ConfigResource()] && hasInstance(tree, n) || n.Resource.Check != "" {
			return true
		}
	}
	return false
}

// hasInstance reports whether neither a resource nor a call of its module is repeated.
func hasInstance(tree *config.Tree, n *graph.Node) bool {
	r := n.Resource
	if r.Count != nil || r.ForEach != nil || r.Enabled != nil {
		return false
	}
	for m := tree.Modules[n.Module]; m != nil && m.Parent != nil; m = m.Parent {
		if c := m.Call; c.Count != nil || c.ForEach != nil || c.Enabled != nil {
			return false
		}
	}
	return true
}
