//go:build linux || darwin

package confined

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ProcessesHold reports whether the system bounds the number of processes of this user.
func ProcessesHold() bool { return os.Geteuid() != 0 }

// apply limits this process. A limit that is lower already stays.
func (l Limits) apply() error {
	for resource, most := range map[int]int64{unix.RLIMIT_NPROC: l.Processes, unix.RLIMIT_FSIZE: l.FileSize} {
		if most <= 0 {
			continue
		}
		var now unix.Rlimit
		err := unix.Getrlimit(resource, &now)
		if err == nil {
			to := min(now.Max, uint64(most))
			err = unix.Setrlimit(resource, &unix.Rlimit{Cur: to, Max: to})
		}
		if err != nil {
			return fmt.Errorf("limiting the program: %w", err)
		}
	}
	return nil
}
