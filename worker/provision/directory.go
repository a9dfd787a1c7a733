package provision

import (
	"fmt"
	"os"
	"path/filepath"
)

// directory returns the directory that a program runs in: named, or else the coordinator's, of which a worker on the
// same machine, or with the same file system mounted, has its own view. On any other worker a program that names no
// directory runs in an empty one below temp, so that it finds nothing of a stranger's there; done removes that.
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
	return dir, func() { os.RemoveAll(dir) }, nil // what is left of a temporary directory harms nobody
}
