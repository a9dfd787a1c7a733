package loop

import (
	"iter"

	"github.com/millipede-iac/millipede/wire"
)

// Places are the narrowest limit: a vertex has one in its pool before it takes any other permit, so that no permit
// waits in a pool's queue. A pool has as many places as its live workers have slots, for all runs and coordinators
// together.
//
// Places order the work and protect nothing: the workers' own slots do. So a place is never part of the journal; it is
// free again as soon as the operation is over or in doubt, and the place of a coordinator that is gone is free at once.
// docs/adr/0011 has the reasons.

// maxSlots is what a worker is believed to have at most.
const maxSlots = 1 << 16

// placesOf returns the limit that counts the places of a pool. Where no other coordinator has a part in them, no
// message is needed.
func (l *Loop) placesOf(p *pool) *limit {
	if p.places == nil {
		p.places = &limit{name: wire.PoolLimit(p.name), pool: p, local: l.Sole, declared: l.Sole,
			measured: l.now}
		l.limits[p.places.name] = p.places
		l.limitOrder = append(l.limitOrder, p.places)
		l.fit(p)
	}
	return p.places
}

// needs yields what a vertex of the class takes, narrow first. Where no worker is known there are no places to be had:
// what goes out nevertheless, on the fast lane, finds out by itself.
func (c *class) needs() iter.Seq[*limit] {
	return func(yield func(*limit) bool) {
		if c.places != nil && c.pool.live > 0 && !yield(c.places) {
			return
		}
		for _, lim := range c.limits {
			if !yield(lim) {
				return
			}
		}
	}
}

// passing is for how many of n vertices of the class the limits have permits that are neither its pool's nor the
// widest.
func (c *class) passing(n int) int {
	for _, lim := range c.limits[:max(0, len(c.limits)-1)] {
		n = min(n, lim.spare)
	}
	return n
}

// fit has the places of a pool follow its live slots. A run that has not heard all workers yet makes nothing smaller.
func (l *Loop) fit(p *pool) {
	lim := p.places
	if lim == nil || p.slots == 0 || lim.sizing {
		return
	}
	if lim.local {
		lim.slots = p.slots
		return
	}
	shrink := l.steady() && !l.now.Before(l.settledAt)
	if !lim.declared || lim.slots < p.slots || shrink && lim.slots > p.slots || l.now.Sub(lim.measured) >= remeasure {
		lim.sizing, lim.measured = true, l.now
		l.do(Resize{wire.Limit{Name: lim.name, Slots: p.slots}, shrink})
	}
}

// tendPlaces fits what is used, now and then: somebody else may have heard the workers otherwise.
func (l *Loop) tendPlaces() {
	for _, p := range l.poolOrder {
		if lim := p.places; lim != nil && lim.want+lim.inUse+len(lim.idle) > 0 {
			l.fit(p)
		}
	}
}

// full tells that all places of the pool are taken, as far as this run can tell.
func (p *pool) full() bool {
	lim := p.places
	return lim != nil && p.live > 0 && lim.declared && lim.available() == 0
}

// idleElsewhere tells whether a pool other than p has workers and nothing to do for some of them.
func (l *Loop) idleElsewhere(p *pool) bool {
	for _, o := range l.poolOrder {
		if o != p && o.live > 0 && o.Queued == 0 && !o.full() {
			return true
		}
	}
	return false
}

// pressure is how long the pool needs for what waits for it, in seconds.
func (p *pool) pressure() float64 {
	if p.Queued == 0 || p.slots == 0 {
		return 0
	}
	return p.load / float64(p.slots)
}

// mostPressing returns the class from which the next vertex is to be started: the one that bounds the time to the end
// of the run, be it by the way of its heaviest vertex, or by the work that waits for its pool. -1: nothing can start.
func (l *Loop) mostPressing() int {
	best, most, heaviest, first := -1, 0.0, 0.0, 0
	for i := range l.classes {
		class := i + firstClass
		v, ok := l.sched.First(class)
		if !ok || !l.admits(class) {
			continue
		}
		way := l.sched.Priority(v)
		pressing := max(way, l.classes[i].pool.pressure())
		if best < 0 || pressing > most || pressing == most && (way > heaviest || way == heaviest && v < first) {
			best, most, heaviest, first = class, pressing, way, v
		}
	}
	return best
}
