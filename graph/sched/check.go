package sched

import (
	"errors"
	"fmt"
)

// Check verifies that the scheduler agrees with itself and with its graph, and returns all that is wrong. It looks
// at every vertex and edge, so it is for tests and simulations, after each step.
func (s *Scheduler) Check() error {
	var wrong []error
	report := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf("sched: "+format, args...)) }

	if s.graph.Len() != len(s.vertices) {
		report("%d vertices in the graph, %d here", s.graph.Len(), len(s.vertices))
		return errors.Join(wrong...)
	}
	var counts [statuses]int
	for v := range s.vertices {
		counts[s.vertices[v].status]++
		s.checkVertex(v, report)
	}
	if counts != s.counts {
		report("the counts are %v, but should be %v", s.counts, counts)
	}
	queued := 0
	for class, q := range s.ready {
		queued += len(q)
		for index, e := range q {
			x := &s.vertices[e.vertex]
			if x.status != Ready || x.class != int32(class) || x.index != int32(index) || x.priority != e.priority {
				report("index %d of class %d holds %v, which is %+v", index, class, e, *x)
			}
			if index > 0 && e.before(q[(index-1)/2]) {
				report("index %d of class %d is out of order", index, class)
			}
		}
	}
	if queued != s.counts[Ready] {
		report("%d vertices are queued, %d are ready", queued, s.counts[Ready])
	}
	if s.Stalled() {
		report("%d vertices wait for each other, nothing runs or could", s.counts[Waiting])
	}
	return errors.Join(wrong...)
}

// checkVertex verifies one vertex against its neighbours.
func (s *Scheduler) checkVertex(v int, report func(string, ...any)) {
	x := &s.vertices[v]
	var waits int32
	for b := range s.graph.Before(v) {
		switch st := s.vertices[b].status; {
		case !st.Settled():
			waits++
		case st != Done && !x.anyway && x.status != Skipped:
			report("%d is %s, but %d, which it depends on, is %s", v, x.status, b, st)
		}
	}
	switch x.status {
	case Waiting, Ready:
		if x.waits != waits {
			report("%d counts %d edges to wait for, but there are %d", v, x.waits, waits)
		}
		if (x.status == Ready) != (waits == 0) {
			report("%d is %s with %d edges to wait for", v, x.status, waits)
		}
	case Running, Done, Failed:
		if waits > 0 {
			report("%d is %s, but has %d edges to wait for", v, x.status, waits)
		}
	case Skipped:
		if b := s.vertices[x.because]; b.status != Failed && int(x.because) != v &&
			!(b.status == Skipped && b.because == x.because) {
			report("%d was skipped because of %d, which is %s", v, x.because, b.status)
		}
	}
	if len(s.raises.queue) > 0 || x.status.Settled() {
		return
	}
	var rest float64
	for a := range s.graph.After(v) {
		rest = max(rest, s.vertices[a].priority)
	}
	if x.priority != x.weight+rest {
		report("the priority of %d is %v, but should be %v", v, x.priority, x.weight+rest)
	}
}
