package operation

import (
	"fmt"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
)

// unmatched warns about addresses of -target, -exclude and -replace that name neither an instance of the configuration
// nor one of the state: they are likely to be mistyped. It reads expansions, so the plan must have been made.
func unmatched(o plan.Options, s *graph.Static, store *values.Store, prior *state.State) diag.List {
	var diags diag.List
	warn := func(option, address, effect string) {
		diags = diags.Append(diag.New(diag.Warning, "Address matches nothing", fmt.Sprintf("The option -%s=%s names "+
			"nothing that is in the configuration or in the state, so %s. Check the address.", option, address, effect),
			nil))
	}
	m := matcher{s, store, prior}
	for _, t := range o.Targets {
		if !m.matches(t) {
			warn("target", t.String(), "nothing is planned because of it")
		}
	}
	for _, t := range o.Excludes {
		if !m.matches(t) {
			warn("exclude", t.String(), "nothing is left out because of it")
		}
	}
	for _, a := range o.Replace {
		t := addr.Target{Kind: addr.TargetInstance, Instance: a.Module, Resource: a.Resource, Key: a.Key}
		// A resource with several instances has a warning of its own.
		resource := addr.Target{Kind: addr.TargetResource, Instance: a.Module, Resource: a.Resource}
		if !m.matches(t) && (a.Key != addr.NoKey || !m.matches(resource)) {
			warn("replace", a.String(), "nothing is replaced because of it")
		}
	}
	return diags
}

// matcher finds instances that targets contain.
type matcher struct {
	static *graph.Static
	store  *values.Store
	prior  *state.State
}

func (m matcher) matches(t addr.Target) bool {
	if t.Kind == addr.TargetResource || t.Kind == addr.TargetInstance { // there may be many of these
		return m.matchesOne(t)
	}
	for abs, r := range m.prior.Resources {
		if !t.MayContain(abs.Config()) {
			continue
		}
		for k := range r.Instances {
			if t.Contains(abs.Instance(k)) {
				return true
			}
		}
	}
	for i := range m.static.Nodes {
		n := &m.static.Nodes[i]
		if n.Kind == graph.ResourceNode && t.MayContain(n.ConfigResource()) &&
			(t.CoversResource(n.ConfigResource()) || m.instance(t, n)) {
			return true
		}
	}
	return false
}

// matchesOne is matches for a target in a single resource, which is found without a search.
func (m matcher) matchesOne(t addr.Target) bool {
	at := t.AsInstance()
	if r := m.prior.Resources[at.Abs()]; r != nil {
		if t.Kind == addr.TargetResource && len(r.Instances) > 0 || r.Instances[t.Key] != nil {
			return true
		}
	}
	v, ok := m.static.ResourceVertex(at.Config())
	if !ok || m.static.Nodes[v].Kind != graph.ResourceNode {
		return false
	}
	return t.CoversResource(at.Config()) || m.instance(t, &m.static.Nodes[v])
}

// instance reports whether a target contains an instance of a resource, or may contain one, because the instances are
// not known.
func (m matcher) instance(t addr.Target, n *graph.Node) bool {
	modules := m.store.Instances(n.Module)
	if len(modules) == 0 {
		return true // resources that are left out are not expanded
	}
	for _, module := range modules {
		r := module.ResourceBlock(n.Resource.Addr)
		e, diags := r.Expansion()
		if diags.HasErrors() || e.Unknown {
			return true
		}
		for _, k := range e.Keys {
			if t.Contains(r.Addr().Instance(k)) {
				return true
			}
		}
	}
	return false
}
