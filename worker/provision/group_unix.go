//go:build unix

package provision

import (
	"os/exec"

	"golang.org/x/sys/unix"
)

// ownGroup puts the program and its children into a separate process group, which is killed as a whole when the
// context ends: otherwise a child that outlives its shell would keep the output open.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
}
