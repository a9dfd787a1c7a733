package drift

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
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/service/work"
)

const (
	// roundBatches is the number of batches in a round, unless that would make batches smaller than minBatch or
	// more frequent than every minGap: each batch loads the configuration and the state.
	roundBatches = 40
	minBatch     = 50
	minGap       = 5 * time.Second
	// batchesAtOnce bounds the batches in progress; they share Options.Reads.
	batchesAtOnce = 2
	// watchTick is the interval at which due batches are looked for, while any workspace is watched.
	watchTick = time.Second
	// maxAttributes bounds the names of attributes that are recorded of a drifted object.
	maxAttributes = 50
)

// Watcher reads all objects of the workspaces with a drift period, in batches.
type Watcher struct {
	o       Options
	drift   *Findings
	wakeups chan struct{}
	jobs    sync.WaitGroup

	mu   sync.Mutex           // guards busy
	busy map[string]time.Time // workspaces with a batch in progress, and its start
}

// NewWatcher returns a watcher that records what it finds. The caller calls Run once.
func NewWatcher(d *Findings) *Watcher {
	return &Watcher{o: d.o, drift: d, wakeups: make(chan struct{}, 1), busy: map[string]time.Time{}}
}

// Wake makes the watcher look for due batches.
func (x *Watcher) Wake() {
	select {
	case x.wakeups <- struct{}{}:
	default: // it is already woken
	}
}

// Run starts batches until ctx ends; then it cancels the batches in progress and waits for them. They are read
// again after the next start of the service.
func (x *Watcher) Run(ctx context.Context) {
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
			x.o.Log.Error("cannot read the watched workspaces; will retry", "error", err)
		}
		if watches || err != nil {
			timer.Reset(watchTick)
		}
	}
}

// due is a workspace with a due batch.
type due struct {
	workspace string
	at        time.Time
}

// advance starts the due batches, the ones that are due for the longest first. watches reports whether any
// workspace is watched.
func (x *Watcher) advance(ctx context.Context) (watches bool, err error) {
	now := x.o.Now()
	var list []due
	err = x.o.Store.View(func(tx *store.Tx) error {
		for w, err := range tables.Workspaces.LookThrough(tx) {
			if err != nil {
				return err
			}
			if w.DriftPeriod == 0 {
				continue
			}
			watches = true
			known, err := tables.Watches.Look(tx, w.ID)
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
	if err != nil || len(list) == 0 || x.o.PlansWait() {
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
				x.o.Log.Error("cannot watch a workspace at present", "workspace", d.workspace, "error", err)
			}
			continue
		}
		x.jobs.Go(func() {
			defer x.Wake()
			defer x.leave(b.workspace.ID)
			x.read(ctx, b)
		})
	}
	return watches, nil
}

// take records that a batch of a workspace is in progress. It returns false if there is one already, or if
// there are too many.
func (x *Watcher) take(workspace string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, is := x.busy[workspace]; is || len(x.busy) >= min(batchesAtOnce, x.o.Reads) {
		return false
	}
	x.busy[workspace] = x.o.Now()
	return true
}

func (x *Watcher) leave(workspace string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.busy, workspace)
}

// spread returns the planned duration of a round: nine tenths of the period, which leaves time for
// interruptions.
func spread(period time.Duration) time.Duration { return period - period/10 }

// batchSize returns the number of objects in a batch, for a workspace with n objects.
func batchSize(n int, period time.Duration) int {
	batches := max(1, min(roundBatches, int(spread(period)/minGap)))
	return max(minBatch, (n+batches-1)/batches)
}

// nextBatch returns the time of a workspace's next batch.
func nextBatch(w *record.Workspace, known *record.Watch) time.Time {
	if known.Batch.IsZero() {
		return time.Time{}
	}
	size := batchSize(known.Objects, w.DriftPeriod)
	batches := max(1, (known.Objects+size-1)/size)
	return known.Batch.Add(spread(w.DriftPeriod) / time.Duration(batches))
}

// batch is a set of objects of a workspace that are read together.
type batch struct {
	workspace record.Workspace
	run       *record.Run // the run whose configuration and variables are used
	state     string      // the state version with which the objects are compared
	began     time.Time
	objects   int // in the whole workspace
	after     string
	addresses []string
	last      bool // whether it is the last batch of the round
	sums      map[string]uint64
}

