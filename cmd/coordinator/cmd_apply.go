package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/millipede-iac/millipede/cmd/internal/running"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/graph/plan/planfile"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/edit"
)

const applyUsage = `
Usage: coordinator [global options] apply [options] [PLAN]

  Makes a plan, shows it, asks for approval, and applies it; or applies a plan that plan -out=FILE has saved,
  without asking.

  A saved plan is applied as it is: the options for planning can only be used for a new plan.
` + modesHelp + planningHelp + deferralHelp + `                        What was left out is planned, approved and applied afterwards, until nothing is left.
` + approvingHelp + `
Other options:
` + detachHelp + runningHelp

const destroyUsage = `
Usage: coordinator [global options] destroy [options]

  Destroys all objects of the selected workspace: the same as apply -destroy.
` + modesHelp + planningHelp + approvingHelp + `
Other options:
` + detachHelp + runningHelp

const refreshUsage = `
Usage: coordinator [global options] refresh [options]

  Updates the state with changes made outside of Millipede. Prefer the command apply -refresh-only, which shows the
  changes and asks for approval.
` + scopeHelp + `  -destroy, -refresh-only, -refresh=false, -replace=ADDRESS
                        Accepted without effect, as in OpenTofu: the command refreshes, and does nothing else.

Other options:
` + runningHelp

func runApply(ctx context.Context, a *app, args []string) int {
	return a.apply(ctx, "apply", applyUsage, planFlags{}, false, args)
}

func runDestroy(ctx context.Context, a *app, args []string) int {
	return a.apply(ctx, "destroy", destroyUsage, planFlags{destroy: true}, false, args)
}

func runRefresh(ctx context.Context, a *app, args []string) int {
	var vars variableFlags
	var vf viewFlags
	var sf stateFlags
	var pf planFlags
	f := a.NewFlags()
	vars.register(f)
	vf.RegisterRun(f)
	vf.RegisterReveal(f)
	sf.register(f)
	pf.registerCommon(f)
	if code, done := a.Parse(f, refreshUsage, args); done {
		return code
	}
	u, diags := running.NewScreen(a.App, vf, running.Kind{Refreshes: true})
	if f.NArg() > 0 {
		diags = diags.Append(diag.New(diag.Error, "Too many command line arguments", fmt.Sprintf("The refresh "+
			"command takes no arguments, and got %q.", f.Args()), nil))
	}
	options, more := pf.options(a.Path)
	if diags = diags.Append(more); diags.HasErrors() {
		u.Diagnostics(diags)
		return u.Close(1)
	}
	vars.Input = vars.Input && !vf.JSON // no prompts with JSON output
	o := estate.OperationOptions{Name: "refresh", Bare: true, Variables: vars.Variables, State: sf.StateOptions,
		Parallelism: pf.parallelism.value, LockAs: "OperationTypeRefresh"}
	// It reads everything, regardless of the rules.
	options.Mode, options.SkipRefresh, options.Refresh = plan.RefreshOnly, false, placement.RefreshAll
	service := running.Request{Options: options, Applies: true, Approved: true, Refuses: pf.serviceOnly(),
		LockTimeout: sf.LockTimeout}
	options.Mode, options.Replace = plan.Normal, nil
	elsewhere := func(d *estate.Delegated) int { return running.AtService(a.App, u, d, service) }
	return u.Close(running.Operate(ctx, a.App, u, o, elsewhere, func(r *running.Run) int {
		// A complete plan, so that outputs are up to date; only the results of refreshing are kept.
		planned, diags := r.Plan(ctx, options)
		if planned == nil || diags.HasErrors() {
			r.UI.Diagnostics(diags)
			return 1
		}
		if !edit.AnyManaged(planned.Plan.Prior) {
			diags = diags.Append(diag.New(diag.Warning, "Empty or non-existent state", "The state has no objects, so "+
				"there is nothing to refresh.", nil))
		}
		return storeResults(ctx, r, planned.Plan, "refresh", diags)
	}))
}

