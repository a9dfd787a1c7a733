package sched

import "github.com/millipede-iac/millipede/graph/dag"

// The priority of a vertex is its critical path: its own weight plus the highest priority among those that wait for it.
// New computes it exactly. Vertices that are appended later can only make paths heavier, and may raise the priorities
// of all vertices that they wait for. Doing that at once could cost a walk over the whole graph for each expansion. So
// each step passes raises on over a few edges only. A priority that is too low for a while causes at most a worse
// choice.

// raises is the vertices whose priority rose and that have not told those that they wait for.
type raises struct {
	queue []int32 // first in, first out, from next on
	next  int

	// credit is how many more edges the news may travel. It goes below zero when a vertex has many edges, and is paid
	// back by later steps.
	credit int
}

const edgesPerStep = 32

// rank computes the priorities of the vertices from first on, which were just appended with the edges, and raises
// the ones that they wait for.
func (s *Scheduler) rank(first int, edges []dag.Edge) {
	unranked := make([]int32, len(s.vertices)-first) // how many new ones wait for each new one and have no priority yet
	for _, e := range edges {
		if e.Before >= first && e.After >= first {
			unranked[e.Before-first]++
		}
	}
	order := make([]int, 0, len(unranked))
	for i, n := range unranked {
		if n == 0 {
			order = append(order, first+i)
		}
	}
	for next := 0; next < len(order); next++ {
		v := order[next]
		var rest float64
		for a := range s.graph.After(v) {
			rest = max(rest, s.vertices[a].priority)
		}
		s.vertices[v].priority += rest
		for b := range s.graph.Before(v) {
			if b >= first {
				if unranked[b-first]--; unranked[b-first] == 0 {
					order = append(order, b)
				}
			}
		}
	}
	for _, e := range edges {
		s.raise(e.Before, s.vertices[e.After].priority)
	}
	s.propagateRaises(len(unranked) + len(edges))
}

// raise makes sure that the priority of v accounts for a path of weight rest behind it.
func (s *Scheduler) raise(v int, rest float64) {
	x := &s.vertices[v]
	if x.status.Settled() || x.weight+rest <= x.priority {
		return
	}
	x.priority = x.weight + rest
	if x.status == Ready {
		s.ready[x.class].rise(s.vertices, x.index, entry{x.priority, int32(v)})
	}
	if !x.raised {
		x.raised = true
		s.raises.queue = append(s.raises.queue, int32(v))
	}
}

// propagateRaises lets the news of raised priorities travel as far as so many steps pay for.
func (s *Scheduler) propagateRaises(steps int) {
	r := &s.raises
	if len(r.queue) == 0 {
		return
	}
	for r.credit += steps * edgesPerStep; r.credit > 0; {
		if r.next == len(r.queue) {
			r.queue, r.next, r.credit = r.queue[:0], 0, 0
			return
		}
		v := int(r.queue[r.next])
		r.next++
		r.credit--
		x := &s.vertices[v]
		x.raised = false
		for b := range s.graph.Before(v) {
			s.raise(b, x.priority)
			r.credit--
		}
	}
	if r.next > len(r.queue)/2 {
		r.queue = r.queue[:copy(r.queue, r.queue[r.next:])]
		r.next = 0
	}
}
