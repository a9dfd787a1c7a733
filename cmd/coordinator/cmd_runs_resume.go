package main

import (
	"context"
	"fmt"

	"github.com/millipede-iac/millipede/cmd/running"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/graph/plan/planfile"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/journal"
)

const resumeUsage = `
Usage: coordinator [global options] runs resume [options] [RUN]

  Resumes a run that was ended by a crash or an interrupt: collects pending results, waits for operations that workers
  still execute, and starts the remaining ones. Without a name, resumes the last run that has not ended.

Options:
  -parallelism=N        How many operations may run at the same time, over all runs. Default: 10.
` + lockHelp + `  -var 'NAME=VALUE', -var-file=FILE
                        Ephemeral variables, which plans do not store, must be given again.
  -concise              Do not show the refreshing.
` + shownHelp + jsonHelp

func runResume(ctx context.Context, a *app, args []string) int {
	return a.continueRun(ctx, resumeUsage, args, false)
}

// continueRun resumes a run, to complete or to cancel it.
func (a *app) continueRun(ctx context.Context, usage string, args []string, cancel bool) int {
	var vars variableFlags
	var vf viewFlags
	var sf stateFlags
	f := a.NewFlags()
	vars.registerValues(f)
	vf.RegisterRun(f)
	vf.RegisterReveal(f)
	sf.registerLock(f)
	var parallelism parallelismFlag
	if !cancel {
		parallelism.register(f)
	}
	if code, done := a.Parse(f, usage, args); done {
		return code
	}
	u, diags := running.NewScreen(a.App, vf, running.Kind{})
	var record journal.Run
	var saved *planfile.Saved
	if !diags.HasErrors() {
		record, saved, diags = a.Estate.FindRun(ctx, f.Arg(0), vars.Variables)
	}
	if !cancel && !diags.HasErrors() {
		diags = diags.Append(estate.NotResumable(record, saved))
	}
	if cancel && estate.HeldBy(diags) != nil {
		return u.Close(a.cancelElsewhere(ctx, u, diags))
	}
	if diags.HasErrors() {
		u.Diagnostics(diags)
		return u.Close(1)
	}
	return u.Close(running.Here(ctx, a.App, u, estate.OperationOptions{
		Name: "apply", Variables: vars.Variables, State: sf.StateOptions, Parallelism: parallelism.value,
		LockAs: "OperationTypeApply", Saved: saved, Settles: true,
	}, func(r *running.Run) int {
		applied, after, diags := r.Continue(ctx, record, saved.Plan, cancel)
		return r.Finish(saved.Plan, applied, after, diags)
	}))
}

const resolveUsage = `
Usage: coordinator [global options] runs resolve ADDRESS -created=ID
       coordinator [global options] runs resolve ADDRESS -not-created

  Records the outcome of an operation in doubt. If its run is resumed, it continues after the operation, or starts it
  again. If a service executes the runs of this directory, the service records it.

Options:
  -created=ID           The object with this ID exists: it is read and stored in the state.
  -not-created          There is no object; or an update changed nothing. After a deletion, both options have the
                        object read.
` + lockHelp + textHelp

func runResolve(ctx context.Context, a *app, args []string) int {
	var sf stateFlags
	var shown viewFlags
	f := a.NewFlags()
	sf.registerLock(f)
	shown.RegisterText(f)
	created := f.String("created", "", "")
	notCreated := f.Bool("not-created", false, "")
	// The address may come first.
	address := ""
	if len(args) > 0 && args[0] != "" && args[0][0] != '-' {
		address, args = args[0], args[1:]
	}
	if code, done := a.Parse(f, resolveUsage, args); done {
		return code
	}
	if address == "" {
		address = f.Arg(0)
	}
	u := running.On(a.TextScreen(shown), running.Kind{})
	at, diags := addr.ParseInstance(address)
	if (*created == "") == !*notCreated {
		diags = diags.Append(diag.New(diag.Error, "Missing outcome of the operation", "Give either -created=ID "+
			"or -not-created.",
			nil))
	}
	if diags.HasErrors() {
		u.Diagnostics(diags)
		return 1
	}
	elsewhere := func(d *estate.Delegated) int {
		if err := d.Client.Resolve(ctx, d.Workspace.ID, at.String(), *created); err != nil {
			u.Diagnostics(diag.Errors("Failed to resolve the doubt", fmt.Sprintf("The service %s says: %s.", d.Host, err),
				nil))
			return 1
		}
		fmt.Fprintf(a.Stdout, "%s is resolved.\n", at)
		return 0
	}
	return running.Operate(ctx, a.App, u, estate.OperationOptions{Name: "apply", State: sf.StateOptions, LockAs: "resolve",
		Settles: true}, elsewhere, func(r *running.Run) int {
		tx, diags := r.Engine.Resolve(ctx, r.Prior, at, *created, r.State.Who())
		if len(tx.Changes) > 0 {
			diags = diags.Append(r.State.Record(ctx, tx))
		}
		r.UI.Diagnostics(diags)
		if diags.HasErrors() {
			return 1
		}
		fmt.Fprintf(a.Stdout, "%s is resolved.\n", at)
		return 0
	})
}
