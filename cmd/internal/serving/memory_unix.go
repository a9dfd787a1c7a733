//go:build unix

package serving

import (
	"math"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// boundMemory ends the process when it needs more memory, in bytes; 0 is no bound. Before, the collector works harder.
// Only the memory of a whole process can be bounded. The bound is on data (RLIMIT_DATA), because Go reserves addresses
// that it does not use.
func boundMemory(bytes int64) error {
	if bytes == 0 {
		return nil
	}
	debug.SetMemoryLimit(int64(math.Round(float64(bytes) * 0.8)))
	most := uint64(bytes) //nolint:gosec // it is not negative
	return unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: most, Max: most})
}
