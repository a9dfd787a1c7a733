package service

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/service/turn"
	"github.com/millipede-iac/millipede/service/work"
)

// queue advances runs: after every change it determines the due steps, and has the engine carry out phases.
type queue struct {
	*shared
	logs          *Logs
	notifications *Notifications
	phases        *phases
	transitions   *transitions
	// plans and applies bound the number of phases that are executed at the same time.
	plans, applies int
	version        string

	wakeups chan struct{}
	jobs    sync.WaitGroup // the goroutines that carry out phases
	halted  chan struct{}  // closed when the service shuts down

	mu      sync.Mutex             // guards the fields below
	active  map[string]*record.Run // its runs are never modified, only replaced
	ordered []*record.Run          // the runs of active by creation time; nil when outdated
	running map[string]*job
	// changing has, by workspace, the number of changes of objects that are in progress.
	changing map[string]int
	// repeated has the runs whose current phase this process has repeated, with the number of repetitions that
	// may have been in vain; see again.
	repeated map[string]int
	served   map[string]time.Time
	seen     map[string]turn.ClientReads
	stopped  bool
	unsure   bool          // active may differ from the store
	reread   time.Time     // the earliest time to read the store again
	news     chan struct{} // closed when a run has changed
	changes  uint64
	// followed has a channel for each run whose next change, or log, somebody waits for. It is closed then.
	followed map[string]chan struct{}
}

// job is a phase, or the resolution of a doubt, that the engine carries out.
type job struct {
	stop      context.CancelCauseFunc
	leave     context.CancelFunc
	left      bool // a person has abandoned it (force-cancel)
	suspended bool // a person has suspended it; it will continue
	doubts    seenDoubts
	waits     turn.Wait // what it waits for; the zero value is nothing
}

func newQueue(c *shared, plans, applies int) *queue {
	return &queue{
		shared: c, plans: plans, applies: applies, wakeups: make(chan struct{}, 1), halted: make(chan struct{}),
		active: map[string]*record.Run{}, running: map[string]*job{}, changing: map[string]int{},
		repeated: map[string]int{}, served: map[string]time.Time{}, seen: map[string]turn.ClientReads{},
		news: make(chan struct{}), followed: map[string]chan struct{}{},
	}
}

// wake makes the queue look for due steps.
func (q *queue) wake() {
	select {
	case q.wakeups <- struct{}{}:
	default: // it is already woken
	}
}

// changed updates the queue's copy of a run after a committed change, including its creation. It reads the run
// from the store, because two changes may be reported here in the reverse order of their commits.
func (q *queue) changed(id string) {
	q.mu.Lock()
	var r *record.Run
	err := q.store.View(func(tx *store.Tx) (err error) { // under q.mu: copies must be updated in order
		r, err = tables.Runs.Get(tx, id)
		return err
	})
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && r.Status.Final():
		delete(q.active, id)
		delete(q.seen, id)
		delete(q.repeated, id)
	case err == nil:
		q.active[id] = r
	default:
		q.unsure = true
	}
	q.notifyChanged(id)
	q.mu.Unlock()
	if err == nil {
		q.tell(r)
	}
	q.wake()
}

// requireReread makes the queue read all runs again before its next step.
func (q *queue) requireReread() {
	q.mu.Lock()
	q.unsure = true
	q.mu.Unlock()
	q.wake()
}

// rereadRuns reads the runs again from the store after a change of them has failed, because a failed change may
// have been committed all the same. A phase that is in progress according to the store, but that no job carries
// out, is started as after a restart of the service. If the last reading was too recent, rereadRuns returns the
// time of the next attempt: a disk that refuses one change is likely to refuse the next one too.
func (q *queue) rereadRuns(ctx context.Context) (time.Time, error) {
	for {
		q.mu.Lock()
		unsure, changes, soonest := q.unsure, q.changes, q.reread
		q.mu.Unlock()
		now := q.now()
		switch {
		case !unsure:
			return time.Time{}, nil
		case now.Before(soonest):
			return soonest, nil
		}
		all, err := q.activeRuns()
		if err != nil {
			return time.Time{}, err
		}
		q.mu.Lock()
		if q.changes != changes { // the copies just read may be outdated already
			q.mu.Unlock()
			continue
		}
		q.unsure, q.reread = false, now.Add(time.Second)
		q.active = map[string]*record.Run{}
		var left []*record.Run
		for _, r := range all {
			q.active[r.ID] = r
			if r.Status == record.Planning && q.running[r.ID] == nil { // continueApplies starts applies
				left = append(left, r)
			}
		}
		q.notifyChanged(slices.Collect(maps.Keys(q.followed))...)
		q.mu.Unlock()
		for _, r := range left {
			q.begin(ctx, r, false)
		}
	}
}

// forget removes the data about a deleted workspace.
func (q *queue) forget(workspace string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var gone []string
	for id, r := range q.active {
		if r.Workspace == workspace {
			delete(q.active, id)
			delete(q.seen, id)
			gone = append(gone, id)
		}
	}
	delete(q.served, workspace)
	q.notifyChanged(gone...)
}

// stop asks the job of a run to end; with leave, without waiting for its operations.
func (q *queue) stop(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if j := q.running[id]; j != nil {
		j.stop(work.ErrCanceled)
	}
}

func (q *queue) leave(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if j := q.running[id]; j != nil {
		j.left = true
		j.stop(work.ErrCanceled)
		j.leave()
	}
}

// run advances runs until ctx ends.
func (q *queue) run(ctx context.Context) error {
	phases, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			q.halt()
			return nil
		case <-q.wakeups:
		case <-timer.C:
		}
		next, err := q.advance(phases)
		if err != nil {
			q.log.Error("the run queue cannot proceed; will retry", "error", err)
			next = q.now().Add(time.Second)
		}
		if !next.IsZero() {
			timer.Reset(max(0, next.Sub(q.now())))
		}
	}
}

// halt starts nothing new, stops the jobs, and waits for them. They continue at the next start of the service.
func (q *queue) halt() {
	q.mu.Lock()
	q.stopped = true
	close(q.halted)
	for _, j := range q.running {
		j.stop(work.ErrSuspended)
	}
	q.mu.Unlock()
	q.jobs.Wait()
}
