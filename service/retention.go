package service

import (
	"context"
	"slices"
	"time"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
)

// Keep says what is kept of what is over. The zero value keeps everything.
type Keep struct {
	// Runs and States are how many ended runs, and how many versions of its state, a workspace keeps; 0 for all.
	// Configurations go with the runs that need them.
	Runs, States int
	// For is how old what goes is at least.
	For time.Duration
}

// everything tells that nothing goes.
func (k Keep) everything() bool { return k.Runs == 0 && k.States == 0 }

const (
	// sweepEvery is how often what is over is looked through.
	sweepEvery = time.Hour
	// sweepMost bounds what one change removes.
	sweepMost = 200
	// configurationTerm is how old a configuration is at least that goes because no run needs it: one may be about to.
	configurationTerm = 24 * time.Hour
)

// sweep removes what is not to be kept any more, now and then, until ctx ends.
func (s *Service) sweep(ctx context.Context) {
	if s.opts.Keep.everything() {
		return
	}
	again := time.NewTicker(sweepEvery)
	defer again.Stop()
	for {
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.log.Error("what is over could not be removed; it is tried again", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
	}
}

// Sweep removes the runs, configurations and versions of states that are not to be kept any more. It is called by Run,
// too.
func (s *Service) Sweep(ctx context.Context) error {
	var all []string
	err := s.store.View(func(tx *store.Tx) error {
		for w, err := range workspaces.All(tx) {
			if err != nil {
				return err
			}
			all = append(all, w.ID)
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

// sweepWorkspace removes some of a workspace, and tells whether there may be more. The files go once it is durable that
// nothing names them.
func (s *Service) sweepWorkspace(id string) (more bool, err error) {
	if files, err := s.surplus(id, nil); err != nil || len(files) == 0 {
		return false, err // most have none, and nothing is written then
	}
	err = s.store.Update(func(tx *store.Tx) error {
		more = false
		files, err := s.surplus(id, tx)
		if err != nil || len(files) == 0 {
			return err
		}
		more = true
		tx.After(func() {
			for _, name := range files {
				if err := s.store.Remove(name); err != nil {
					s.log.Warn("a file that nothing needs could not be removed", "file", name, "error", err)
				}
			}
		})
		return nil
	})
	return more, err
}

// surplus returns the files of what goes, and, where tx is not nil, removes the records.
func (s *Service) surplus(id string, tx *store.Tx) (files []string, err error) {
	if tx == nil {
		err = s.store.View(func(tx *store.Tx) error { files, err = s.surplusIn(tx, id, false); return err })
		return files, err
	}
	return s.surplusIn(tx, id, true)
}

// keeps tells whether the nth newest is among those that are kept; most is 0 for all.
func (s *Service) keeps(n, most int) bool { return most == 0 || n <= most }

func (s *Service) surplusIn(tx *store.Tx, id string, remove bool) (files []string, err error) {
	w, err := workspaces.Get(tx, id)
	if err != nil {
		return nil, nil //nolint:nilerr // it was deleted meanwhile
	}
	before := s.now().Add(-s.opts.Keep.For)
	needed := map[string]bool{w.CurrentConfiguration: true}
	var current *record.StateVersion
	if w.CurrentState != "" {
		if current, err = stateVersions.Get(tx, w.CurrentState); err != nil {
			return nil, err
		}
	}
	ended := 0
	for _, id := range slices.Backward(runs.List(tx, "workspace", w.ID)) {
		r, err := runs.Get(tx, id)
		if err != nil {
			return nil, err
		}
		if r.Status.Final() {
			ended++
		}
		refers := r.ID == w.CurrentRun || r.ID == w.DoubtsOf || r.ID == w.Lock.ID || current != nil && current.Run == r.ID
		young := !r.Times[r.Status].Before(before)
		if !r.Status.Final() || refers || young || s.keeps(ended, s.opts.Keep.Runs) || len(files) > sweepMost {
			needed[r.Configuration] = true
			continue
		}
		files = append(files, runFiles(r)...)
		if remove {
			if err := s.dropRun(tx, r); err != nil {
				return nil, err
			}
		}
	}
	for _, id := range configurations.List(tx, "workspace", w.ID) {
		c, err := configurations.Get(tx, id)
		if err != nil {
			return nil, err
		}
		young := !c.CreatedAt.Before(before) || s.now().Sub(c.CreatedAt) < configurationTerm
		if needed[id] || young || s.opts.Keep.Runs == 0 || len(files) > sweepMost {
			continue
		}
		files = append(files, configurationFile(id))
		if remove {
			if err := configurations.Delete(tx, id); err != nil {
				return nil, err
			}
		}
	}
	states := 0
	for _, id := range slices.Backward(stateVersions.List(tx, "workspace", w.ID)) {
		v, err := stateVersions.Get(tx, id)
		if err != nil {
			return nil, err
		}
		whole := v.Status == record.StateFinalized
		if whole {
			states++
		}
		young := !v.CreatedAt.Before(before) || !whole && s.now().Sub(v.CreatedAt) < uploadTerm
		if id == w.CurrentState || young || whole && s.keeps(states, s.opts.Keep.States) || len(files) > sweepMost {
			continue
		}
		files = append(files, stateFiles(id)...)
		if remove {
			if err := stateVersions.Delete(tx, id); err != nil {
				return nil, err
			}
		}
	}
	return files, nil
}
