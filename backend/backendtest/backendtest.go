// Package backendtest is the test suite for backends.
//
// It needs storage that nothing else uses. The tests of each kind of backend check the stored form and the calls to the
// service.
package backendtest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/state/journal"
)

// Suite describes the tested backend.
type Suite struct {
	// Open opens the same, initially empty place, like another process at each call.
	Open func(t *testing.T) backend.Backend
	// OneState is set if the backend has only the default workspace.
	OneState bool
	// HolderUnknown is set if the backend does not store the holder of a lock.
	HolderUnknown bool
	// DiesWithHolder is set if a lock ends with its holder, and cannot be broken by another process.
	DiesWithHolder bool
	// Stores is set if opening a workspace may store an empty state, as in OpenTofu.
	Stores bool
	// Workspace is the workspace that the tests use; default "default". If it is another one, the place has no
	// default workspace.
	Workspace string
}

// Info returns lock information like that of a command.
func Info(id, operation string) journal.LockInfo {
	return journal.LockInfo{
		ID: id, Operation: operation, Who: "me@here", Version: "1.12.6",
		Created: time.Date(2026, 11, 22, 4, 54, 54, 319205105, time.UTC),
	}
}

// The IDs of the suite's locks: some backends only accept UUIDs.
const (
	first  = "a650e987-46d5-66a2-ccda-85882fc7ed05"
	second = "0b6c1f0e-1a0f-4a3c-9d3e-5f7a8b9c0d1e"
)

// Run runs the suite.
func Run(t *testing.T, s Suite) {
	if s.Workspace == "" {
		s.Workspace = journal.DefaultWorkspace
	}
	t.Run("what was written is read, by others too", s.readsWhatWasWritten)
	t.Run("one holds a lock, and others learn who", s.locks)
	t.Run("a lock is released under its ID alone", s.unlocks)
	t.Run("a large state is written and read", s.large)
	t.Run("workspaces are made, listed and deleted", s.workspaces)
}

func (s Suite) readsWhatWasWritten(t *testing.T) {
	b, other := s.Open(t), s.Open(t)
	if got := read(t, b, s.Workspace); got != "" && !s.Stores {
		t.Errorf("an empty place holds %q", got)
	}
	for _, text := range []string{state(1, "aaaaaaaaaaaaaaaaaaaaaaaaa"), state(2, "b")} {
		ok(t, b.Write(t.Context(), s.Workspace, []byte(text)))
		if got := read(t, b, s.Workspace); got != text {
			t.Errorf("read %q, want %q", got, text)
		}
		if got := read(t, other, s.Workspace); got != text {
			t.Errorf("another process reads %q, want %q", got, text)
		}
	}
}

func (s Suite) locks(t *testing.T) {
	b, other := s.Open(t), s.Open(t)
	lock, err := b.Lock(t.Context(), s.Workspace, Info(first, "OperationTypeApply"))
	ok(t, err)
	if lock.ID == "" {
		t.Error("the lock has no ID")
	}
	_, err = other.Lock(t.Context(), s.Workspace, Info(second, "OperationTypePlan"))
	var held *journal.Held
	switch {
	case !errors.As(err, &held):
		t.Fatalf("a second lock: %v, want *journal.Held", err)
	case s.HolderUnknown:
	case held.Holder.ID != lock.ID:
		t.Errorf("the holder's lock is said to be %q, want %q", held.Holder.ID, lock.ID)
	case held.Holder.Who != "me@here" || held.Holder.Operation != "OperationTypeApply" ||
		held.Holder.Version != "1.12.6":
		t.Errorf("the holder is said to be %+v", held.Holder)
	}
	ok(t, b.Write(t.Context(), s.Workspace, []byte(state(1, "locked"))))
	if got := read(t, other, s.Workspace); got != state(1, "locked") {
		t.Errorf("while it is locked others read %q", got)
	}
	ok(t, b.Unlock(t.Context(), s.Workspace, lock.ID))
	again, err := other.Lock(t.Context(), s.Workspace, Info(second, "OperationTypePlan"))
	ok(t, err)
	ok(t, other.Unlock(t.Context(), s.Workspace, again.ID))
}

