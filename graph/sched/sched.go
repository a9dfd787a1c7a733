// Package sched decides which vertex of a growing graph is processed next.
//
// It keeps the status of every vertex, returns ready vertices in the order of their critical paths, and finds the
// vertices that a failure skips. It has no goroutine and no clock, and does not know the work of a vertex. A loop
// reports events to it, in calls whose cost is proportional to the number of vertices that they change. Permits,
// retries and the journal belong to the loop.
package sched

import (
	"fmt"
	"math"
	"slices"

	"github.com/millipede-iac/millipede/graph/dag"
)

// Traits are the properties of vertices that the scheduler needs. A nil function means the default.
type Traits struct {
	// Weight is the expected duration of v, in any unit that is the same for all vertices. It must not be negative; the
	// default is 1. It is called once, when v is added.
	Weight func(v int) float64

	// Class is a small number >= 0 for the resources that v needs besides being ready, such as the permits of one pool.
	// Each class has a queue of its own, so that vertices that wait for a permit do not hold up those that need another
	// one. The default is
	// 0. It is called whenever v becomes ready, so it may depend on facts that are known only then.
	Class func(v int) int

	// Anyway reports that v runs once everything that it depends on is settled, even if that has failed or was skipped: a
	// vertex that closes something, or that sums up. The default is false. It is called once, when v is added.
	Anyway func(v int) bool
}

// Scheduler has the progress of one run over one graph. It is not safe for concurrent use.
//
// A call that its state does not allow, such as finishing a vertex that does not run, is a bug of the caller, and
// panics with the vertex, its status, and the status that it was to get.
type Scheduler struct {
	graph    *dag.Graph
	traits   Traits
	vertices []vertex
	ready    []queue // by class
	counts   [statuses]int
	raises   raises
}

type vertex struct {
	weight   float64
	priority float64 // the heaviest path from here, see raise.go
	waits    int32   // edges from vertices that are not settled; meaningful while waiting or ready
	class    int32   // meaningful while ready
	index    int32   // in the queue of the class, while ready
	because  int32   // while skipped: the vertex that failed or was skipped first
	status   Status
	anyway   bool
	raised   bool // its priority rose, and has not been passed on yet to the vertices that it waits for
}

// Skip is a skipped vertex, and why.
type Skip struct {
	Vertex  int
	Because int // the vertex whose failure, or whose own skipping, is the cause
}

// New returns a scheduler for all vertices of g, which must be acyclic. From then on the scheduler owns g: others may
// read it, but only Append changes it.
func New(g *dag.Graph, t Traits) *Scheduler {
	if t.Weight == nil {
		t.Weight = func(int) float64 { return 1 }
	}
	if t.Class == nil {
		t.Class = func(int) int { return 0 }
	}
	if t.Anyway == nil {
		t.Anyway = func(int) bool { return false }
	}
	s := &Scheduler{graph: g, traits: t, vertices: make([]vertex, 0, g.Len())}
	s.join(g.Len())
	for v, p := range g.CriticalPath(func(v int) float64 { return s.vertices[v].weight }) {
		s.vertices[v].priority = p
	}
	for e := range g.Edges() {
		s.vertices[e.After].waits++
	}
	for v := range s.vertices {
		if s.vertices[v].waits == 0 {
			s.move(v, Ready)
		}
	}
	return s
}

// join adds n waiting vertices.
func (s *Scheduler) join(n int) {
	for range n {
		v := len(s.vertices)
		w := s.traits.Weight(v)
		if !(w >= 0) || math.IsInf(w, 1) {
			panic(fmt.Sprintf("sched: the weight of vertex %d is %v", v, w))
		}
		s.vertices = append(s.vertices, vertex{weight: w, priority: w, anyway: s.traits.Anyway(v)})
	}
	s.counts[Waiting] += n
}

