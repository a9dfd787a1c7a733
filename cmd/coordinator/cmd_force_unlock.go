package main

import (
	"context"
	"fmt"

	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/lang/diag"
)

const forceUnlockUsage = `
Usage: coordinator [global options] force-unlock [options] LOCK_ID

  Releases a lock that somebody left on the state of the workspace. What its holder still writes is refused from then
  on. A lock whose process has ended on this machine is free by itself, and a local state file that another process
  has locked cannot be unlocked.

Options:
  -force                Do not ask.
` + variablesHelp + jsonHelp

func runForceUnlock(ctx context.Context, a *app, args []string) int {
	var sf showFlags
	var vars variableFlags
	f := a.newFlags()
	sf.register(f)
	vars.registerValues(f)
	force := f.Bool("force", false, "")
	if code, done := a.parse(f, forceUnlockUsage, args); done {
		return code
	}
	s, diags := a.newStreamScreen(sf, nil)
	switch {
	case diags.HasErrors():
		return s.end(diags)
	case f.NArg() != 1:
		return s.wrongUsage("Wrong number of arguments", "The command takes the ID of a lock, which the message "+
			"about the lock names.")
	case sf.json && !*force:
		return s.wrongUsage("Invalid usage", "With -json nobody can be asked, so -force is required.")
	}
	if diags.HasErrors() {
		return s.end(diags)
	}
	root, more := a.estate.FindRoot(s.finding(vars))
	if diags = diags.Append(more); diags.HasErrors() {
		return s.end(diags)
	}
	backend, more := a.estate.OpenBackend(ctx, root, estate.StateOptions{})
	if diags = diags.Append(more); diags.HasErrors() {
		return s.end(diags)
	}
	if d := backend.Describe(a.estate.Workspace()); d.Unlockable {
		return s.end(diags.Append(diag.New(diag.Error, "Failed to unlock state",
			fmt.Sprintf("Locking is switched off for the backend of %s, so there is no lock to release.", d.Where),
			nil)))
	}
	if !*force {
		yes, more := s.confirm("Do you really want to force-unlock?",
			"Whoever holds the lock may still be at work, and two commands at one time can damage what they "+
				"manage.\n  Only 'yes' will be accepted to confirm.", true)
		if diags = diags.Append(more); more.HasErrors() || !yes {
			s.say("force-unlock cancelled.")
			return max(1, s.end(diags))
		}
	}
	if diags = diags.Append(a.estate.Unlock(ctx, backend, f.Arg(0))); !diags.HasErrors() {
		s.say(a.ink(sf.viewFlags).Success("State has been successfully unlocked!") + "\n\nThe state is free, and " +
			"commands can lock it again.")
	}
	return s.end(diags)
}
