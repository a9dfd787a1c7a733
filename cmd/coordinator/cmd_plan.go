package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/diag"
)

const planUsage = `
Usage: coordinator [global options] plan [options]

  Shows what would change to bring what exists in line with the configuration. Nothing is changed.
` + modesHelp + planningHelp + `
Other options:
  -out=FILE             Save the plan to a file, to apply exactly that.
  -generate-config-out=FILE
                        Write resource blocks for import blocks without one to this new file.
` + detachHelp + `  -detailed-exitcode    Exit with 0 when nothing would change, with 2 when something would, with 1 after an error.
` + operatingHelp + shownHelp + jsonHelp

func runPlan(ctx context.Context, a *app, args []string) int {
	var vars variableFlags
	var vf viewFlags
	var sf stateFlags
	var pf planFlags
	f := a.newFlags()
	vars.register(f)
	vf.register(f)
	vf.registerReveal(f)
	sf.registerPrior(f)
	sf.KeepsNothing = true
	pf.register(f)
	out := f.String("out", "", "")
	generated := f.String("generate-config-out", "", "")
	detailed := f.Bool("detailed-exitcode", false, "")
	detach := f.Bool("detach", false, "")
	if code, done := a.parse(f, planUsage, args); done {
		return code
	}
	u, diags := a.newRunScreen(vf, runKind{})
	if f.NArg() > 0 {
		diags = diags.Append(diag.Errors("Too many command line arguments", fmt.Sprintf("The plan command takes no "+
			"arguments, and got %q. To plan in another directory, give the global option -chdir=DIR.", f.Arg(0)), nil))
	}
	spec, more := pf.spec()
	diags = diags.Append(more, newFile(*generated, spec.mode))
	if diags.HasErrors() {
		u.diagnostics(diags)
		return u.close(1)
	}
	vars.Input = vars.Input && !vf.json // nobody can be asked in JSON
	service := serviceSpec{
		planSpec: spec, detach: *detach, refuses: pf.serviceOnly(), out: *out, generated: *generated, detailed: *detailed,
		lockTimeout: sf.LockTimeout,
	}
	elsewhere := func(d *estate.Delegated) int { return a.runAtService(u, d, service) }
	return u.close(a.operateOr(ctx, u, estate.OperationOptions{
		Name: "plan", Bare: pf.destroy, Variables: vars.Variables, State: sf.StateOptions,
		Parallelism: pf.parallelism.value, LockAs: "OperationTypePlan",
	}, elsewhere, func(r *operationRun) int {
		if *detach {
			r.ui.diagnostics(notDetached())
			return 1
		}
		texts, diags := r.Generate(ctx, *generated)
		if diags.HasErrors() {
			r.ui.diagnostics(diags)
			return 1
		}
		spec.generated = texts
		planned, diags := r.show(ctx, spec)
		written := ""
		if len(texts) > 0 {
			written = *generated
		}
		diags = diags.Append(a.estate.WriteGenerated(written, texts))
		if planned != nil && *out != "" {
			if err := a.estate.WritePlan(ctx, *out, r.Saved(planned.Plan)); err != nil {
				diags = diags.Append(diag.New(diag.Error, "Failed to write plan file", err.Error()+".", nil))
			}
		}
		if planned != nil && !diags.HasErrors() {
			r.ui.planned(planned.Plan, *out, written)
		}
		r.ui.diagnostics(diags)
		if planned == nil || diags.HasErrors() {
			return 1
		}
		if *detailed && planned.Plan.Differs() {
			return 2
		}
		return 0
	}))
}

// newFile checks that the file of -generate-config-out can be made.
func newFile(name string, mode plan.Mode) diag.List {
	switch {
	case name == "":
		return nil
	case mode != plan.Normal:
		return diag.Errors("Invalid generate-config-out flag", "Neither -destroy nor -refresh-only imports anything, "+
			"so there is nothing to generate configuration for.", nil)
	}
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		return diag.Errors("Target generated file already exists",
			fmt.Sprintf("The file %s is there already, and generated configuration goes only to a new file. Name "+
				"another one, or move what is in this one to another file and remove it.", name), nil)
	}
	return nil
}
