// Package queue advances the runs of the service: it takes the steps that are due, has the engine carry out phases, and
// records their outcomes.
//
// It does not decide which steps are due: package turn does. It does not know what a step changes beside the run: its
// Transitions do.
package queue

import (
	"context"
	"errors"
	"io"
	"log/slog"
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

// Transitions changes the status of runs, with what depends on it, in the transaction of the caller.
type Transitions interface {
	// Enter applies an event to a run. The error wraps tables.ErrConflict if the status of the run does not allow it.
	Enter(tx *store.Tx, r *record.Run, kind record.RunEventKind, outcome record.Outcome, actor string) error
	// Remark adds an entry to the history of a run.
	Remark(tx *store.Tx, r *record.Run, action, description, actor string) error
	// NotifyDoubt tells receivers of notifications that a run has left operations in doubt.
	NotifyDoubt(tx *store.Tx, r *record.Run) error
}

// Phases carries out phases of runs.
type Phases interface {
	// Run carries out the current phase of a run: it returns a *work.PlanResult or a *work.ApplyResult. When leaving
	// ends, it returns without waiting for operations; when stopping ends, it starts nothing new.
	Run(leaving, stopping context.Context, r *record.Run, j *Job, log io.Writer, resumed bool) (any, error)
}

// Logs has the logs of phases.
type Logs interface {
	// Open opens the log of a phase, and writes its first lines if it has none. begun says that it had some. The log is
	// nil if it cannot be opened.
	Open(r *record.Run, phase string) (log Log, begun bool, err error)
	// End marks the end of the log of a phase, and makes the log durable.
	End(r *record.Run, phase string, log Log)
	// Abandon does the same for the logs of a run that has ended while none of its phases was in progress, although one
	// had begun: it was to be begun again.
	Abandon(r *record.Run)
}

// Log is the log of a phase.
type Log interface {
	io.Writer
	// Flush writes the text that is kept in memory.
	Flush() error
	// Fail writes why the phase has failed.
	Fail(err error)
}

// Options are what a queue needs. All are required.
type Options struct {
	Store *store.Store
	Now   func() time.Time
	Log   *slog.Logger
	// Plans and Applies bound the number of phases that are executed at the same time.
	Plans, Applies int
	// MaxDeaths is after how many deaths of the process that carried out a phase the phase is not begun again.
	MaxDeaths   int
	Transitions Transitions
	Phases      Phases
	Logs        Logs
	// Tell is called with each run that has changed, as it is now. It must not block.
	Tell func(*record.Run)
}

// Queue advances runs: after every change it determines the due steps, and has the engine carry out phases. Call Run
// once. Safe for concurrent use.
type Queue struct {
	store          *store.Store
	now            func() time.Time
	log            *slog.Logger
	plans, applies int
	maxDeaths      int
	transitions    Transitions
	phases         Phases
	logs           Logs
	tell           func(*record.Run)

	wakeups chan struct{}
	jobs    sync.WaitGroup // the goroutines that carry out phases
	halted  chan struct{}  // closed when the service shuts down

	mu      sync.Mutex             // guards the fields below
	active  map[string]*record.Run // its runs are never modified, only replaced
	ordered []*record.Run          // the runs of active by creation time; nil when outdated
	running map[string]*Job
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

// New returns a queue without runs.
func New(o Options) *Queue {
	return &Queue{
		store: o.Store, now: o.Now, log: o.Log, plans: o.Plans, applies: o.Applies, maxDeaths: o.MaxDeaths,
		transitions: o.Transitions,
		phases:      o.Phases, logs: o.Logs, tell: o.Tell,
		wakeups: make(chan struct{}, 1), halted: make(chan struct{}),
		active: map[string]*record.Run{}, running: map[string]*Job{}, changing: map[string]int{},
		repeated: map[string]int{}, served: map[string]time.Time{}, seen: map[string]turn.ClientReads{},
		news: make(chan struct{}), followed: map[string]chan struct{}{},
	}
}

// Wake makes the queue look for due steps.
func (q *Queue) Wake() {
	select {
	case q.wakeups <- struct{}{}:
	default: // it is already woken
	}
}

// Changed updates the queue's copy of a run after a committed change, including its creation. It reads the run
// from the store, because two changes may be reported here in the reverse order of their commits.
func (q *Queue) Changed(id string) {
	q.mu.Lock()
	var r *record.Run
	err := q.store.View(func(tx *store.Tx) (err error) { // under q.mu: copies must be updated in order
		r, err = tables.Runs.Get(tx, id)
		return err
	})
	abandoned := err == nil && r.Status.Final() && q.running[id] == nil
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
	if abandoned {
		q.logs.Abandon(r)
	}
	if err == nil {
		q.tell(r)
	}
	q.Wake()
}

// RequireReread makes the queue read all runs again before its next step.
func (q *Queue) RequireReread() {
	q.mu.Lock()
	q.unsure = true
	q.mu.Unlock()
	q.Wake()
}

// rereadRuns reads the runs again from the store after a change of them has failed, because a failed change may
// have been committed all the same. A phase that is in progress according to the store, but that no job carries
// out, is started as after a restart of the service. If the last reading was too recent, rereadRuns returns the
// time of the next attempt: a disk that refuses one change is likely to refuse the next one too.
func (q *Queue) rereadRuns(ctx context.Context) (time.Time, error) {
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
		all, err := q.ActiveRuns()
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
			q.begin(ctx, r, true, false)
		}
	}
}

