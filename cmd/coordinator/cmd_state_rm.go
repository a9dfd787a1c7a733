package main

import (
	"context"
	"fmt"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
)

const stateRmUsage = `
Usage: coordinator [global options] state rm [options] ADDRESS...

  Takes resource instances out of the state: those that are named, all of a resource, or all of a module and of those
  below it. The objects themselves are not destroyed, they are forgotten.

Options:
  -dry-run              Only show what would be removed.
` + remoteVersionHelp + lockHelp + stateFileHelp + variablesHelp + jsonHelp

func runStateRm(ctx context.Context, a *app, args []string) int {
	var sf showFlags
	var vars variableFlags
	var lf stateFlags
	f := a.newFlags()
	sf.register(f)
	vars.registerValues(f)
	lf.registerFile(f)
	dryRun := f.Bool("dry-run", false, "")
	registerRemoteVersion(f)
	if code, done := a.parse(f, stateRmUsage, args); done {
		return code
	}
	s, diags := a.newStreamScreen(sf, nil)
	if f.NArg() == 0 && !diags.HasErrors() {
		return s.wrongUsage("Invalid number of arguments", "At least one address is required.")
	}
	var targets []addr.Target
	for _, arg := range f.Args() {
		t, more := addr.ParseTarget(arg)
		diags = diags.Append(more)
		targets = append(targets, t)
	}
	if diags.HasErrors() {
		return s.end(diags)
	}
	operation := "state-rm"
	if *dryRun {
		operation = ""
	}
	s.wholeConfig = true
	return s.withState(ctx, vars, lf, operation, func(at aState) diag.List {
		st, diags := at.load(ctx)
		if diags.HasErrors() {
			return diags
		}
		if neverStored(st) {
			return noStateFile()
		}
		found, problems := matching(st, targets)
		if problems.HasErrors() {
			return diag.Errors("Invalid target address",
				"No matching objects found: "+problems[0].Detail+" To see the addresses, run: "+diag.Program()+" state list", nil)
		}
		var changes []state.Change
		verb := "Removed"
		if *dryRun {
			verb = "Would remove"
		}
		for _, i := range found {
			s.say(fmt.Sprintf("%s %s", verb, i))
			changes = append(changes, removal(st, i)...)
		}
		if *dryRun {
			return diags
		}
		if diags = diags.Append(at.commit(ctx, changes)); !diags.HasErrors() {
			s.say(fmt.Sprintf("Successfully removed %d resource instance(s).", len(found)))
		}
		return diags
	})
}

// removal returns the changes that take an instance with all its objects out of a state.
func removal(st *state.State, at addr.Instance) []state.Change {
	i := st.Instance(at)
	var out []state.Change
	for key := range i.Deposed {
		out = append(out, state.SetObject{Addr: at, Deposed: key})
	}
	if i.Current != nil {
		out = append(out, state.SetObject{Addr: at})
	}
	return out
}
