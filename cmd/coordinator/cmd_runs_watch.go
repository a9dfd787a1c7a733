package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millipede-iac/millipede/cmd/internal/command"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/coordinator/history"
	"github.com/millipede-iac/millipede/coordinator/layout"
	"github.com/millipede-iac/millipede/internal/sleep"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/view"
)

const runsWatchUsage = `
Usage: coordinator [global options] runs watch [options] [RUN]

  Shows the progress of the run that another process executes in this directory: operations as they start and end,
  and on a terminal a status line with the running ones. It waits for the run to begin, and ends with
  the run; its exit code is 0 if the run was successful. An interrupt ends only the watching; the run continues.
  For a run that has ended, it shows the outcome.

  If a service executes the runs of the configuration, RUN is the ID of a run there; without it, the newest run
  in progress. RUN can also be the address of a run's page at any service for which there is a token. If the
  connection is lost, the command reconnects and continues.

Options:
  -no-color             Do not use colours.
` + variablesHelp

// errOtherRun ends the watching if the process executes a run other than the requested one.
var errOtherRun = errors.New("the process in this directory is executing another run")

func runRunsWatch(ctx context.Context, a *app, args []string) int {
	var vf viewFlags
	f := a.NewFlags()
	f.BoolVar(&vf.NoColor, "no-color", false, "")
	var vars variableFlags
	vars.registerValues(f)
	if code, done := a.Parse(f, runsWatchUsage, args); done {
		return code
	}
	u := a.textScreen(vf)
	if f.NArg() > 1 {
		return u.End(diag.Errors("Too many command line arguments",
			fmt.Sprintf("The command takes one at most, and got %q.", f.Args()), nil))
	}
	o := view.WatchOptions{Out: a.Stdout, Ink: a.Ink(vf), Now: time.Now}
	if command.Terminal(a.Stdout) {
		o.Width = func() int { return command.Width(a.Stdout) }
	}
	w := view.NewWatch(o)
	served, diags := a.Estate.ServedRun(ctx, f.Arg(0), vars.Variables)
	if diags.HasErrors() {
		return u.End(diags)
	}
	if served != nil {
		status, err := a.watchServed(ctx, w, served)
		if err := w.Settle(); err != nil {
			return u.End(diag.Errors("Failed to write", err.Error()+".", nil))
		}
		return u.End(servedWatched(ctx, served, status, err))
	}
	err := a.follow(ctx, w, f.Arg(0))
	head, begun := w.Head()
	if begun && head.Outcome != "" {
		w.End()
	}
	settled := w.Settle()
	switch {
	case settled != nil:
		diags = diag.Errors("Failed to write", settled.Error()+".", nil)
	case ctx.Err() != nil:
		diags = diag.Errors("Stopped watching", "The run continues.", nil)
	case errors.Is(err, layout.ErrNobody) && !begun:
		return a.ended(ctx, u, f.Arg(0), vars.Variables)
	case errors.Is(err, errOtherRun):
		diags = diag.Errors("The run is not in progress", fmt.Sprintf("The process in this directory is executing the "+
			"run %s, and not %s.", head.Run, f.Arg(0)), nil)
	case err != nil:
		diags = diag.Errors("Failed to watch the run", err.Error()+".", nil)
	case !begun:
		diags = diag.Errors("No run has begun", "The process that worked on the state has ended without a run.", nil)
	case head.Outcome == "":
		diags = diag.Errors("The run was cut off", fmt.Sprintf("The process that executed the run %s has ended "+
			"before the run. To resume it: %s runs resume %s", head.Run, diag.Program(), head.Run), nil)
	case head.Outcome != "done":
		u.Diagnostics(nil)
		return 1
	}
	return u.End(diags)
}

// follow shows the progress of another process's run until it ends.
func (a *app) follow(ctx context.Context, w *view.Watch, name string) error {
	defer a.refreshing(ctx, w)()
	return a.Estate.WatchRun(ctx, func(line []byte) error {
		if err := w.See(line); err != nil {
			return err
		}
		if head, _ := w.Head(); name != "" && head.Run != name {
			return errOtherRun
		}
		return nil
	})
}

// refreshing redraws the status line each second until the returned function is called.
func (a *app) refreshing(ctx context.Context, w *view.Watch) (end func()) {
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { // end waits for it
		defer close(ended)
		for sleep.For(ctx, time.Second) == nil {
			w.Refresh()
		}
	}()
	return func() { stop(); <-ended }
}

// ended shows a run that no process executes.
func (a *app) ended(ctx context.Context, u *screen, name string, vars estate.Variables) int {
	store, diags := a.Estate.OpenRuns(ctx, vars, false)
	if diags.HasErrors() {
		return u.End(diags)
	}
	runs, err := store.Journal().Runs(ctx, a.Estate.Workspace())
	diags = diags.Append(store.Close())
	if err != nil {
		return u.End(diags.Append(diag.New(diag.Error, "Failed to read the runs", err.Error()+".", nil)))
	}
	for _, r := range runs {
		if name != "" && r.ID != name {
			continue
		}
		r = store.Standing(r)
		switch r.Status {
		case "done":
			if _, err := fmt.Fprintf(a.Stdout, "The run %s is done.\n", r.ID); err != nil {
				return 1
			}
			return u.End(diags)
		case journal.Running, history.CutOff, "interrupted":
			return u.End(diags.Append(diag.New(diag.Error, "The run is not in progress", fmt.Sprintf("The run %s is %s. "+
				"To resume it: %s runs resume %s", r.ID, r.Status, diag.Program(), r.ID), nil)))
		}
		return u.End(diags.Append(diag.New(diag.Error, "The run has ended", fmt.Sprintf("The run %s is %s. See: "+
			"%s runs show %s", r.ID, r.Status, diag.Program(), r.ID), nil)))
	}
	if name != "" {
		return u.End(diags.Append(diag.New(diag.Error, "No such run", fmt.Sprintf("There is no run %q in the store of "+
			"this directory. See: %s runs list", name, diag.Program()), nil)))
	}
	return u.End(diags.Append(diag.New(diag.Error, "Nothing to watch", "No process works on the state of this "+
		"directory, and no run is recorded.", nil)))
}
