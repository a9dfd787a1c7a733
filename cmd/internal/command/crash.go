package command

import (
	"errors"
	"fmt"

	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/lang/diag"
)

// crashed is the exit code of a command that a bug of ours has ended. It is the same as OpenTofu's. Go's own
// code, 2, would mean "changes" for a plan with -detailed-exitcode.
const crashed = 11

// Crash reports a panic of the command itself and returns the exit code.
func (a *App) Crash(panicked any, stack []byte) int {
	fmt.Fprintf(a.Stderr, `
Error: Millipede has crashed

This is a bug in Millipede, not in your configuration. The state contains everything that was done before. If a
run was in progress, this command shows it: coordinator runs list

Please report this, with the command and the text below, which may contain parts of your configuration:

Millipede v%s, command %q: %v

%s
`, a.program.Version, a.Command, panicked, stack)
	return crashed
}

// NoteBugs records whether a bug of ours has ended a run; its diagnostic is among the ones that are shown.
func (a *App) NoteBugs(l diag.List) {
	for _, d := range l {
		var bug *coordinator.Bug
		if err, ok := d.Extra.(error); ok && errors.As(err, &bug) {
			a.bug = true
		}
	}
}
