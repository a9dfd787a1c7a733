package service

import (
	"context"
	"errors"
	"time"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// vacating is how long a deletion waits for canceled plans to end.
const vacating = 30 * time.Second

// Remove deletes a workspace even if it still manages objects or is locked. It first cancels the runs
// that are planning, which is safe because plans change nothing, and waits for them to end. While a run
// applies, the error wraps ErrConflict: the objects that it creates would be lost.
func (s *Workspaces) Remove(ctx context.Context, a *rights.Actor, id string) error {
	ctx, cancel := context.WithTimeout(ctx, vacating)
	defer cancel()
	canceled := map[string]bool{}
	for {
		before := s.queue.LastChange()
		plans, err := s.plansToEnd(a, id)
		if err != nil {
			return err
		}
		if len(plans) == 0 || ctx.Err() != nil {
			err := s.Delete(a, id, false)
			if !errors.Is(err, tables.ErrConflict) || ctx.Err() != nil {
				return err
			}
			if plans, _ = s.plansToEnd(a, id); len(plans) == 0 {
				return err // a run applies
			}
		}
		for _, run := range plans { // one of them may just have started
			if canceled[run] {
				continue
			}
			canceled[run] = true
			err := s.runs.Cancel(a, run, "The workspace is deleted.")
			if err != nil && !errors.Is(err, tables.ErrConflict) { // ErrConflict: the run has ended meanwhile
				return err
			}
		}
		s.runs.Changed(ctx, before)
	}
}

// plansToEnd returns the runs of a workspace that are planning, or none if a run is applying: the deletion is
// then refused, and must not cancel anything.
func (s *Workspaces) plansToEnd(a *rights.Actor, id string) (plans []string, err error) {
	err = s.store.View(func(tx *store.Tx) error {
		w, err := a.Allowed(tx, id, rights.Delete)
		if err != nil {
			return err
		}
		for _, run := range tables.Runs.List(tx, "workspace", w.ID) {
			r, err := tables.Runs.Get(tx, run)
			switch {
			case err != nil:
				return err
			case r.Status == record.Planning:
				plans = append(plans, r.ID)
			case r.Status.Computes():
				plans = nil
				return nil
			}
		}
		return nil
	})
	return plans, err
}
