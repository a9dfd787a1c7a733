package main

import (
	"context"
	"fmt"

	"github.com/millipede-iac/millipede/graph/plan/planfile"
	"github.com/millipede-iac/millipede/lang/diag"
)

const planUsage = `
Usage: coordinator [global options] plan [options]

  Shows what would change to bring what exists in line with the configuration. Nothing is changed.

Planning modes:
  -destroy              Plan to destroy everything that exists.
  -refresh-only         Plan only to record what was changed outside.

Options for planning:
  -refresh=false        Take what the state says for what exists.
  -target=ADDRESS       Plan only this module, resource or instance and what it depends on. May be given often.
  -target-file=FILE     The same, with the addresses in a file, one a line.
  -exclude=ADDRESS      Plan all but this and what depends on it. May be given often.
  -exclude-file=FILE    The same, with the addresses in a file.
  -replace=ADDRESS      Plan to replace this instance. May be given often.
  -var 'NAME=VALUE'     Set an input variable of the root module. May be given often.
  -var-file=FILE        Set the variables in a file, beside terraform.tfvars and *.auto.tfvars.

Other options:
  -out=FILE             Save the plan to a file, to apply exactly that.
  -detailed-exitcode    Exit with 0 when nothing would change, with 2 when something would, with 1 after an error.
  -parallelism=N        How many operations may go on at one time, over all runs. Default: 10.
  -input=false          Do not ask for variables that have no value.
  -lock=false           Do not lock the state meanwhile.
  -lock-timeout=0s      How long to wait for a lock that another command holds.
  -state=FILE           An old option of the local backend: the state file.
  -compact-warnings     Show warnings without their details, unless there are errors.
  -consolidate-warnings=false, -consolidate-errors
                        Whether problems of the same kind are shown as one.
  -concise              Do not show the refreshing.
  -json                 Show everything as JSON, a line for each message.
  -no-color             Use no colours.
`

func runPlan(ctx context.Context, a *app, args []string) int {
	var vars variableFlags
	var vf viewFlags
	var sf stateFlags
	var pf planFlags
	f := a.newFlags()
	vars.register(f)
	vf.register(f)
	sf.register(f)
	pf.register(f)
	out := f.String("out", "", "")
	detailed := f.Bool("detailed-exitcode", false, "")
	if code, done := a.parse(f, planUsage, args); done {
		return code
	}
	u := a.newUI(vf, "plan", nil)
	if f.NArg() > 0 {
		u.diagnostics(diag.Errors("Too many command line arguments", fmt.Sprintf("The plan command takes no arguments, and got %q. To plan in another directory, give the global option -chdir=DIR.", f.Arg(0)), nil))
		return 1
	}
	spec, diags := pf.spec()
	if diags.HasErrors() {
		u.diagnostics(diags)
		return 1
	}
	return a.operate(ctx, operationOptions{
		command: "plan", vars: vars, state: sf, view: vf, parallelism: pf.parallelism, lockAs: "OperationTypePlan",
	}, func(r *operationRun) int {
		planned, ok := r.plan(ctx, spec)
		if planned != nil && *out != "" {
			if err := planfile.Write(*out, r.save(planned.Plan)); err != nil {
				r.ui.diagnostics(diag.Errors("Failed to write plan file", err.Error()+".", nil))
				return 1
			}
		}
		if !ok {
			return 1
		}
		r.ui.planned(planned.Plan, *out)
		if *detailed && planned.Plan.HasChanges() {
			return 2
		}
		return 0
	})
}
