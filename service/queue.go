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
)

// The sources of runs: which kind of client asked.
const (
	SourceCLI = "tfe-configuration-version" // a command line that follows its run
	SourceAPI = "tfe-api"
)

// queue gets runs on: it looks at the board after every change, and has the engine carry out the phases.
type queue struct {
	s       *Service
	wakeups chan struct{}
	jobs    sync.WaitGroup // the goroutines of phases
	halted  chan struct{}  // closed when the service ends

	mu      sync.Mutex             // guards what follows
	active  map[string]*record.Run // nobody changes what is in it
	ordered []*record.Run          // the same in order of creation; nil when it is to be made anew
	running map[string]*job
	// repeated are the runs whose phase under way this process has carried out before, with how often that was perhaps in
	// vain; see again.
	repeated map[string]int
	served   map[string]time.Time
	seen     map[string]sighting
	stopped  bool
	unsure   bool          // what is known of the runs may not be what the store holds
	reread   time.Time     // not before that they are read again
	news     chan struct{} // closed when a run has changed
	changes  uint64
	// followed are runs of which somebody waits for the next change, or for a log: that closes the channel.
	followed map[string]chan struct{}
}

// job is a phase that the engine carries out.
type job struct {
	stop      context.CancelCauseFunc
	leave     context.CancelFunc
	left      bool // it was left by somebody's wish
	suspended bool // it was stopped by somebody's wish, and is to go on
	doubts    seenDoubts
	waits     Wait // for objects; the zero value is for none
}

func newQueue(s *Service) *queue {
	return &queue{
		s: s, wakeups: make(chan struct{}, 1), active: map[string]*record.Run{}, running: map[string]*job{},
		repeated: map[string]int{},
		served:   map[string]time.Time{}, seen: map[string]sighting{}, news: make(chan struct{}),
		halted: make(chan struct{}), followed: map[string]chan struct{}{},
	}
}

// wake has the board looked at.
func (q *queue) wake() {
	select {
	case q.wakeups <- struct{}{}:
	default: // it will be
	}
}

// changed takes in what has become of a run, a new one too, once that is durable. It reads the run, because whoever has
// changed it first may come here last.
func (q *queue) changed(id string) {
	q.mu.Lock()
	var r *record.Run
	err := q.s.store.View(func(tx *store.Tx) (err error) { // under the lock: what is read later is noted later
		r, err = runs.Get(tx, id)
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
	q.spread(id)
	q.mu.Unlock()
	if err == nil {
		q.s.tell(r)
	}
	q.wake()
}

// doubt has the runs read again before the next step.
func (q *queue) doubt() {
	q.mu.Lock()
	q.unsure = true
	q.mu.Unlock()
	q.wake()
}

// makeSure takes the runs from the store, when a change of them has failed: it may have been made all the same. A phase
// that the store says is under way, and nobody carries out, is begun as after a start of the service. It returns when
// to try again, if it is too soon: a disk that refuses one change refuses the next one too.
func (q *queue) makeSure(ctx context.Context) (time.Time, error) {
	for {
		q.mu.Lock()
		unsure, changes, soonest := q.unsure, q.changes, q.reread
		q.mu.Unlock()
		now := q.s.now()
		switch {
		case !unsure:
			return time.Time{}, nil
		case now.Before(soonest):
			return soonest, nil
		}
		all, err := q.s.activeRuns()
		if err != nil {
			return time.Time{}, err
		}
		q.mu.Lock()
		if q.changes != changes { // what was read may be old by now
			q.mu.Unlock()
			continue
		}
		q.unsure, q.reread = false, now.Add(time.Second)
		q.active = map[string]*record.Run{}
		var left []*record.Run
		for _, r := range all {
			q.active[r.ID] = r
			if r.Status == record.Planning && q.running[r.ID] == nil { // applies are left to goOn
				left = append(left, r)
			}
		}
		q.spread(slices.Collect(maps.Keys(q.followed))...)
		q.mu.Unlock()
		for _, r := range left {
			q.begin(ctx, r, false)
		}
	}
}

// forget drops what is known of a workspace that was deleted.
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
	q.spread(gone...)
}

// stop asks a run under way to end; leave does not wait for it.
func (q *queue) stop(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if j := q.running[id]; j != nil {
		j.stop(errCanceled)
	}
}

func (q *queue) leave(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if j := q.running[id]; j != nil {
		j.left = true
		j.stop(errCanceled)
		j.leave()
	}
}

// run gets runs on until ctx ends.
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
			q.s.log.Error("the queue of runs cannot get on; it is tried again", "error", err)
			next = q.s.now().Add(time.Second)
		}
		if !next.IsZero() {
			timer.Reset(max(0, next.Sub(q.s.now())))
		}
	}
}

// halt takes on nothing new, stops what is under way, and waits for it. It is gone on with when the service starts
// again.
func (q *queue) halt() {
	q.mu.Lock()
	q.stopped = true
	close(q.halted)
	for _, j := range q.running {
		j.stop(ErrSuspended)
	}
	q.mu.Unlock()
	q.jobs.Wait()
}
