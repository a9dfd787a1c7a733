package journal

import (
	"errors"

	"golang.org/x/sys/windows"
)

// full reports whether a write failed because the disk is full.
func full(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL)
}