// Append adds n vertices, numbered from Len() on, and edges among all vertices, old and new, for an expansion. A new
// edge must not end in a vertex that was started or settled (except a skipped one, where it has no effect), and must
// not close a cycle.
//
// An edge from a vertex that is done counts as satisfied. One from a vertex that failed or was skipped skips its
// dependent, and all that depends on that; these are returned.
func (s *Scheduler) Append(n int, edges []dag.Edge) []Skip {
	for _, e := range edges {
		if e.After < len(s.vertices) {
			if st := s.vertices[e.After].status; st != Waiting && st != Ready && st != Skipped {
				panic(fmt.Sprintf("sched: vertex %d is %s, so it cannot be made to wait for vertex %d",
					e.After, st, e.Before))
			}
		}
	}
	first := s.graph.Grow(n)
	s.join(n)
	for _, e := range edges {
		s.graph.Edge(e.Before, e.After)
	}
	s.rank(first, edges)

	var doomed []dag.Edge
	for _, e := range edges {
		switch before, after := s.vertices[e.Before].status, &s.vertices[e.After]; {
		case after.status == Skipped || before == Done:
		case !before.Settled():
			after.waits++
			if after.status == Ready {
				s.move(e.After, Waiting)
			}
		case !after.anyway:
			doomed = append(doomed, e)
		}
	}
	var skips []Skip
	for _, e := range doomed {
		if s.vertices[e.After].status != Skipped {
			cause := s.Because(e.Before)
			s.skip(e.After, cause)
			skips = append(append(skips, Skip{e.After, cause}), s.skipAfter(e.After, cause)...)
		}
	}
	for v := first; v < len(s.vertices); v++ {
		if x := &s.vertices[v]; x.status == Waiting && x.waits == 0 {
			s.move(v, Ready)
		}
	}
	return skips
}

// Pop returns the ready vertex with the longest critical path, the lowest number among equals, and marks it as running.
// It returns false if none is ready. Its cost is proportional to the number of classes.
func (s *Scheduler) Pop() (v int, ok bool) {
	return s.PopWhere(func(int) bool { return true })
}

// PopWhere is Pop restricted to the classes that admit returns true for. It calls admit only for classes with ready
// vertices.
func (s *Scheduler) PopWhere(admitted func(class int) bool) (v int, ok bool) {
	s.propagateRaises(1)
	best := -1
	for class, q := range s.ready {
		if len(q) > 0 && (best < 0 || q[0].before(s.ready[best][0])) && admitted(class) {
			best = class
		}
	}
	return s.pop(best)
}

// PopClass is Pop within one class.
func (s *Scheduler) PopClass(class int) (v int, ok bool) {
	s.propagateRaises(1)
	return s.pop(class)
}

func (s *Scheduler) pop(class int) (v int, ok bool) {
	if s.ReadyIn(class) == 0 {
		return 0, false
	}
	v = int(s.ready[class][0].vertex)
	s.move(v, Running)
	return v, true
}

// Take marks a ready vertex as running that the caller has chosen, as when it replays a journal.
func (s *Scheduler) Take(v int) { s.move(v, Running) }

// Requeue makes a running vertex ready again, for another attempt or because it could not be started.
func (s *Scheduler) Requeue(v int) {
	if st := s.vertices[v].status; st != Running {
		panic(fmt.Sprintf("sched: vertex %d is %s, so it cannot be queued again", v, st))
	}
	s.move(v, Ready)
}

// Done settles a running vertex that has succeeded, and returns the vertices that become ready.
func (s *Scheduler) Done(v int) (ready []int) {
	s.move(v, Done)
	for a := range s.graph.After(v) {
		if s.release(a) {
			ready = append(ready, a)
		}
	}
	return ready
}

// Fail settles a running vertex that has failed. It returns the vertices that are skipped because they depend on it,
// directly or indirectly, nearest first. Vertices that run anyway are not among them, but may have become ready.
func (s *Scheduler) Fail(v int) []Skip {
	s.move(v, Failed)
	return s.skipAfter(v, v)
}

// Skip settles a vertex that is waiting, ready or running without success or failure, and returns the vertices that
// this skips, as Fail does; v itself is not in the list.
func (s *Scheduler) Skip(v int) []Skip {
	s.skip(v, v)
	return s.skipAfter(v, v)
}

func (s *Scheduler) skip(v, because int) {
	s.move(v, Skipped)
	s.vertices[v].because = int32(because)
}

