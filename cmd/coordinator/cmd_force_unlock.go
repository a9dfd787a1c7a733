package main

import (
	"context"
	"fmt"

	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/lang/diag"
)

const forceUnlockUsage = `
Usage: coordinator [global options] force-unlock [options] LOCK_ID

  Releases a lock that was left on the state of the workspace. Later writes of its holder are refused. A lock whose
  process on this machine has ended is released automatically. A local state file that another process has locked
  cannot be unlocked.

Options:
  -force                Do not ask.
` + variablesHelp + jsonHelp

func runForceUnlock(ctx context.Context, a *app, args []string) int {
	var e editFlags
	f := a.NewFlags()
	e.register(f)
	force := f.Bool("force", false, "")
	s, code, ok := a.begin(f, forceUnlockUsage, args, &e.view)
	if !ok {
		return code
	}
	switch {
	case f.NArg() != 1:
		return s.WrongUsage("Wrong number of arguments", "The command takes the ID of a lock, which is part of the message "+
			"about the lock.")
	case e.view.JSON && !*force:
		return s.WrongUsage("Invalid usage", "With -json the command cannot ask for confirmation, so -force is required.")
	}
	root, diags := a.Estate.FindRoot(s.Finding(e.vars.Variables))
	if diags.HasErrors() {
		return s.End(diags)
	}
	backend, more := a.Estate.OpenBackend(ctx, root, estate.StateOptions{})
	if diags = diags.Append(more); diags.HasErrors() {
		return s.End(diags)
	}
	if d := backend.Describe(a.Estate.Workspace()); d.Unlockable {
		return s.End(diags.Append(diag.New(diag.Error, "Failed to unlock state",
			fmt.Sprintf("Locking is disabled for the backend of %s, so there is no lock to release.", d.Where),
			nil), a.Estate.CloseBackend(backend)))
	}
	if !*force {
		yes, more := s.Confirm("Do you really want to force-unlock?",
			"The holder of the lock may still be working, and two commands at the same time can damage the objects they "+
				"manage.\n  Only 'yes' will be accepted to confirm.", true)
		if diags = diags.Append(more); more.HasErrors() || !yes {
			s.Say("force-unlock cancelled.")
			return max(1, s.End(diags.Append(a.Estate.CloseBackend(backend))))
		}
	}
	if diags = diags.Append(a.Estate.Unlock(ctx, backend, f.Arg(0))); !diags.HasErrors() {
		s.Say(a.Ink(e.view).Success("State has been successfully unlocked!") + "\n\nThe state is free, and " +
			"commands can lock it again.")
	}
	return s.End(diags.Append(a.Estate.CloseBackend(backend)))
}
