package engine

import (
	"context"

	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/service/work"
)

// apply applies the plan, or resumes an interrupted apply of it.
func (p *phase) apply(ctx context.Context) (result *work.ApplyResult, diags diag.List) {
	saved, err := keptPlan(p.job.Plan)
	if err != nil {
		return nil, diag.Errors("Failed to read the plan", err.Error()+".", nil)
	}
	if diags := p.install(ctx); diags.HasErrors() {
		return nil, diags
	}
	if p.job.Resumed {
		result, diags, over := p.resume(ctx)
		if over {
			return result, diags
		}
	}
	op, diags := p.operation(ctx, &saved, false)
	if diags.HasErrors() {
		return nil, diags
	}
	defer closing(ctx, op, &diags)
	fit, more := op.Fit(ctx, saved.Plan)
	if p.job.Run.AutoApply && p.job.Workspace.ObjectLocks && estate.Stale(more) {
		fit, more = p.planAgain(ctx, op, more)
	}
	diags = diags.Append(more, op.Mismatch)
	if !diags.HasErrors() {
		applied, after, more := op.Apply(ctx, fit, "apply", func() { p.screen.applying(fit) })
		diags = diags.Append(more)
		p.doubtful(after)
		p.screen.applied(applied, after, !diags.HasErrors())
		result = counted(applied)
	}
	return result, diags
}

// settle collects the results of the operations that the run has started, and starts nothing.
func (p *phase) settle(ctx context.Context) (diags diag.List) {
	diags = p.install(ctx)
	if diags.HasErrors() {
		return diags
	}
	op, more := p.leftBehind(ctx, "settle")
	if diags = diags.Append(more); diags.HasErrors() {
		return diags
	}
	defer closing(ctx, op, &diags)
	p.doubtful(op.Prior)
	return diags.Append(diag.Errors("The run was canceled",
		"The service has not continued it. The state has the results of the operations that had started, as far as they are "+
			"known.", nil))
}

func counted(a *operation.Applied) *work.ApplyResult {
	if a == nil {
		return nil
	}
	return &work.ApplyResult{Add: a.Counts.Added, Change: a.Counts.Changed, Destroy: a.Counts.Destroyed,
		Import: a.Counts.Imported}
}

// planAgain makes a new plan for an auto-applied run if others have changed something that its first plan
// depends on. From then on the run has the whole state for itself: it is ordered after the other changes, as
// without locks of objects.
func (p *phase) planAgain(ctx context.Context, op *estate.Operation, stale diag.List) (*plan.Plan, diag.List) {
	for _, d := range stale {
		p.screen.note(d.Detail + "\n")
	}
	p.screen.note("The run applies automatically, so it plans again, with the state for itself.\n")
	options, diags := p.planOptions()
	if diags = diags.Append(op.LockAll(ctx)); diags.HasErrors() {
		return nil, diags
	}
	planned, more := op.Plan(ctx, options)
	if diags = diags.Append(more); planned == nil || diags.HasErrors() {
		return nil, diags
	}
	p.screen.plan(planned)
	return planned.Plan, diags
}
