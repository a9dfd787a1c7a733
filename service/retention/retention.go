// Package retention removes the runs, configurations and state versions that need not be kept any longer.
//
// It does not remove the audit log, nor what a workspace still needs.
package retention

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// Options are what the removal of old records needs. All are required.
type Options struct {
	Store *store.Store
	Now   func() time.Time
	Log   *slog.Logger
	// Default is the retention of workspaces that have none of their own.
	Default record.Retention
	// DropRun removes the records of a run.
	DropRun func(tx *store.Tx, r *record.Run) error
}

// Sweeper removes expired records.
type Sweeper struct{ o Options }

// New returns the retention of the records in a store.
func New(o Options) *Sweeper { return &Sweeper{o} }

// of returns the retention of a workspace.
func (s *Sweeper) of(w *record.Workspace) record.Retention {
	if w.Retention != nil {
		return *w.Retention
	}
	return s.o.Default
}

// ParseAge parses the minimum age of removed records, such as 720h; 0 and the empty text mean none.
func ParseAge(text string) (time.Duration, error) {
	if text = strings.TrimSpace(text); text == "" {
		return 0, nil
	}
	age, err := time.ParseDuration(text)
	if err != nil || age < 0 {
		return 0, tables.Invalid("The age of what is removed must be a time with its unit, as in 720h, or 0")
	}
	return age, nil
}

// Default returns the retention of workspaces that have none of their own.
func (s *Sweeper) Default() record.Retention { return s.o.Default }

const (
	// sweepEvery is the interval between two sweeps.
	sweepEvery = time.Hour
	// sweepMost bounds the number of records that one transaction removes.
	sweepMost = 200
	// configurationTerm is the minimum age of an unused configuration that is removed: a run may be about to
	// use a younger one.
	configurationTerm = 24 * time.Hour
)

// SweepAlways removes expired records at intervals, until ctx ends.
func (s *Sweeper) SweepAlways(ctx context.Context) {
	again := time.NewTicker(sweepEvery)
	defer again.Stop()
	for {
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.o.Log.Error("cannot remove expired records; will retry", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
	}
}

// Sweep removes the runs, configurations and state versions that the retention of their workspaces no longer
// requires. SweepAlways also calls it.
func (s *Sweeper) Sweep(ctx context.Context) error {
	var all []string
	err := s.o.Store.View(func(tx *store.Tx) error {
		for w, err := range tables.Workspaces.All(tx) {
			if err != nil {
				return err
			}
			if !s.of(w).Everything() {
				all = append(all, w.ID)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, id := range all {
		for more := true; more; {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if more, err = s.sweepWorkspace(id); err != nil {
				return err
			}
		}
	}
	return nil
}

// sweepWorkspace removes some expired records of a workspace; more is true if there may be further ones. Files
// are removed after the removal of their records is committed.
func (s *Sweeper) sweepWorkspace(id string) (more bool, err error) {
	if files, err := s.surplus(id, nil); err != nil || len(files) == 0 {
		return false, err // most workspaces have none; then there is no write transaction
	}
	err = s.o.Store.Update(func(tx *store.Tx) error {
		more = false
		files, err := s.surplus(id, tx)
		if err != nil || len(files) == 0 {
			return err
		}
		more = true
		tx.After(func() {
			for _, name := range files {
				if err := s.o.Store.Remove(name); err != nil {
					s.o.Log.Warn("cannot remove an unused file", "file", name, "error", err)
				}
			}
		})
		return nil
	})
	return more, err
}

// surplus returns the files of expired records and, if tx is not nil, removes the records.
func (s *Sweeper) surplus(id string, tx *store.Tx) (files []string, err error) {
	if tx == nil {
		err = s.o.Store.View(func(tx *store.Tx) error { files, err = s.surplusIn(tx, id, false); return err })
		return files, err
	}
	return s.surplusIn(tx, id, true)
}

// amongKept reports whether the nth newest record is among the ones to keep; most is the number to keep, 0 for all.
func amongKept(n, most int) bool { return most == 0 || n <= most }

func (s *Sweeper) surplusIn(tx *store.Tx, id string, remove bool) (files []string, err error) {
	w, err := tables.Workspaces.Get(tx, id)
	if err != nil {
		return nil, nil // the workspace was deleted meanwhile
	}
	keep := s.of(w)
	if keep.Everything() {
		return nil, nil
	}
	before := s.o.Now().Add(-keep.For)
	needed := map[string]bool{w.CurrentConfiguration: true}
	var current *record.StateVersion
	if w.CurrentState != "" {
		if current, err = tables.StateVersions.Get(tx, w.CurrentState); err != nil {
			return nil, err
		}
	}
	ended := 0
	for _, id := range slices.Backward(tables.Runs.List(tx, "workspace", w.ID)) {
		r, err := tables.Runs.Get(tx, id)
		if err != nil {
			return nil, err
		}
		if r.Status.Final() {
			ended++
		}
		refers := r.ID == w.CurrentRun || r.ID == w.DoubtsOf || r.ID == w.Lock.ID || current != nil && current.Run == r.ID
		young := !r.Times[r.Status].Before(before)
		if !r.Status.Final() || refers || young || amongKept(ended, keep.Runs) || len(files) > sweepMost {
			needed[r.Configuration] = true
			continue
		}
		files = append(files, tables.RunFiles(r)...)
		if remove {
			if err := s.o.DropRun(tx, r); err != nil {
				return nil, err
			}
		}
	}
	for _, id := range tables.Configurations.List(tx, "workspace", w.ID) {
		c, err := tables.Configurations.Get(tx, id)
		if err != nil {
			return nil, err
		}
		young := !c.CreatedAt.Before(before) || s.o.Now().Sub(c.CreatedAt) < configurationTerm
		if needed[id] || young || keep.Runs == 0 || len(files) > sweepMost {
			continue
		}
		files = append(files, tables.ConfigurationFile(id))
		if remove {
			if err := tables.Configurations.Delete(tx, id); err != nil {
				return nil, err
			}
		}
	}
	states := 0
	for _, id := range slices.Backward(tables.StateVersions.List(tx, "workspace", w.ID)) {
		v, err := tables.StateVersions.Get(tx, id)
		if err != nil {
			return nil, err
		}
		whole := v.Status == record.StateFinalized
		if whole {
			states++
		}
		young := !v.CreatedAt.Before(before) || !whole && s.o.Now().Sub(v.CreatedAt) < record.UploadTerm
		if id == w.CurrentState || young || whole && amongKept(states, keep.States) || len(files) > sweepMost {
			continue
		}
		files = append(files, tables.StateFiles(id)...)
		if remove {
			if err := tables.StateVersions.Delete(tx, id); err != nil {
				return nil, err
			}
		}
	}
	return files, nil
}
