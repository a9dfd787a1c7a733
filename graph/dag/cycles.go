package dag

import "slices"

// Cycle is a set of vertices that all wait for each other, so that none of them can ever be first.
type Cycle struct {
	// Members are all vertices of the set, in ascending order: a strongly connected component.
	Members []int

	// Loop is a short way round, made to be shown: each vertex waits for the next one, the last for the first.
	// It begins with its lowest vertex. A vertex that waits for itself is a loop of one.
	Loop []int
}

// Cycles returns every cycle, ordered by the lowest member; none if the graph is acyclic.
//
// The loop is the shortest of its cycle, unless the cycle has hundreds of members: then it is the shortest through
// as many of them as can be tried in time proportional to the size of the cycle.
func (g *Graph) Cycles() []Cycle {
	order, acyclic := g.Order()
	if acyclic {
		return nil
	}
	settled := make([]bool, len(g.vertices))
	for _, v := range order {
		settled[v] = true
	}
	component, groups := g.components(settled)

	loops := loopFinder{g: g, component: component, cameFrom: make([]int32, len(g.vertices))}
	for v := range loops.cameFrom {
		loops.cameFrom[v] = none
	}
	cycles := make([]Cycle, 0, len(groups))
	for _, members := range groups {
		slices.Sort(members)
		cycles = append(cycles, Cycle{Members: members, Loop: loops.shortest(members)})
	}
	slices.SortFunc(cycles, func(a, b Cycle) int { return a.Members[0] - b.Members[0] })
	return cycles
}

// components finds the strongly connected components with an edge inside among the vertices that are not
// settled, by Tarjan's algorithm with an explicit stack. It returns the component number of every vertex (none
// for those in no such component) and the members of each.
func (g *Graph) components(settled []bool) (component []int32, groups [][]int) {
	const unseen = 0
	n := len(g.vertices)
	component = make([]int32, n)
	for v := range component {
		component[v] = none
	}
	var (
		seen    = make([]int32, n) // 1 + the order of discovery
		low     = make([]int32, n) // the earliest vertex on the open path that is known to be reachable
		next    = make([]int32, n) // the next edge to follow
		closed  = slices.Clone(settled)
		path    []int32 // the vertices under exploration, each reached from the one before
		pending []int32 // seen, but not yet in a finished component
		clock   int32
	)
	enter := func(v int32) {
		clock++
		seen[v], low[v], next[v] = clock, clock, g.vertices[v].firstAfter
		path = append(path, v)
		pending = append(pending, v)
	}
	for root := range n {
		if closed[root] || seen[root] != unseen {
			continue
		}
		enter(int32(root))
		for len(path) > 0 {
			v := path[len(path)-1]
			if e := next[v]; e != none {
				next[v] = g.edges[e].nextAfter
				switch a := g.edges[e].after; {
				case closed[a]:
				case seen[a] == unseen:
					enter(a)
				default:
					low[v] = min(low[v], seen[a])
				}
				continue
			}
			path = path[:len(path)-1]
			if len(path) > 0 {
				p := path[len(path)-1]
				low[p] = min(low[p], low[v])
			}
			if low[v] != seen[v] {
				continue
			}
			// v is the first vertex of a component; the rest of it was seen later.
			start := len(pending) - 1
			for pending[start] != v {
				start--
			}
			group := pending[start:]
			pending = pending[:start]
			for _, m := range group {
				closed[m] = true
			}
			if len(group) > 1 || g.waitsForItself(v) {
				members := make([]int, len(group))
				for i, m := range group {
					component[m] = int32(len(groups))
					members[i] = int(m)
				}
				groups = append(groups, members)
			}
		}
	}
	return component, groups
}

func (g *Graph) waitsForItself(v int32) bool {
	for a := range g.After(int(v)) {
		if a == int(v) {
			return true
		}
	}
	return false
}

// loopFinder searches short loops inside components.
type loopFinder struct {
	g         *Graph
	component []int32
	cameFrom  []int32 // by vertex, the vertex from which the search reached it; none between searches
	reached   []int32 // the vertices that the search has reached, in order
}

// shortest searches from one member after the other, breadth first and never deeper than the shortest loop known,
// until all were tried or the budget is used up. Trying all members of a cycle costs members x edges; the budget
// keeps that to a constant for each edge.
func (f *loopFinder) shortest(members []int) []int {
	const enough, perMember = 1 << 16, 64
	budget := max(enough, perMember*len(members))
	var best []int
	for _, v := range members {
		loop, cost := f.through(int32(v), len(best))
		if loop != nil {
			best = loop
		}
		if budget -= cost; budget < 0 && best != nil || len(best) == 1 {
			break
		}
	}
	lowest := slices.Index(best, slices.Min(best))
	return slices.Concat(best[lowest:], best[:lowest])
}

// through returns the shortest loop through start, if it is shorter than limit (0: no limit), and the number of edges
// it looked at. It walks from a waiting vertex to the vertices that it waits for, which is the direction of Cycle.Loop.
func (f *loopFinder) through(start int32, limit int) (loop []int, cost int) {
	defer func() {
		for _, v := range f.reached {
			f.cameFrom[v] = none
		}
		f.reached = f.reached[:0]
	}()
	f.reached = append(f.reached, start)
	length, layerEnd := 1, 1 // a loop that closes from the layer in progress has this length
	for i := 0; i < len(f.reached); i++ {
		if i == layerEnd {
			length, layerEnd = length+1, len(f.reached)
		}
		if limit > 0 && length >= limit {
			return nil, cost
		}
		v := f.reached[i]
		for e := f.g.vertices[v].firstBefore; e != none; e = f.g.edges[e].nextBefore {
			cost++
			b := f.g.edges[e].before
			switch {
			case b == start:
				loop = make([]int, length)
				for j, w := length-1, v; j >= 0; j, w = j-1, f.cameFrom[w] {
					loop[j] = int(w)
				}
				return loop, cost
			case f.component[b] == f.component[start] && f.cameFrom[b] == none:
				f.cameFrom[b] = v
				f.reached = append(f.reached, b)
			}
		}
	}
	return nil, cost
}
