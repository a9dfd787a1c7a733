package disk

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// Volume is a small disk of its own, mounted on a directory, that can be filled and emptied again. It is for one
// goroutine. Close it.
type Volume struct{ dir string }

// fillName is the file that Fill writes.
const fillName = "fill"

// Fill writes until no byte more fits.
func (v *Volume) Fill() error {
	f, err := os.OpenFile(filepath.Join(v.dir, fillName), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	for chunk := make([]byte, 64<<10); len(chunk) > 0; {
		n, err := f.Write(chunk)
		switch {
		case errors.Is(err, syscall.ENOSPC) && n == 0:
			chunk = chunk[:len(chunk)/2]
		case err != nil && !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, io.ErrShortWrite):
			return errors.Join(err, f.Close())
		}
	}
	return f.Close()
}

// Free removes the data that Fill wrote.
func (v *Volume) Free() error {
	err := os.Remove(filepath.Join(v.dir, fillName))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
