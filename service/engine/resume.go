package engine

import (
	"context"

	"github.com/millipede-iac/millipede/coordinator/applying"
	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/graph/plan/planfile"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/service/work"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
)

// resume resumes an interrupted run, or returns its result if it has ended since. over is false if the run had
// not started anything.
func (p *phase) resume(ctx context.Context) (result *work.ApplyResult, diags diag.List, over bool) {
	run, saved, diags := p.begun(ctx)
	switch {
	case diags.HasErrors():
		return nil, diags, true
	case run == nil:
		return nil, nil, false
	}
	op, diags := p.operation(ctx, saved, true)
	if diags.HasErrors() {
		return nil, diags, true
	}
	defer closing(ctx, op, &diags)
	var (
		applied *operation.Applied
		after   *state.State
		more    diag.List
	)
	if run.Over() {
		applied, after, more = op.Ended(ctx, *run, saved.Plan)
	} else {
		applied, after, more = op.Continue(ctx, *run, saved.Plan, false)
	}
	diags = diags.Append(more)
	if applied != nil { // of the whole run, including the part before the interruption
		applied.Counts, applied.Before = applied.Counts.Plus(applied.Before), applying.Counts{}
	}
	p.doubtful(after)
	p.screen.applied(applied, after, !diags.HasErrors())
	return counted(applied), diags, true
}

// begun finds the engine's run of the phase; nil if there is none.
func (p *phase) begun(ctx context.Context) (*journal.Run, *planfile.Saved, diag.List) {
	if p.job.Workspace.ObjectLocks {
		return p.estate.Requested(ctx, p.shared())
	}
	return p.estate.Asked(ctx, p.job.Run.ID, p.vars, storeWait)
}
