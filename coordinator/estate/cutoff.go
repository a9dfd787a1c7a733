package estate

import (
	"context"
	"fmt"

	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/journal"
)

// cutOffBefore handles interrupted runs for operations that only read the state: it warns about them. While another
// process works on the state, that process also settles the run. Operations of an interrupted run at remote workers
// may hold all permits, which only the process with the store can release: a reader that needs permits might wait
// forever, so it is rejected.
func (s *Opened) cutOffBefore(r *journal.Run, elsewhere bool) diag.List {
	switch {
	case s.store.pulled:
		return nil
	case elsewhere:
		return s.refuse(r)
	}
	return diag.List{diag.New(diag.Warning, "A run was cut off", fmt.Sprintf(
		"The run %s ended while operations were in progress. Their outcomes are not in the state, which is read as it "+
			"is. The next plan or apply that locks the state settles it.", titled(*r)), nil)}
}

// settle settles an interrupted run: it takes the results of its operations, waits for those that remote workers
// still execute, and marks the rest as in doubt. It starts nothing. After that the state is complete. The errors
// say that this failed or was stopped.
func (r *Operation) settle(ctx context.Context) diag.List {
	run, err := operation.CutOff(ctx, r.State.store, r.State.Workspace)
	switch {
	case err != nil:
		return diag.Errors("Failed to read the runs", err.Error()+".", nil)
	case run == nil:
		return nil
	case r.State.store.ownHome() == nil:
		rules, _ := r.estate.Rules(nil) // the engine reports errors
		return r.State.cutOffBefore(run, r.estate.Connector.Elsewhere(rules))
	}
	r.noteSettling(*run)
	diags := r.settleRun(ctx, *run)
	return diags.Append(r.State.cutOff(ctx)) // none if it has succeeded
}

// settleRun settles a run with the configuration and the plan of that run.
func (r *Operation) settleRun(ctx context.Context, run journal.Run) diag.List {
	_, text, err := r.State.store.RunPlan(ctx, run.ID)
	if err != nil {
		return diag.Errors("Failed to read the run's plan", err.Error()+".", nil)
	}
	saved, diags := recordedPlan(ctx, r.State.store, run, text)
	if diags.HasErrors() {
		return diags
	}
	c := &Configuration{estate: r.estate, Loader: config.NewLoader(savedFiles(saved.Config)),
		Given: &config.GivenValues{}}
	if diags = diags.Append(c.loadFor(saved)); diags.HasErrors() {
		return diags
	}
	inputs, _ := savedInputs(saved.Plan, c) // operations that need an ephemeral value stay in doubt
	prior, more := r.State.Load(ctx)
	if diags = diags.Append(more); diags.HasErrors() {
		return diags
	}
	e, more := r.estate.OpenEngine(ctx, EngineOptions{
		Tree: c.Tree, Loader: c.Loader, Inputs: inputs, Prior: prior, State: r.State,
		Observer: r.watch.Observer, Events: r.watch.Events, Note: r.watch.Note, AnyVersion: true,
	})
	if diags = diags.Append(more); diags.HasErrors() {
		return diags
	}
	release := r.estate.Process.Hold()
	_, more = operation.Do(ctx, e.Session, run.Command,
		func(ctx context.Context, s *operation.Session) (*operation.Applied, diag.List) {
			return s.Settle(ctx, run, saved.Plan, r.State.LockID)
		})
	diags = diags.Append(more, e.Close())
	r.watch.Settle()
	release()
	return diags.Append(r.State.Push(context.WithoutCancel(ctx)))
}

// cutOff returns an error while an interrupted run has operations that may still be executed, or whose results are
// not recorded: the state is incomplete until then, and another plan could do the same things twice.
func (s *Opened) cutOff(ctx context.Context) diag.List {
	r, err := operation.CutOff(ctx, s.store, s.Workspace)
	switch {
	case err != nil:
		return diag.Errors("Failed to read the runs", err.Error()+".", nil)
	case r == nil:
		return nil
	}
	if s.store.ownHome() == nil {
		return s.cutOffBefore(r, false)
	}
	return s.refuse(r)
}

// noteSettling tells people that a run is being settled, which may take long.
func (r *Operation) noteSettling(run journal.Run) {
	r.watch.Note(fmt.Sprintf("The run %s was cut off. Collecting its results, and waiting for its operations that are "+
		"still in progress...\n", titled(run)))
}

// refuse returns the error that the run must be settled first.
func (s *Opened) refuse(r *journal.Run) diag.List {
	return diag.Errors("A run was cut off",
		fmt.Sprintf("The run %s ended while operations were in progress. They may still run, and their "+
			"results are not yet in the state, so no other run can begin. To collect the results and resume the "+
			"run:\n  "+diag.Program()+" runs resume %s",
			titled(*r), r.ID), nil)
}
