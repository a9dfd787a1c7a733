package estate

import (
	"context"

	"github.com/millipede-iac/millipede/lang/diag"
)

// Next prepares the operation for the plan of the next round of an apply with deferral, after the apply of a round has
// succeeded: that plan begins with the state as it is now, and its run follows the last one. The lock is kept.
func (r *Operation) Next(ctx context.Context) diag.List {
	prior, diags := r.State.Load(ctx)
	if diags.HasErrors() {
		return diags
	}
	runs, err := r.State.store.Runs(ctx, r.State.Workspace)
	if err != nil {
		return diags.Append(diag.New(diag.Error, "Failed to read the runs", err.Error()+".", nil))
	}
	if len(runs) > 0 {
		r.after = runs[0].ID
	}
	r.Prior, r.adopted = prior, nil
	r.Engine.Session.Prior = prior
	if r.progress == nil {
		return diags
	}
	progress, more := r.State.progress(r.watch.Note) // the previous one has ended with its run
	if diags = diags.Append(more); diags.HasErrors() {
		return diags
	}
	r.progress, r.Engine.Session.Store = progress, progress
	return diags
}
