package estate

import (
	"context"
	"errors"
	"fmt"

	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/locks"
)

// settleLeft settles the runs with locks that no process will continue: it takes their results, marks operations in
// doubt, and releases their locks. With former it also settles a run that was cut off before the state was shared,
// which requires the whole state. A caller that has locks, or waits for some, must not wait for that: it calls
// without former, and leaves it to the operation that is already settling.
func (r *Operation) settleLeft(ctx context.Context, former bool) diag.List {
	s := r.State
	if former {
		if err := s.home.settling.lock(r.estate.waiting(ctx)); err != nil {
			return diag.Errors("Operation interrupted", "The operation was stopped while another one settled an "+
				"earlier run. Nothing was started.", nil)
		}
	} else if !s.home.settling.tryLock() {
		return nil
	}
	defer s.home.settling.unlock()
	if diags := r.settleRequests(ctx); diags.HasErrors() || !former {
		return diags
	}
	run, err := operation.CutOff(ctx, s.store, s.Workspace)
	switch {
	case err != nil:
		return diag.Errors("Failed to read the runs", err.Error()+".", nil)
	case run == nil:
		return nil
	}
	whole := locks.Request{ID: "settle-" + run.ID, Who: s.info.Who, At: r.estate.Now().UTC(),
		Set: locks.Set{locks.All: locks.Write}}
	s.home.registerRequest(whole.ID, true)
	defer s.home.registerRequest(whole.ID, false)
	if err := s.store.AskLocks(ctx, s.Workspace, whole); err != nil {
		return diag.Errors("Error acquiring the state lock", err.Error()+".", nil)
	}
	diags := r.awaitWhole(ctx, whole.ID)
	if !diags.HasErrors() {
		diags = diags.Append(r.settleAs(ctx, *run, whole.ID))
	}
	return diags.Append(releasing(s.store.LeaveLocks(context.WithoutCancel(ctx), s.Workspace, whole.ID)))
}

// awaitWhole waits until the whole state is locked for settling. Meanwhile no other operation settles, so it
// settles runs that others leave while it waits.
func (r *Operation) awaitWhole(ctx context.Context, request string) diag.List {
	waited := r.estate.waiting(ctx)
	for {
		short, cancel := context.WithTimeout(waited, lookEvery)
		err := r.State.store.AwaitLocks(short, r.State.Workspace, request)
		cancel()
		switch {
		case err == nil:
			return nil
		case waited.Err() != nil:
			return diag.Errors("Operation interrupted", "The operation was stopped while it waited for changes of "+
				"other runs. Nothing was started.", nil)
		case !errors.Is(err, context.DeadlineExceeded):
			return diag.Errors("Error acquiring the state lock", err.Error()+".", nil)
		}
		if diags := r.settleRequests(ctx); diags.HasErrors() {
			return diags
		}
	}
}

// settleRequests settles the runs that have locks, or wait for some, and that no process will continue.
func (r *Operation) settleRequests(ctx context.Context) diag.List {
	s := r.State
	all, err := s.store.LockRequests(ctx, s.Workspace)
	if err != nil {
		return diag.Errors("Failed to read the locks", err.Error()+".", nil)
	}
	for _, q := range all {
		if q.ID == s.sharing.Request || s.home.isOurs(q.ID) || s.sharing.Alive(q.ID) {
			continue
		}
		if diags := r.settleRequest(ctx, q); diags.HasErrors() {
			return diags
		}
		if err := s.store.LeaveLocks(ctx, s.Workspace, q.ID); err != nil {
			return releasing(err)
		}
	}
	return nil
}

// dropRequests withdraws the locks of runs that shared the state and have ended, for a process with exclusive use
// of the store. The error is about a run that must be settled first.
func (s *Opened) dropRequests(ctx context.Context) error {
	all, err := s.store.LockRequests(ctx, s.Workspace)
	if err != nil {
		return err
	}
	for _, q := range all {
		run, under, err := s.underWay(ctx, q)
		switch {
		case err != nil:
			return err
		case under:
			return fmt.Errorf("the run %s was cut off while it shared the state with others, and operations of it may "+
				"still go on. Let runs share the state again (the setting object-locks of the workspace), and the next "+
				"one settles it", titled(run))
		}
		if err := s.store.LeaveLocks(ctx, s.Workspace, q.ID); err != nil {
			return err
		}
	}
	return nil
}

// underWay returns the run of a request, and reports whether its operations may still be in progress.
func (s *Opened) underWay(ctx context.Context, q locks.Request) (run journal.Run, under bool, err error) {
	if q.Run == "" {
		return run, false, nil
	}
	run, _, err = s.store.RunPlan(ctx, q.Run)
	if err == nil && !run.Over() {
		under, err = operation.UnderWay(ctx, s.store, run)
	}
	if errors.Is(err, journal.ErrNoRun) {
		err = nil
	}
	return run, under, err
}

// settleRequest settles the run of a request, if any of its operations is in progress.
func (r *Operation) settleRequest(ctx context.Context, q locks.Request) diag.List {
	run, under, err := r.State.underWay(ctx, q)
	switch {
	case err != nil:
		return diag.Errors("Failed to read the runs", err.Error()+".", nil)
	case !under:
		return nil
	}
	return r.settleAs(ctx, run, q.ID)
}

// settleAs settles a run under its locks.
func (r *Operation) settleAs(ctx context.Context, run journal.Run, lockID string) diag.List {
	r.noteSettling(run)
	own := r.State.LockID
	r.State.LockID = lockID
	diags := r.settleRun(ctx, run)
	r.State.LockID = own
	under, err := operation.UnderWay(ctx, r.State.store, run)
	if now, _, runErr := r.State.store.RunPlan(ctx, run.ID); err == nil && runErr == nil && under && !now.Over() {
		return diags.Append(r.State.refuse(&run))
	}
	return diags
}
