package main

import (
	"context"
	"fmt"

	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/journal"
)

// cutOffBefore warns whoever only reads the state. While another process works on it, the run is that process's.
func (s *openState) cutOffBefore(r *journal.Run) diag.List {
	if s.store.pulled {
		return nil
	}
	return diag.List{diag.New(diag.Warning, "A run was cut off", fmt.Sprintf(
		"The run %s (%s, begun %s) ended while operations were under way. What became of them is not in the state, which is read as it is. The next plan or apply that locks the state settles it.",
		r.ID, r.Command, r.Started.Format("2006-01-02 15:04:05 -0700")), nil)}
}

// cutOff refuses to work on the state while a run that was cut off has operations that may still go on, or whose
// results wait: until those are recorded the state does not say what there is, and what is planned by it could be done
// twice.
func (s *openState) cutOff(ctx context.Context) diag.List {
	r, err := operation.CutOff(ctx, s.store, s.workspace)
	switch {
	case err != nil:
		return diag.Errors("Failed to read the runs", err.Error()+".", nil)
	case r == nil:
		return nil
	}
	if s.store.ownHome() == nil {
		return s.cutOffBefore(r)
	}
	return diag.Errors("A run was cut off",
		fmt.Sprintf("The run %s (%s, begun %s) ended while operations were under way. They may still go on, and what became of them is not in the state yet, so that nothing else can be based on it. To take their results and go on with the run:\n  "+diag.Program()+" runs resume %s",
			r.ID, r.Command, r.Started.Format("2006-01-02 15:04:05 -0700"), r.ID), nil)
}
