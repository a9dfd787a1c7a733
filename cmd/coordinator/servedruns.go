package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/coordinator/picture"
	"github.com/millipede-iac/millipede/coordinator/timeline"
	"github.com/millipede-iac/millipede/internal/cloud/tfc"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/view"
)

// servedAt is the service that a command about runs asks, and the run that it names there; empty if it names none.
type servedAt struct {
	*tfc.Client
	run string
	// on is the workspace of the configuration; nil if the run was named by its address.
	on *estate.Delegated
}

// servedAt finds the service to ask about runs; nil if the runs are in the store of this directory. name is the
// argument of the command: empty, the ID of a run, or the address of its page.
func (a *app) servedAt(ctx context.Context, name string, vars estate.Variables) (*servedAt, diag.List) {
	if strings.HasPrefix(name, "https://") {
		r, diags := a.Estate.ServedRun(ctx, name, vars)
		if r == nil {
			return nil, diags
		}
		return &servedAt{Client: r.Client, run: r.ID}, diags
	}
	d, diags := a.Estate.RunsAtService(ctx, vars)
	if d == nil || diags.HasErrors() {
		return nil, diags
	}
	return &servedAt{Client: d.Client, run: name, on: d}, diags
}

// refused returns the diagnostics for an error of the service.
func (at *servedAt) refused(summary string, err error) diag.List {
	if tfc.NotFound(err) && at.run != "" {
		return diag.Errors("No such run", fmt.Sprintf("The service has no run %s that the token may see. See: %s runs list",
			at.run, diag.Program()), nil)
	}
	return diag.Errors(summary, err.Error()+".", nil)
}

// errNoRuns is the error of a command about the newest run in a workspace without runs.
func (at *servedAt) errNoRuns() error {
	return fmt.Errorf("the workspace %s/%s has no runs yet", at.on.Organization, at.on.Workspace.Name)
}

// url returns the address of a run's page; empty if it is unknown.
func (at *servedAt) url(run string) string {
	if at.on == nil {
		return ""
	}
	return at.on.URL(run)
}

// list returns the newest runs of the workspace, at most a number.
func (at *servedAt) list(ctx context.Context, most int) (out []*tfc.Run, err error) {
	err = at.Runs(ctx, at.on.Workspace.ID, func(r *tfc.Run) bool {
		out = append(out, r)
		return len(out) < most
	})
	return out, err
}

// named returns the run that the command names, or else the newest one.
func (at *servedAt) named(ctx context.Context) (*tfc.Run, error) {
	if at.run == "" {
		all, err := at.list(ctx, 1)
		if err == nil && len(all) == 0 {
			err = at.errNoRuns()
		}
		if err != nil {
			return nil, err
		}
		return all[0], nil
	}
	return at.Run(ctx, at.run)
}

// listedRuns is how many runs of a service are listed.
const listedRuns = 50

func (a *app) listServed(ctx context.Context, at servedAt) error {
	all, err := at.list(ctx, listedRuns)
	if err != nil {
		return err
	}
	return view.ServedRunsText(view.Clean(a.Stdout, false), all)
}

func (a *app) showServed(ctx context.Context, at servedAt) error {
	r, err := at.named(ctx)
	if err != nil {
		return err
	}
	m, err := at.model(ctx, r.ID)
	if err != nil && !tfc.NotFound(err) { // it has not begun, or the service is another product
		return err
	}
	return view.ServedRunText(view.Clean(a.Stdout, false), r, at.url(r.ID), m)
}

// model reads the timeline of a run.
func (at *servedAt) model(ctx context.Context, run string) (*timeline.Model, error) {
	text, err := at.Timeline(ctx, run, "shape")
	if err != nil {
		return nil, err
	}
	m := new(timeline.Model)
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("reading the operations of the run: %w", err)
	}
	return m, nil
}

func (a *app) reportServed(ctx context.Context, at servedAt, out string) error {
	r, err := at.named(ctx)
	if err != nil {
		return err
	}
	m, err := at.model(ctx, r.ID)
	if tfc.NotFound(err) {
		return fmt.Errorf("the service has no record of the operations of the run %s: it has not begun, or the service "+
			"is another product than Millipede", r.ID)
	}
	if err != nil {
		return err
	}
	story, err := at.Timeline(ctx, r.ID, "story")
	if err != nil {
		return err
	}
	return a.writeReport(&picture.Report{Model: m, Story: story}, r.ID, out)
}
