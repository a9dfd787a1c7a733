package graph

import (
	"slices"
	"sort"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
)

// PlanDependencies computes from the apply graph of a plan the instances that the plan writes, reads and keeps. Writes
// are the instances that it changes. Reads are the instances whose values flow into the writes over any number of
// steps: including instances that do not change, data, and values that determined the number of instances. stored is
// the state as it is stored, before moves and refreshing. It takes O(V+E).
func PlanDependencies(s *Static, p *plan.Plan, stored *state.State, o ApplyOptions) *plan.Dependencies {
	r := &dependencyFinder{s: s, p: p, g: p.Graph, out: &plan.Dependencies{}}
	if len(r.g.Vertices) == 0 { // a plan that only refreshes has no order
		r.g = flow(s, p, o, variant{}).g
	}
	r.found(stored)
	r.writes()
	reached := flowsTo(r.g, r.starts())
	r.reads(reached)
	return r.out
}

type dependencyFinder struct {
	s   *Static
	p   *plan.Plan
	g   plan.Graph
	out *plan.Dependencies
}

// found lists the instances that differ between the store and the plan's prior state.
func (r *dependencyFinder) found(stored *state.State) {
	for _, d := range state.Differences(stored, r.p.Prior) {
		if d.Output == "" && !d.Checks {
			r.out.Found = append(r.out.Found, plan.Found{Addr: d.Instance, Stored: d.Then.Digest()})
		}
	}
}

// changes reports whether a change modifies its instance.
func changes(c *plan.Change) bool { return c.Action != plan.NoOp || c.Moved() || c.Importing != nil }

// writes lists the instances that the plan changes, and the resources that it removes objects from.
func (r *dependencyFinder) writes() {
	kept := map[addr.ConfigResource]bool{}
	for _, c := range r.p.Changes {
		if !changes(c) {
			continue
		}
		r.out.Writes = append(r.out.Writes, c.Addr)
		if c.Moved() {
			r.out.Writes = append(r.out.Writes, c.Previous)
		}
		if endsObject(c) && c.Action != plan.Forget && c.Action != plan.ForgetThenCreate {
			kept[c.Addr.Config()] = true
		}
	}
	for _, i := range r.p.Invocations {
		r.out.Writes = append(r.out.Writes, i.Addr) // nothing is stored about it, unless it is in doubt
	}
	if r.p.Mode == plan.RefreshOnly {
		for _, f := range r.out.Found {
			r.out.Writes = append(r.out.Writes, f.Addr)
		}
	}
	r.out.Writes = addr.SortedInstances(r.out.Writes)
	for of := range kept {
		r.out.Keeps = append(r.out.Keeps, of)
	}
	sort.Slice(r.out.Keeps, func(i, j int) bool { return r.out.Keeps[i].Less(r.out.Keeps[j]) })
	for _, o := range r.p.Outputs {
		if o.Action != plan.NoOp {
			r.out.Outputs = append(r.out.Outputs, o.Name)
		}
	}
	slices.Sort(r.out.Outputs)
}

// starts are the vertices whose values determine the writes. A making needs the values of its block; an ending needs
// the values that led to it, and those of its provider.
func (r *dependencyFinder) starts() []int32 {
	var out []int32
	static := func(kind NodeKind, m addr.Module, named addr.Named) bool {
		i, ok := r.s.Find(kind, m, named)
		if ok {
			out = append(out, int32(i)) // the vertices of an apply graph begin with those of the plan graph
		}
		return ok
	}
	for v := len(r.s.Nodes); v < len(r.g.Vertices); v++ {
		x := r.g.Vertices[v]
		if x.Kind == plan.InvokeAction {
			out = append(out, int32(v))
			continue
		}
		if x.Change < 0 || !changes(r.p.Changes[x.Change]) {
			continue
		}
		if x.Kind != plan.DestroyObject {
			out = append(out, int32(v))
			continue
		}
		c := r.p.Changes[x.Change]
		provider := c.Provider.Config()
		static(ProviderNode, provider.Module, provider)
		if r.p.Mode != plan.Destroy && c.Deposed == state.CurrentObject {
			at := c.Addr.Config()
			static(ResourceNode, at.Module, at.Resource)
		}
	}
	if r.p.Mode == plan.Destroy {
		return out // outputs go with everything else
	}
	for _, name := range r.out.Outputs {
		static(OutputNode, addr.RootModule, addr.Output{Name: name})
	}
	return out
}

// reads lists the instances at the vertices that were reached.
func (r *dependencyFinder) reads(reached []bool) {
	var whole map[addr.ConfigResource]bool
	for v, ok := range reached {
		if !ok {
			continue
		}
		if v < len(r.s.Nodes) {
			if n := &r.s.Nodes[v]; n.Kind == ResourceDone {
				if whole == nil {
					whole = map[addr.ConfigResource]bool{}
				}
				whole[n.ConfigResource()] = true
			}
			continue
		}
		if x := r.g.Vertices[v]; x.Change >= 0 && !changes(r.p.Changes[x.Change]) {
			r.out.Reads = append(r.out.Reads, r.p.Changes[x.Change].Addr)
		}
	}
	if whole != nil {
		// Stored instances without a change: data that was read, and instances that targets leave out.
		for abs, of := range r.p.Prior.Resources {
			if !whole[abs.Config()] {
				continue
			}
			for k := range of.Instances {
				r.out.Reads = append(r.out.Reads, abs.Instance(k))
			}
		}
	}
	r.out.Reads = slices.DeleteFunc(addr.SortedInstances(r.out.Reads),
		func(a addr.Instance) bool { return addr.ContainsInstance(r.out.Writes, a) })
}

// flowsTo returns for each vertex whether its value flows to one of the given vertices, which count as well.
func flowsTo(g plan.Graph, to []int32) []bool {
	before, first := incoming(g)
	reached := make([]bool, len(g.Vertices))
	var open []int32
	visit := func(v int32) {
		if !reached[v] {
			reached[v] = true
			open = append(open, v)
		}
	}
	for _, v := range to {
		visit(v)
	}
	for len(open) > 0 {
		v := open[len(open)-1]
		open = open[:len(open)-1]
		for _, u := range before[first[v]:first[v+1]] {
			visit(u)
		}
	}
	return reached
}

// incoming returns the vertices before each one, along edges that carry values: those before v are
// before[first[v]:first[v+1]].
func incoming(g plan.Graph) (before, first []int32) {
	edges := g.Edges[:g.Values]
	first = make([]int32, len(g.Vertices)+1)
	for _, e := range edges {
		first[e[1]+1]++
	}
	for v := range g.Vertices {
		first[v+1] += first[v]
	}
	before = make([]int32, len(edges))
	at := slices.Clone(first)
	for _, e := range edges {
		before[at[e[1]]] = e[0]
		at[e[1]]++
	}
	return before, first
}
