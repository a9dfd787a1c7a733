package estate

import (
	"context"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/graph/plan/planfile"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/journal"
)

// deferredBy returns the last run of a workspace, if it has ended successfully and its plan has deferred something.
// name is that run, or empty.
func deferredBy(ctx context.Context, store journal.Store, runs []journal.Run, name string) (r journal.Run,
	saved *planfile.Saved, diags diag.List) {
	if len(runs) == 0 || runs[0].Status != "done" || name != "" && name != runs[0].ID {
		return r, nil, nil
	}
	r, text, err := store.RunPlan(ctx, runs[0].ID)
	if err != nil {
		return r, nil, diag.Errors("Failed to read the run", err.Error()+".", nil)
	}
	saved, diags = recordedPlan(ctx, store, r, text)
	if diags.HasErrors() || len(saved.Plan.Deferred) == 0 {
		return r, nil, nil
	}
	return r, saved, diags
}

// RoundsOf returns the options of the plans that follow a recorded plan, which has deferred something.
func RoundsOf(p *plan.Plan) plan.Options {
	return plan.Options{Targets: p.Targets, Excludes: p.Excludes, Replace: p.Replace, Defers: true}
}
