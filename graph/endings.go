package graph

import (
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
)

// mirror is the static graph read backwards, for the order of endings. For each static vertex it has a Sync vertex
// of each family, which comes after what the family collects in everything that depends on the static vertex.
type mirror struct {
	b *applyBuilder
	// ended collects all endings; endedPlain those of objects that are not created first; made collects makings.
	ended, endedPlain, made []int32
	// dependents and gone are for resources without a block, whose order comes from the state alone: what must be
	// done before such a resource ends, and that it has ended.
	dependents, gone map[addr.ConfigResource]int32
	orphans          map[addr.ConfigResource]bool
}

func (b *applyBuilder) mirror() *mirror {
	m := &mirror{b: b,
		dependents: map[addr.ConfigResource]int32{}, gone: map[addr.ConfigResource]int32{},
		orphans: map[addr.ConfigResource]bool{},
	}
	m.ended, m.endedPlain, m.made = m.family(), m.family(), m.family()
	for i := range b.s.Nodes {
		switch n := &b.s.Nodes[i]; n.Kind {
		case OrphanNode:
			m.orphans[n.Orphan] = true
		case ResourceNode:
			done, _ := b.s.Find(ResourceDone, n.Module, n.Named)
			b.edge(b.begin[done], m.made[i])
			for _, ci := range b.byResource[n.ConfigResource()] {
				c := b.p.Changes[ci]
				if v, ok := b.makes[c.Addr]; ok && c.Action != plan.NoOp && c.Deposed == state.CurrentObject && !c.CreateBeforeDestroy {
					b.edge(m.endedPlain[done], v)
				}
			}
		}
	}
	return m
}

// family makes the vertices of one family, and the static edges backwards between them.
func (m *mirror) family() []int32 {
	b := m.b
	out := make([]int32, len(b.s.Nodes))
	for i := range out {
		out[i] = b.vertex(plan.Vertex{Kind: plan.Sync, Change: -1, Node: -1})
	}
	for e := range b.s.Graph.Edges() {
		if e.Before < len(out) && e.After < len(out) && b.s.Nodes[e.After].Kind != CloseNode {
			b.edge(out[e.After], out[e.Before])
		}
	}
	return out
}

// place orders the ending v of change c.
func (m *mirror) place(v int32, c *plan.Change) {
	b := m.b
	r := c.Addr.Config()
	first := c.CreateBeforeDestroy
	m.provider(v, c)
	node, hasBlock := b.s.ResourceVertex(r)
	if !hasBlock {
		m.placeOrphan(v, c, first)
		return
	}
	n := &b.s.Nodes[node]
	done, _ := b.s.Find(ResourceDone, n.Module, n.Named)
	b.edge(m.ended[done], v)
	b.edge(v, m.ended[node])
	if first {
		b.edge(m.made[done], v)
	} else {
		b.edge(v, m.endedPlain[node])
		if _, replaced := b.makes[c.Addr]; !replaced {
			b.edge(v, b.begin[done])
		}
	}
	if len(m.orphans) > 0 {
		for _, d := range m.recorded(c) {
			if m.orphans[d] {
				b.edge(v, m.dependentsOf(d))
			}
		}
	}
}

// provider makes an ending wait for the evaluation of its provider's configuration.
func (m *mirror) provider(v int32, c *plan.Change) {
	pc := c.Provider.Config()
	if i, ok := m.b.s.Find(ProviderNode, pc.Module, pc); ok {
		m.b.edge(m.b.begin[i], v)
	}
}

// placeOrphan orders the ending of an object whose resource has no block: by what the state recorded.
func (m *mirror) placeOrphan(v int32, c *plan.Change, first bool) {
	b := m.b
	r := c.Addr.Config()
	b.edge(m.dependentsOf(r), v)
	if !first {
		b.edge(v, m.goneOf(r))
	}
	for _, d := range m.recorded(c) {
		if node, ok := b.s.ResourceVertex(d); ok {
			done, _ := b.s.Find(ResourceDone, b.s.Nodes[node].Module, b.s.Nodes[node].Named)
			b.edge(v, m.ended[done])
			if !first {
				b.edge(v, m.endedPlain[done])
			}
			continue
		}
		if d != r {
			b.edge(v, m.dependentsOf(d))
		}
	}
}

func (m *mirror) dependentsOf(r addr.ConfigResource) int32 { return m.lazily(m.dependents, r) }
func (m *mirror) goneOf(r addr.ConfigResource) int32       { return m.lazily(m.gone, r) }

func (m *mirror) lazily(of map[addr.ConfigResource]int32, r addr.ConfigResource) int32 {
	v, ok := of[r]
	if !ok {
		v = m.b.vertex(plan.Vertex{Kind: plan.Sync, Change: -1, Node: -1})
		of[r] = v
	}
	return v
}

// finish orders the makings of objects that, by the state, depend on resources without a block: after these have
// ended; or before, where these were created first.
func (m *mirror) finish() {
	if len(m.orphans) == 0 {
		return
	}
	for _, c := range m.b.p.Changes {
		v, ok := m.b.makes[c.Addr]
		if !ok || c.Action == plan.NoOp || c.Deposed != state.CurrentObject {
			continue
		}
		for _, d := range m.recorded(c) {
			if !m.orphans[d] {
				continue
			}
			if gone, ok := m.gone[d]; ok {
				m.b.edge(gone, v)
			} else if before, ok := m.dependents[d]; ok && d != c.Addr.Config() {
				m.b.edge(v, before)
			}
		}
	}
}

// recorded returns the dependencies that the state recorded for the object of a change.
func (m *mirror) recorded(c *plan.Change) []addr.ConfigResource {
	if m.b.p.Prior == nil {
		return nil
	}
	o := m.b.p.Prior.Object(c.Addr, c.Deposed)
	if o == nil {
		return nil
	}
	return o.Dependencies
}
