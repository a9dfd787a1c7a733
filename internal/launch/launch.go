// Package launch starts programs: git, credentials helpers, provisioners and others that Millipede does not know.
//
// A process of the service starts them through a helper, which takes from them what they do not need (package confine).
// In a command line there is no helper: programs may do what their user may.
package launch

import (
	"context"
	"os/exec"
	"slices"
	"sync/atomic"
)

// helper is the helper of the process, with its first arguments; nil for none.
var helper atomic.Pointer[[]string]

// Through sets the helper of the process: a program with its first arguments. It gets the path of the program to be
// executed, and the arguments of that program, as further ones.
func Through(program string, args ...string) {
	all := append([]string{program}, args...)
	helper.Store(&all)
}

// Command returns a command for a program, given by its path, that is not started yet, with its directory and its
// environment. The program is killed when ctx ends.
func Command(ctx context.Context, dir string, environ []string, program string, args ...string) *exec.Cmd {
	if h := helper.Load(); h != nil {
		program, args = (*h)[0], slices.Concat((*h)[1:], []string{program}, args)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = dir, environ
	return cmd
}
