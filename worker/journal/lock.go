package journal

import (
	"errors"
	"fmt"
	"os"

	"github.com/millipede-iac/millipede/internal/filelock"
)

// lockFile locks the file until it is closed, or the process ends.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the journal's lock: %w", err)
	}
	switch err := filelock.Try(f); {
	case errors.Is(err, filelock.ErrLocked):
		return nil, errors.Join(ErrLocked, f.Close())
	case err != nil:
		return nil, errors.Join(fmt.Errorf("locking the journal: %w", err), f.Close())
	}
	return f, nil
}
