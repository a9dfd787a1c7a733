package main

import (
	"context"
	"fmt"

	"github.com/millipede-iac/millipede/cmd/internal/running"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
)

const importUsage = `
Usage: coordinator [global options] import [options] ADDRESS ID

  Imports an existing object into the state, as the resource instance at ADDRESS, for which the configuration must
  have a block. The documentation of the resource type describes the ID. No real object is changed.

Options:
  -config=DIR           Where the configuration is. Default: the working directory.
  -var 'NAME=VALUE'     Set an input variable of the root module. May be given several times.
  -var-file=FILE        Set the variables in a file, beside terraform.tfvars and *.auto.tfvars.
` + remoteVersionHelp + operatingHelp + writingHelp + deprecationHelp + jsonHelp

func runImport(ctx context.Context, a *app, args []string) int {
	var vars variableFlags
	var vf viewFlags
	var sf stateFlags
	f := a.NewFlags()
	vars.register(f)
	vf.RegisterRun(f)
	sf.register(f)
	dir := f.String("config", "", "")
	var parallelism parallelismFlag
	parallelism.register(f)
	a.registerRemoteVersion(f)
	if code, done := a.Parse(f, importUsage, args); done {
		return code
	}
	u, diags := running.NewScreen(a.App, vf, running.Kind{Imports: true})
	at, more := importAddress(f.Args())
	if diags = diags.Append(more); diags.HasErrors() {
		u.Diagnostics(diags)
		return u.Close(1)
	}
	vars.Input = vars.Input && !vf.JSON // no prompts with JSON output
	o := estate.OperationOptions{Name: "import", Variables: vars.Variables, State: sf.StateOptions,
		Parallelism: parallelism.value, LockAs: "OperationTypeInvalid", Dir: *dir}
	o.Suits = func(tree *config.Tree) diag.List { return estate.Importable(tree, at) }
	return u.Close(running.Here(ctx, a.App, u, o, func(r *running.Run) int { return importOne(ctx, r, at, f.Arg(1)) }))
}

// importAddress parses the arguments: the address of the instance, and the ID.
func importAddress(args []string) (addr.Instance, diag.List) {
	if len(args) != 2 {
		return addr.Instance{}, diag.Errors("Invalid number of arguments", "The import command takes two arguments: "+
			"the address to import to, and the ID of the object.", nil)
	}
	at, diags := addr.ParseInstance(args[0])
	if !diags.HasErrors() && at.Resource.Mode != addr.Managed {
		diags = diag.Errors("Invalid target resource address", fmt.Sprintf("Only managed resources can be imported, and "+
			"%s is none.", at), nil)
	}
	return at, diags
}

// importOne reads an object and adds it to the state.
func importOne(ctx context.Context, r *running.Run, at addr.Instance, id string) int {
	planned, diags := r.Plan(ctx, plan.Options{Mode: plan.RefreshOnly, Imports: map[addr.Instance]string{at: id}})
	if planned == nil || diags.HasErrors() {
		r.UI.Diagnostics(diags)
		return 1
	}
	diags = diags.Append(estate.Imported(planned.Plan, at))
	if diags.HasErrors() {
		r.UI.Diagnostics(diags)
		return 1
	}
	return storeResults(ctx, r, planned.Plan, "import", diags)
}

// storeResults writes the results of a plan into the state, with the outputs that are known.
func storeResults(ctx context.Context, r *running.Run, found *plan.Plan, command string, diags diag.List) int {
	r.UI.Diagnostics(diags)
	return r.CarryOut(ctx, estate.Adopt(found), command)
}
