// Package layout knows where a working directory keeps what belongs to Millipede: the stores of its workspaces, and
// what the embedded server and worker of each need.
//
// It knows paths and names. It opens no store and starts nothing, and it reads no environment: callers say where the
// directory is.
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
	// ownName is the directory beside the configuration.
	ownName = ".millipede"
	// movedName is its name in a data directory that the user has chosen.
	movedName = "millipede"

	workspacesName = "workspaces"
	filesName      = "files"
	storeName      = "state.db"
	ignoreName     = ".gitignore"
	copyPrefix     = "read-"
	removedPrefix  = ".removed-"
)

// Directory is the directory that belongs to Millipede. docs/format/directory.md describes it.
type Directory struct{ path string }

// At returns the directory of a working directory, where empty is that of the process. dataDir is TF_DATA_DIR: when it
// is set, everything lies below it, so that the working directory may be one that nobody can write to.
func At(dir, dataDir string) Directory {
	switch {
	case dataDir == "":
		return Directory{filepath.Join(dir, ownName)}
	case filepath.IsAbs(dataDir):
		return Directory{filepath.Join(dataDir, movedName)}
	}
	return Directory{filepath.Join(dir, dataDir, movedName)}
}

// Path is where the directory is.
func (d Directory) Path() string { return d.path }

// Make creates the directory, for its owner only, with a .gitignore: the states in it hold secrets.
func (d Directory) Make() error {
	if err := os.MkdirAll(d.path, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(d.path, ignoreName), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil // the user's own wishes count
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString("*\n")
	return errors.Join(err, f.Close())
}

// Home is the part of the directory that belongs to one workspace, or to one state file that -state names. One process
// at a time has its store open for writing, and with it the rest of the home.
type Home struct{ path string }

// Workspace returns the home of a workspace.
func (d Directory) Workspace(name string) Home {
	return Home{filepath.Join(d.path, workspacesName, encode(name))}
}

// HomeAt returns the home in a directory, for a coordinator in whose name runs of many workspaces are carried out.
func HomeAt(dir string) Home { return Home{dir} }

// File returns the home of the state files that -state and -state-out name: they have nothing to do with the state of
// a workspace.
func (d Directory) File(state, stateOut string) Home {
	return Home{filepath.Join(d.path, filesName, fileID(state, stateOut))}
}

func fileID(state, stateOut string) string {
	sum := sha256.Sum256([]byte(filepath.Clean(state) + "\x00" + filepath.Clean(stateOut)))
	return hex.EncodeToString(sum[:8])
}

// encode makes a name of a directory of the name of a workspace. The names that may be chosen today stay as they are.
func encode(workspace string) string {
	name := url.PathEscape(workspace)
	if name == "" || name[0] == '.' {
		return "%2E" + name[min(1, len(name)):]
	}
	return name
}

// Workspaces lists the workspaces that have a home, sorted.
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

// Path is where the home is.
func (h Home) Path() string { return h.path }

// Store is the file of the store.
func (h Home) Store() string { return filepath.Join(h.path, storeName) }

// Identity is the file that says which coordinator the runs of this home belong to.
func (h Home) Identity() string { return filepath.Join(h.path, "coordinator") }

// Messages is where the embedded NATS server keeps its streams.
func (h Home) Messages() string { return filepath.Join(h.path, "nats") }

// Worker is where the embedded worker keeps its journal.
func (h Home) Worker() string { return filepath.Join(h.path, "worker") }

// Remove removes the home of a workspace that is deleted. The caller has its store open, so that nobody else does;
// whoever waits for the store finds that it has lost its name.
func (h Home) Remove() error {
	gone := filepath.Join(filepath.Dir(h.path), fmt.Sprintf("%s%s-%d", removedPrefix,
		filepath.Base(h.path), os.Getpid()))
	if err := os.Rename(h.path, gone); err != nil {
		return err
	}
	return os.RemoveAll(gone)
}

// abandoned is the age at which a copy was left behind by a reader that was killed.
const abandoned = 10 * time.Minute

// MakeCopyDir makes a directory for a copy of the store that a reader asked for. The reader removes it.
func (h Home) MakeCopyDir() (string, error) { return os.MkdirTemp(h.path, copyPrefix) }

// Tidy removes the copies that readers have left behind when they were killed.
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
