package serving

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/seal"
)

// Each phase of a run opened a socket in its workspace, although only other phases of the same process could read
// there: a tenth of the service's CPU for small runs.
func TestAStoreIsCopiedWhileThisProcessHasItOpen(t *testing.T) {
	key, err := seal.NewKey(seal.NewSecret())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	stores, path := newSealedStores(dir, key), filepath.Join(dir, "state.db")
	workspaces := func(s estate.Store) []string {
		t.Helper()
		names, err := s.Workspaces(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	open := func(path string) estate.Store {
		t.Helper()
		s, err := stores.Open(path, journal.LockInfo{}, time.Second, estate.StoreOptions{Workspace: "prod"})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	copied := func(name string) {
		t.Helper()
		to := filepath.Join(dir, name)
		if err := stores.Copy(path, to); err != nil {
			t.Fatal(err)
		}
		s := open(to)
		if names := workspaces(s); len(names) != 2 {
			t.Errorf("the copy has the workspaces %v", names)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	s := open(path)
	copied("open.db")
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("the directory has %v (%v), want the two stores only", entries, err)
	}
	if err := errors.Join(s.Close(), os.RemoveAll(filepath.Join(dir, "open.db"))); err != nil {
		t.Fatal(err)
	}
	copied("closed.db")
}

// A snapshot of a workspace's store and a run, or a backup, wanted the same file at the same time.
func TestWhatIsDoneAloneWaitsForNobodyAndOthersWaitForIt(t *testing.T) {
	key, err := seal.NewKey(seal.NewSecret())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	stores, path := newSealedStores(dir, key), filepath.Join(dir, "state.db")
	open := func() estate.Store {
		t.Helper()
		s, err := stores.Open(path, journal.LockInfo{}, time.Second, estate.StoreOptions{Workspace: "prod"})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	if did, err := stores.alone(path, func() error { return errors.New("it is open") }); did || err != nil {
		t.Errorf("with the store open: %t, %v", did, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	opened := make(chan estate.Store, 1)
	did, err := stores.alone(path, func() error {
		begun := make(chan struct{})
		go func() {
			close(begun)
			opened <- open()
		}()
		<-begun
		select {
		case <-opened:
			return errors.New("the store was opened meanwhile")
		case <-time.After(50 * time.Millisecond):
			return nil
		}
	})
	if !did || err != nil {
		t.Errorf("%t, %v", did, err)
	}
	if err := (<-opened).Close(); err != nil {
		t.Error(err)
	}
	stores.maintaining.Lock() // a backup
	if did, err := stores.alone(path, func() error { return errors.New("a backup is made") }); did || err != nil {
		t.Errorf("during a backup: %t, %v", did, err)
	}
}

// The directories of deleted workspaces stayed for ever.
func TestTheHomeOfADeletedWorkspaceIsRemovedWhenNobodyUsesIt(t *testing.T) {
	key, err := seal.NewKey(seal.NewSecret())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	stores, home := newSealedStores(dir, key), filepath.Join(dir, "workspaces", "ws-1")
	if err := os.MkdirAll(home+"2", 0o700); err != nil { // another one, whose name begins in the same way
		t.Fatal(err)
	}
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := stores.Open(filepath.Join(home, "state.db"), journal.LockInfo{}, time.Second,
		estate.StoreOptions{Workspace: "prod"})
	if err != nil {
		t.Fatal(err)
	}
	other, err := stores.Open(filepath.Join(home+"2", "state.db"), journal.LockInfo{}, time.Second,
		estate.StoreOptions{Workspace: "prod"})
	if err != nil {
		t.Fatal(err)
	}
	removed := func(want bool, left ...string) {
		t.Helper()
		gone, err := stores.Remove("ws-1")
		if err != nil || gone != want {
			t.Errorf("it is gone: %t, %v", gone, err)
		}
		var names []string
		entries, err := os.ReadDir(filepath.Join(dir, "workspaces"))
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if err != nil || !slices.Equal(names, left) {
			t.Errorf("there are %v, %v; not %v", names, err, left)
		}
	}
	removed(false, "ws-1", "ws-12")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	err = stores.Freeze(t.Context(), t.TempDir(), func() error { return nil }, func(string, string) error {
		removed(false, "ws-1", "ws-12") // a backup copies it
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	stores.group = &groupLog{}
	removed(false, "ws-1", "ws-12")
	stores.group = nil
	removed(true, "ws-12")
	if err := os.MkdirAll(filepath.Join(dir, "workspaces", ".removed-ws-1", "x"), 0o700); err != nil { // by a crash
		t.Fatal(err)
	}
	removed(true, "ws-12")
	if err := other.Close(); err != nil {
		t.Error(err)
	}
}