// apply implements the commands apply and destroy.
func (a *app) apply(ctx context.Context, command, usage string, pf planFlags, approved bool, args []string) int {
	destroys := pf.destroy // the command is destroy
	var vars variableFlags
	var vf viewFlags
	var sf stateFlags
	f := a.NewFlags()
	vars.register(f)
	vf.RegisterRun(f)
	vf.RegisterReveal(f)
	sf.register(f)
	pf.register(f)
	if !destroys {
		pf.registerDeferral(f)
	}
	f.BoolVar(&approved, "auto-approve", approved, "")
	f.BoolVar(&pf.keepQuiet, "suppress-forget-errors", false, "")
	detach := f.Bool("detach", false, "")
	if code, done := a.Parse(f, usage, args); done {
		return code
	}
	u, diags := running.NewScreen(a.App, vf, running.Kind{Destroys: destroys})
	fail := func(l diag.List) int {
		u.Diagnostics(l)
		return u.Close(1)
	}
	vars.Input = vars.Input && !vf.JSON // no prompts with JSON output
	o := estate.OperationOptions{Name: command, Bare: pf.destroy, Variables: vars.Variables, State: sf.StateOptions,
		Parallelism: pf.parallelism.value, LockAs: "OperationTypeApply"}
	switch {
	case diags.HasErrors():
		return fail(diags)
	case f.NArg() == 1 && destroys:
		return fail(diag.Errors("Destroy can't be called with a plan file", "To destroy objects as a plan of plan -destroy "+
			"says, use apply with that plan. To work in another directory, use the global option -chdir=DIR.", nil))
	case f.NArg() > 1:
		return fail(diag.Errors("Too many command line arguments", fmt.Sprintf("The %s command got %q. To work in "+
			"another directory, give the global option -chdir=DIR.", command, f.Args()), nil))
	case f.NArg() == 1:
		return u.Close(a.applySaved(ctx, u, f.Arg(0), pf, o, *detach))
	case destroys && pf.refreshOnly:
		return fail(diag.Errors("Invalid mode option", "The destroy command has no -refresh-only option. Use apply "+
			"or plan.", nil))
	case destroys && given(f, "destroy") && pf.destroy:
		return fail(diag.Errors("Invalid mode option", "The destroy command has no -destroy option: it always "+
			"destroys.", nil))
	case vf.JSON && !approved:
		return fail(diag.Errors("Plan file or auto-approve required", "With -json the command cannot ask for approval, so "+
			"it needs a saved plan or -auto-approve.", nil))
	}
	options, diags := pf.options(a.Path)
	if diags.HasErrors() {
		return fail(diags)
	}
	service := running.Request{
		Options: options, Applies: true, Approved: approved, Detach: *detach, Refuses: pf.serviceOnly(), Input: vars.Input,
		LockTimeout: sf.LockTimeout,
	}
	elsewhere := func(d *estate.Delegated) int { return running.AtService(a.App, u, d, service) }
	return u.Close(running.Operate(ctx, a.App, u, o, elsewhere, func(r *running.Run) int {
		if *detach {
			r.UI.Diagnostics(running.NotDetached())
			return 1
		}
		options.Defers = !destroys && options.Mode == plan.Normal && pf.defers(r.Engine.Session.Rules)
		planned, ok := r.ShowPlan(ctx, options, approved)
		if !ok {
			return 1
		}
		p := planned.Plan
		trivial := !p.Applyable()
		if p.Mode == plan.RefreshOnly {
			return refresh(ctx, r, p, approved)
		}
		if !trivial && !approved && !r.Approve(p) {
			return 1
		}
		r.Left = leftBehind(p, pf)
		if code := r.CarryOut(ctx, p, command); code != 0 || !p.Defers {
			return code
		}
		return r.GoOn(ctx, p, running.Rounds{Options: options, Command: command, Approved: approved})
	}))
}

// leftBehind returns an error for a successful destroy that has left objects behind, unless the flags allow
// that.
func leftBehind(p *plan.Plan, pf planFlags) diag.List {
	forgotten := p.Forgotten()
	if p.Mode != plan.Destroy || forgotten == 0 || pf.keepQuiet {
		return nil
	}
	return diag.Errors("Destroy was successful but left behind forgotten instances",
		fmt.Sprintf("%d objects were taken out of the state without being destroyed, because their configuration "+
			"says so. They still exist. With -suppress-forget-errors, this is not an error.", forgotten), nil)
}

// refresh writes the results of a refresh-only plan.
func refresh(ctx context.Context, r *running.Run, p *plan.Plan, approved bool) int {
	if p.Applyable() && !approved && !r.Approve(p) {
		return 1
	}
	return r.CarryOut(ctx, p, "refresh")
}

// applySaved applies a saved plan.
func (a *app) applySaved(ctx context.Context, u *running.Screen, name string, pf planFlags, o estate.OperationOptions,
	detach bool) int {
	d, run, diags := a.Estate.DelegatedRun(ctx, name, estate.Finding{Variables: o.Variables, Sources: u.From})
	if diags.HasErrors() {
		u.Diagnostics(diags)
		return 1
	}
	if d != nil {
		return running.ApplySaved(a.App, u, d, run, running.Request{Applies: true, Detach: detach, Refuses: pf.serviceOnly()})
	}
	if detach {
		u.Diagnostics(running.NotDetached())
		return 1
	}
	saved, diags := a.Estate.OpenPlan(ctx, name, o.Variables)
	if diags.HasErrors() {
		u.Diagnostics(diags)
		return 1
	}
	o.Saved = saved
	refused := func(*estate.Delegated) int { return 1 } // Begin has reported the reason
	return running.Operate(ctx, a.App, u, o, refused, func(r *running.Run) int { return applyPlanFile(ctx, r, saved, pf) })
}

// applyPlanFile checks that a saved plan is still valid, and applies it.
func applyPlanFile(ctx context.Context, r *running.Run, saved *planfile.Saved, pf planFlags) int {
	fit, diags := r.Fit(ctx, saved.Plan)
	if !diags.HasErrors() {
		diags = r.Mismatch
	}
	if diags.HasErrors() {
		r.UI.Diagnostics(diags)
		return 1
	}
	r.UI.Saved(saved.Plan)
	if ignored := pf.ignored(saved.Plan); len(ignored) > 0 {
		r.UI.Diagnostics(diag.List{diag.New(diag.Warning, "A saved plan is applied as it was made", "The changes "+
			"of a saved plan are fixed. These options have no effect on it: "+strings.Join(ignored, ", ")+
			". To apply something else, make another plan.", nil)})
	}
	if pf.destroy && saved.Plan.Mode != plan.Destroy {
		r.UI.Diagnostics(diag.List{diag.New(diag.Warning, "A saved plan does not become a destroy plan",
			"The changes of a saved plan are fixed, so -destroy has no effect on it. To destroy, omit "+
				"the plan, or make one with plan -destroy.", nil)})
	}
	r.Left = leftBehind(fit, pf)
	code := r.CarryOut(ctx, fit, "apply")
	if code == 0 {
		r.UI.Diagnostics(running.Remaining(fit))
	}
	return code
}
