package service

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/service/outline"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
)

// Found is an object that is not as the state has it. Where it is not gone, Attributes are the names of those that
// differ.
type Found struct {
	Address    string
	Gone       bool
	Attributes []string
}

const (
	// roundBatches is in how many batches a workspace is read through, unless they were smaller than minBatch, or began
	// more often than every minGap: each loads configuration and state.
	roundBatches = 40
	minBatch     = 50
	minGap       = 5 * time.Second
	// batchesAtOnce is how many batches go on at a time; they share the reads of the service.
	batchesAtOnce = 2
	// watchTick is how often is looked what is due, while anything is watched.
	watchTick = time.Second
	// maxAttributes is how many names of attributes are kept of a drifted object.
	maxAttributes = 50
)

// watcher reads the workspaces that have a period through, a batch at a time.
type watcher struct {
	s       *Service
	wakeups chan struct{}
	jobs    sync.WaitGroup

	mu   sync.Mutex           // guards busy
	busy map[string]time.Time // workspaces with a batch under way, and since when
}

func newWatcher(s *Service) *watcher {
	return &watcher{s: s, wakeups: make(chan struct{}, 1), busy: map[string]time.Time{}}
}

func (x *watcher) wake() {
	select {
	case x.wakeups <- struct{}{}:
	default: // it will look
	}
}

// run reads until ctx ends, and waits for the batches that are under way then: they are given up, and read again after
// the next start.
func (x *watcher) run(ctx context.Context) {
	defer x.jobs.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-x.wakeups:
		case <-timer.C:
		}
		watches, err := x.advance(ctx)
		if err != nil {
			x.s.log.Error("the workspaces that are watched cannot be read; it is tried again", "error", err)
		}
		if watches || err != nil {
			timer.Reset(watchTick)
		}
	}
}

// due is a workspace whose next batch is due.
type due struct {
	workspace string
	at        time.Time
}

// advance begins the batches that are due, those first that are due for longest. watches tells whether anything is
// watched at all.
func (x *watcher) advance(ctx context.Context) (watches bool, err error) {
	now := x.s.now()
	var list []due
	err = x.s.store.View(func(tx *store.Tx) error {
		for w, err := range workspaces.LookThrough(tx) {
			if err != nil {
				return err
			}
			if w.DriftPeriod == 0 {
				continue
			}
			watches = true
			known, err := watchings.Look(tx, w.ID)
			if errors.Is(err, store.ErrNotFound) {
				known = &record.Watch{}
			} else if err != nil {
				return err
			}
			if at := nextBatch(w, known); !at.After(now) {
				list = append(list, due{w.ID, at})
			}
		}
		return nil
	})
	if err != nil || len(list) == 0 || x.s.queue.plansWait() {
		return watches, err
	}
	slices.SortFunc(list, func(a, b due) int {
		return cmp.Or(a.at.Compare(b.at), strings.Compare(a.workspace, b.workspace))
	})
	for _, d := range list {
		if !x.take(d.workspace) {
			continue
		}
		b, err := x.choose(d.workspace)
		if err != nil || b == nil {
			x.leave(d.workspace)
			if err != nil {
				x.s.log.Error("a workspace cannot be watched just now", "workspace", d.workspace, "error", err)
			}
			continue
		}
		x.jobs.Go(func() {
			defer x.wake()
			defer x.leave(b.workspace.ID)
			x.read(ctx, b)
		})
	}
	return watches, nil
}

// take notes that a batch of a workspace is under way, unless one is, or too many are.
func (x *watcher) take(workspace string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, is := x.busy[workspace]; is || len(x.busy) >= min(batchesAtOnce, x.s.opts.WatchReads) {
		return false
	}
	x.busy[workspace] = x.s.now()
	return true
}

func (x *watcher) leave(workspace string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.busy, workspace)
}

// spread is how long a round takes: nine tenths of the period, so that there is room for what comes between.
func spread(period time.Duration) time.Duration { return period - period/10 }

// batchSize is how many objects of n are read at a time.
func batchSize(n int, period time.Duration) int {
	batches := max(1, min(roundBatches, int(spread(period)/minGap)))
	return max(minBatch, (n+batches-1)/batches)
}

// nextBatch is when the next batch of a workspace is due.
func nextBatch(w *record.Workspace, known *record.Watch) time.Time {
	if known.Batch.IsZero() {
		return time.Time{}
	}
	size := batchSize(known.Objects, w.DriftPeriod)
	batches := max(1, (known.Objects+size-1)/size)
	return known.Batch.Add(spread(w.DriftPeriod) / time.Duration(batches))
}

// batch is what is read at once of a workspace.
type batch struct {
	workspace record.Workspace
	run       *record.Run // with whose configuration and variables
	state     string      // the version of the state that the objects are compared with
	began     time.Time
	objects   int // in all
	after     string
	addresses []string
	last      bool // of the round
	sums      map[string]uint64
}

