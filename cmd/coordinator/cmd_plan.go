package main

import (
	"context"
	"fmt"

	"github.com/millipede-iac/millipede/cmd/internal/running"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/lang/diag"
)

const planUsage = `
Usage: coordinator [global options] plan [options]

  Shows the changes that would bring the real objects in line with the configuration. Nothing is changed.
` + modesHelp + planningHelp + deferralHelp + `
Other options:
  -out=FILE             Save the plan to a file, for apply.
  -generate-config-out=FILE
                        Write the missing resource blocks of import blocks to this new file.
` + detachHelp + `  -detailed-exitcode    Exit with 0 if there are no changes, 2 if there are changes, and 1 after an error.
` + operatingHelp + `  -state-out=FILE, -backup=FILE
                        Accepted without effect, as in OpenTofu: a plan writes no state.
` + shownHelp + jsonHelp

func runPlan(ctx context.Context, a *app, args []string) int {
	var vars variableFlags
	var vf viewFlags
	var sf stateFlags
	var pf planFlags
	f := a.NewFlags()
	vars.register(f)
	vf.RegisterRun(f)
	vf.RegisterReveal(f)
	sf.registerReading(f)
	pf.register(f)
	pf.registerDeferral(f)
	out := f.String("out", "", "")
	generated := f.String("generate-config-out", "", "")
	detailed := f.Bool("detailed-exitcode", false, "")
	detach := f.Bool("detach", false, "")
	if code, done := a.Parse(f, planUsage, args); done {
		return code
	}
	u, diags := running.NewScreen(a.App, vf, running.Kind{})
	if f.NArg() > 0 {
		diags = diags.Append(diag.Errors("Too many command line arguments", fmt.Sprintf("The plan command takes no "+
			"arguments, and got %q. To plan in another directory, give the global option -chdir=DIR.", f.Arg(0)), nil))
	}
	options, more := pf.options(a.Path)
	diags = diags.Append(more, a.Estate.CanGenerate(*generated, options.Mode))
	if diags.HasErrors() {
		u.Diagnostics(diags)
		return u.Close(1)
	}
	vars.Input = vars.Input && !vf.JSON // no prompts with JSON output
	service := running.Request{
		Options: options, Detach: *detach, Refuses: pf.serviceOnly(), Out: *out, GeneratedInto: *generated,
		Detailed: *detailed, LockTimeout: sf.LockTimeout,
	}
	elsewhere := func(d *estate.Delegated) int { return running.AtService(a.App, u, d, service) }
	return u.Close(running.Operate(ctx, a.App, u, estate.OperationOptions{
		Name: "plan", Bare: pf.destroy, Variables: vars.Variables, State: sf.StateOptions,
		Parallelism: pf.parallelism.value, LockAs: "OperationTypePlan",
	}, elsewhere, func(r *running.Run) int {
		if *detach {
			r.UI.Diagnostics(running.NotDetached())
			return 1
		}
		options.Defers = pf.defers(r.Engine.Session.Rules)
		texts, diags := r.Generate(ctx, *generated, options.Targets, options.Excludes)
		if diags.HasErrors() {
			r.UI.Diagnostics(diags.Append(a.Estate.WriteGenerated(*generated, texts)))
			return 1
		}
		planned, diags := r.ShowPlanOnly(ctx, options, texts)
		written := ""
		if len(texts) > 0 {
			written = *generated
		}
		diags = diags.Append(a.Estate.WriteGenerated(written, texts))
		if planned != nil && *out != "" {
			if err := a.Estate.WritePlan(ctx, *out, r.Saved(planned.Plan)); err != nil {
				diags = diags.Append(diag.New(diag.Error, "Failed to write plan file", err.Error()+".", nil))
			}
		}
		if planned != nil && !diags.HasErrors() {
			r.UI.Planned(planned.Plan, *out, written)
		}
		r.UI.Diagnostics(diags)
		if planned == nil || diags.HasErrors() {
			return 1
		}
		if *detailed && planned.Plan.Differs() {
			return 2
		}
		return 0
	}))
}
