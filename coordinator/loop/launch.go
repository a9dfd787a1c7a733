package loop

import (
	"cmp"
	"time"

	"github.com/millipede-iac/millipede/coordinator/program"
)

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
		task.Run, task.Protocol = l.Run, l.permits.versionOf(w.pool)
		l.do(Call{v, w.pool, &task, w.keys()})
		return
	}
	l.intend(v)
}
