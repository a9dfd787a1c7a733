// Package layout defines where a working directory keeps Millipede's files: the stores of its workspaces, and
// the files of their embedded servers and workers.
//
// It knows paths and names. It opens no store, starts nothing, and does not read the environment: callers pass
// the directory.
package layout

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const (
	// ownName is the name of the directory beside the configuration.
	ownName = ".millipede"
	// movedName is its name in a data directory that the user has set.
	movedName = "millipede"

	workspacesName = "workspaces"
	filesName      = "files"
	storeName      = "state.db"
	ignoreName     = ".gitignore"
	copyPrefix     = "read-"
	removedPrefix  = ".removed-"
)

// Directory is the directory for Millipede's files. docs/format/directory.md describes it.
type Directory struct{ path string }

// At returns the directory of a working directory; empty means that of the process. dataDir is the value of
// TF_DATA_DIR: if set, all files are below it, so that the working directory may be read-only.
func At(dir, dataDir string) Directory {
	switch {
	case dataDir == "":
		return Directory{filepath.Join(dir, ownName)}
	case filepath.IsAbs(dataDir):
		return Directory{filepath.Join(dataDir, movedName)}
	}
	return Directory{filepath.Join(dir, dataDir, movedName)}
}

// Path returns the path of the directory.
func (d Directory) Path() string { return d.path }

// Make creates the directory, accessible to its owner only because states contain secrets, with a .gitignore.
func (d Directory) Make() error {
	if err := os.MkdirAll(d.path, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(d.path, ignoreName), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil // keep the user's own file
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString("*\n")
	return errors.Join(err, f.Close())
}

// Home is the directory of one workspace, or of one state file of -state. Only one process at a time can have
// its store open for writing, and that process owns the rest of the home.
type Home struct{ path string }

// Workspace returns the home of a workspace in the directory of a service, which stores the snapshots itself. Earlier
// versions had such a home for each workspace of any directory. Other directories have a home for each Location.
func (d Directory) Workspace(name string) Home {
	return Home{filepath.Join(d.path, workspacesName, encode(name))}
}

// HomeAt returns the home in a given directory, for a coordinator that executes runs of many workspaces.
func HomeAt(dir string) Home { return Home{dir} }

// File returns the home for the state files of -state and -state-out, which is independent of the homes of
// workspaces.
func (d Directory) File(state, stateOut string) Home {
	return Home{filepath.Join(d.path, filesName, fileID(state, stateOut))}
}

func fileID(state, stateOut string) string {
	sum := sha256.Sum256([]byte(filepath.Clean(state) + "\x00" + filepath.Clean(stateOut)))
	return hex.EncodeToString(sum[:8])
}

// encode converts the name of a workspace to that of a directory. Valid workspace names stay unchanged.
func encode(workspace string) string {
	name := url.PathEscape(workspace)
	if name == "" || name[0] == '.' {
		return "%2E" + name[min(1, len(name)):]
	}
	return name
}

// Workspaces returns the workspaces that have a home, sorted.
func (d Directory) Workspaces() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(d.path, workspacesName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if name, err := url.PathUnescape(e.Name()); err == nil && e.IsDir() && e.Name()[0] != '.' {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// Path returns the path of the home.
func (h Home) Path() string { return h.path }

// Store returns the path of the store.
func (h Home) Store() string { return filepath.Join(h.path, storeName) }

// Identity returns the path of the file with the identity of the coordinator.
func (h Home) Identity() string { return filepath.Join(h.path, "coordinator") }

// Messages returns the directory of the embedded NATS server's streams.
func (h Home) Messages() string { return filepath.Join(h.path, "nats") }

// Worker returns the directory of the embedded worker's journal.
func (h Home) Worker() string { return filepath.Join(h.path, "worker") }

// Remove removes the home of a deleted workspace. The caller has its store open, so that no other process does;
// processes that wait for the store find that its path is gone.
func (h Home) Remove() error {
	gone := filepath.Join(filepath.Dir(h.path), fmt.Sprintf("%s%s-%d", removedPrefix,
		filepath.Base(h.path), os.Getpid()))
	if err := os.Rename(h.path, gone); err != nil {
		return err
	}
	return os.RemoveAll(gone)
}

// abandoned is the age from which a copy is considered left behind by a killed reader.
const abandoned = 10 * time.Minute

// MakeCopyDir creates a directory for a copy of the store that a reader has requested. The reader removes it.
func (h Home) MakeCopyDir() (string, error) { return os.MkdirTemp(h.path, copyPrefix) }

// Tidy removes copies that killed readers have left behind.
func (h Home) Tidy(now time.Time) error {
	entries, err := filepath.Glob(filepath.Join(h.path, copyPrefix+"*"))
	for _, dir := range entries {
		info, statErr := os.Stat(dir)
		if statErr == nil && now.Sub(info.ModTime()) > abandoned {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}
	return err
}
