package bolt_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/millipede-iac/millipede/state/bolt"
	"github.com/millipede-iac/millipede/state/journal"
)

// A command that only reads opened the store like one that writes, so the second of two commands was refused.
func TestACopyHoldsWhatWasCommittedLast(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state.db")
	s := openAt(t, path)
	put(t, s, "one")

	served := filepath.Join(dir, "served.db")
	if err := s.CopyTo(t.Context(), served); err != nil {
		t.Fatal(err)
	}
	put(t, s, "two")
	wantValue(t, served, "one")

	held := (*journal.Held)(nil)
	if err := bolt.Copy(path, filepath.Join(dir, "refused.db")); !errors.As(err, &held) {
		t.Errorf("a store was copied although another process has it open for writing: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(dir, "copied.db")
	if err := bolt.Copy(path, copied); err != nil {
		t.Fatal(err)
	}
	wantValue(t, copied, "two")
	if err := bolt.Copy(filepath.Join(dir, "none.db"), filepath.Join(dir, "x.db")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("copying a store that does not exist: %v", err)
	}
	if info, err := os.Stat(copied); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the copy has the mode %v (%v)", info.Mode(), err)
	}
}

// A writer failed immediately if the file was locked, even if a reader had locked it only for a moment.
func TestAWriterWaitsAMomentForAReader(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	if err := openAt(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	reader, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	opened := make(chan error)
	go func() {
		s, err := bolt.Open(path, journal.LockInfo{}, 0)
		if err == nil {
			err = s.Close()
		}
		opened <- err
	}()
	select {
	case err := <-opened:
		t.Fatalf("the writer did not wait: %v", err)
	default:
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Fatal(err)
	}
}

// All workspaces were in one store, so two of them could not be used at the same time.
func TestEachWorkspaceGetsAStoreOfItsOwn(t *testing.T) {
	dir := t.TempDir()
	s := openAt(t, filepath.Join(dir, "state.db"))
	ctx := t.Context()
	put(t, s, "shared")
	if err := s.CreateWorkspace(ctx, "other"); err != nil {
		t.Fatal(err)
	}
	for _, w := range []string{"default", "other"} {
		if err := s.Lock(ctx, w, journal.LockInfo{ID: w}); err != nil {
			t.Fatal(err)
		}
		if err := s.BeginRun(ctx, w, journal.Run{ID: "run-" + w, Workspace: w, Status: "running"},
			[]byte("plan of "+w)); err != nil {
			t.Fatal(err)
		}
		if err := s.Unlock(ctx, w, w); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Split(func(w string) string { return filepath.Join(dir, w+".db") }); err != nil {
		t.Fatal(err)
	}
	for w, has := range map[string][]string{"default": {"default"}, "other": {"default", "other"}} {
		wantValue(t, filepath.Join(dir, w+".db"), "shared")
		of := openAt(t, filepath.Join(dir, w+".db"))
		names, err := of.Workspaces(ctx)
		if err != nil || !slices.Equal(names, has) {
			t.Errorf("the store of %s has the workspaces %q (%v)", w, names, err)
		}
		runs, err := of.Runs(ctx, w)
		if err != nil || len(runs) != 1 || runs[0].ID != "run-"+w {
			t.Errorf("the store of %s has the runs %v (%v)", w, runs, err)
		}
		if _, plan, err := of.RunPlan(ctx, "run-"+w); err != nil || string(plan) != "plan of "+w {
			t.Errorf("the plan of run-%s is %q (%v)", w, plan, err)
		}
		for _, other := range names {
			if runs, err := of.Runs(ctx, other); other != w && (err != nil || len(runs) > 0) {
				t.Errorf("the store of %s has runs of %s: %v (%v)", w, other, runs, err)
			}
		}
		if err := of.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func openAt(t *testing.T, path string) *bolt.Store {
	t.Helper()
	s, err := bolt.Open(path, journal.LockInfo{Who: "test"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func put(t *testing.T, s *bolt.Store, value string) {
	t.Helper()
	if err := s.PutValue(t.Context(), "values", "key", []byte(value)); err != nil {
		t.Fatal(err)
	}
}

func wantValue(t *testing.T, path, want string) {
	t.Helper()
	s := openAt(t, path)
	got, err := s.GetValue(t.Context(), "values", "key")
	if err := errors.Join(err, s.Close()); err != nil || string(got) != want {
		t.Errorf("%s has the content %q (%v), want %q", filepath.Base(path), got, err, want)
	}
}
