package main

import (
	"flag"
	"fmt"

	"github.com/hashicorp/hcl/v2"

	"github.com/millipede-iac/millipede/cmd/internal/command"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
)

// app is one invocation.
type app struct{ *command.App }

// screen is the output of a command that executes no run.
type screen struct{ *command.Screen }

// viewFlags are the options about output.
type viewFlags = command.ViewFlags

// newScreen is command.App.NewScreen.
func (a *app) newScreen(f viewFlags, sources func() map[string]*hcl.File) (*screen, diag.List) {
	s, diags := a.NewScreen(f, sources)
	return &screen{s}, diags
}

// newStreamScreen is command.App.NewStreamScreen.
func (a *app) newStreamScreen(f viewFlags, sources func() map[string]*hcl.File) (*screen, diag.List) {
	s, diags := a.NewStreamScreen(f, sources)
	return &screen{s}, diags
}

// begin parses the options of a command, and makes its screen with those in show. If it is not ok, the command must
// exit with code.
func (a *app) begin(f *flag.FlagSet, usage string, args []string, show *viewFlags) (s *screen, code int, ok bool) {
	if code, done := a.Parse(f, usage, args); done {
		return nil, code, false
	}
	s, diags := a.newStreamScreen(*show, nil)
	if diags.HasErrors() {
		return nil, s.End(diags), false
	}
	return s, 0, true
}

// textScreen is command.App.TextScreen.
func (a *app) textScreen(f viewFlags) *screen { return &screen{a.TextScreen(f)} }

// noArguments returns an error if there are arguments, for a command that takes none.
func noArguments(f *flag.FlagSet) diag.List {
	if f.NArg() == 0 {
		return nil
	}
	return unexpected(f.Arg(0))
}

// unexpected returns the error for the first argument of a command that takes none.
func unexpected(arg string) diag.List {
	return diag.Errors("Unexpected argument", fmt.Sprintf("Too many command line arguments: %q is not expected. To "+
		"work in another directory, give the global option -chdir=DIR.", arg), nil)
}

// noStateFile is the error of commands on the state if nothing was ever stored.
func noStateFile() diag.List {
	return diag.Errors("No state file was found", "There is no state in this directory. Run the command in "+
		"a directory in which something was applied, or name a state file with -state.", nil)
}

// parseTargets parses the addresses in the arguments of a command on the state. Callers report the problems after they
// have opened the state: if there is no state, only that is reported.
func parseTargets(args []string) ([]addr.Target, diag.List) {
	var targets []addr.Target
	var diags diag.List
	for _, arg := range args {
		t, more := addr.ParseTarget(arg)
		diags = diags.Append(more)
		targets = append(targets, t)
	}
	return targets, diags
}
