package graph

import (
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/state"
)

// mirror is the static graph with its edges reversed, for the order of endings. For each static vertex it has a Sync
// vertex of each family, after everything that the family collects among the dependents of the static vertex.
type mirror struct {
	b *applyBuilder
	// ended collects all endings, endedPlain those of objects that are not created first, made the makings.
	ended, endedPlain collected
	made              []int32
	// first are the endings that wait until the dependents of their objects have changed.
	first map[*plan.Change]bool
	// late are the providers whose configuration depends on values that this plan makes; holding are the vertices that
	// these configurations depend on.
	late, holding map[int]bool
}

// reflect makes the families, and the edges from them to the makings.
func (m *mirror) reflect() {
	b := m.b
	m.first = b.precedence()
	m.ended, m.endedPlain, m.made = m.collected(), m.collected(), m.family()
	for i := range b.s.Nodes {
		if n := &b.s.Nodes[i]; n.Kind == ResourceNode {
			done, _ := b.s.Find(ResourceDone, n.Module, n.Named)
			b.edge(b.begin[done], m.made[i])
			for _, ci := range b.byResource[n.ConfigResource()] {
				c := b.p.Changes[ci]
				if v, ok := b.makes[c.Addr]; ok && c.Action != plan.NoOp && c.Deposed == state.CurrentObject &&
					!c.CreateBeforeDestroy {
					b.edge(m.collectedOf(m.endedPlain, done), v)
				}
			}
		}
	}
}

// findLate finds the providers whose configuration depends on objects that are changed, replaced or removed before:
// they get the new values. Their own objects end after that, so the changes that configure them cannot wait for those
// endings. (What is created first does not wait for endings.) A destroy has none, because it makes no new values.
func (m *mirror) findLate() {
	b := m.b
	m.late, m.holding = map[int]bool{}, map[int]bool{}
	if b.p.Mode == plan.Destroy {
		return
	}
	var changing, late []int
	for _, c := range b.p.Changes {
		if node, ok := b.s.ResourceVertex(c.Addr.Config()); ok && c.Action != plan.NoOp && !c.CreateBeforeDestroy {
			changing = append(changing, node)
		}
	}
	for _, i := range b.s.Graph.Descendants(changing...) {
		if i < len(b.s.Nodes) && b.s.Nodes[i].Kind == ProviderNode {
			m.late[i] = true
			late = append(late, i)
		}
	}
	for _, i := range b.s.Graph.Ancestors(late...) {
		m.holding[i] = true
	}
}

// collected are the vertices of a family of endings: of all of them, and of those by providers that are not late. The
// second is nil if no provider is late.
type collected struct{ all, early []int32 }

func (m *mirror) collected() collected {
	c := collected{all: m.family()}
	if len(m.late) > 0 {
		c.early = m.family()
	}
	return c
}

// collect adds the ending v of a change to a family, at a static vertex.
func (m *mirror) collect(v int32, c *plan.Change, into collected, at int) {
	m.b.edge(v, into.all[at])
	if into.early == nil {
		return
	}
	if p, ok := m.b.s.providerVertex(c); !ok || !m.late[p] {
		m.b.edge(v, into.early[at])
	}
}

// collectedOf returns the vertex of a family that comes after the endings that something at a static vertex waits for.
func (m *mirror) collectedOf(f collected, at int) int32 {
	if m.holding[at] {
		return f.early[at]
	}
	return f.all[at]
}

// family makes the vertices of one family, and the reversed static edges between them.
func (m *mirror) family() []int32 {
	b := m.b
	out := make([]int32, len(b.s.Nodes))
	for i := range out {
		out[i] = b.vertex(plan.Vertex{Kind: plan.Sync, Change: -1})
	}
	for e := range b.s.Graph.Edges() {
		if e.Before < len(out) && e.After < len(out) && b.mirrored(b.s.Nodes[e.Before].Kind, b.s.Nodes[e.After].Kind) {
			b.edge(out[e.After], out[e.Before])
		}
	}
	return out
}

// mirrored reports whether an edge of the static graph counts for endings: if only recorded dependencies do, the
// references of resource blocks do not.
func (b *applyBuilder) mirrored(before, after NodeKind) bool {
	return after != CloseNode && (!b.recordedAlone || after != ResourceNode || before == ProviderNode)
}

// order orders the ending v of change c by the configuration.
func (m *mirror) order(v int32, c *plan.Change) {
	b := m.b
	r := c.Addr.Config()
	first := m.first[c]
	if making, ok := b.makes[c.Addr]; ok && first && c.Deposed != state.CurrentObject {
		b.edge(making, v) // its replacement may still fail; then the deposed object is the best there is
	}
	m.provider(v, c)
	node, hasBlock := b.s.ResourceVertex(r)
	if !hasBlock {
		return // its order comes from the state alone
	}
	n := &b.s.Nodes[node]
	done, _ := b.s.Find(ResourceDone, n.Module, n.Named)
	b.edge(m.collectedOf(m.ended, done), v)
	m.collect(v, c, m.ended, node)
	if first {
		b.edge(m.made[done], v)
	} else {
		m.collect(v, c, m.endedPlain, node)
		if _, replaced := b.makes[c.Addr]; !replaced {
			m.before(v, done)
		}
	}
}

// before makes the dependents of a resource wait for the ending v of one of its objects. In a destroy, only the closing
// of ephemeral objects waits, because the configurations of providers use the values from before.
func (m *mirror) before(v int32, done int) {
	b := m.b
	if b.p.Mode != plan.Destroy {
		b.edge(v, b.begin[done])
		return
	}
	for after := range b.s.Graph.After(done) {
		if after < len(b.s.Nodes) && b.s.Nodes[after].Kind == CloseNode {
			b.edge(v, b.begin[after])
		}
	}
}

// provider makes an ending wait for the evaluation of its provider's configuration.
func (m *mirror) provider(v int32, c *plan.Change) {
	if i, ok := m.b.s.providerVertex(c); ok {
		m.b.edge(m.b.begin[i], v)
	}
}