// choose returns the next batch of a workspace; nil if the workspace cannot be read at present.
func (x *Watcher) choose(id string) (*batch, error) {
	b := &batch{began: x.o.Now().UTC()}
	var v *record.StateVersion
	err := x.o.Store.View(func(tx *store.Tx) error {
		w, err := tables.Workspaces.Get(tx, id)
		if err != nil {
			return err
		}
		b.workspace = *w
		if unwatched, err := whyUnwatched(tx, w); err != nil || unwatched != "" {
			return err
		}
		if b.run, err = ReadWith(tx, w); err != nil {
			return err
		}
		known, err := tables.Watches.Get(tx, id)
		if err == nil {
			b.after = known.Cursor
		} else if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		v, err = tables.StateVersions.Get(tx, w.CurrentState)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil //nolint:nilnil // the workspace was deleted meanwhile
	}
	if err != nil || v == nil {
		return nil, err
	}
	o, err := x.o.Outlines.State(v)
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
	if from == len(all) { // the objects after the cursor are gone: the next round begins
		b.after, from = "", 0
	}
	upto := min(len(all), from+batchSize(len(all), b.workspace.DriftPeriod))
	b.addresses, b.last = all[from:upto], upto == len(all)
	return b, nil
}

// sumsOf returns the digests of the objects that are watched: all managed objects except deposed ones.
func sumsOf(o *outline.State) map[string]uint64 {
	sums := make(map[string]uint64, len(o.Objects))
	for i := range o.Objects {
		if x := &o.Objects[i]; x.Mode == "managed" && !strings.Contains(x.Address, " (deposed object ") {
			sums[x.Address] = x.Sum
		}
	}
	return sums
}

// whyUnwatched returns the reason why a workspace with a drift period is not read at present; empty if it is.
func whyUnwatched(tx *store.Tx, w *record.Workspace) (string, error) {
	halt, err := tables.HaltOf(tx, w.ID)
	if err != nil {
		return "", err
	}
	switch {
	case w.ExecutionMode == record.ModeLocal:
		return "its runs are executed by command lines, so the service has no configuration to read it with", nil
	case halt != nil:
		return "nothing starts: " + halt.Reason, nil
	case w.Lock.Held() && (w.Lock.Kind != "run" || w.Lock.Reason != ""):
		return tables.LockedBy(tx, w), nil // the holder may make changes that the service does not know of
	case w.CurrentState == "":
		return "there is no state yet", nil
	}
	v, err := tables.StateVersions.Get(tx, w.CurrentState)
	if err != nil {
		return "", err
	}
	if v.Encrypted {
		return "its state is encrypted by the configuration, so the service cannot read it", nil
	}
	if r, err := ReadWith(tx, w); err != nil || r == nil {
		return "there is no ended run whose configuration could be used to read it", err
	}
	return "", nil
}

// maxWatchedWith is how many of the newest runs ReadWith searches.
const maxWatchedWith = 200

// ReadWith returns the run whose configuration and variables are used to read a workspace: the last one that
// has applied, or else the last one that could have applied; nil if there is none. Runs in progress are
// skipped, because they use tokens of their own.
func ReadWith(tx *store.Tx, w *record.Workspace) (other *record.Run, err error) {
	for _, id := range tables.Runs.Newest(tx, "workspace", maxWatchedWith, w.ID) {
		r, err := tables.Runs.Get(tx, id)
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

// maxWatchLog bounds the error output that is kept when objects could not be read, in bytes.
const maxWatchLog = 4 << 10

// read makes the engine read a batch, and records the findings.
func (x *Watcher) read(ctx context.Context, b *batch) {
	var found []work.Found
	var err error
	said := &work.Output{Most: maxWatchLog}
	if len(b.addresses) > 0 {
		each := max(1, x.o.Reads/batchesAtOnce)
		err = x.o.Work(ctx, b.run, said, func(job *work.Job) error {
			job.Structured = false
			job.Kept = filepath.Join(x.drift.watchDir(b.workspace.ID), b.run.Configuration)
			if err := onlyKept(job.Kept); err != nil {
				return err
			}
			var err error
			found, err = x.o.Engine.Watch(ctx, job, b.addresses, each)
			return err
		})
	}
	if ctx.Err() != nil {
		return // the next start of the service reads the batch again
	}
	failure := ""
	if err != nil {
		if failure = err.Error(); errors.Is(err, work.ErrReported) {
			failure = strings.TrimSpace(said.String())
		}
		failure = strings.ToValidUTF8(failure[:min(len(failure), maxWatchLog)], "")
	}
	if err := x.drift.noteBatch(b, found, failure); err != nil && !errors.Is(err, store.ErrNotFound) {
		x.o.Log.Error("cannot record the result of a batch; will read it again", "workspace", b.workspace.ID,
			"error", err)
	}
}

// watchDir returns the directory in which the configuration for watching a workspace is kept.
func (s *Findings) watchDir(workspace string) string {
	return filepath.Join(s.o.Store.Dir(), "scratch", "watch-"+workspace)
}

// onlyKept removes the directories of other configurations beside the kept one.
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
