// Package drift watches workspaces for drift: it reads their objects in batches, and records those that differ from the
// state.
//
// It writes no state, and does not read objects itself: the engine does.
package drift

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/millipede-iac/millipede/service/outline"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/service/work"
)

// Outlines has the outlines of states and plans.
type Outlines interface {
	// State returns the outline of a version of a state, and Plan that of the plan of a run.
	State(v *record.StateVersion) (*outline.State, error)
	Plan(r *record.Run) (*outline.Plan, error)
}

// Options are what watching for drift needs. All are required.
type Options struct {
	Store  *store.Store
	Now    func() time.Time
	Log    *slog.Logger
	Engine work.Engine
	// Reads is how many objects are read at the same time.
	Reads    int
	Outlines Outlines
	// Work calls fn with the job of an engine that works with the configuration and the variables of a run. The output
	// of the engine goes to the log.
	Work func(ctx context.Context, r *record.Run, log io.Writer, fn func(*work.Job) error) error
	// PlansWait reports whether plans wait for others: then no batch begins.
	PlansWait func() bool
	// Deliver records the deliveries of a notification to the receivers of a workspace.
	Deliver func(tx *store.Tx, workspace string, d record.Delivery) error
	// Changed publishes the change of a workspace once it is committed.
	Changed func(tx *store.Tx, w *record.Workspace)
	// CreateRun queues a run of a workspace.
	CreateRun func(a *rights.Actor, workspace string, r record.Run) (*record.Run, error)
}

// Findings has what was found in workspaces that are watched for drift: objects that differ from the state.
type Findings struct{ o Options }

// New returns the findings in the store.
func New(o Options) *Findings { return &Findings{o} }

// noteBatch records the result of reading a batch. The state may have changed since the batch was chosen: the
// result is discarded for an object that has changed in the state, and for one that a running apply may change.
func (s *Findings) noteBatch(b *batch, found []work.Found, failure string) error {
	touched, err := s.touched(b)
	if err != nil {
		return err
	}
	now, err := s.currentSums(b.workspace.ID, b)
	if err != nil {
		return err
	}
	moment := s.o.Now().UTC()
	byAddress := map[string]work.Found{}
	for _, f := range found {
		byAddress[f.Address] = f
	}
	return s.o.Store.Update(func(tx *store.Tx) error {
		w, err := tables.Workspaces.Get(tx, b.workspace.ID)
		if err != nil || w.DriftPeriod == 0 {
			return err
		}
		known, err := tables.Watches.Get(tx, w.ID)
		if errors.Is(err, store.ErrNotFound) {
			known, err = &record.Watch{Workspace: w.ID}, nil
		}
		if err != nil {
			return err
		}
		why, err := whyUnwatched(tx, w)
		if err != nil {
			return err
		}
		advance(known, b)
		before := len(known.Drifted)
		dropped := known.Settle(func(d *record.Drift) bool {
			if sum, is := now[d.Address]; !is || sum != d.Sum {
				return false
			}
			_, drifted := byAddress[d.Address]
			_, read := slices.BinarySearch(b.addresses, d.Address)
			return !read || drifted || failure != "" || why != "" || touched(d.Address)
		})
		fresh := 0
		for _, address := range b.addresses {
			f, drifted := byAddress[address]
			sum, is := now[address]
			if !drifted || !is || sum != b.sums[address] || why != "" || touched(address) {
				continue
			}
			if known.Found(record.Drift{Address: address, Gone: f.Gone, Since: moment, Seen: moment, Sum: sum,
				Attributes: f.Attributes[:min(len(f.Attributes), maxAttributes)]}) {
				fresh++
			}
		}
		failed := failure != "" && known.Failure == ""
		if known.Failure = failure; failure == "" {
			known.Failed = time.Time{}
		} else if failed {
			known.Failed = moment
		}
		if err := s.notify(tx, known, fresh > 0, failed); err != nil {
			return err
		}
		if fresh > 0 || dropped || failed || before != len(known.Drifted) {
			s.o.Changed(tx, w)
		}
		return tables.Watches.Put(tx, known)
	})
}

// advance moves the cursor past a batch.
func advance(known *record.Watch, b *batch) {
	known.Objects, known.Batch = b.objects, b.began
	if b.after == "" {
		if known.Cursor != "" { // the objects after it are gone
			known.Ended = b.began
		}
		known.Began, known.More = b.began, 0
	}
	known.Cursor = ""
	if n := len(b.addresses); n > 0 {
		upto := b.addresses[n-1]
		known.Pass(b.after, upto, b.last, b.began)
		if !b.last {
			known.Cursor = upto
		}
	}
	if known.Cursor == "" {
		known.Ended = b.began
	}
}

// notify records the notifications about the findings of a batch.
func (s *Findings) notify(tx *store.Tx, known *record.Watch, drifted, failed bool) error {
	n := len(known.Drifted) + known.More
	d := record.Delivery{Drifted: n, Undrifted: max(0, known.Objects-n)}
	if failed {
		d.Trigger, d.Message = record.TriggerUnread, "Assessment Failed"
		if err := s.o.Deliver(tx, known.Workspace, d); err != nil {
			return err
		}
	}
	if !drifted {
		return nil
	}
	d.Trigger, d.Message = record.TriggerDrift, "Drift Detected"
	return s.o.Deliver(tx, known.Workspace, d)
}