// skipAfter skips the dependents of v, which has failed or was skipped.
func (s *Scheduler) skipAfter(v, because int) (skips []Skip) {
	for i := 0; ; i++ {
		for a := range s.graph.After(v) {
			switch x := &s.vertices[a]; {
			case x.status == Skipped:
			case x.anyway:
				s.release(a)
			default:
				s.skip(a, because)
				skips = append(skips, Skip{a, because})
			}
		}
		if i == len(skips) {
			return skips
		}
		v = skips[i].Vertex
	}
}

// release removes one dependency of v, and reports whether v is ready now.
func (s *Scheduler) release(v int) bool {
	x := &s.vertices[v]
	if x.status != Waiting { // skipped, whatever it waited for
		return false
	}
	if x.waits--; x.waits > 0 {
		return false
	}
	s.move(v, Ready)
	return true
}

// move is the only place where a status changes. It keeps the counts and the queues in step.
func (s *Scheduler) move(v int, to Status) {
	x := &s.vertices[v]
	if !lawful[x.status][to] {
		panic(fmt.Sprintf("sched: vertex %d is %s, so it cannot become %s", v, x.status, to))
	}
	if x.status == Ready {
		s.ready[x.class].remove(s.vertices, x.index)
	}
	s.counts[x.status]--
	s.counts[to]++
	x.status = to
	if to == Ready {
		class := s.traits.Class(v)
		if class < 0 || class > math.MaxInt32 {
			panic(fmt.Sprintf("sched: the class of vertex %d is %d", v, class))
		}
		if class >= len(s.ready) {
			s.ready = append(s.ready, make([]queue, class+1-len(s.ready))...)
		}
		x.class = int32(class)
		s.ready[class].push(s.vertices, entry{x.priority, int32(v)})
	}
}

// Len is the number of vertices.
func (s *Scheduler) Len() int { return len(s.vertices) }

// Status returns the status of v.
func (s *Scheduler) Status(v int) Status { return s.vertices[v].status }

// Because returns the vertex whose failure or skipping has skipped v; v itself if v is not skipped.
func (s *Scheduler) Because(v int) int {
	if s.vertices[v].status != Skipped {
		return v
	}
	return int(s.vertices[v].because)
}

// Waits returns the number of v's edges from vertices that are not settled.
func (s *Scheduler) Waits(v int) int { return int(s.vertices[v].waits) }

// Priority returns the weight of the longest known path that starts with v. After an Append it may be too low for some
// steps; see raise.go.
func (s *Scheduler) Priority(v int) float64 { return s.vertices[v].priority }

// ReadyIn returns the number of ready vertices of a class.
func (s *Scheduler) ReadyIn(class int) int {
	if class < 0 || class >= len(s.ready) {
		return 0
	}
	return len(s.ready[class])
}

// First returns the vertex that PopClass would return.
func (s *Scheduler) First(class int) (v int, ok bool) {
	if s.ReadyIn(class) == 0 {
		return 0, false
	}
	return int(s.ready[class][0].vertex), true
}

// ReadyClasses returns the classes with ready vertices, the class of the heaviest vertex first.
func (s *Scheduler) ReadyClasses() []int {
	var classes []int
	for class, q := range s.ready {
		if len(q) > 0 {
			classes = append(classes, class)
		}
	}
	slices.SortFunc(classes, func(a, b int) int { return s.ready[a][0].compare(s.ready[b][0]) })
	return classes
}

// Counts has the number of vertices in each status.
type Counts struct {
	Waiting, Ready, Running, Done, Failed, Skipped int
}

// Counts returns the number of vertices in each status, in constant time.
func (s *Scheduler) Counts() Counts {
	c := &s.counts
	return Counts{c[Waiting], c[Ready], c[Running], c[Done], c[Failed], c[Skipped]}
}

// Finished reports whether every vertex is settled.
func (s *Scheduler) Finished() bool {
	return s.counts[Waiting]+s.counts[Ready]+s.counts[Running] == 0
}

// Stalled reports whether vertices wait but none is running or ready. Only an appended cycle causes that, so it is a
// bug of the caller; [dag.Graph.Cycles] names the cycle.
func (s *Scheduler) Stalled() bool {
	return s.counts[Waiting] > 0 && s.counts[Ready]+s.counts[Running] == 0
}
