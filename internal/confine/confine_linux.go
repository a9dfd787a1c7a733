package confine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/landlock-lsm/go-landlock/landlock"
	"github.com/landlock-lsm/go-landlock/landlock/syscall"
)

func level() int {
	n, err := syscall.LandlockGetABIVersion()
	if err != nil {
		return 0
	}
	return n
}

func (r Rules) apply() error {
	if level() == 0 {
		return nil
	}
	var rules []landlock.Rule
	for _, path := range r.Read {
		is, err := kind(path)
		switch {
		case err != nil:
			return err
		case is == directory:
			rules = append(rules, landlock.RODirs(path))
		case is == file:
			rules = append(rules, landlock.ROFiles(path))
		}
	}
	for _, path := range r.Write {
		is, err := kind(path)
		switch {
		case err != nil:
			return err
		case is == directory:
			rules = append(rules, landlock.RWDirs(path).WithRefer())
		case is == file:
			rules = append(rules, landlock.RWFiles(path))
		}
	}
	// Connections to named sockets are left as they are: resolvers of names are reached by them.
	if err := landlock.V6.BestEffort().RestrictPaths(rules...); err != nil {
		return fmt.Errorf("restricting the process: %w", err)
	}
	if r.Alone {
		if err := landlock.V6.BestEffort().RestrictScoped(); err != nil {
			return fmt.Errorf("restricting the signals of the process: %w", err)
		}
	}
	return nil
}

const (
	missing = iota
	file
	directory
)

// kind returns what a path is.
func kind(path string) (int, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return missing, nil
	case err != nil:
		return missing, err
	case info.IsDir():
		return directory, nil
	}
	return file, nil
}
