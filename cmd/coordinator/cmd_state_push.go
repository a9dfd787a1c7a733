package main

import (
	"context"
	"fmt"

	"github.com/millipede-iac/millipede/bounds"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/tfstate"
)

const statePushUsage = `
Usage: coordinator [global options] state push [options] FILE

  Replaces the state of the workspace with the one in a file or, with "-", on standard input. A state with another
  lineage, or one that is older than the present state, is refused.

Options:
  -force                Replace it anyway. The replaced state is kept as an earlier version.
` + remoteVersionHelp + lockHelp + variablesHelp + jsonHelp

func runStatePush(ctx context.Context, a *app, args []string) int {
	var sf viewFlags
	var vars variableFlags
	var lf stateFlags
	f := a.NewFlags()
	sf.RegisterJSON(f)
	vars.registerValues(f)
	lf.registerLock(f)
	force := f.Bool("force", false, "")
	a.registerRemoteVersion(f)
	if code, done := a.Parse(f, statePushUsage, args); done {
		return code
	}
	s, diags := a.newStreamScreen(sf, nil)
	switch {
	case diags.HasErrors():
		return s.End(diags)
	case f.NArg() != 1:
		return s.WrongUsage("Invalid number of arguments", "The command takes the name of one file, or \"-\".")
	}
	theirs, diags := a.readStateFile(f.Arg(0))
	if diags.HasErrors() {
		return s.End(diags)
	}
	s.WholeConfig = true
	lf.Settle = *force
	return s.WithState(ctx, vars.Variables, lf.StateOptions, "state-push", func(at estate.Changeable) diag.List {
		ours, diags := at.Load(ctx)
		if diags.HasErrors() {
			return diags
		}
		if ours.Lineage == theirs.Lineage && ours.Serial == theirs.Serial && ours.SameContent(theirs) {
			return diags.Append(at.(*estate.Opened).Push(ctx)) // if it has not reached the backend, it is in errored.tfstate
		}
		if !*force {
			if why := refusal(ours, theirs); why != "" {
				return diag.Errors("Failed to write the imported state", why, nil)
			}
		}
		// As in OpenTofu, the push creates a version of its own: the serial in the file remains that of the
		// file.
		theirs.Serial++
		return diags.Append(at.(*estate.Opened).Replace(ctx, theirs, "state push"))
	})
}

// readStateFile reads a state from a file or, for "-", from standard input.
func (a *app) readStateFile(name string) (*state.State, diag.List) {
	var text []byte
	var err error
	if name == "-" {
		text, err = bounds.ReadAll(a.Stdin, "standard input", bounds.Stream)
	} else {
		text, err = bounds.ReadFile(a.Path(name), bounds.State)
	}
	if err != nil {
		return nil, diag.Errors("Failed to open the given state file", err.Error()+".", nil)
	}
	st, diags := tfstate.Parse(text)
	what := fmt.Sprintf("Failed to read source state %q", name)
	switch {
	case diags.HasErrors():
		return nil, diag.Errors(what, diags.Err().Error(), nil)
	case st == nil:
		return nil, diag.Errors(what, "The file has no state.", nil)
	}
	return st, diags
}

// refusal returns the reason why a state may not replace another one; empty if it may.
func refusal(ours, theirs *state.State) string {
	switch {
	case ours.IsEmpty(), theirs.Lineage == "":
		return "" // nothing can be lost, or the state is from a version without lineages
	case ours.Lineage != "" && theirs.Lineage != "" && ours.Lineage != theirs.Lineage:
		return fmt.Sprintf("cannot import state with lineage %q over unrelated state with lineage %q",
			theirs.Lineage, ours.Lineage)
	case theirs.Serial < ours.Serial:
		return fmt.Sprintf("cannot import state with serial %d over newer state with serial %d",
			theirs.Serial, ours.Serial)
	case theirs.Serial == ours.Serial:
		return fmt.Sprintf("cannot overwrite existing state with serial %d with a different state that has the "+
			"same serial", ours.Serial)
	}
	return ""
}
