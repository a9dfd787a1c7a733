package main

import (
	"context"
	"fmt"

	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/edit"
)

const stateRmUsage = `
Usage: coordinator [global options] state rm [options] ADDRESS...

  Removes resource instances from the state: named ones, all of a resource, or all of a module and of the modules
  below it. The objects are not destroyed; Millipede no longer manages them.

Options:
  -dry-run              Only show what would be removed.
` + remoteVersionHelp + lockHelp + stateFileHelp + variablesHelp + jsonHelp

func runStateRm(ctx context.Context, a *app, args []string) int {
	var e editFlags
	f := a.NewFlags()
	e.registerFile(a, f)
	dryRun := f.Bool("dry-run", false, "")
	s, code, ok := a.begin(f, stateRmUsage, args, &e.view)
	if !ok {
		return code
	}
	if f.NArg() == 0 {
		return s.WrongUsage("Invalid number of arguments", "At least one address is required.")
	}
	targets, malformed := parseTargets(f.Args())
	operation := "state-rm"
	if *dryRun {
		operation = ""
	}
	s.WholeConfig = true
	e.state.Objects = true
	return s.WithState(ctx, e.vars.Variables, e.state.StateOptions, operation, func(at estate.Changeable) diag.List {
		st, diags := at.Load(ctx)
		if diags.HasErrors() {
			return diags
		}
		switch {
		case edit.IsNone(st):
			return noStateFile()
		case malformed.HasErrors():
			return malformed
		}
		found, problems := edit.Matching(st, targets)
		if len(found) == 0 && *dryRun {
			s.Say("Would have removed nothing.")
			return diags
		}
		if len(found) == 0 { // as in OpenTofu, some of several may be missing
			return diag.Errors("Invalid target address",
				"No matching objects found: "+problems[0].Detail+" To see the addresses, run: "+diag.Program()+
					" state list", nil)
		}
		var changes []state.Change
		verb := "Removed"
		if *dryRun {
			verb = "Would remove"
		}
		for _, i := range found {
			s.Say(fmt.Sprintf("%s %s", verb, i))
			changes = append(changes, edit.Removal(st, i)...)
		}
		if *dryRun {
			return diags
		}
		if diags = diags.Append(at.Commit(ctx, changes)); !diags.HasErrors() {
			s.Say(fmt.Sprintf("Successfully removed %d resource instance(s).", len(found)))
		}
		return diags
	})
}
