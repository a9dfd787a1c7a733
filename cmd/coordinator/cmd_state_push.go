package main

import (
	"context"

	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/internal/bounds"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/edit"
)

const statePushUsage = `
Usage: coordinator [global options] state push [options] FILE

  Replaces the state of the workspace with the one in a file or, with "-", on standard input. A state with another
  lineage, or one that is older than the present state, is refused.

Options:
  -force                Replace it anyway. The replaced state is kept as an earlier version.
` + remoteVersionHelp + lockHelp + variablesHelp + jsonHelp

func runStatePush(ctx context.Context, a *app, args []string) int {
	var e editFlags
	f := a.NewFlags()
	e.registerLock(f)
	force := f.Bool("force", false, "")
	a.registerRemoteVersion(f)
	s, code, ok := a.begin(f, statePushUsage, args, &e.view)
	if !ok {
		return code
	}
	if f.NArg() != 1 {
		return s.WrongUsage("Invalid number of arguments", "The command takes the name of one file, or \"-\".")
	}
	theirs, diags := a.readStateFile(f.Arg(0))
	if diags.HasErrors() {
		return s.End(diags)
	}
	s.WholeConfig = true
	e.state.Settle = *force
	return s.WithState(ctx, e.vars.Variables, e.state.StateOptions, "state-push", func(at estate.Changeable) diag.List {
		return at.(*estate.Opened).PushState(ctx, theirs, *force)
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
	return edit.ParseState(name, text)
}
