//go:build unix && !linux

package process

import (
	"os/exec"
	"syscall"
)

// alone keeps the terminal's signals from the process.
func alone(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
