package disk

import (
	"errors"
	"fmt"
	"syscall"
)

// Mount puts a disk with room for a number of bytes on an empty directory. It returns ErrUnsupported where this process
// may not mount.
func Mount(dir string, size int) (*Volume, error) {
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0755", size))
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		return nil, fmt.Errorf("%w: mounting needs root", ErrUnsupported)
	}
	if err != nil {
		return nil, fmt.Errorf("mounting a small disk on %s: %w", dir, err)
	}
	return &Volume{dir: dir}, nil
}

// Close takes the disk away, with all that is on it.
func (v *Volume) Close() error { return syscall.Unmount(v.dir, syscall.MNT_DETACH) }
