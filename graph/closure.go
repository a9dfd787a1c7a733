package graph

import (
	"math/bits"
	"sort"
	"sync"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
)

// Closure answers which resources a vertex of the plan graph waits for, transitively. It is computed when first
// asked for: one bit for each resource and vertex, in time proportional to edges times resources over 64. Safe for
// concurrent use.
type Closure struct {
	s         *Static
	once      sync.Once
	resources []addr.ConfigResource // by bit, sorted
	sets      [][]uint64
}

// NewClosure returns the closure of a plan graph. The graph may grow afterwards; its static vertices count.
func NewClosure(s *Static) *Closure { return &Closure{s: s} }

func (c *Closure) compute() {
	index := map[addr.ConfigResource]int{}
	for i := range c.s.Nodes {
		if n := &c.s.Nodes[i]; n.Kind == ResourceNode && n.Resource.Addr.Mode != addr.Ephemeral {
			c.resources = append(c.resources, n.Resource.Addr.In(n.Module))
		}
	}
	sort.Slice(c.resources, func(i, j int) bool { return c.resources[i].String() < c.resources[j].String() })
	for i, r := range c.resources {
		index[r] = i
	}
	words := (len(c.resources) + 63) / 64
	c.sets = make([][]uint64, len(c.s.Nodes))
	backing := make([]uint64, words*len(c.s.Nodes))
	order, _ := c.s.Graph.Order()
	for _, v := range order {
		if v >= len(c.s.Nodes) {
			continue // an instance: its resource stands for it
		}
		set := backing[v*words : (v+1)*words : (v+1)*words]
		for before := range c.s.Graph.Before(v) {
			if before >= len(c.s.Nodes) {
				continue
			}
			for w, b := range c.sets[before] {
				set[w] |= b
			}
		}
		if n := &c.s.Nodes[v]; n.Kind == ResourceDone {
			if bit, ok := index[n.Resource.Addr.In(n.Module)]; ok {
				set[bit/64] |= 1 << (bit % 64)
			}
		}
		c.sets[v] = set
	}
}

// Resources returns the resources that vertex v waits for, sorted by address; for the end of a resource, itself
// included.
func (c *Closure) Resources(v int) []addr.ConfigResource {
	c.once.Do(c.compute)
	var out []addr.ConfigResource
	for w, word := range c.sets[v] {
		for word != 0 {
			bit := bits.TrailingZeros64(word)
			word &^= 1 << bit
			out = append(out, c.resources[w*64+bit])
		}
	}
	return out
}

// CreatedFirst returns the resources whose objects are created before the old ones are destroyed: those that say
// so, and everything that they depend on, even over an explicit false. What the state remembers of objects without a
// block counts, too.
func CreatedFirst(s *Static, prior *state.State) map[addr.ConfigResource]bool {
	first := map[addr.ConfigResource]bool{}
	forced := make([]bool, len(s.Nodes))
	if prior != nil {
		for a, r := range prior.Resources {
			if _, ok := s.ResourceVertex(a.Config()); ok {
				continue
			}
			for _, i := range r.Instances {
				if i.Current == nil || !i.Current.CreateBeforeDestroy {
					continue
				}
				first[a.Config()] = true
				for _, d := range i.Current.Dependencies {
					if v, ok := s.ResourceVertex(d); ok {
						forced[v] = true
					}
				}
			}
		}
	}
	order, _ := s.Graph.Order()
	for i := len(order) - 1; i >= 0; i-- {
		v := order[i]
		if v >= len(s.Nodes) {
			continue
		}
		n := &s.Nodes[v]
		if n.Kind == ResourceNode && n.Resource.Addr.Mode == addr.Managed && (n.Resource.CreateBeforeDestroy || forced[v]) {
			forced[v] = true
			first[n.Resource.Addr.In(n.Module)] = true
		}
		if !forced[v] || n.Kind == ProviderNode {
			continue
		}
		for before := range s.Graph.Before(v) {
			if before < len(forced) {
				forced[before] = true
			}
		}
	}
	return first
}
