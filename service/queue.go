package service

import (
	"context"
	"errors"
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

	mu      sync.Mutex // guards what follows
	active  map[string]*record.Run
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
		halted: make(chan struct{}),
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
	q.changes++
	close(q.news)
	q.news = make(chan struct{})
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
		q.changes++
		close(q.news)
		q.news = make(chan struct{})
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
	for id, r := range q.active {
		if r.Workspace == workspace {
			delete(q.active, id)
			delete(q.seen, id)
		}
	}
	delete(q.served, workspace)
	q.changes++
	close(q.news)
	q.news = make(chan struct{})
}

// Seen notes that a client has looked at a run.
func (s *Service) Seen(id string) {
	q := s.queue
	q.mu.Lock()
	r := q.active[id]
	if r == nil {
		q.mu.Unlock()
		return
	}
	look := q.seen[id]
	look.last = s.now()
	if r.Status == record.Planned {
		look.reads++
	}
	q.seen[id] = look
	due := r.Status == record.Planned && r.AutoApply && look.reads >= holdReads
	q.mu.Unlock()
	if due {
		q.wake()
	}
}

// wait returns when a run may have got on. It returns false when the phase has ended, or never begins, or ctx has
// ended.
func (q *queue) wait(ctx context.Context, phase string) bool {
	q.mu.Lock()
	news := q.news
	waits := false
	for _, r := range q.active {
		waits = waits || r.Plan.ID == phase && r.Plan.Ended.IsZero() || r.Apply.ID == phase && r.Apply.Ended.IsZero()
	}
	q.mu.Unlock()
	if !waits {
		return false
	}
	select {
	case <-news:
		return true
	case <-ctx.Done():
		return false
	}
}

// Changed returns when a run, whichever, has changed since the number of changes that it is given, or ctx ends. It
// returns the number of changes so far.
func (s *Service) Changed(ctx context.Context, since uint64) uint64 {
	for {
		s.queue.mu.Lock()
		news, count := s.queue.news, s.queue.changes
		s.queue.mu.Unlock()
		if count > since {
			return count
		}
		select {
		case <-news:
		case <-ctx.Done():
			return count
		}
	}
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

// board makes the board of this moment.
func (q *queue) board() (*board, error) {
	q.mu.Lock()
	b := &board{
		now: q.s.now(), plans: q.s.opts.Plans, applies: q.s.opts.Applies, stopped: q.stopped,
		spaces: map[string]*record.Workspace{},
		served: map[string]time.Time{}, seen: map[string]sighting{}, halts: map[string]*record.Halt{},
		objects: map[string]Wait{},
	}
	for id, j := range q.running {
		if j.waits.Kind != "" {
			b.objects[id] = j.waits
		}
	}
	for _, r := range q.active {
		b.runs = append(b.runs, r)
		b.spaces[r.Workspace] = nil
	}
	for k, v := range q.served {
		b.served[k] = v
	}
	for k, v := range q.seen {
		b.seen[k] = v
	}
	q.mu.Unlock()
	slices.SortFunc(b.runs, func(x, y *record.Run) int { return int(x.Number) - int(y.Number) }) //nolint:gosec // they do not overflow
	err := q.s.store.View(func(tx *store.Tx) error {
		for id := range b.spaces {
			w, err := workspaces.Get(tx, id)
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return err
			}
			if err == nil {
				b.spaces[id] = w
			}
			h, err := haltOf(tx, id)
			if err != nil {
				return err
			}
			if h != nil {
				b.halts[id] = h
			}
		}
		return nil
	})
	return b, err
}

// Tally returns how many runs have not ended, by status.
func (s *Service) Tally() map[record.RunStatus]int {
	s.queue.mu.Lock()
	defer s.queue.mu.Unlock()
	out := map[record.RunStatus]int{}
	for _, r := range s.queue.active {
		out[r.Status]++
	}
	return out
}

// Waits returns what a run waits for.
func (s *Service) Waits(a *Actor, id string) (Wait, error) {
	v, err := s.FindRun(a, id)
	if err != nil {
		return Wait{}, err
	}
	b, err := s.queue.board()
	if err != nil {
		return Wait{}, err
	}
	return b.waits(&v.Run), nil
}

// Queue returns the runs of an organization that the actor may see and that have not ended, in their order.
func (s *Service) Queue(a *Actor, organization string) (out []*RunView, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		o, err := a.organization(tx, organization)
		if err != nil {
			return err
		}
		for _, id := range runs.List(tx, "active", everywhere) {
			v, err := a.runView(tx, id)
			if err == nil && v.Organization == o.Name {
				out = append(out, v)
			}
		}
		return nil
	})
	return out, told(err)
}

// recover takes in the runs that had not ended when the service did. A plan that was under way is made again, an apply
// is gone on with.
func (s *Service) recover() error {
	if err := s.releaseEnded(); err != nil {
		return err
	}
	if err := s.endRestored(); err != nil {
		return err
	}
	all, err := s.activeRuns()
	if err != nil {
		return err
	}
	if err := s.takeTurns(all); err != nil {
		return err
	}
	for _, r := range all {
		s.queue.changed(r.ID)
		if r.Status != record.Planning {
			continue
		}
		err := s.store.Update(func(tx *store.Tx) error {
			r, err := runs.Get(tx, r.ID)
			if err != nil {
				return err
			}
			r.Resumed++
			return s.enter(tx, r, record.EventPlanAgain, 0, "")
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// lastTurns is how many runs of a workspace are looked at to know when it had its turn.
const lastTurns = 10

// takeTurns reads when the workspaces whose runs have not ended had their turns last.
func (s *Service) takeTurns(active []*record.Run) error {
	return s.store.View(func(tx *store.Tx) error {
		for _, a := range active {
			if _, known := s.queue.served[a.Workspace]; known {
				continue
			}
			var last time.Time
			for _, id := range append(runs.Newest(tx, "workspace", lastTurns, a.Workspace), a.ID) {
				r, err := runs.Get(tx, id)
				if err != nil {
					return err
				}
				last = later(last, r.Times[record.Planning])
			}
			s.queue.served[a.Workspace] = last
		}
		return nil
	})
}

// activeRuns reads the runs that have not ended.
func (s *Service) activeRuns() (all []*record.Run, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		for _, id := range runs.List(tx, "active", everywhere) {
			r, err := runs.Get(tx, id)
			if err != nil {
				return err
			}
			all = append(all, r)
		}
		return nil
	})
	return all, err
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
