//go:build !linux

package log

import "time"

var begun = time.Now()

// bootTime is the time since the process was started, and one day more: 0 is before any process.
func bootTime() time.Duration { return time.Since(begun) + 24*time.Hour }
