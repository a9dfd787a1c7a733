//go:build unix

package backend

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// tryLock locks a whole file, as OpenTofu does, by lockCommand.
func tryLock(f *os.File) (bool, error) { return setLock(f, unix.F_WRLCK) }

func unlock(f *os.File) error {
	_, err := setLock(f, unix.F_UNLCK)
	return err
}

func setLock(f *os.File, typ int16) (bool, error) {
	err := unix.FcntlFlock(f.Fd(), lockCommand, &unix.Flock_t{Type: typ, Whence: io.SeekStart})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return false, nil
	}
	return err == nil, err
}
