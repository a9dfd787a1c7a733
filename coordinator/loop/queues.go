package loop

import (
	"time"

	"github.com/millipede-iac/millipede/coordinator/program"
)

// The classes of graph/sched: vertices that are not prepared, and behind them one class for each combination of lane,
// pool and limits.
const (
	hiddenClass  = iota // to be prepared at once
	visibleClass        // to be prepared when there is a prospect of starting them
	firstClass
)

// class is a set of queued vertices that need the same to start.
type class struct {
	lane   program.Lane
	pool   *pool
	places *limit   // of the pool; nil for what takes none
	limits []*limit // narrow first
	// limitNames are theirs, in the same order.
	limitNames []string
	// example is the address of one of its vertices.
	example string
	lack    waitAccount
}

// queues are the vertices that wait: for workers and permits, by class, or for a moment in time.
type queues struct {
	*table
	classes []*class
	byClass map[string]int32
	parked  []int // that wait for a moment
	fresh   []int // that have joined a class in this step
}

func newQueues(t *table) queues { return queues{table: t, byClass: map[string]int32{}} }

// dequeue removes a vertex that no longer waits from the counts.
func (qs *queues) dequeue(x *vertex) {
	c := qs.of(x)
	c.unmark(x.work, qs.now)
	p := c.pool
	p.Queued--
	p.load -= float64(x.weight)
	if p.Queued == 0 {
		p.load = 0 // without what rounding has left
	}
}

// mostUrgentClass returns the class that the next vertex is started from: the one that determines when the run can end,
// by the critical path of its heaviest vertex or by the work that waits for its pool, among those whose pools have not
// taken their shares of a limit. If all have, none of the others could start. It returns -1 if nothing can start.
func (qs *queues) mostUrgentClass() int {
	best, fair := urgent{class: -1}, urgent{class: -1}
	for i, c := range qs.classes {
		class := i + firstClass
		v, ok := qs.sched.First(class)
		if !ok || !qs.admits(class) {
			continue
		}
		way := qs.sched.Priority(v)
		u := urgent{class, max(way, c.pool.backlog()), way, v}
		if u.before(best) {
			best = u
		}
		if u.before(fair) && !qs.overShare(c) {
			fair = u
		}
	}
	if fair.class >= 0 {
		return fair.class
	}
	return best.class
}

// urgent is how urgent the first vertex of a class is.
type urgent struct {
	class         int // -1 for none
	pressing, way float64
	first         int
}

func (u urgent) before(o urgent) bool {
	switch {
	case o.class < 0 || u.pressing != o.pressing:
		return o.class < 0 || u.pressing > o.pressing
	case u.way != o.way:
		return u.way > o.way
	}
	return u.first < o.first
}

// admits reports whether a vertex of the scheduler's class could start now.
func (qs *queues) admits(i int) bool {
	if i < firstClass {
		return false
	}
	c := qs.classes[i-firstClass]
	if !c.served() {
		return false
	}
	for lim := range c.needs() {
		if lim.available() == 0 {
			return false
		}
	}
	return true
}

// served reports whether a worker would take the work of the class. A call on the fast lane finds that out by itself. A
// task of the safe lane would wait in the stream and keep its permits meanwhile, so it is not published before. While
// the message store of a pool does not answer, nothing reaches its workers.
func (c *class) served() bool {
	if !c.pool.away.IsZero() {
		return false
	}
	return c.pool.live > 0 || c.lane == program.Fast && !c.pool.missing
}

// startable reports whether vertices of the class can start as soon as the widest limit allows it.
func (c *class) startable() bool {
	if !c.served() {
		return false
	}
	for i, lim := range c.limits {
		if i < len(c.limits)-1 && len(lim.idle) == 0 && lim.declared && lim.inUse >= lim.slots {
			return false
		}
	}
	return true
}

// join queues a vertex in its class.
func (qs *queues) join(v int) {
	qs.move(v, queued)
	x := &qs.vertices[v]
	c := qs.of(x)
	c.pool.Queued++
	c.pool.load += float64(x.weight)
	c.example = x.work.desc.Address
	c.mark(x.work, qs.now)
	qs.sched.Requeue(v)
}

// of returns the class of a vertex that is, or was, queued.
func (qs *queues) of(x *vertex) *class { return qs.classes[x.class-firstClass] }

// holdsAll reports whether a vertex has all permits of its class.
func (c *class) holdsAll(w *work) bool {
	return len(w.permits) > 0 && len(w.permits) == len(c.limits) && (c.places == nil || c.pool.live == 0 ||
		w.place.limit == c.places)
}

// add adds a class, and returns its number.
func (qs *queues) add(key string, c *class) int32 {
	qs.classes = append(qs.classes, c)
	id := int32(len(qs.classes) - 1 + firstClass)
	qs.byClass[key] = id
	return id
}

// due removes the parked vertices whose time has come, and returns them. settledAt is the time of those that wait for
// the survey of workers.
func (qs *queues) due(settledAt time.Time) (due []int) {
	left := qs.parked[:0]
	for _, v := range qs.parked {
		until := qs.vertices[v].work.until
		if until.IsZero() {
			until = settledAt
		}
		if qs.now.Before(until) && !qs.halted() {
			left = append(left, v)
		} else {
			due = append(due, v)
		}
	}
	qs.parked = left
	return due
}

// wants counts what all ready vertices could use.
func (qs *queues) wants() {
	for i, c := range qs.classes {
		if n := qs.sched.ReadyIn(i + firstClass); n > 0 && c.served() {
			c.want(n)
		}
	}
}

// want counts what n ready vertices of the class could use.
func (c *class) want(n int) {
	for lim := range c.needs() { // a narrow limit is no use beyond what the wider ones let through
		if lim.slots > 0 {
			n = min(n, lim.slots)
		}
	}
	if c.places != nil {
		c.places.soon += c.passing(n)
	}
	for lim := range c.needs() {
		lim.want += n
		lim.short = lim.short || n == 0
		n = min(n, lim.spare)
		lim.spare -= n
	}
}
