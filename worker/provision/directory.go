package provision

import (
	"fmt"
	"os"
	"path/filepath"
)

// directory returns the directory in which a program runs: the named one, or else the coordinator's, if this worker
// is on the same machine or has mounted the same file system. On any other worker a program without a named
// directory runs in a new empty one below temp, so that it finds no unrelated files; done removes that.
func (c call) directory(named, temp string) (dir string, done func(), err error) {
	done = func() {}
	if filepath.IsAbs(named) || c.dir == "" {
		return named, done, nil
	}
	dir = filepath.Join(c.dir, named)
	switch info, err := os.Stat(dir); {
	case err == nil && info.IsDir():
		return dir, done, nil
	case named != "":
		return "", done, fmt.Errorf("the worker's machine has no directory %s; a relative working_dir is one of the "+
			"machine that the coordinator runs on", dir)
	}
	if dir, err = os.MkdirTemp(temp, "millipede-provision-"); err != nil {
		return "", done, fmt.Errorf("making a directory to run in: %w", err)
	}
	return dir, func() { os.RemoveAll(dir) }, nil //nolint:errcheck // remains of a temporary directory do no harm
}
