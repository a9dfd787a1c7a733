//go:build unix

package store

import (
	"errors"

	"golang.org/x/sys/unix"
)

func noRoom(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }
