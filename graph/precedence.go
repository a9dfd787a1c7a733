package graph

import (
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
)

// precedence decides which objects that are destroyed or forgotten without a replacement wait until their dependents
// have changed, as if a new object had been created first. These are the objects that the plan marks as created first,
// deposed objects, and the dependencies of both. For a replacement, the order is part of its action.
//
// If a dependency of such an object is replaced by destroying it first, the dependency's dependents change after that
// ending, which comes after the object's own. Then the object is treated like any other, because the order would be a
// circle otherwise. That happens if create_before_destroy is still recorded for an object, but was removed from the
// configuration.
func (b *applyBuilder) precedence() map[*plan.Change]bool {
	plain, first := b.order()
	out := map[*plan.Change]bool{}
	for _, c := range b.p.Changes {
		switch {
		case !endsObject(c):
		case onlyEnds(c):
			r := c.Addr.Config()
			out[c] = first[r] && !plain[r]
		default:
			out[c] = c.CreateBeforeDestroy
		}
	}
	return out
}

// onlyEnds reports whether a change destroys or forgets an object without a replacement.
func onlyEnds(c *plan.Change) bool { return c.Action == plan.Delete || c.Action == plan.Forget }

// forgetsAside reports whether a change forgets an object whose block says that the new one is created first.
// Forgetting changes nothing outside of the state, so only the new object waits for it, and the ending needs no other
// edges: the object's dependents change after the new object, and its other objects end still later.
func forgetsAside(c *plan.Change) bool {
	return c.Action == plan.ForgetThenCreate && c.CreateBeforeDestroy
}

// order returns the resources that depend on an object that is destroyed before it is replaced, and those that an
// object created first (now or earlier) depends on.
func (b *applyBuilder) order() (plain, first map[addr.ConfigResource]bool) {
	var ending, beginning []int
	plain, first = map[addr.ConfigResource]bool{}, map[addr.ConfigResource]bool{}
	var ended []state.Dependency // resources that are replaced by destroying first
	for _, c := range b.p.Changes {
		r := c.Addr.Config()
		node, hasBlock := b.s.ResourceVertex(r)
		switch {
		case c.Action.IsReplace() && !c.CreateBeforeDestroy:
			ended = append(ended, state.DependOn(r))
			if hasBlock {
				ending = append(ending, node)
			}
		case onlyEnds(c) && (c.CreateBeforeDestroy || c.Deposed != state.CurrentObject):
			first[r] = true
			if hasBlock {
				beginning = append(beginning, node)
			}
			for d := range recordedIn(b.p, c).All() {
				first[d.Value()] = true
			}
		}
	}
	mark := func(nodes []int, in map[addr.ConfigResource]bool) {
		for _, v := range nodes {
			if v < len(b.s.Nodes) && b.s.Nodes[v].Kind == ResourceNode {
				in[b.s.Nodes[v].ConfigResource()] = true
			}
		}
	}
	if len(ending) > 0 {
		mark(b.s.Graph.Descendants(ending...), plain)
	}
	if len(beginning) > 0 {
		mark(b.s.Graph.Ancestors(beginning...), first)
	}
	for _, c := range b.p.Changes {
		if !onlyEnds(c) {
			continue
		}
		on := recordedIn(b.p, c)
		for _, r := range ended {
			if on.Has(r) {
				plain[c.Addr.Config()] = true
				break
			}
		}
	}
	return plain, first
}

// recordedIn returns the dependencies that the state has recorded for the object of a change.
func recordedIn(p *plan.Plan, c *plan.Change) *state.Dependencies {
	if p.Prior == nil {
		return nil
	}
	o := p.Prior.Object(c.Addr, c.Deposed)
	if o == nil {
		return nil
	}
	return o.Dependencies
}
