package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/view"
)

const runsUsage = `
Usage: coordinator [global options] runs <subcommand> [options]

  Works on the runs of this directory.

Subcommands:
  list       List the runs of the workspace.
  show       Show the operations of a run.
  watch      Show the progress of the run of another process.
  report     Write a report about a run, as an HTML file.
  resume     Resume an interrupted run.
  confirm    Approve the plan of a run of a service, which applies it.
  discard    Discard the plan of a run of a service.
  cancel     Cancel a run, here, in another process, or of a service.
  resolve    Record the outcome of an operation in doubt.

  If a service executes the runs of this directory (a cloud block, or the backend "remote"), these are the runs of the
  workspace there.
`

const runsListUsage = `
Usage: coordinator [global options] runs list [options]

  Lists the runs of the selected workspace, the newest first. The last 50 ended runs are kept. Warnings name interrupted
  runs on states that this directory does not use now. If a service executes the runs, lists its newest 50, and why the
  first of those that wait do so.

Options:
  -no-color             Do not use colours.
` + variablesHelp

func runRunsList(ctx context.Context, a *app, args []string) int {
	return a.readRuns(ctx, runsListUsage, args, 0, func(store *estate.Runs, _ string) error {
		runs, err := store.Journal().Runs(ctx, a.Estate.Workspace())
		if err != nil {
			return err
		}
		for i := range runs {
			runs[i] = store.Standing(runs[i])
		}
		return view.RunsText(view.Clean(a.Stdout, false), runs, time.Now())
	}, a.listServed, a.Estate.Left)
}

const runsShowUsage = `
Usage: coordinator [global options] runs show [options] [RUN]

  Shows a run: what its plan depended on, its operations with their pools and workers, how long each operation waited
  for a slot and for permits, how long it took, and which operations failed or are in doubt.
  Without a name, the newest run. RUN can also be the address of a run's page at a service.

Options:
  -no-color             Do not use colours.
` + variablesHelp

func runRunsShow(ctx context.Context, a *app, args []string) int {
	return a.readRuns(ctx, runsShowUsage, args, 1, func(store *estate.Runs, name string) error {
		run, err := store.Read(ctx, a.Estate.Workspace(), name)
		if err != nil {
			return err
		}
		if run == nil {
			return view.RunsText(view.Clean(a.Stdout, false), nil, time.Now())
		}
		st, err := store.Journal().Load(ctx, run.Run.Workspace)
		if err != nil {
			return err
		}
		return view.RunText(view.Clean(a.Stdout, false), store.Standing(run.Run), run.Plan, run.Events, st, time.Now())
	}, a.showServed)
}

// showing shows runs of the store of this directory, and showingServed those of a service. A remark returns diagnostics
// that are shown after the runs of the store.
type (
	showing       func(store *estate.Runs, name string) error
	showingServed func(ctx context.Context, at servedAt) error
	remark        func(ctx context.Context) diag.List
)

// readRuns opens the store for a command that shows runs, or asks the service that executes them; most is the maximum
// number of arguments.
func (a *app) readRuns(ctx context.Context, usage string, args []string, most int, show showing,
	served showingServed, remarks ...remark) int {
	return a.readRunsWith(ctx, usage, args, most, func(*flag.FlagSet) {}, show, served, remarks...)
}

// readRunsWith is readRuns for a command with flags of its own, which more registers.
func (a *app) readRunsWith(ctx context.Context, usage string, args []string, most int, more func(*flag.FlagSet),
	show showing, served showingServed, remarks ...remark) int {
	var vf viewFlags
	f := a.NewFlags()
	more(f)
	f.BoolVar(&vf.NoColor, "no-color", false, "")
	var vars variableFlags // the passphrase of an encrypted state may be a variable
	vars.registerValues(f)
	if code, done := a.Parse(f, usage, args); done {
		return code
	}
	u := a.textScreen(vf)
	if f.NArg() > most {
		u.Diagnostics(diag.Errors("Too many command line arguments",
			fmt.Sprintf("The command takes %d at most, and got %q.", most, f.Args()), nil))
		return 1
	}
	at, diags := a.servedAt(ctx, f.Arg(0), vars.Variables)
	if diags.HasErrors() {
		return u.End(diags)
	}
	if at != nil {
		if err := served(ctx, *at); err != nil {
			diags = diags.Append(at.refused("Failed to show the run", err))
		}
		return u.End(diags)
	}
	store, diags := a.Estate.OpenRuns(ctx, vars.Variables, false)
	if diags.HasErrors() {
		u.Diagnostics(diags)
		return 1
	}
	switch err := show(store, f.Arg(0)); {
	case errors.Is(err, journal.ErrNoRun):
		diags = diag.Errors("No such run", fmt.Sprintf("There is no run %q in the store of this directory. See: "+
			diag.Program()+" runs list", f.Arg(0)), nil)
	case err != nil:
		diags = diag.Errors("Failed to show the run", err.Error()+".", nil)
	}
	for _, remark := range remarks {
		diags = diags.Append(remark(ctx))
	}
	diags = diags.Append(store.Close())
	u.Diagnostics(diags)
	if diags.HasErrors() {
		return 1
	}
	return 0
}
