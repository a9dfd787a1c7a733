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

const stateMvUsage = `
Usage: coordinator [global options] state mv [options] SOURCE DESTINATION

  Changes the address of objects in the state: of a resource instance, of a resource with all its instances, or of a
  module with everything in it. With -state-out the objects move to another state file.

  A "moved" block in the configuration does the same for all users of the configuration, and is planned first.

Options:
  -dry-run              Only show what would be moved.
  -backup-out=FILE      With -state-out: the file for a copy of that state before the change. Otherwise without effect.
` + remoteVersionHelp + lockHelp + stateFileHelp + variablesHelp + jsonHelp

func runStateMv(ctx context.Context, a *app, args []string) int {
	var e editFlags
	f := a.NewFlags()
	e.registerFile(a, f)
	dryRun := f.Bool("dry-run", false, "")
	backupOut := f.String("backup-out", "", "")
	s, code, ok := a.begin(f, stateMvUsage, args, &e.view)
	if !ok {
		return code
	}
	if f.NArg() != 2 {
		return s.WrongUsage("Invalid number of arguments",
			"The command takes two addresses: the source and the destination.")
	}
	ends, malformed := parseTargets(f.Args())
	operation := "state-mv"
	if *dryRun {
		operation = ""
	}
	elsewhere := e.state
	if elsewhere.File = e.state.StateOut; e.state.StateOut == e.state.File {
		elsewhere.File = ""
	}
	elsewhere.StateOut, elsewhere.Backup = "", *backupOut
	e.state.StateOut = ""
	s.WholeConfig = true
	e.state.Objects = true
	return s.WithState(ctx, e.vars.Variables, e.state.StateOptions, operation, func(at estate.Changeable) diag.List {
		source, diags := at.Load(ctx)
		switch {
		case diags.HasErrors():
			return diags
		case edit.IsNone(source):
			return noStateFile()
		case malformed.HasErrors():
			return malformed
		case elsewhere.File == "":
			return diags.Append(s.move(ctx, at, source, at, source, ends[0], ends[1], *dryRun))
		}
		file, more := a.Estate.OpenFile(ctx, e.vars.Variables, elsewhere.StateOptions, operation)
		if diags = diags.Append(more); diags.HasErrors() {
			return diags
		}
		target, more := file.Load(ctx)
		if diags = diags.Append(more); !diags.HasErrors() {
			diags = diags.Append(s.move(ctx, at, source, file, target, ends[0], ends[1], *dryRun))
		}
		return diags.Append(file.Close(ctx))
	})
}

// move moves objects from a state to the same or another one, and reports it.
func (s *screen) move(ctx context.Context, at estate.Changeable, source *state.State, to estate.Changeable,
	target *state.State, from, dest addr.Target, dryRun bool) diag.List {
	moves, diags := edit.PlannedMoves(source, target, from, dest)
	if diags.HasErrors() {
		return diags
	}
	verb := "Move"
	if dryRun {
		verb = "Would move"
	}
	for _, m := range moves {
		s.Say(fmt.Sprintf("%s %q to %q", verb, m.From, m.To))
	}
	if dryRun {
		return diags
	}
	if diags = diags.Append(estate.Move(ctx, moves, source, at, target, to)); !diags.HasErrors() {
		s.Say(fmt.Sprintf("Successfully moved %d object(s).", len(moves)))
	}
	return diags
}
