//go:build unix

package confined

import (
	"os"
	"syscall"
)

// execute replaces the program of the process.
func execute(args []string) error { return syscall.Exec(args[0], args, os.Environ()) }