// Forget removes the data about a deleted workspace.
func (q *Queue) Forget(workspace string) {
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

// Stop asks the job of a run to end: it interrupts the running operations and records their results.
func (q *Queue) Stop(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if j := q.running[id]; j != nil {
		j.stop(work.ErrCanceled)
	}
}

// Abandon asks the job of a run to end without waiting for its operations.
func (q *Queue) Abandon(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if j := q.running[id]; j != nil {
		j.left = true
		j.stop(work.ErrCanceled)
		j.leave()
	}
}

// Run advances runs until ctx ends.
func (q *Queue) Run(ctx context.Context) error {
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
func (q *Queue) halt() {
	q.mu.Lock()
	q.stopped = true
	close(q.halted)
	for _, j := range q.running {
		j.stop(work.ErrSuspended)
	}
	q.mu.Unlock()
	q.jobs.Wait()
}

// Suspend stops the runs in progress in a workspace, or in all workspaces if workspace is empty.
func (q *Queue) Suspend(workspace string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for id, j := range q.running {
		if r := q.active[id]; r != nil && (workspace == "" || r.Workspace == workspace) {
			j.suspended = true
			j.stop(work.ErrSuspended)
		}
	}
}

// ActiveRuns reads the runs that have not ended.
func (q *Queue) ActiveRuns() (all []*record.Run, err error) {
	err = q.store.View(func(tx *store.Tx) error {
		for _, id := range tables.Runs.List(tx, "active", tables.Everywhere) {
			r, err := tables.Runs.Get(tx, id)
			if err != nil {
				return err
			}
			all = append(all, r)
		}
		return nil
	})
	return all, err
}

// TakeTurns determines the time of the last turn of each workspace with active runs.
func (q *Queue) TakeTurns(active []*record.Run) error {
	return q.store.View(func(tx *store.Tx) error {
		for _, a := range active {
			if _, known := q.served[a.Workspace]; known {
				continue
			}
			var last time.Time
			for _, id := range append(tables.Runs.Newest(tx, "workspace", lastTurns, a.Workspace), a.ID) {
				r, err := tables.Runs.Get(tx, id)
				if err != nil {
					return err
				}
				if began := r.Times[record.Planning]; began.After(last) {
					last = began
				}
			}
			q.served[a.Workspace] = last
		}
		return nil
	})
}

// lastTurns is how many runs of a workspace are read to determine its last turn.
const lastTurns = 10
