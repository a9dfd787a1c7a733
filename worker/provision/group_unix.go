//go:build unix

package provision

import (
	"os/exec"

	"golang.org/x/sys/unix"
)

// ownGroup puts the program and what it starts into a process group of its own, which is killed as a whole when the
// context ends: else a child that outlives its shell would keep the output open.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
}
