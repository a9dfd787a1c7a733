package layout

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/millipede-iac/millipede/internal/bounds"
	"github.com/millipede-iac/millipede/internal/wholefile"
)

const (
	statesName   = "states"
	locationName = "location.json"
	// locationVersion is the version of the file with the location.
	locationVersion = 1
	// maxNamed is how many bytes of a workspace's name are part of the name of a home.
	maxNamed = 100
)

// Location identifies a state: the backend that has its snapshot, and the workspace. Each location has a home of its
// own, so the state of one backend is never mistaken for that of another.
type Location struct {
	// Backend is the type of the backend; Address is where the backend has its states, without credentials.
	Backend   string `json:"backend"`
	Address   string `json:"address"`
	Workspace string `json:"workspace"`
}

// String describes the location for people.
func (l Location) String() string {
	return fmt.Sprintf("the workspace %q of the backend %q (%s)", l.Workspace, l.Backend, cmp.Or(l.Address, "no address"))
}

// id is the name of the location's home. It begins with the workspace so that people find it.
func (l Location) id() string {
	sum := sha256.Sum256([]byte(l.Backend + "\x00" + l.Address + "\x00" + l.Workspace))
	name := encode(l.Workspace)
	return name[:min(len(name), maxNamed)] + "-" + hex.EncodeToString(sum[:8])
}

// State returns the home of a state.
func (d Directory) State(l Location) Home { return Home{filepath.Join(d.path, statesName, l.id())} }

// locationFile is the content of the file that says whose home a directory is.
type locationFile struct {
	Version int `json:"version"`
	Location
}

// MakeState creates the home of a state, with a file that says whose it is.
func (d Directory) MakeState(l Location) error {
	home := d.State(l)
	if exists(filepath.Join(home.path, locationName)) {
		return nil
	}
	if err := os.MkdirAll(home.path, 0o700); err != nil {
		return err
	}
	text, err := json.Marshal(locationFile{locationVersion, l})
	if err != nil {
		return err
	}
	return wholefile.Durable(filepath.Join(home.path, locationName), wholefile.Private,
		wholefile.Bytes(append(text, '\n')))
}

// States returns the locations whose homes have a store, sorted. Homes of later versions are left out.
func (d Directory) States() ([]Location, error) {
	entries, err := os.ReadDir(filepath.Join(d.path, statesName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		return nil, err
	}
	var out []Location
	for _, e := range entries {
		text, err := bounds.ReadFile(filepath.Join(d.path, statesName, e.Name(), locationName), bounds.Text)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it is being removed
		}
		var f locationFile
		if err == nil {
			err = json.Unmarshal(text, &f)
		}
		if err != nil {
			return nil, fmt.Errorf("reading whose home %s is: %w", e.Name(), err)
		}
		if f.Version == locationVersion && exists(d.State(f.Location).Store()) {
			out = append(out, f.Location)
		}
	}
	slices.SortFunc(out, func(a, b Location) int {
		return cmp.Or(cmp.Compare(a.Backend, b.Backend), cmp.Compare(a.Address, b.Address),
			cmp.Compare(a.Workspace, b.Workspace))
	})
	return out, nil
}

// Unclaimed returns the home that an earlier version made for a workspace of any backend, if the state has no home
// yet; is is false if there is none.
func (d Directory) Unclaimed(l Location) (home Home, is bool) {
	home = d.Workspace(l.Workspace)
	return home, !exists(d.State(l).Store()) && exists(home.Store())
}

// Claim makes the unclaimed home of an earlier version that of a state, if owns says that its store is that of the
// state. The home is moved in one step: after a crash it is either unclaimed or claimed.
func (d Directory) Claim(l Location, owns func(store string) (bool, error)) error {
	from, is := d.Unclaimed(l)
	if !is {
		return nil
	}
	is, err := owns(from.Store())
	if err != nil || !is {
		return err
	}
	to := d.State(l)
	if err := os.MkdirAll(filepath.Dir(to.path), 0o700); err != nil {
		return err
	}
	for _, name := range []string{filepath.Join(to.path, locationName), to.path} { // MakeState may have left these
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	err = os.Rename(from.path, to.path)
	if err != nil && exists(to.Store()) { // another process has claimed it
		return nil
	}
	if err == nil {
		err = errors.Join(syncDir(filepath.Dir(to.path)), syncDir(filepath.Dir(from.path)))
	}
	return err
}
