package main

import (
	"context"
	"fmt"

	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/edit"
)

const taintUsage = `
Usage: coordinator [global options] taint [options] ADDRESS

  Marks a resource instance as tainted: the next plan replaces its object. The option -replace of plan and apply does
  the same in one step.

Options:
  -allow-missing        Succeed if there is no such instance.
` + remoteVersionHelp + lockHelp + stateFileHelp + variablesHelp + jsonHelp

const untaintUsage = `
Usage: coordinator [global options] untaint [options] ADDRESS

  Removes the mark from a tainted resource instance: its object counts as intact again.

Options:
  -allow-missing        Succeed if there is no such instance.
` + remoteVersionHelp + lockHelp + stateFileHelp + variablesHelp + jsonHelp

func runTaint(ctx context.Context, a *app, args []string) int {
	return a.mark(ctx, args, "taint", taintUsage, "Resource instance %s has been marked as tainted.", edit.Taint)
}

func runUntaint(ctx context.Context, a *app, args []string) int {
	return a.mark(ctx, args, "untaint", untaintUsage, "Resource instance %s has been successfully untainted.",
		edit.Untaint)
}

// mark implements taint and untaint: change returns the changed object, and done is the message about it.
func (a *app) mark(ctx context.Context, args []string, name, usage, done string,
	change func(addr.Instance, *state.Object) (*state.Object, diag.List)) int {
	var e editFlags
	f := a.NewFlags()
	e.registerFile(a, f)
	e.state.KeepsEach = false
	allowMissing := f.Bool("allow-missing", false, "")
	s, code, ok := a.begin(f, usage, args, &e.view)
	if !ok {
		return code
	}
	if f.NArg() != 1 {
		return s.WrongUsage("Invalid arguments", fmt.Sprintf("The %s command takes the address of one resource "+
			"instance.", name))
	}
	at, diags := addr.ParseInstance(f.Arg(0))
	if diags.HasErrors() {
		return s.End(diags)
	}
	if at.Resource.Mode != addr.Managed {
		return s.End(diag.Errors("Invalid resource address", fmt.Sprintf("Resource instance %s cannot be tainted: "+
			"only managed resources can.", at), nil))
	}
	s.WholeConfig = name == "taint"
	e.state.Objects = true
	return s.WithState(ctx, e.vars.Variables, e.state.StateOptions, name, func(opened estate.Changeable) diag.List {
		st, diags := opened.Load(ctx)
		if diags.HasErrors() {
			return diags
		}
		o := st.Object(at, state.CurrentObject)
		if o == nil {
			if *allowMissing {
				return diags.Append(diag.New(diag.Warning, "No such resource instance",
					fmt.Sprintf("There is no resource instance %s in the state. That is not an error because of "+
						"-allow-missing.", at), nil))
			}
			why := fmt.Sprintf("There is no resource instance %s in the state. A new one of the "+
				"configuration is added to the state when it is applied.", at)
			if len(st.Resources) == 0 {
				why = "There are no resource instances in the state at all: nothing has been applied yet, or everything " +
					"was destroyed."
			}
			return diags.Append(diag.New(diag.Error, "No such resource instance", why, nil))
		}
		marked, more := change(at, o)
		if diags = diags.Append(more); more.HasErrors() {
			return diags
		}
		diags = diags.Append(opened.Commit(ctx, []state.Change{state.SetObject{Addr: at, Provider: st.ProviderOf(at),
			Object: marked}}))
		if !diags.HasErrors() {
			s.Say(fmt.Sprintf(done, at))
		}
		return diags
	})
}
