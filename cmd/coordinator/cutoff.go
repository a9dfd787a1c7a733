package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/journal"
)

// cutOff refuses to work on the state while a run that was cut off has operations that may still go on, or whose
// results wait: until those are recorded the state does not say what there is, and what is planned by it could be done
// twice.
func (s *openState) cutOff(ctx context.Context) diag.List {
	runs, err := s.store.Runs(ctx, s.workspace)
	if err != nil {
		return diag.Errors("Failed to read the runs", err.Error()+".", nil)
	}
	for _, r := range runs {
		if r.Over() {
			continue
		}
		events, err := s.store.Events(ctx, r.ID)
		if err != nil {
			return diag.Errors("Failed to read the runs", err.Error()+".", nil)
		}
		statuses, _, err := journal.Fold(r.Vertices, events)
		if err != nil {
			return diag.Errors("Failed to read the runs", fmt.Sprintf("The journal of the run %s: %s.", r.ID, err), nil)
		}
		if slices.Contains(statuses, journal.Dispatched) {
			return diag.Errors("A run was cut off",
				fmt.Sprintf("The run %s (%s, begun %s) ended while operations were under way. They may still go on, and what became of them is not in the state yet, so that nothing else can be based on it. To take their results and go on with the run:\n  coordinator runs resume %s",
					r.ID, r.Command, r.Started.Format("2006-01-02 15:04:05 -0700"), r.ID), nil)
		}
	}
	return nil
}
