package graph

import (
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
)

// RecordedFirst returns the instances for which the apply of a plan records create_before_destroy when it creates or
// updates their objects. OpenTofu decides this for each changed instance: an instance has it if its block says so, or
// if another changed instance that has it depends on this one. A block that refers to a single instance of a resource,
// by a constant key, depends only on that instance if the plan changes it, and otherwise on all.
//
// The order of a replacement follows another rule (see CreatedFirst): it is the same for all instances of a resource,
// and does not depend on other changes. RecordedFirst takes O(V+E).
func RecordedFirst(s *Static, p *plan.Plan) map[addr.Instance]bool {
	f := firstFinder{s: s, found: map[addr.Instance]bool{}, visited: make([]bool, len(s.Nodes)),
		changed: map[addr.ConfigResource][]addr.Instance{}, whole: map[addr.ConfigResource]bool{}}
	for _, c := range p.Changes {
		r := c.Addr.Config()
		if making, kind := makingOf(c); making && kind == plan.ApplyObject &&
			(c.Action != plan.NoOp || s.conditioned(r)) {
			f.changed[r] = append(f.changed[r], c.Addr)
		}
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Kind == ResourceNode && n.Resource.Addr.Mode == addr.Managed && n.Resource.CreateBeforeDestroy &&
			len(f.changed[n.ConfigResource()]) > 0 {
			f.mark(n.ConfigResource(), nil)
			f.visit(i)
		}
	}
	return f.found
}

// firstFinder finds the instances on which instances with create_before_destroy depend.
type firstFinder struct {
	s *Static
	// changed are the instances that the apply changes or checks again.
	changed map[addr.ConfigResource][]addr.Instance
	found   map[addr.Instance]bool
	whole   map[addr.ConfigResource]bool // all changed instances are found
	visited []bool
}

// mark adds the changed instances of a resource that have one of some keys, in any instance of its module; all of them
// if none has such a key.
func (f *firstFinder) mark(r addr.ConfigResource, keys []addr.Key) {
	if f.whole[r] {
		return
	}
	some := false
	for _, a := range f.changed[r] {
		for _, k := range keys {
			if a.Key == k {
				some, f.found[a] = true, true
			}
		}
	}
	if some {
		return
	}
	f.whole[r] = true
	for _, a := range f.changed[r] {
		f.found[a] = true
	}
}

// visit continues from a vertex to all those that it depends on.
func (f *firstFinder) visit(v int) {
	rest := []int{v}
	for len(rest) > 0 {
		v, rest = rest[len(rest)-1], rest[:len(rest)-1]
		if f.visited[v] {
			continue
		}
		f.visited[v] = true
		for before := range f.s.Graph.Before(v) {
			if before >= len(f.s.Nodes) {
				continue
			}
			n := &f.s.Nodes[before]
			if n.Kind == ProviderNode {
				continue
			}
			if n.Kind == ResourceDone && n.Resource.Addr.Mode == addr.Managed {
				f.mark(n.ConfigResource(), f.s.single[edge{before, v}])
			}
			rest = append(rest, before)
		}
	}
}
