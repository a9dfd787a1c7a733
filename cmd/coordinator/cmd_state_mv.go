package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
)

const stateMvUsage = `
Usage: coordinator [global options] state mv [options] SOURCE DESTINATION

  Gives what has one address in the state another one: a resource instance, a resource with all its instances, or a
  module with all that is in it. With -state-out the objects move to another state file.

  A "moved" block in the configuration does the same for everybody who uses it, and is planned first.

Options:
  -dry-run              Only show what would be moved.
  -backup-out=FILE      With -state-out: where the state in that file before the change is written.
` + remoteVersionHelp + lockHelp + stateFileHelp + variablesHelp + jsonHelp

func runStateMv(ctx context.Context, a *app, args []string) int {
	var sf showFlags
	var vars variableFlags
	var lf stateFlags
	f := a.newFlags()
	sf.register(f)
	vars.registerValues(f)
	lf.registerFile(f)
	dryRun := f.Bool("dry-run", false, "")
	backupOut := f.String("backup-out", "", "")
	registerRemoteVersion(f)
	if code, done := a.parse(f, stateMvUsage, args); done {
		return code
	}
	s, diags := a.newStreamScreen(sf, nil)
	switch {
	case diags.HasErrors():
		return s.end(diags)
	case f.NArg() != 2:
		return s.wrongUsage("Invalid number of arguments", "The command takes two addresses: what to move, and where to.")
	case *backupOut != "" && lf.stateOut == "":
		return s.wrongUsage("Invalid combination of arguments", "The -backup-out option is about the file of -state-out, and there is none.")
	}
	from, more := addr.ParseTarget(f.Arg(0))
	diags = diags.Append(more)
	to, more := addr.ParseTarget(f.Arg(1))
	if diags = diags.Append(more); diags.HasErrors() {
		return s.end(diags)
	}
	operation := "state-mv"
	if *dryRun {
		operation = ""
	}
	elsewhere := lf
	if elsewhere.state = lf.stateOut; lf.stateOut == lf.state {
		elsewhere.state = ""
	}
	elsewhere.stateOut, elsewhere.backup = "", *backupOut
	lf.stateOut = ""
	s.wholeConfig = true
	return s.withState(ctx, vars, lf, operation, func(at aState) diag.List {
		source, diags := at.load(ctx)
		switch {
		case diags.HasErrors():
			return diags
		case neverStored(source):
			return noStateFile()
		case elsewhere.state == "":
			return diags.Append(s.move(ctx, at, source, at, source, from, to, *dryRun))
		}
		file, more := a.openFile(ctx, vars, elsewhere, operation)
		if diags = diags.Append(more); diags.HasErrors() {
			return diags
		}
		target, more := file.load(ctx)
		if diags = diags.Append(more); !diags.HasErrors() {
			diags = diags.Append(s.move(ctx, at, source, file, target, from, to, *dryRun))
		}
		return diags.Append(file.close(ctx))
	})
}

// move moves objects from a state to the same or another one, and tells what it did.
func (s *screen) move(ctx context.Context, at aState, source *state.State, to aState, target *state.State, from, dest addr.Target, dryRun bool) diag.List {
	moves, diags := plannedMoves(source, target, from, dest)
	if diags.HasErrors() {
		return diags
	}
	verb := "Move"
	if dryRun {
		verb = "Would move"
	}
	var away, arrive []state.Change
	for _, m := range moves {
		s.say(fmt.Sprintf("%s %q to %q", verb, m.from, m.to))
		for _, i := range m.instances {
			if source == target {
				away = append(away, state.MoveInstance{From: i.from, To: i.to})
				continue
			}
			arrive = append(arrive, arrival(source, i.from, i.to)...)
			away = append(away, removal(source, i.from)...)
		}
	}
	if dryRun {
		return diags
	}
	if source == target {
		away = append(away, severed(target, away, from)...)
	} else {
		arrive = append(arrive, severed(target, arrive, from)...)
	}
	// What arrives is durable before it leaves: a crash between the two leaves it in both states, never in none.
	if len(arrive) > 0 {
		diags = diags.Append(to.commit(ctx, arrive))
	}
	if !diags.HasErrors() {
		diags = diags.Append(at.commit(ctx, away))
	}
	if !diags.HasErrors() {
		s.say(fmt.Sprintf("Successfully moved %d object(s).", len(moves)))
	}
	return diags
}

// severed returns the changes that leave the objects of a state, as it is after moves, without dependencies, where one of
// them is on what has moved: as in OpenTofu, the next apply records them all anew. A dependency is on all instances of a
// resource, so one in a module is none on a single instance of that.
func severed(st *state.State, moves []state.Change, from addr.Target) []state.Change {
	moved := func(d state.Dependency) bool {
		if from.Kind == addr.TargetModuleInstance {
			return from.CoversResource(d.Value())
		}
		return from.TouchesResource(d.Value())
	}
	st = st.Clone()
	st.Apply(moves...)
	var out []state.Change
	for _, a := range st.Addrs() {
		o := st.Instance(a).Current
		if o == nil || !slices.ContainsFunc(slices.Collect(o.Dependencies.All()), moved) {
			continue
		}
		alone := *o
		alone.Dependencies = nil
		out = append(out, state.SetObject{Addr: a, Provider: st.ProviderOf(a), Object: &alone})
	}
	return out
}

// arrival returns the changes that put all objects of an instance into another state.
func arrival(source *state.State, from, to addr.Instance) []state.Change {
	i, provider := source.Instance(from), source.ProviderOf(from)
	var out []state.Change
	if i.Current != nil {
		out = append(out, state.SetObject{Addr: to, Provider: provider, Object: i.Current})
	}
	for key, o := range i.Deposed {
		out = append(out, state.SetObject{Addr: to, Deposed: key, Provider: provider, Object: o})
	}
	return out
}
