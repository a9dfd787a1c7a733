package loop

import (
	"cmp"
	"iter"
	"time"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/wire"
)

// Places are the narrowest limit: a vertex has one in its pool before it takes any other permit, so that no permit
// waits in a pool's queue. A pool has as many places as its live workers have slots, for all runs and coordinators
// together.
//
// Places order the work and protect nothing: the workers' own slots do. So a place is never part of the journal; it is
// free again as soon as the operation is over or in doubt, and the place of a coordinator that is gone is free at once.
// docs/adr/0011 has the reasons.

// maxSlots is the most slots that a worker is believed to have.
const maxSlots = 1 << 16

// pool is this run's view of a pool of workers.
type pool struct {
	name    string
	version int       // of the messages to these workers; 0 while there is none
	live    int       // workers that take work in this version
	slots   int       // that they have
	missing bool      // a call found nobody
	away    time.Time // since when its store, which is its own, has not answered; zero if it does
	places  *limit    // nil until something is placed here
	load    float64   // the weights of what waits, in seconds
	// troubledSince is since when tasks wait here, and no worker takes any; zero: not so.
	troubledSince time.Time
	staff         []staff // by version, from the lowest that this program speaks
	PoolCounts
}

// staff are the workers of a pool that speak a version.
type staff struct{ workers, slots int }

// choose chooses the version for the pool: that in which most slots can be used, and the highest of several. Any worker
// of the pool may take a task, so it has to be one version for all of them.
func (p *pool) choose(own wire.Versions) {
	p.version, p.live, p.slots = 0, 0, 0
	for i, s := range p.staff {
		if s.workers > 0 && s.slots >= p.slots {
			p.version, p.live, p.slots = own.Lowest+i, s.workers, s.slots
		}
	}
}

// placesOf returns the limit that counts the places of a pool. If no other coordinator uses the pool, the limit is
// local and needs no messages.
func (ps *permits) placesOf(p *pool, surveyed bool) *limit {
	if p.places == nil {
		p.places = &limit{name: wire.PoolLimit(p.name), pool: p, local: ps.Sole, declared: ps.Sole,
			measured: ps.now}
		ps.limits[p.places.name] = p.places
		ps.limitOrder = append(ps.limitOrder, p.places)
		ps.fit(p, surveyed)
	}
	return p.places
}

// needs yields the limits that a vertex of the class needs a permit of, the narrowest first. A pool without a known
// worker has no places; a call on the fast lane that is sent nevertheless finds out whether there is one.
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

// passing returns for how many of n vertices of the class there are permits of the limits between the pool's places and
// the widest limit.
func (c *class) passing(n int) int {
	for _, lim := range c.limits[:max(0, len(c.limits)-1)] {
		n = min(n, lim.spare)
	}
	return n
}

// fit adapts the places of a pool to its live slots. A run that has not surveyed all workers yet does not reduce them.
func (ps *permits) fit(p *pool, surveyed bool) {
	lim := p.places
	if lim == nil || p.slots == 0 || lim.sizing {
		return
	}
	if lim.local {
		lim.slots = p.slots
		return
	}
	if !lim.declared || lim.slots < p.slots || surveyed && lim.slots > p.slots || ps.now.Sub(lim.measured) >= remeasure {
		lim.sizing, lim.measured = true, ps.now
		ps.do(Resize{wire.Limit{Name: lim.name, Slots: p.slots}, surveyed})
	}
}

// checkPlaces repeats fit for the pools in use from time to time: another coordinator may have heard other heartbeats.
func (ps *permits) checkPlaces(surveyed bool) {
	for _, p := range ps.poolOrder {
		if lim := p.places; lim != nil && lim.want+lim.inUse+len(lim.idle) > 0 {
			ps.fit(p, surveyed)
		}
	}
}

// full reports whether all places of the pool are taken, as far as this run knows.
func (p *pool) full() bool {
	lim := p.places
	return lim != nil && p.live > 0 && lim.declared && lim.available() == 0
}

// idleElsewhere reports whether a pool other than p has idle workers.
func (ps *permits) idleElsewhere(p *pool) bool {
	for _, o := range ps.poolOrder {
		if o != p && o.live > 0 && o.Queued == 0 && !o.full() {
			return true
		}
	}
	return false
}

// backlog returns how many seconds the pool needs for the work that waits for it.
func (p *pool) backlog() float64 {
	if p.Queued == 0 || p.slots == 0 {
		return 0
	}
	return p.load / float64(p.slots)
}

// staff counts a worker among the live ones of its pools, or not any more.
func (ps *permits) staff(w *worker, takes bool) {
	if w.takes == takes {
		return
	}
	w.takes = takes
	slots := min(max(w.Slots, 1), maxSlots)
	for _, name := range w.Pools {
		p := ps.poolOf(name)
		sign := -1
		if takes {
			sign = 1
			p.missing = false
		}
		of := w.Versions()
		for v := max(of.Lowest, ps.versions.Lowest); v <= min(of.Highest, ps.versions.Highest); v++ {
			p.staff[v-ps.versions.Lowest].workers += sign
			p.staff[v-ps.versions.Lowest].slots += sign * slots
		}
		p.choose(ps.versions)
	}
}

// versionOf returns the version of the messages to a pool. While no worker is known, it is the highest of this program.
func (ps *permits) versionOf(name string) int {
	return cmp.Or(ps.poolOf(name).version, ps.versions.Highest)
}

func (ps *permits) poolOf(name string) *pool {
	p := ps.pools[name]
	if p == nil {
		p = &pool{name: name, staff: make([]staff, ps.versions.Highest-ps.versions.Lowest+1)}
		ps.pools[name] = p
		ps.poolOrder = append(ps.poolOrder, p)
	}
	return p
}

func (ps *permits) isLive(name string) bool {
	p := ps.pools[name]
	return p != nil && p.live > 0
}

// firstLive returns the first of the pools that has workers; empty if none is known to have any.
func (ps *permits) firstLive(pools []string) string {
	for _, name := range pools {
		if ps.isLive(name) {
			return name
		}
	}
	return ""
}

// unheard reports whether workers that a vertex could run on have not sent a heartbeat yet: those of the pool of its
// region or, for a question, of the pools that may be asked.
func (ps *permits) unheard(p *program.Placement) bool {
	return len(p.Among) > 0 && !ps.Embedded && ps.firstLive(p.Among) == "" ||
		p.Region != "" && !ps.isLive(p.Region) || p.ProviderRegion != "" && !ps.isLive(p.ProviderRegion)
}
