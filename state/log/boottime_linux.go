package log

import (
	"time"

	"golang.org/x/sys/unix"
)

// bootTime is the time since the machine was started, including that in which it has slept: the monotonic clock of
// package time stands still then.
func bootTime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) // it fails for unknown clocks alone
	return time.Duration(t.Nano())
}
