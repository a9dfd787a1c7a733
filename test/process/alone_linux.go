package process

import (
	"os/exec"
	"syscall"
)

// alone keeps the terminal's signals from the process, and ends it with the test.
func alone(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
