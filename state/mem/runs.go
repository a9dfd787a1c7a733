package mem

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/state/journal"
)

// BeginRun records a run and its plan.
func (s *Store) BeginRun(ctx context.Context, lockID string, r journal.Run, plan []byte) error {
	return s.change(ctx, "BeginRun", r.ID, func() error {
		if _, err := s.workspace(r.Workspace); err != nil {
			return err
		}
		request, err := s.fence(r.Workspace, lockID)
		if err != nil {
			return err
		}
		if s.disk.runs[r.ID] != nil {
			return fmt.Errorf("recording run %s: it exists already", r.ID)
		}
		if request != nil {
			s.disk.requests.Begun(r.Workspace, request.ID, r.ID)
		}
		s.disk.runs[r.ID] = &run{Run: r, plan: slices.Clone(plan)}
		return nil
	})
}

// EndRun records how a run ended, and removes the oldest ended ones.
func (s *Store) EndRun(ctx context.Context, lockID, id, status string, at time.Time) error {
	return s.change(ctx, "EndRun", id, func() error {
		r := s.disk.runs[id]
		if r == nil {
			return fmt.Errorf("run %s: %w", id, journal.ErrNoRun)
		}
		if _, err := s.fence(r.Workspace, lockID); err != nil {
			return err
		}
		s.endRun(r, journal.Ending{Status: status, At: at})
		return nil
	})
}

func (s *Store) endRun(r *run, end journal.Ending) {
	r.Status, r.Ended = end.Status, end.At
	ended := slices.DeleteFunc(s.runsOf(r.Workspace),
		func(r journal.Run) bool { return r.Status == journal.Running })
	for i, r := range ended {
		if i >= journal.KeptRuns {
			delete(s.disk.runs, r.ID)
		}
	}
}

// Runs lists the runs of a workspace, newest first.
func (s *Store) Runs(ctx context.Context, name string) (runs []journal.Run, err error) {
	err = s.look(ctx, func() error {
		if _, err := s.workspace(name); err != nil {
			return err
		}
		runs = s.runsOf(name)
		return nil
	})
	return runs, err
}

func (s *Store) runsOf(name string) []journal.Run {
	var runs []journal.Run
	for _, r := range s.disk.runs {
		if r.Workspace == name {
			runs = append(runs, r.Run)
		}
	}
	slices.SortFunc(runs, func(a, b journal.Run) int {
		if c := b.Started.Compare(a.Started); c != 0 {
			return c
		}
		return strings.Compare(b.ID, a.ID)
	})
	return runs
}

// RunPlan returns a run and its plan.
func (s *Store) RunPlan(ctx context.Context, id string) (r journal.Run, plan []byte, err error) {
	err = s.run(ctx, id, func(found *run) { r, plan = found.Run, slices.Clone(found.plan) })
	return r, plan, err
}

// Events returns the events of a run.
func (s *Store) Events(ctx context.Context, id string) (events []journal.Event, err error) {
	err = s.run(ctx, id, func(r *run) { events = slices.Clone(r.events) })
	return events, err
}

func (s *Store) run(ctx context.Context, id string, f func(*run)) error {
	return s.look(ctx, func() error {
		r := s.disk.runs[id]
		if r == nil {
			return fmt.Errorf("run %s: %w", id, journal.ErrNoRun)
		}
		f(r)
		return nil
	})
}
