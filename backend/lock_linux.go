package backend

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// tryLock locks a whole file. The lock conflicts with OpenTofu's per-process locks, but belongs to the open file:
// reading the file elsewhere in this process does not release it.
func tryLock(f *os.File) (bool, error) { return setLock(f, unix.F_WRLCK) }

func unlock(f *os.File) error {
	_, err := setLock(f, unix.F_UNLCK)
	return err
}

func setLock(f *os.File, typ int16) (bool, error) {
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: typ, Whence: io.SeekStart})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return false, nil
	}
	return err == nil, err
}
