package plugin

import (
	"os/exec"
	"syscall"
)

// endWithHost has the kernel kill the process when the thread that starts it ends. The threads of a Go program end
// with the program, except those that a goroutine locked and never unlocked, which nothing here does.
func endWithHost(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
