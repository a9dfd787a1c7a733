package confined

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// waived are the capabilities of root that a program of a run does not get: with them it could see into other
// processes, or get around the restrictions of its files.
var waived = []uintptr{
	unix.CAP_SYS_PTRACE, unix.CAP_PERFMON, unix.CAP_SYS_ADMIN, unix.CAP_BPF, unix.CAP_DAC_READ_SEARCH,
	unix.CAP_SYS_MODULE, unix.CAP_SYS_RAWIO, unix.CAP_SYS_BOOT, unix.CAP_SYSLOG, unix.CAP_MAC_ADMIN,
	unix.CAP_MAC_OVERRIDE, unix.CAP_AUDIT_CONTROL,
}

// waive takes capabilities from the program that the calling goroutine executes. The goroutine stays on its thread.
func waive() error {
	runtime.LockOSThread()
	for _, one := range waived {
		has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, one, 0, 0, 0)
		if err != nil || has == 0 {
			continue // the system does not know it, or the process has not got it
		}
		err = unix.Prctl(unix.PR_CAPBSET_DROP, one, 0, 0, 0)
		if err != nil && unix.Geteuid() == 0 { // nobody else has capabilities to be dropped
			return fmt.Errorf("waiving the capability %d: %w", one, err)
		}
	}
	return nil
}
