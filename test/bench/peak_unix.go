//go:build unix

package main

import (
	"os"
	"runtime"
	"syscall"
)

// peak returns the largest resident set of an ended process, or of its children, in bytes.
func peak(p *os.ProcessState) int64 {
	r, ok := p.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0
	}
	if runtime.GOOS == "darwin" || runtime.GOOS == "ios" {
		return int64(r.Maxrss) //nolint:unconvert // an int32 on some systems
	}
	return int64(r.Maxrss) << 10 //nolint:unconvert // as above
}
