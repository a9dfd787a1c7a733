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
  cancel     Cancel a run, here or in another process.
  resolve    Record the outcome of an operation in doubt.
`

const runsListUsage = `
Usage: coordinator [global options] runs list [options]

  Lists the runs of the selected workspace, the newest first. The last 50 ended runs are kept.

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
	})
}

const runsShowUsage = `
Usage: coordinator [global options] runs show [options] [RUN]

  Shows a run: what its plan depended on, its operations with their pools and workers, how long each operation waited
  for a slot and for permits, how long it took, what failed, and what is in doubt.
  Without a name, the newest run.

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
	})
}

// readRuns opens the store for a command that shows runs; most is the maximum number of arguments.
func (a *app) readRuns(ctx context.Context, usage string, args []string, most int, show func(store *estate.Runs,
	name string) error) int {
	return a.readRunsWith(ctx, usage, args, most, func(*flag.FlagSet) {}, show)
}

// readRunsWith is readRuns for a command with flags of its own, which more registers.
func (a *app) readRunsWith(ctx context.Context, usage string, args []string, most int, more func(*flag.FlagSet),
	show func(store *estate.Runs, name string) error) int {
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
	diags = diags.Append(store.Close())
	u.Diagnostics(diags)
	if diags.HasErrors() {
		return 1
	}
	return 0
}
