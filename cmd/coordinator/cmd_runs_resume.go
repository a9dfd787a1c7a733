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

  Goes on with a run that a crash or an interrupt ended: results that are waiting are taken, operations that workers
  still carry out are awaited, what was not started is done. Without a name, the last run that did not end is resumed.

Options:
  -parallelism=N        How many operations may go on at one time, over all runs. Default: 10.
` + lockHelp + `  -var 'NAME=VALUE', -var-file=FILE
                        Ephemeral variables, which no plan holds, must be given again.
  -concise              Do not show the refreshing.
` + shownHelp + jsonHelp

func runResume(ctx context.Context, a *app, args []string) int {
	return a.goOn(ctx, resumeUsage, args, false)
}

// goOn resumes a run, to carry it out or to cancel it.
func (a *app) goOn(ctx context.Context, usage string, args []string, cancel bool) int {
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
		applied, after, diags := r.GoOn(ctx, record, saved.Plan, cancel)
		return r.Finish(saved.Plan, applied, after, diags)
	}))
}

const resolveUsage = `
Usage: coordinator [global options] runs resolve ADDRESS -created=ID
       coordinator [global options] runs resolve ADDRESS -not-created

  Says what became of an operation whose outcome is not known. If the run that it belongs to is resumed, it goes on
  behind the operation, or begins it anew. Where a service carries out the runs of this directory, the service does it.

Options:
  -created=ID           The object with this ID exists: it is read and taken into the state.
  -not-created          There is no object; of an update, nothing happened. After a deletion, this and -created have the
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
