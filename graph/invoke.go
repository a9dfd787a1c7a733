package graph

import (
	"slices"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
)

// invocations adds the vertices of the planned invocations. Those of one object come in a chain around its own vertex:
// what came before it comes before the chain, and what came after it comes after the chain. So dependents wait for
// invocations after a change, and an invocation before a change waits for what the change waits for.
//
// An invocation also waits for what its action refers to. If that is the whole resource that triggers it, it waits for
// all instances after their changes, and not before them.
func (b *applyBuilder) invocations() {
	if len(b.p.Invocations) == 0 {
		return
	}
	before, after := map[int32][]int32{}, map[int32][]int32{} // by vertex of an object, in their order
	vertices := make([]int32, len(b.p.Invocations))
	for i, inv := range b.p.Invocations {
		vertices[i] = b.vertex(plan.InvocationVertex(i, inv))
		if inv.Trigger == nil {
			continue
		}
		if at, ok := b.triggering(inv.Trigger); !ok {
			continue
		} else if inv.Trigger.Before() {
			before[at] = append(before[at], vertices[i])
		} else {
			after[at] = append(after[at], vertices[i])
		}
	}
	b.splice(before, after)
	var waits [][2]int32
	for i, inv := range b.p.Invocations {
		waits = append(waits, b.invocationWaits(vertices[i], inv)...)
	}
	b.valueEdges(waits)
}

// triggering returns the vertex of the operation around which an invocation takes place.
func (b *applyBuilder) triggering(t *plan.Trigger) (int32, bool) {
	if t.Ends() {
		v, ok := b.ends[changeKey{t.Resource, state.CurrentObject}]
		return v, ok
	}
	v, ok := b.makes[t.Resource]
	return v, ok
}

// splice replaces each vertex that has invocations by the chain of them with the vertex among them.
func (b *applyBuilder) splice(before, after map[int32][]int32) {
	first, last := map[int32]int32{}, map[int32]int32{}
	var chain [][2]int32
	link := func(list []int32) {
		for i := 1; i < len(list); i++ {
			chain = append(chain, [2]int32{list[i-1], list[i]})
		}
	}
	for v := range int32(len(b.g.Vertices)) {
		if len(before[v])+len(after[v]) == 0 {
			continue
		}
		whole := slices.Concat(before[v], []int32{v}, after[v])
		link(whole)
		first[v], last[v] = whole[0], whole[len(whole)-1]
	}
	for i, e := range b.g.Edges {
		if v, ok := last[e[0]]; ok {
			b.g.Edges[i][0] = v
		}
		if v, ok := first[e[1]]; ok {
			b.g.Edges[i][1] = v
		}
	}
	b.valueEdges(chain)
}

// valueEdges adds edges along which values flow, behind the others of this kind.
func (b *applyBuilder) valueEdges(edges [][2]int32) {
	b.g.Edges = slices.Insert(b.g.Edges, b.g.Values, edges...)
	b.g.Values += len(edges)
}

// invocationWaits returns the edges from what the action of an invocation refers to, and to the vertex that waits for
// all invocations of a block: ephemeral objects are closed after it.
func (b *applyBuilder) invocationWaits(v int32, inv *plan.Invocation) (out [][2]int32) {
	action, ok := b.s.ResourceVertex(inv.Addr.Config())
	if !ok {
		return nil
	}
	own, trigger := -1, action
	if inv.Trigger != nil {
		r := inv.Trigger.Resource.Config()
		own, _ = b.s.Find(ResourceDone, r.Module, r.Resource)
		trigger, _ = b.s.Find(TriggerNode, r.Module, r.Resource)
	} else if done, ok := b.s.Find(ResourceDone, inv.Addr.Config().Module, inv.Addr.Resource); ok {
		trigger = done
	}
	out = append(out, [2]int32{v, b.begin[trigger]})
	from := slices.Collect(b.s.Graph.Before(action))
	if inv.Trigger != nil && inv.Trigger.Conditional {
		from = slices.AppendSeq(from, b.s.Graph.Before(trigger))
	}
	for _, u := range from {
		switch {
		case u >= len(b.s.Nodes) || u == trigger:
		case u != own:
			out = append(out, [2]int32{b.begin[u], v})
		case !inv.Trigger.Before():
			out = append(out, b.makingsOf(inv.Trigger.Resource, v)...)
		}
	}
	return out
}

// makingsOf returns the edges from the changes of the neighbours of an instance to one of its invocations.
func (b *applyBuilder) makingsOf(a addr.Instance, v int32) (out [][2]int32) {
	for _, ci := range b.byResource[a.Config()] {
		if at := b.p.Changes[ci].Addr; at != a {
			if u, ok := b.makes[at]; ok {
				out = append(out, [2]int32{u, v})
			}
		}
	}
	return out
}
