package loop

import (
	"cmp"
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

// launchReady starts queued vertices, the most urgent ones first, while there are workers and permits.
func (l *Loop) launchReady() {
	for {
		v, ok := l.sched.PopClass(l.queues.mostUrgentClass())
		if !ok {
			return
		}
		x := &l.vertices[v]
		l.queues.dequeue(x)
		l.permits.take(x.work, l.queues.of(x))
		l.launch(v)
	}
}

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
// task of the safe lane would wait in the stream and keep its permits meanwhile, so it is not published before.
func (c *class) served() bool {
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

// enqueue queues a vertex with a task for a worker and permits. It keeps its permits if they are those that it needs.
func (l *Loop) enqueue(v int) {
	x := &l.vertices[v]
	w := x.work
	if l.now.Before(l.workers.settledAt) && !l.halted() && l.permits.unheard(w.placement()) {
		l.park(v, time.Time{})
		return
	}
	if w.ready.IsZero() {
		w.ready = l.now
	}
	was := x.class
	x.class = l.classify(x, w)
	c := l.queues.of(x)
	if !x.hidden {
		l.queuedIn(x, was)
	}
	if x.class == was && c.holdsAll(w) && c.served() && !l.halted() {
		l.launch(v)
		return
	}
	l.permits.leave(w)
	l.queues.join(v)
	if l.Traced && !x.hidden {
		l.queues.fresh = append(l.queues.fresh, v)
	}
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

// classify finds the class of a vertex from its placement.
func (l *Loop) classify(x *vertex, w *work) int32 {
	at := w.placement()
	name, limits := l.Place(*at, l.permits.isLive)
	if len(at.Among) > 0 {
		name = cmp.Or(l.permits.firstLive(at.Among), at.Among[0])
	}
	if x.hidden {
		limits = nil
	}
	key := make([]byte, 0, 64)
	key = append(key, byte('0'+w.step.Lane))
	key = append(key, name...)
	for _, wl := range limits {
		key = append(append(key, 0), wl.Name...)
	}
	if c, ok := l.queues.byClass[string(key)]; ok {
		return c
	}
	c := &class{lane: w.step.Lane, pool: l.permits.poolOf(name)}
	if !x.hidden {
		c.places = l.permits.placesOf(c.pool, l.workers.surveyed())
	}
	for _, wl := range limits {
		c.limits = append(c.limits, l.permits.limitOf(wl, true))
		c.limitNames = append(c.limitNames, wl.Name)
	}
	c.lack = newLack(c, l.now)
	return l.queues.add(string(key), c)
}

// add adds a class, and returns its number.
func (qs *queues) add(key string, c *class) int32 {
	qs.classes = append(qs.classes, c)
	id := int32(len(qs.classes) - 1 + firstClass)
	qs.byClass[key] = id
	return id
}

// placement returns what the placement rules look at.
func (w *work) placement() *program.Placement {
	if w.step.Place == nil {
		return &program.Placement{}
	}
	return w.step.Place
}

// park makes a vertex wait for a moment.
func (l *Loop) park(v int, until time.Time) {
	w := l.vertices[v].work
	l.permits.leave(w)
	w.until = until
	l.move(v, parked)
	l.queues.parked = append(l.queues.parked, v)
}

// unpark ends the wait of parked vertices whose time has come.
func (l *Loop) unpark() {
	for _, v := range l.queues.due(l.workers.settledAt) {
		l.enqueue(v)
	}
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

// launch sends the task of a vertex that has its permits.
func (l *Loop) launch(v int) {
	x := &l.vertices[v]
	w := x.work
	c := l.queues.of(x)
	w.pool = c.pool.name
	if c.lane == program.Fast {
		l.move(v, calling)
		l.markSent(v)
		task := *w.step.Task
		task.Run = l.Run
		l.do(Call{v, w.pool, &task, w.keys()})
		return
	}
	l.intend(v)
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
