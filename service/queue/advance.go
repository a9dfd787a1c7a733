package queue

import (
	"context"
	"errors"
	"time"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/service/turn"
)

// advance makes all steps that are due, and returns the time at which the next step becomes due without a
// further event.
func (q *Queue) advance(ctx context.Context) (time.Time, error) {
	for {
		if wait, err := q.rereadRuns(ctx); err != nil || !wait.IsZero() {
			return wait, err
		}
		b, err := q.snapshot()
		if err != nil {
			return time.Time{}, err
		}
		for _, r := range q.continueApplies(b) {
			q.begin(ctx, r, true, true)
		}
		steps := b.Due()
		if len(steps) == 0 {
			return b.NextDue(), nil
		}
		made, err := q.make(steps)
		for _, r := range made {
			if r.Status.Computes() {
				q.begin(ctx, r, false, false)
			}
		}
		if err != nil {
			return time.Time{}, err
		}
		if len(made) == 0 {
			return b.Now.Add(100 * time.Millisecond), nil
		}
	}
}

// firstInLine returns ErrConflict if an earlier run of the workspace is still waiting. Two runs may be
// committed at the same time; the queue then learns of them in any order.
func firstInLine(tx *store.Tx, r *record.Run) error {
	for _, id := range tables.Runs.List(tx, "active", r.Workspace) {
		o, err := tables.Runs.Get(tx, id)
		if err != nil {
			return err
		}
		if o.Number >= r.Number {
			return nil // runs are listed from the oldest to the newest
		}
		if o.Status == record.Pending && turn.WaitsInLine(o) {
			return tables.Conflict("run %s is ahead of it in the queue", o.ID)
		}
	}
	return nil
}

// make makes steps in one transaction, and returns their runs as they are afterwards. It omits steps that have
// become impossible meanwhile.
func (q *Queue) make(steps []turn.Step) (made []*record.Run, err error) {
	err = q.store.Update(func(tx *store.Tx) error {
		made = nil
		for _, s := range steps {
			r, err := q.turn(tx, s)
			if gone(err) {
				continue
			}
			if err != nil {
				return err
			}
			if err := q.step(tx, r, s); err != nil {
				return err
			}
			made = append(made, r)
		}
		return nil
	})
	if err = tables.Translated(err); gone(err) && len(steps) > 1 { // one impossible step must not prevent the others
		made = nil
		for _, s := range steps {
			one, err := q.make([]turn.Step{s})
			if err != nil && !gone(err) {
				return made, err
			}
			made = append(made, one...)
		}
		return made, nil
	}
	if gone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range made {
		if r.Status == record.Planning {
			q.served[r.Workspace] = q.now()
		}
	}
	return made, nil
}

// gone reports whether an error says that a step is no longer possible.
func gone(err error) bool {
	return errors.Is(err, tables.ErrConflict) || errors.Is(err, tables.ErrNotFound) || errors.Is(err, store.ErrNotFound)
}

// turn reads the run of a step. The error is ErrConflict if the run is no longer in the status from which the
// step starts.
func (q *Queue) turn(tx *store.Tx, s turn.Step) (*record.Run, error) {
	r, err := tables.Runs.Get(tx, s.Run)
	if err != nil {
		return nil, err
	}
	if _, err := record.Next(r.Status, s.Kind, 0); err != nil {
		return nil, tables.Conflict("the run %s is %s", r.ID, r.Status)
	}
	h, err := tables.HaltOf(tx, r.Workspace)
	if err != nil {
		return nil, err
	}
	if starts := s.Kind == record.EventPlanStarted || s.Kind == record.EventApplyStarted; starts && h != nil {
		return nil, tables.Conflict("nothing starts: %s", h.Reason)
	}
	if s.Kind != record.EventPlanQueued && s.Kind != record.EventApplyQueued {
		return r, nil
	}
	w, err := tables.Workspaces.Get(tx, r.Workspace)
	if err != nil {
		return nil, err
	}
	if waitsFor := !r.PlanOnly && (!r.SavePlan || s.Kind == record.EventApplyQueued); waitsFor &&
		w.Lock.Held() && w.Lock.ID != r.ID && (!w.ObjectLocks || w.Lock.Kind != "run" || w.Lock.Reason != "") {
		return nil, tables.Conflict("%s", tables.LockedBy(tx, w))
	}
	if s.Kind == record.EventPlanQueued && turn.WaitsInLine(r) && !w.ObjectLocks {
		if err := firstInLine(tx, r); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// step records a step of a run.
func (q *Queue) step(tx *store.Tx, r *record.Run, s turn.Step) error {
	if s.Why != "" {
		if err := q.transitions.Remark(tx, r, string(s.Kind), s.Why, ""); err != nil {
			return err
		}
	}
	if s.Kind == record.EventPlanStarted || s.Kind == record.EventApplyStarted {
		r.Fence++
	}
	return q.transitions.Enter(tx, r, s.Kind, 0, "")
}

// continueApplies starts the applies that are in progress but that no job carries out, because they were suspended or
// the service was restarted.
func (q *Queue) continueApplies(b *turn.State) (due []*record.Run) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.unsure || q.stopped {
		return nil
	}
	for _, o := range b.Runs {
		r := q.active[o.ID] // b may be outdated: a run that has ended meanwhile must not start again
		if r != nil && r.Status == record.Applying && q.running[r.ID] == nil &&
			(!b.Emergency(r) || !r.CancelAsked.IsZero()) {
			due = append(due, r)
		}
	}
	return due
}