// choose returns what is to be read next of a workspace; nil when nothing can be read just now.
func (x *watcher) choose(id string) (*batch, error) {
	b := &batch{began: x.s.now().UTC()}
	var v *record.StateVersion
	err := x.s.store.View(func(tx *store.Tx) error {
		w, err := workspaces.Get(tx, id)
		if err != nil {
			return err
		}
		b.workspace = *w
		if unwatched, err := whyUnwatched(tx, w); err != nil || unwatched != "" {
			return err
		}
		if b.run, err = watchedWith(tx, w); err != nil {
			return err
		}
		known, err := watchings.Get(tx, id)
		if err == nil {
			b.after = known.Cursor
		} else if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		v, err = stateVersions.Get(tx, w.CurrentState)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil //nolint:nilnil // it was removed meanwhile
	}
	if err != nil || v == nil {
		return nil, err
	}
	o, err := x.s.stateOutline(v)
	if err != nil {
		return nil, err
	}
	b.state, b.sums = v.ID, sumsOf(o)
	all := make([]string, 0, len(b.sums))
	for address := range b.sums {
		all = append(all, address)
	}
	slices.Sort(all)
	b.objects = len(all)
	from, found := slices.BinarySearch(all, b.after)
	if found {
		from++
	}
	if from == len(all) { // what was behind the cursor is not there any more: the next round begins
		b.after, from = "", 0
	}
	upto := min(len(all), from+batchSize(len(all), b.workspace.DriftPeriod))
	b.addresses, b.last = all[from:upto], upto == len(all)
	return b, nil
}

// sumsOf are the digests of the objects that are watched: managed ones, but those that were replaced and are still to
// be destroyed.
func sumsOf(o *outline.State) map[string]uint64 {
	sums := make(map[string]uint64, len(o.Objects))
	for i := range o.Objects {
		if x := &o.Objects[i]; x.Mode == "managed" && !strings.Contains(x.Address, " (deposed object ") {
			sums[x.Address] = x.Sum
		}
	}
	return sums
}

// whyUnwatched says why a workspace with a period is not read just now; empty when it is.
func whyUnwatched(tx *store.Tx, w *record.Workspace) (string, error) {
	halt, err := haltOf(tx, w.ID)
	if err != nil {
		return "", err
	}
	switch {
	case w.ExecutionMode == record.ModeLocal:
		return "its runs are carried out by command lines, so that the service has no configuration to read it with", nil
	case halt != nil:
		return "nothing starts: " + halt.Reason, nil
	case w.Lock.Held() && (w.Lock.Kind != "run" || w.Lock.Reason != ""):
		return lockedBy(tx, w), nil // whoever has it may be changing things that the service does not hear of
	case w.CurrentState == "":
		return "there is no state yet", nil
	}
	v, err := stateVersions.Get(tx, w.CurrentState)
	if err != nil {
		return "", err
	}
	if v.Encrypted {
		return "its state is encrypted by the configuration, so that the service cannot look into it", nil
	}
	if r, err := watchedWith(tx, w); err != nil || r == nil {
		return "no run has ended whose configuration it could be read with", err
	}
	return "", nil
}

// maxWatchedWith is among how many of the newest runs that one is looked for with which a workspace is read.
const maxWatchedWith = 200

// watchedWith returns the run with whose configuration and variables a workspace is read: the last that has applied
// something, else the last that could have; nil for none. One that goes on is not taken, because its token is its own.
func watchedWith(tx *store.Tx, w *record.Workspace) (other *record.Run, err error) {
	for _, id := range runs.Newest(tx, "workspace", maxWatchedWith, w.ID) {
		r, err := runs.Get(tx, id)
		if err != nil {
			return nil, err
		}
		switch {
		case !r.Status.Final() || r.PlanOnly || r.Configuration == "":
		case !r.Apply.Started.IsZero():
			return r, nil
		case other == nil && r.Status == record.PlannedAndFinished:
			other = r
		}
	}
	return other, nil
}

// plansWait tells whether plans of people wait for their turn to compute.
func (q *queue) plansWait() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range q.active {
		if r.Status == record.PlanQueued {
			return true
		}
	}
	return false
}

// maxWatchLog bounds what is kept of why objects could not be read, in bytes.
const maxWatchLog = 4 << 10

// read has the engine read a batch, and writes what it has found.
func (x *watcher) read(ctx context.Context, b *batch) {
	var found []Found
	var err error
	said := &limited{most: maxWatchLog}
	if len(b.addresses) > 0 {
		each := max(1, x.s.opts.WatchReads/batchesAtOnce)
		_, err = x.s.work(ctx, b.run, &job{}, said, false, func(job *Job) (any, error) {
			job.Structured = false
			job.Kept = filepath.Join(x.s.watchDir(b.workspace.ID), b.run.Configuration)
			if err := onlyKept(job.Kept); err != nil {
				return nil, err
			}
			var err error
			found, err = x.s.engine.Watch(ctx, job, b.addresses, each)
			return nil, err
		})
	}
	if ctx.Err() != nil {
		return // it is read again after the next start
	}
	failure := ""
	if err != nil {
		if failure = err.Error(); errors.Is(err, ErrReported) {
			failure = strings.TrimSpace(said.text.String())
		}
		failure = strings.ToValidUTF8(failure[:min(len(failure), maxWatchLog)], "")
	}
	if err := x.s.noteBatch(b, found, failure); err != nil && !errors.Is(err, store.ErrNotFound) {
		x.s.log.Error("what was read of a workspace cannot be written; it is read again", "workspace", b.workspace.ID,
			"error", err)
	}
}

// watchDir is where the configuration stays that a workspace is read with.
func (s *Service) watchDir(workspace string) string {
	return filepath.Join(s.store.Dir(), "scratch", "watch-"+workspace)
}

// onlyKept removes what batches with other configurations have left beside a directory that is kept.
func onlyKept(dir string) error {
	all, err := os.ReadDir(filepath.Dir(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range all {
		if e.Name() != filepath.Base(dir) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(filepath.Dir(dir), e.Name())))
		}
	}
	return err
}
