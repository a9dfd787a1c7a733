package main

import (
	"context"
	"fmt"

	"github.com/millipede-iac/millipede/cmd/coordinator/view"
	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/lang/diag"
)

const validateUsage = `
Usage: coordinator [global options] validate [options]

  Checks the configuration in this directory: its syntax, its references, its arguments by the schemas of the
  providers. Neither the state nor anything outside is looked at.

Options:
  -json                 Show the result as JSON.
  -var 'NAME=VALUE', -var-file=FILE
                        Variables that sources of modules depend on.
` + textHelp

func runValidate(ctx context.Context, a *app, args []string) int {
	var vars variableFlags
	var sf showFlags
	f := a.newFlags()
	vars.registerValues(f)
	sf.registerText(f)
	f.BoolVar(&sf.json, "json", false, "")
	if code, done := a.parse(f, validateUsage, args); done {
		return code
	}
	vf := sf.viewFlags
	wd, diags := a.newWorkdir(vars)
	if f.NArg() > 0 {
		diags = diags.Append(diag.New(diag.Error, "Too many command line arguments", fmt.Sprintf("The validate command takes no arguments, and got %q.", f.Arg(0)), nil))
	}
	if !diags.HasErrors() {
		diags = diags.Append(wd.load())
	}
	if !diags.HasErrors() {
		diags = diags.Append(a.validate(ctx, wd))
	}
	if vf.json {
		if _, err := a.stdout.Write(view.ValidateJSON(diags, wd.loader.Sources())); err != nil {
			return 1
		}
	} else {
		vf.json = false
		u := a.newTextUI(vf, "validate")
		u.from(wd.loader.Sources)
		u.diagnostics(diags)
		if !diags.HasErrors() {
			fmt.Fprintln(a.stdout, view.ValidText(len(diags) > 0, a.text(vf)))
		}
	}
	if diags.HasErrors() {
		return 1
	}
	return 0
}

// validate checks a loaded configuration.
func (a *app) validate(ctx context.Context, wd *workdir) diag.List {
	e, diags := a.openEngine(ctx, engineOptions{tree: wd.tree, loader: wd.loader, observer: coordinator.Silent{}, parallelism: unset})
	if diags.HasErrors() {
		return diags
	}
	diags = diags.Append(e.Validate(ctx))
	return diags.Append(e.close())
}
