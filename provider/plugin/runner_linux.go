package plugin

import (
	"os/exec"
	"syscall"
)

// endWithHost makes the kernel kill the process when the thread that starts it ends. The threads of a Go program
// end with the program, except those that a goroutine has locked without unlocking, which does not happen here.
func endWithHost(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