func (s Suite) unlocks(t *testing.T) {
	b, other := s.Open(t), s.Open(t)
	lock, err := b.Lock(t.Context(), s.Workspace, Info(first, "OperationTypeApply"))
	ok(t, err)
	if err := other.Unlock(t.Context(), s.Workspace, "1234567890"); err == nil {
		t.Error("another ID released the lock")
	}
	if _, err := other.Lock(t.Context(), s.Workspace, Info(second, "OperationTypePlan")); err == nil {
		t.Fatal("an attempt to release it under another ID has released the lock")
	}
	breaker := other
	if s.DiesWithHolder {
		breaker = b
	}
	ok(t, breaker.Unlock(t.Context(), s.Workspace, lock.ID))
	if err := breaker.Unlock(t.Context(), s.Workspace, lock.ID); !errors.Is(err, backend.ErrNotLocked) {
		t.Errorf("releasing it a second time: %v, want ErrNotLocked", err)
	}
	again, err := other.Lock(t.Context(), s.Workspace, Info(second, "OperationTypePlan"))
	ok(t, err)
	ok(t, other.Unlock(t.Context(), s.Workspace, again.ID))
}

func (s Suite) large(t *testing.T) {
	b := s.Open(t)
	data := []byte(state(1, strings.Repeat("0123456789abcdef", 1<<16))) // 1 MiB
	ok(t, b.Write(t.Context(), s.Workspace, data))
	if got := read(t, s.Open(t), s.Workspace); got != string(data) {
		t.Errorf("read %d bytes, want %d", len(got), len(data))
	}
	ok(t, b.Write(t.Context(), s.Workspace, []byte(state(2, "small"))))
	if got := read(t, s.Open(t), s.Workspace); got != state(2, "small") {
		t.Errorf("read %q after a small state took the place of a large one", got)
	}
}

func (s Suite) workspaces(t *testing.T) {
	b, ctx := s.Open(t), t.Context()
	if s.OneState {
		if _, err := b.Workspaces(ctx); !errors.Is(err, backend.ErrNoWorkspaces) {
			t.Errorf("listing workspaces: %v, want ErrNoWorkspaces", err)
		}
		return
	}
	ok(t, b.Create(ctx, "stage"))
	ok(t, b.Create(ctx, "stage"))
	ok(t, b.Create(ctx, "dev"))
	s.lists(t, s.sorted("dev", "stage")...)
	ok(t, b.Write(ctx, "stage", []byte(state(1, "stage"))))
	ok(t, b.Write(ctx, s.Workspace, []byte(`{s.Workspace:1}`)))
	if got := read(t, s.Open(t), "stage"); got != state(1, "stage") {
		t.Errorf("the workspace holds %q", got)
	}
	lock, err := b.Lock(ctx, "stage", Info(first, "OperationTypeApply"))
	ok(t, err)
	free, err := s.Open(t).Lock(ctx, s.Workspace, Info(second, "OperationTypeApply"))
	if err != nil {
		t.Errorf("the lock of one workspace keeps others out of another one: %v", err)
	} else if !s.DiesWithHolder {
		ok(t, b.Unlock(ctx, s.Workspace, free.ID))
	}
	ok(t, b.Unlock(ctx, "stage", lock.ID))
	ok(t, b.Delete(ctx, "stage"))
	if err := b.Delete(ctx, journal.DefaultWorkspace); !errors.Is(err, backend.ErrDefault) {
		t.Errorf("deleting the default workspace: %v, want ErrDefault", err)
	}
	s.lists(t, s.sorted("dev")...)
	ok(t, b.Create(ctx, "stage"))
	if got := read(t, s.Open(t), "stage"); strings.Contains(got, "stage") {
		t.Errorf("a workspace that was deleted comes back with %q", got)
	}
}

func (s Suite) lists(t *testing.T, want ...string) {
	t.Helper()
	names, err := s.Open(t).Workspaces(t.Context())
	ok(t, err)
	if !slices.Equal(names, want) {
		t.Errorf("the workspaces are %q, want %q", names, want)
	}
}

func read(t *testing.T, b backend.Backend, workspace string) string {
	t.Helper()
	data, err := b.Read(t.Context(), workspace)
	ok(t, err)
	return string(data)
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// state returns a snapshot for the tests: a backend may decode its serial and its lineage.
func state(serial int, text string) string {
	return fmt.Sprintf(`{"version":4,"serial":%d,"lineage":"one","outputs":{},"resources":[],"text":%q}`+"\n", serial, text)
}

// sorted returns the names together with that of the workspace that always exists, the default one first.
func (s Suite) sorted(names ...string) []string {
	names = append(names, s.Workspace)
	slices.SortFunc(names, func(a, b string) int {
		switch journal.DefaultWorkspace {
		case a:
			return -1
		case b:
			return 1
		}
		return strings.Compare(a, b)
	})
	return names
}
