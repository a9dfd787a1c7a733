//go:build unix

package journal

import (
	"errors"

	"golang.org/x/sys/unix"
)

// full reports whether a write failed because the disk is full.
func full(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG)
}
