//go:build !linux

package process

import (
	"errors"
	"time"
)

var errOnlyLinux = errors.New("processes that go on are measured on Linux alone")

// Spent fails.
func Spent(int) (time.Duration, error) { return 0, errOnlyLinux }

// Memory fails.
func Memory(int) (int64, error) { return 0, errOnlyLinux }
