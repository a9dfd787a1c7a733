package layout

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Before there was a home for each workspace, one store in the directory had all workspaces, and all runs had one
// embedded server. Such a directory is laid out anew by whoever writes to it first:
//
//	state.db, coordinator, nats, worker  ->  workspaces/NAME/{state.db,coordinator,nats,worker}
//
// All homes are made under another name, which then becomes the name "workspaces" in one step: a crash before leaves
// the old layout, which is taken up again, a crash after leaves at most old files that nothing reads any more.

const (
	buildingSuffix = ".new"
	// KeptName is the name that the store of the old layout gets: nothing reads it, and nothing in it is lost.
	KeptName = "state.db.before-workspaces"
)

// Former is the store of the old layout, which has all workspaces; false where there is none.
func (d Directory) Former() (path string, is bool) {
	path = filepath.Join(d.path, storeName)
	if exists(filepath.Join(d.path, workspacesName)) || !exists(path) {
		return "", false
	}
	return path, true
}

// FormerIdentity is where the old layout has the identity of the coordinator.
func (d Directory) FormerIdentity() string { return filepath.Join(d.path, "coordinator") }

// Divide lays the directory out anew. The caller has the former store open, so that nobody else does. split makes the
// store of each workspace, under the name that it gets from the function that it is given.
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
	// A run that was cut off may have left messages, and a workspace's home has to have the server that holds them.
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

// TakeFile gives the store of a state file of -state its home, where the old layout has one.
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

// copyTree copies a file or a directory; that there is none is no error. What it has written is on the disk when it
// returns.
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
