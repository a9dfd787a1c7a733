package graph

import (
	"slices"
	"sync"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
)

// Closure answers which resources a vertex of the plan graph depends on, transitively. It is computed at its first use,
// in time proportional to edges times resources over 64, with one bit for each resource in each vertex that depends on
// more than one other. It is safe for concurrent use.
type Closure struct {
	s        *Static
	recorded bool // see NewRecordedClosure
	once     sync.Once
	universe *state.Universe
	// bits has for each end of a resource its bit, and -1 for other vertices.
	bits []int32
	// sets has the dependencies of each vertex; nil for none. Vertices share sets.
	sets []bitset

	mu    sync.Mutex // guards lists
	lists map[int]*state.Dependencies
}

// NewClosure returns the closure of the static vertices of a plan graph. Vertices that are appended later do not count.
func NewClosure(s *Static) *Closure {
	return &Closure{s: s, lists: map[int]*state.Dependencies{}}
}

// NewRecordedClosure returns the closure that is recorded with changed objects: references of import blocks do not
// count, because an object does not depend on them once it is imported.
func NewRecordedClosure(s *Static) *Closure {
	c := NewClosure(s)
	c.recorded = true
	return c
}

func (c *Closure) compute() {
	numbers := c.number()
	skipped := c.s.importing
	if !c.recorded {
		skipped = nil
	}
	c.bits, c.sets = c.s.reach(numbers, c.universe.Len(), skipped)
}

// reach returns for each static vertex the number of the resource that it is the end of (-1 for other vertices), and
// the numbered resources that it depends on, transitively; nil for none. Vertices share sets. Resources without a
// number do not count, nor do the skipped edges.
func (s *Static) reach(numbers map[addr.ConfigResource]int32, size int, skipped map[edge]bool) (ends []int32,
	sets []bitset) {
	ends, sets = make([]int32, len(s.Nodes)), make([]bitset, len(s.Nodes))
	for i := range s.Nodes {
		ends[i] = -1
		if n := &s.Nodes[i]; n.Kind == ResourceDone {
			if number, ok := numbers[n.Resource.Addr.In(n.Module)]; ok {
				ends[i] = number
			}
		}
	}
	order, _ := s.Graph.Order()
	for _, v := range order {
		if v < len(s.Nodes) { // else an instance: its resource represents it
			sets[v] = s.union(v, ends, sets, size, skipped)
		}
	}
	return ends, sets
}

// number gives each resource that counts a bit.
func (c *Closure) number() map[addr.ConfigResource]int32 {
	c.universe = state.NewUniverse()
	numbers := map[addr.ConfigResource]int32{}
	for i := range c.s.Nodes {
		if n := &c.s.Nodes[i]; n.Kind == ResourceNode {
			r := n.Resource.Addr.In(n.Module)
			numbers[r] = int32(c.universe.Number(state.DependOn(r)))
		}
	}
	return numbers
}

// union returns the dependencies of the vertices before v, with the resources that they are the ends of. If one of
// their sets contains all, it returns that set.
func (s *Static) union(v int, ends []int32, sets []bitset, size int, skipped map[edge]bool) bitset {
	var set bitset
	own := false
	for before := range s.Graph.Before(v) {
		if before >= len(s.Nodes) || len(skipped) > 0 && skipped[edge{before, v}] {
			continue
		}
		theirs, number := sets[before], ends[before]
		if number < 0 && (theirs == nil || set != nil && &set[0] == &theirs[0]) {
			continue
		}
		if number < 0 && set == nil {
			set = theirs
			continue
		}
		if !own {
			grown := newBitset(size)
			copy(grown, set)
			set, own = grown, true
		}
		set.addAll(theirs)
		if number >= 0 {
			set.add(int(number))
		}
	}
	return set
}

// Resources returns the resources that vertex v depends on; for the end of a resource, including itself. Callers share
// the set.
func (c *Closure) Resources(v int) *state.Dependencies {
	c.once.Do(c.compute)
	c.mu.Lock()
	defer c.mu.Unlock()
	set, ok := c.lists[v]
	if !ok {
		words := c.sets[v]
		if own := int(c.bits[v]); own >= 0 {
			if words = slices.Clone(words); words == nil {
				words = newBitset(c.universe.Len())
			}
			words.add(own)
		}
		set = c.universe.SetOf(words)
		c.lists[v] = set
	}
	return set
}

// CreatedFirst returns the resources whose new objects are created before the old ones are destroyed: those whose block
// sets create_before_destroy, and all their dependencies, even if these set it to false. For resources without a block
// the state has the value, and it does not extend to their dependencies (see precedence). Resources that the plan does
// not cover are left out.
func CreatedFirst(s *Static, prior *state.State, covered func(node int) bool) map[addr.ConfigResource]bool {
	first := map[addr.ConfigResource]bool{}
	forced := make([]bool, len(s.Nodes))
	if prior != nil {
		for a, r := range prior.Resources {
			if _, ok := s.ResourceVertex(a.Config()); ok {
				continue
			}
			for _, i := range r.Instances {
				if i.Current != nil && i.Current.CreateBeforeDestroy {
					first[a.Config()] = true
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
		if n.Kind == ResourceNode && covered(v) && n.Resource.Addr.Mode == addr.Managed &&
			(n.Resource.CreateBeforeDestroy || forced[v]) {
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
