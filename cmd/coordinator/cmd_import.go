package main

import (
	"context"
	"fmt"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/cmd/running"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/coordinator/planning"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
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
	o.Suits = func(tree *config.Tree) diag.List { return importable(tree, at) }
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

// importable checks that the configuration has a block for the instance: otherwise the next plan would destroy
// the object.
func importable(tree *config.Tree, at addr.Instance) diag.List {
	n := tree.Modules[at.Module.Module()]
	if n == nil {
		return diag.Errors("Import to non-existent module", fmt.Sprintf("The configuration has no %s. Add it before "+
			"importing into it.", at.Module), nil)
	}
	if n.Module.Resources[at.Resource] == nil {
		return diag.Errors(fmt.Sprintf("resource address %q does not exist in the configuration.", at),
			fmt.Sprintf("Add its block to %s first, for example:\n\nresource %q %q {\n  # (arguments)\n}",
				at.Module.Display(), at.Resource.Type, at.Resource.Name), nil)
	}
	return nil
}

// importOne reads an object and adds it to the state.
func importOne(ctx context.Context, r *running.Run, at addr.Instance, id string) int {
	planned, diags := r.Prepare(ctx, running.Spec{
		Mode: plan.RefreshOnly, Imports: map[addr.Instance]*planning.ImportTarget{at: {ID: id}},
	})
	if planned == nil || diags.HasErrors() {
		r.UI.Diagnostics(diags)
		return 1
	}
	for _, o := range planned.Plan.Outputs {
		if o.Action == plan.Delete {
			o.Action = plan.NoOp
		} else {
			o.After = cty.UnknownAsNull(o.After) // without a plan, unknown values cannot become known
		}
	}
	if planned.Plan.Prior.Object(at, state.CurrentObject) == nil {
		r.UI.Diagnostics(diags.Append(diag.New(diag.Error, "Configuration for import target does not exist",
			fmt.Sprintf("The resource has no instance %s.", at), nil)))
		return 1
	}
	return adopt(ctx, r, planned.Plan, "import", diags)
}

// adopt writes the results of a plan into the state, with the outputs that are known.
func adopt(ctx context.Context, r *running.Run, found *plan.Plan, command string, diags diag.List) int {
	r.UI.Diagnostics(diags)
	return r.CarryOut(ctx, estate.Adopt(found), command)
}
