package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/lang/diag"
)

const stateRestoreUsage = `
Usage: coordinator [global options] state restore [options] [SERIAL]

  Restores an earlier version of the state, as a new version. Every version is kept. Without a serial, the versions
  are listed.

Options:
` + lockHelp + variablesHelp + jsonHelp

func runStateRestore(ctx context.Context, a *app, args []string) int {
	var e editFlags
	f := a.NewFlags()
	e.registerLock(f)
	s, code, ok := a.begin(f, stateRestoreUsage, args, &e.view)
	if !ok {
		return code
	}
	var serial uint64
	var err error
	switch {
	case f.NArg() > 1:
		return s.WrongUsage("Invalid number of arguments", "The command takes the serial of one version, or nothing.")
	case f.NArg() == 1:
		if serial, err = strconv.ParseUint(f.Arg(0), 10, 64); err != nil {
			return s.WrongUsage("Invalid serial", fmt.Sprintf("%q is not a serial: a serial is a whole number.", f.Arg(0)))
		}
	}
	list := f.NArg() == 0
	e.state.Lock = e.state.Lock && !list
	e.state.Settle = !list
	return s.WithState(ctx, e.vars.Variables, e.state.StateOptions, "state-restore", func(at estate.Changeable) diag.List {
		o := at.(*estate.Opened)
		if list {
			return s.versions(ctx, o)
		}
		return o.RestoreVersion(ctx, serial)
	})
}

// versions lists the stored versions, the newest first.
func (s *screen) versions(ctx context.Context, o *estate.Opened) diag.List {
	all, err := o.Versions().Versions(ctx, o.Workspace)
	if err != nil {
		return diag.Errors("Failed to read the versions", err.Error()+".", nil)
	}
	for i := len(all) - 1; i >= 0; i-- {
		s.Say(fmt.Sprintf("%d  %s  %s", all[i].Serial, all[i].At.Local().Format("2006-01-02 15:04:05"), all[i].Cause))
	}
	return nil
}
