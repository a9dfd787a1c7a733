package main

import (
	"context"
	"fmt"

	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/lang/diag"
)

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
	return diag.Errors("A run was cut off",
		fmt.Sprintf("The run %s (%s, begun %s) ended while operations were under way. They may still go on, and what became of them is not in the state yet, so that nothing else can be based on it. To take their results and go on with the run:\n  "+diag.Program()+" runs resume %s",
			r.ID, r.Command, r.Started.Format("2006-01-02 15:04:05 -0700"), r.ID), nil)
}
