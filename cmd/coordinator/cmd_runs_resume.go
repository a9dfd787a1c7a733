package main

import (
	"context"

	"github.com/millipede-iac/millipede/cmd/internal/running"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/graph/plan/planfile"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/journal"
)

const resumeUsage = `
Usage: coordinator [global options] runs resume [options] [RUN]

  Resumes a run that was ended by a crash or an interrupt: collects pending results, waits for operations that workers
  still execute, and starts the remaining ones. Without a name, resumes the last run that has not ended.

  If the plan of the run has deferred changes, they are planned, approved and applied afterwards. That also works for the
  last run after it has ended.

Options:
  -auto-approve         Do not ask about changes that were deferred.
  -parallelism=N        How many operations may run at the same time, over all runs. Default: 10.
` + lockHelp + `  -var 'NAME=VALUE', -var-file=FILE
                        Ephemeral variables, which plans do not store, must be given again.
  -concise              Do not show the refreshing.
` + shownHelp + jsonHelp

func runResume(ctx context.Context, a *app, args []string) int {
	return a.continueRun(ctx, resumeUsage, args, false)
}

// continueServed cancels a run of a service, or says how it is resumed; served says that the run is one.
func (a *app) continueServed(ctx context.Context, u *running.Screen, name string, vars estate.Variables, cancel,
	force bool) (served bool, diags diag.List) {
	at, diags := a.servedAt(ctx, name, vars)
	switch {
	case diags.HasErrors():
		return false, diags
	case at == nil && force:
		return false, diags.Append(diag.New(diag.Error, "Only a service can abandon a run", "Without a service, end the "+
			"process that executes the run. Operations without a result are then in doubt.", nil))
	case at == nil:
		return false, diags
	case cancel:
		return true, diags.Append(at.cancel(ctx, u.Screen, force))
	}
	return true, diags.Append(resumeServed())
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
	force, approved := false, false
	if cancel {
		f.BoolVar(&force, "force", false, "")
	} else {
		parallelism.register(f)
		f.BoolVar(&approved, "auto-approve", false, "")
	}
	if code, done := a.Parse(f, usage, args); done {
		return code
	}
	u, diags := running.NewScreen(a.App, vf, running.Kind{})
	if !diags.HasErrors() {
		served, more := a.continueServed(ctx, u, f.Arg(0), vars.Variables, cancel, force)
		if diags = diags.Append(more); served || more.HasErrors() {
			return u.Close(u.End(diags))
		}
	}
	var record journal.Run
	var saved *planfile.Saved
	if !diags.HasErrors() {
		record, saved, diags = a.Estate.FindRun(ctx, f.Arg(0), vars.Variables, !cancel)
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
		if !record.Over() {
			applied, after, diags := r.Continue(ctx, record, saved.Plan, cancel)
			if code := r.Finish(saved.Plan, applied, after, diags); code != 0 || cancel {
				return code
			}
		}
		if len(saved.Plan.Deferred) == 0 {
			return 0
		}
		if vf.JSON && !approved {
			r.UI.Diagnostics(running.Remaining(saved.Plan))
			return 0 // with -json nobody can be asked
		}
		return r.GoOn(ctx, saved.Plan, running.Rounds{Options: estate.RoundsOf(saved.Plan), Command: record.Command,
			Approved: approved, Again: record.Over()})
	}))
}