// touched returns a function that reports whether an apply that ran while a batch was read has changed, or may
// have changed, the object at an address.
func (s *Findings) touched(b *batch) (func(address string) bool, error) {
	var applies []*record.Run
	err := s.o.Store.View(func(tx *store.Tx) error {
		for _, id := range tables.Runs.Newest(tx, "workspace", maxWatchedWith, b.workspace.ID) {
			r, err := tables.Runs.Get(tx, id)
			if err != nil {
				return err
			}
			if !r.Apply.Started.IsZero() && (r.Apply.Ended.IsZero() || !r.Apply.Ended.Before(b.began)) {
				applies = append(applies, r)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	all := map[string]bool{}
	for _, r := range applies {
		p, err := s.o.Outlines.Plan(r)
		if err != nil {
			return func(string) bool { return true }, nil //nolint:nilerr // its changes are unknown
		}
		for i := range p.Changes {
			all[p.Changes[i].Address] = true
		}
	}
	return func(address string) bool { return all[address] }, nil
}

// currentSums returns the digests of the objects in the current state of a workspace. b is a batch that may
// have them already.
func (s *Findings) currentSums(workspace string, b *batch) (map[string]uint64, error) {
	var v *record.StateVersion
	err := s.o.Store.View(func(tx *store.Tx) error {
		w, err := tables.Workspaces.Get(tx, workspace)
		if err == nil && w.CurrentState != "" {
			v, err = tables.StateVersions.Get(tx, w.CurrentState)
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case v == nil || v.Encrypted:
		return nil, nil
	case b != nil && v.ID == b.state:
		return b.sums, nil
	}
	o, err := s.o.Outlines.State(v)
	if err != nil {
		return nil, err
	}
	return sumsOf(o), nil
}

// Settle discards the findings about objects that a new version of a state no longer has, or has changed.
func (s *Findings) Settle(v *record.StateVersion) error {
	var known *record.Watch
	err := s.o.Store.View(func(tx *store.Tx) (err error) { known, err = tables.Watches.Get(tx, v.Workspace); return err })
	if errors.Is(err, store.ErrNotFound) || err == nil && len(known.Drifted) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	now, err := s.currentSums(v.Workspace, nil)
	if err != nil {
		return err
	}
	return s.o.Store.Update(func(tx *store.Tx) error {
		known, err := tables.Watches.Get(tx, v.Workspace)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if !known.Settle(func(d *record.Drift) bool { sum, is := now[d.Address]; return is && sum == d.Sum }) {
			return nil
		}
		w, err := tables.Workspaces.Get(tx, v.Workspace)
		if err != nil {
			return err
		}
		s.o.Changed(tx, w)
		return tables.Watches.Put(tx, known)
	})
}

// Drop removes the findings about a workspace that is no longer watched.
func (s *Findings) Drop(tx *store.Tx, workspace string) error {
	tx.After(func() {
		if err := os.RemoveAll(s.watchDir(workspace)); err != nil { // the next start of the service removes it
			s.o.Log.Warn("cannot remove an unused directory", "workspace", workspace, "error", err)
		}
	})
	if _, err := tables.Watches.Get(tx, workspace); errors.Is(err, store.ErrNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	return tables.Watches.Delete(tx, workspace)
}

// Watched is the result of watching a workspace for drift, for users.
type Watched struct {
	record.Watch
	Period time.Duration
	// Oldest is the time of the oldest reading of an object; zero until every object has been read.
	Oldest time.Time
	// Unwatched is the reason why nothing is being read at present; empty while the workspace is being read.
	Unwatched string
}

// Watched returns the result of watching a workspace for drift. The actor needs the right to read the state.
func (s *Findings) Watched(a *rights.Actor, workspace string) (out *Watched, err error) {
	err = s.o.Store.View(func(tx *store.Tx) error {
		w, err := a.Allowed(tx, workspace, rights.ReadState)
		if err != nil {
			return err
		}
		out = &Watched{Period: w.DriftPeriod}
		if w.DriftPeriod == 0 {
			return nil
		}
		known, err := tables.Watches.Get(tx, w.ID)
		if err == nil {
			out.Watch, out.Oldest = *known, known.Oldest()
		} else if !errors.Is(err, store.ErrNotFound) {
			return err
		}
		out.Unwatched, err = whyUnwatched(tx, w)
		return err
	})
	return out, tables.Translated(err)
}

// Count returns how many objects of a workspace are known to have drifted.
func Count(tx *store.Tx, w *record.Workspace) (int, error) {
	if w.DriftPeriod == 0 {
		return 0, nil
	}
	known, err := tables.Watches.Get(tx, w.ID)
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return len(known.Drifted) + known.More, nil
}

// TakeOver makes a refresh-only run of the current configuration, which writes the drift of the objects into
// the state. The actor needs the rights that any run needs.
func (s *Findings) TakeOver(a *rights.Actor, workspace string) (*record.Run, error) {
	return s.o.CreateRun(a, workspace, record.Run{Refresh: true, RefreshOnly: true, Source: record.SourceAPI,
		Message: "Take over what has drifted"})
}

// Totals has the totals of watching for drift in the whole service.
type Totals struct {
	Workspaces, Objects, Drifted, Failing int
	// Oldest is the time of the oldest reading of an object, among the workspaces that have been read
	// completely at least once; zero if there are none.
	Oldest time.Time
}

// Tally returns the totals of watching for drift.
func (s *Findings) Tally() (t Totals, err error) {
	err = s.o.Store.View(func(tx *store.Tx) error {
		for known, err := range tables.Watches.All(tx) {
			if err != nil {
				return err
			}
			t.Workspaces++
			t.Objects += known.Objects
			t.Drifted += len(known.Drifted) + known.More
			if known.Failure != "" {
				t.Failing++
			}
			if at := known.Oldest(); !at.IsZero() && (t.Oldest.IsZero() || at.Before(t.Oldest)) {
				t.Oldest = at
			}
		}
		return nil
	})
	return t, tables.Translated(err)
}
