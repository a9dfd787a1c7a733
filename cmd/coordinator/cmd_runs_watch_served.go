package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/coordinator/remote"
	"github.com/millipede-iac/millipede/internal/cloud/tfc"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/view"
)

// watchServed shows a run of a service until it ends, and returns its status then.
func (a *app) watchServed(ctx context.Context, w *view.Watch, r *estate.ServedRun) (tfc.Status, error) {
	defer a.refreshing(ctx, w)()
	w.Note(fmt.Sprintf("A service executes the run %s:\n  %s\n", r.ID, r.URL))
	var status tfc.Status
	waits := ""
	err := remote.Watch(ctx, r.Client, r.ID, w.Note, func(s *remote.Seen) error {
		if s.Status != status && s.Status != "" {
			status = s.Status
			w.Note("The run is " + strings.ReplaceAll(string(status), "_", " ") + ".\n")
		}
		if s.Waits != waits {
			if waits = s.Waits; waits != "" {
				w.Note("It waits: " + waits + ".\n")
			}
		}
		switch {
		case s.Model != nil:
			w.Model(s.Model, s.Again)
		case s.Changes != nil:
			w.Changes(s.Changes)
		}
		return nil
	})
	return status, err
}

// servedWatched returns the diagnostics at the end of watching a run of a service.
func servedWatched(ctx context.Context, r *estate.ServedRun, status tfc.Status, err error) diag.List {
	switch {
	case ctx.Err() != nil:
		return diag.Errors("Stopped watching", fmt.Sprintf("The run continues:\n  %s", r.URL), nil)
	case tfc.NotFound(err):
		return diag.Errors("The run cannot be watched", fmt.Sprintf("The service has no run %s that the token may see, "+
			"or it is another product: only Millipede reports the progress of a run.", r.ID), nil)
	case err != nil && !errors.Is(err, context.Canceled):
		return diag.Errors("Failed to watch the run", err.Error()+".", nil)
	}
	switch status {
	case tfc.Applied, tfc.PlannedAndFinished:
		return nil
	}
	return diag.Errors("The run has ended", fmt.Sprintf("It is %s:\n  %s", strings.ReplaceAll(string(status), "_", " "),
		r.URL), nil)
}
