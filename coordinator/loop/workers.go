package loop

import (
	"fmt"
	"time"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/wire"
)

// workers are the workers that this run has heard of, and the connection without which their silence means nothing.
type workers struct {
	*common
	all   map[member]*worker
	order []*worker      // as they were first heard of
	met   map[string]int // how many workers each pool has ever had
	// stores are the message stores of the pools that have one of their own.
	stores map[string]*ownStore

	connectedSince time.Time // zero while the transport is not connected
	settledAt      time.Time // from when on silence of a pool means that it has no worker
}

// member identifies a worker within one pool. A name that two pools use means two workers.
type member struct{ pool, worker string }

// worker is a worker as this run sees it.
type worker struct {
	wire.Heartbeat
	seen  time.Time
	takes bool // it is counted among the live workers of its pools
}

// maxMembers is the most workers of one pool that a run keeps track of: a hostile pool can use a new name for each
// heartbeat.
const maxMembers = 2048

func newWorkers(c *common, stores []string) workers {
	ws := workers{common: c, all: map[member]*worker{}, met: map[string]int{}, stores: map[string]*ownStore{}}
	for _, pool := range stores {
		ws.stores[pool] = &ownStore{}
	}
	return ws
}

// begin starts the time in which the workers are surveyed.
func (ws *workers) begin(settleFor time.Duration) {
	ws.settledAt = ws.now.Add(settleFor)
	ws.connectedSince = ws.now
}

// connected notes for how long the transport has been connected; 0 if it is not.
func (ws *workers) connected(d time.Duration) {
	ws.connectedSince = time.Time{}
	if d > 0 {
		ws.connectedSince = ws.now.Add(-d)
	}
}

// find returns a worker of a pool, and whether it is heard of for the first time. It returns nil for a new worker of a
// pool that has had too many.
func (ws *workers) find(pool, name string) (w *worker, isNew bool) {
	key := member{pool, name}
	if w = ws.all[key]; w != nil {
		return w, false
	}
	if ws.met[pool] == maxMembers {
		return nil, false
	}
	ws.met[pool]++
	w = &worker{}
	ws.all[key] = w
	ws.order = append(ws.order, w)
	return w, true
}

// connectionStable reports whether the connection has been up long enough for silence to mean that a worker is dead.
func (ws *workers) connectionStable() bool {
	return !ws.connectedSince.IsZero() && ws.now.Sub(ws.connectedSince) >= wire.DeadAfter
}

// surveyed reports whether all live workers have been heard of, as far as the run can know.
func (ws *workers) surveyed() bool { return ws.connectionStable() && !ws.now.Before(ws.settledAt) }

// silent reports whether a worker of a pool counts as dead that was last heard of at a time. Where the pool has a store
// of its own, its silence counts only up to the last answer of that store: a region that is cut off is not dead. The
// store of a pool that the run does not use is not asked: nothing is lost there with a worker that counts as dead.
func (ws *workers) silent(pool string, seen time.Time) bool {
	seen, now := later(seen, ws.connectedSince), ws.now
	if s := ws.stores[pool]; s != nil && !s.away.IsZero() {
		return false
	} else if s != nil && !s.answered.IsZero() {
		seen, now = later(seen, s.back), s.answered
	}
	return ws.connectionStable() && now.Sub(seen) > wire.DeadAfter
}

// unfinished returns why no result of a worker is expected any more, although it holds a task; empty if one is. listed
// is when the worker was known to hold the task.
func (ws *workers) unfinished(pool, name string, listed time.Time) string {
	if s := ws.stores[pool]; s != nil {
		if !s.away.IsZero() || s.answered.IsZero() {
			return ""
		}
		listed = later(listed, s.back)
	}
	switch w := ws.all[member{pool, name}]; {
	case w == nil && ws.silent(pool, listed), w != nil && ws.silent(pool, w.seen):
		return fmt.Sprintf("worker %s has not been heard of for %s", name, wire.DeadAfter)
	case w != nil && ws.connectionStable() && ws.now.Sub(listed) > claimWait:
		return fmt.Sprintf("worker %s does not hold it any more, and has not reported it", name)
	}
	return ""
}

// checkTaking ends the run if tasks wait in a pool whose workers are alive but take none, because their disks are full
// for instance. Nothing else would show that, because such workers still answer calls. waiting has the number of tasks
// that nobody has claimed, by pool.
func (ws *workers) checkTaking(pools []*pool, waiting map[string]int) {
	for _, p := range pools {
		why := ""
		if waiting[p.name] > 0 {
			why = ws.trouble(p.name)
		}
		switch {
		case why == "":
			p.troubledSince = time.Time{}
		case p.troubledSince.IsZero():
			p.troubledSince = ws.now
			ws.tell(-1, diag.List{diag.New(diag.Warning, "No worker takes tasks", fmt.Sprintf(
				"The run waits: every worker of pool %q is alive, and none takes a task. %s\n\n"+
					"Once a worker has room on its disk, or another one is started for the pool, the run goes on by "+
					"itself. If nothing changes within %s, it ends, and can be resumed.",
				p.name, why, StoreTimeout), nil)})
		case ws.now.Sub(p.troubledSince) >= StoreTimeout:
			ws.fail(fmt.Errorf("%w of pool %q for %s. %s", ErrWorkers, p.name, StoreTimeout, why))
		}
	}
}

// maxUnsuited is how many workers a wait names.
const maxUnsuited = 5

// unsuited returns why workers of a pool that are alive are given nothing, for the first few.
func (ws *workers) unsuited(pool string, own wire.Versions) (list []string) {
	for _, w := range ws.order {
		if len(list) < maxUnsuited && w.Pools[0] == pool && !w.Leaving && !ws.silent(pool, w.seen) {
			if why := w.Unsuited(own); why != "" {
				list = append(list, why)
			}
		}
	}
	return list
}

// trouble returns why the workers of a pool take no tasks; empty if one of them does, or if there are none.
func (ws *workers) trouble(pool string) (why string) {
	for _, w := range ws.order {
		if !w.takes || w.Pools[0] != pool {
			continue
		}
		if w.Trouble == "" {
			return ""
		}
		if why == "" {
			why = fmt.Sprintf("Worker %s says: %s.", w.Worker, w.Trouble)
		}
	}
	return why
}
