//go:build failpoints && unix

package failpoint

import (
	"os"
	"syscall"
)

// pause stops the process; it returns when somebody has continued it.
func pause(self *os.Process) {
	if err := self.Signal(syscall.SIGSTOP); err != nil {
		panic(err)
	}
}
