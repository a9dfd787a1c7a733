package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/millipede-iac/millipede/coordinator/operation"
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
	f := a.newFlags()
	vars.registerValues(f)
	vf.register(f)
	vf.registerReveal(f)
	sf.registerLock(f)
	var parallelism parallelismFlag
	if !cancel {
		parallelism.register(f)
	}
	if code, done := a.parse(f, usage, args); done {
		return code
	}
	u, diags := a.newUI(vf, "apply")
	var record journal.Run
	var saved *planfile.Saved
	if !diags.HasErrors() {
		record, saved, diags = a.findRun(ctx, f.Arg(0), vars)
	}
	if !cancel && !diags.HasErrors() {
		diags = diags.Append(notResumable(record, saved))
	}
	if cancel && isLocked(diags) {
		return u.end(a.cancelElsewhere(ctx, u, diags))
	}
	if diags.HasErrors() {
		u.diagnostics(diags)
		return u.end(1)
	}
	return u.end(a.operate(ctx, operationOptions{
		command: "apply", vars: vars, state: sf, ui: u, parallelism: parallelism.value, lockAs: "OperationTypeApply", saved: saved, settles: true,
	}, func(r *operationRun) int {
		defer a.interrupts.hold()()
		stop := r.progress.Start(ctx)
		applied, diags := operation.Do(ctx, r.engine.Session, record.Command,
			func(ctx context.Context, s *operation.Session) (*operation.Applied, diag.List) {
				if cancel {
					return s.Cancel(ctx, record, saved.Plan, r.state.lockID)
				}
				return s.Resume(ctx, record, saved.Plan, r.state.lockID)
			})
		stop()
		return r.finish(ctx, saved.Plan, applied, diags)
	}))
}

// findRun reads a run and its plan from the store. An empty name means the last one that did not end.
func (a *app) findRun(ctx context.Context, name string, vars variableFlags) (r journal.Run, saved *planfile.Saved, diags diag.List) {
	store, diags := a.openRuns(ctx, vars, writes)
	if diags.HasErrors() {
		return r, nil, diags
	}
	defer func() { diags = diags.Append(store.close()) }()
	runs, err := store.Runs(ctx, a.workspace())
	if err != nil {
		return r, nil, diag.Errors("Failed to read the runs", err.Error()+".", nil)
	}
	if name == "" {
		open := slices.IndexFunc(runs, func(r journal.Run) bool { return !r.Over() })
		if open < 0 {
			return r, nil, diag.Errors("Nothing to resume", "Every run in this workspace has ended. See: "+diag.Program()+" runs list", nil)
		}
		name = runs[open].ID
	}
	r, text, err := store.RunPlan(ctx, name)
	switch {
	case errors.Is(err, journal.ErrNoRun):
		return r, nil, diag.Errors("No such run", fmt.Sprintf("There is no run %q in the store of this directory. See: "+diag.Program()+" runs list", name), nil)
	case err != nil:
		return r, nil, diag.Errors("Failed to read the run", err.Error()+".", nil)
	case r.Workspace != a.workspace():
		return r, nil, diag.Errors("The run is of another workspace", fmt.Sprintf("The run %s belongs to the workspace %q, and %q is selected now.", r.ID, r.Workspace, a.workspace()), nil)
	}
	if diags := operation.Resumable(runs, r.ID); diags.HasErrors() {
		return r, nil, diags // it is asked again under the lock; nothing has to be started to say so now
	}
	saved, diags = recordedPlan(r, text)
	return r, saved, diags
}

// recordedPlan reads the plan that the journal keeps of a run.
func recordedPlan(r journal.Run, text []byte) (*planfile.Saved, diag.List) {
	saved, err := planfile.DecodeRecorded(text)
	var version *planfile.VersionError
	switch {
	case errors.As(err, &version):
		with := "the version of Millipede that began it"
		if version.Engine != "" {
			with = "Millipede " + version.Engine
		}
		return nil, diag.Errors("The run is of another version of Millipede", fmt.Sprintf(
			"The plan of the run %s (%s, begun %s) cannot be read: %s. Only the plan says what the operations of the run are about, so this version can neither resume nor end it. Use %s for that:\n  %s runs cancel %s",
			r.ID, r.Command, r.Started.Format("2006-01-02 15:04:05 -0700"), err, with, diag.Program(), r.ID), nil)
	case err != nil:
		return nil, diag.Errors("Failed to read the run's plan", err.Error()+".", nil)
	}
	return &saved, nil
}

// notResumable says what can be done with a run whose plan was read from an older format: to carry such a plan on, the
// version that made it is needed.
func notResumable(r journal.Run, saved *planfile.Saved) diag.List {
	if !saved.Older {
		return nil
	}
	return diag.Errors("The run cannot be resumed", fmt.Sprintf(
		"An older version of Millipede began the run %s, in a format of plans that this version does not carry on. It can end the run: it takes the results that wait, awaits what is still under way, and notes what is in doubt. A new plan does the rest.\n  %s runs cancel %s",
		r.ID, diag.Program(), r.ID), nil)
}

const resolveUsage = `
Usage: coordinator [global options] runs resolve ADDRESS -created=ID
       coordinator [global options] runs resolve ADDRESS -not-created

  Says what became of an operation whose outcome is not known. If the run that it belongs to is resumed, it goes on
  behind the operation, or begins it anew.

Options:
  -created=ID           The object with this ID exists: it is read and taken into the state.
  -not-created          There is no object; of an update, nothing happened. After a deletion, this and -created have the
                        object read.
` + lockHelp + textHelp

func runResolve(ctx context.Context, a *app, args []string) int {
	var sf stateFlags
	var shown showFlags
	f := a.newFlags()
	sf.registerLock(f)
	shown.registerText(f)
	created := f.String("created", "", "")
	notCreated := f.Bool("not-created", false, "")
	// The address may come first.
	address := ""
	if len(args) > 0 && args[0] != "" && args[0][0] != '-' {
		address, args = args[0], args[1:]
	}
	if code, done := a.parse(f, resolveUsage, args); done {
		return code
	}
	if address == "" {
		address = f.Arg(0)
	}
	u := a.newTextUI(shown.viewFlags, "apply")
	at, diags := addr.ParseInstance(address)
	if (*created == "") == !*notCreated {
		diags = diags.Append(diag.New(diag.Error, "Say what became of it", "Give either -created=ID or -not-created.", nil))
	}
	if diags.HasErrors() {
		u.diagnostics(diags)
		return 1
	}
	return a.operate(ctx, operationOptions{command: "apply", state: sf, ui: u, lockAs: "resolve", settles: true}, func(r *operationRun) int {
		tx, diags := r.engine.Resolve(ctx, r.prior, at, *created, r.state.info.Who)
		if len(tx.Changes) > 0 {
			diags = diags.Append(r.state.record(ctx, tx))
		}
		r.ui.diagnostics(diags)
		if diags.HasErrors() {
			return 1
		}
		fmt.Fprintf(a.stdout, "%s is resolved.\n", at)
		return 0
	})
}
