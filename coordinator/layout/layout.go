package layout

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// In the old layout, one store in the directory had all workspaces, and all runs shared one embedded server.
// The first process that writes to such a directory converts it:
//
//	state.db, coordinator, nats, worker  ->  workspaces/NAME/{state.db,coordinator,nats,worker}
//
// It makes all homes under a temporary name, and then renames that to "workspaces" in one step. A crash before
// this step leaves the old layout, which the next process converts; a crash after it leaves at most old files
// that are no longer read.

const (
	buildingSuffix = ".new"
	// KeptName is the name under which the store of the old layout is kept. It is no longer read.
	KeptName = "state.db.before-workspaces"
)

// Former returns the store of the old layout, which has all workspaces; is is false if there is none.
func (d Directory) Former() (path string, is bool) {
	path = filepath.Join(d.path, storeName)
	if exists(filepath.Join(d.path, workspacesName)) || !exists(path) {
		return "", false
	}
	return path, true
}

// FormerIdentity returns the path of the coordinator's identity in the old layout.
func (d Directory) FormerIdentity() string { return filepath.Join(d.path, "coordinator") }

// Divide converts the directory. The caller has the old store open, so that no other process does. split makes
// the store of each workspace, at the path that storeOf returns for it.
func (d Directory) Divide(split func(storeOf func(workspace string) string) error) error {
	building := filepath.Join(d.path, workspacesName+buildingSuffix)
	if err := os.RemoveAll(building); err != nil {
		return err
	}
	if err := os.MkdirAll(building, 0o700); err != nil {
		return err
	}
	var homes []string
	var failed error
	err := split(func(workspace string) string {
		home := filepath.Join(building, encode(workspace))
		failed = errors.Join(failed, os.MkdirAll(home, 0o700))
		homes = append(homes, home)
		return filepath.Join(home, storeName)
	})
	if err = errors.Join(failed, err); err != nil {
		return fmt.Errorf("dividing the store by workspaces: %w", err)
	}
	// An interrupted run may have left messages, so each home needs a copy of the server that has them.
	for _, home := range homes {
		for _, name := range []string{"coordinator", "nats", "worker"} {
			if err := copyTree(filepath.Join(d.path, name), filepath.Join(home, name)); err != nil {
				return fmt.Errorf("copying %s for each workspace: %w", name, err)
			}
		}
		if err := syncDir(home); err != nil {
			return err
		}
	}
	if err := syncDir(building); err != nil {
		return err
	}
	if err := os.Rename(building, filepath.Join(d.path, workspacesName)); err != nil {
		return err
	}
	if err := syncDir(d.path); err != nil {
		return err
	}
	for _, name := range []string{"coordinator", "nats", "worker"} {
		err = errors.Join(err, os.RemoveAll(filepath.Join(d.path, name)))
	}
	return errors.Join(err, os.Rename(filepath.Join(d.path, storeName), filepath.Join(d.path, KeptName)))
}

// TakeFile moves the store for a state file of -state to its home, if it is in the old layout.
func (d Directory) TakeFile(state, stateOut string) error {
	old, home := filepath.Join(d.path, "file-"+fileID(state, stateOut)+".db"), d.File(state, stateOut)
	if !exists(old) || exists(home.Store()) {
		return nil
	}
	if err := os.MkdirAll(home.path, 0o700); err != nil {
		return err
	}
	return os.Rename(old, home.Store())
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// copyTree copies a file or a directory, and does nothing if it does not exist. The copy is durable when
// copyTree returns.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path == from {
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch {
		case e.IsDir():
			return os.MkdirAll(target, 0o700)
		case !e.Type().IsRegular():
			return nil
		}
		return copyFile(path, target)
	})
}
