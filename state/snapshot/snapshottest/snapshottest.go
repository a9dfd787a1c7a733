// Package snapshottest is the suite that every backend passes.
//
// It needs a place that nothing else uses; what a kind of backend stores there, and which calls it makes, is for the
// tests of that kind.
package snapshottest

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/snapshot"
)

// Suite says what the suite is run on.
type Suite struct {
	// Open opens the same empty place, anew with each call, as another process would.
	Open func(t *testing.T) snapshot.Backend
	// OneState tells that the place has no workspaces but the default one.
	OneState bool
	// HolderUnknown tells that the place does not store who holds a lock.
	HolderUnknown bool
	// DiesWithHolder tells that a lock cannot be broken by another process, because it ends with its holder.
	DiesWithHolder bool
	// Stores tells that opening a workspace may store an empty state, as OpenTofu does there.
	Stores bool
}

// Info returns lock information as a command makes it.
func Info(id, operation string) journal.LockInfo {
	return journal.LockInfo{
		ID: id, Operation: operation, Who: "me@here", Version: "1.12.6",
		Created: time.Date(2026, 11, 22, 4, 54, 54, 319205105, time.UTC),
	}
}

// The IDs of the suite's locks: some places take nothing but UUIDs.
const (
	first  = "a650e987-46d5-66a2-ccda-85882fc7ed05"
	second = "0b6c1f0e-1a0f-4a3c-9d3e-5f7a8b9c0d1e"
)

// Run runs the suite.
func Run(t *testing.T, s Suite) {
	t.Run("what was written is read, by others too", s.readsWhatWasWritten)
	t.Run("one holds a lock, and others learn who", s.locks)
	t.Run("a lock is released under its ID alone", s.unlocks)
	t.Run("a large state is written and read", s.large)
	t.Run("workspaces are made, listed and deleted", s.workspaces)
}

func (s Suite) readsWhatWasWritten(t *testing.T) {
	b, other := s.Open(t), s.Open(t)
	if got := read(t, b, "default"); got != "" && !s.Stores {
		t.Errorf("an empty place holds %q", got)
	}
	for _, text := range []string{`{"long":"aaaaaaaaaaaaaaaaaaaaaaaaa"}` + "\n", `{"b":1}` + "\n"} {
		ok(t, b.Write(t.Context(), "default", []byte(text)))
		if got := read(t, b, "default"); got != text {
			t.Errorf("read %q, want %q", got, text)
		}
		if got := read(t, other, "default"); got != text {
			t.Errorf("another process reads %q, want %q", got, text)
		}
	}
}

func (s Suite) locks(t *testing.T) {
	b, other := s.Open(t), s.Open(t)
	lock, err := b.Lock(t.Context(), "default", Info(first, "OperationTypeApply"))
	ok(t, err)
	if lock.ID == "" {
		t.Error("the lock has no ID")
	}
	_, err = other.Lock(t.Context(), "default", Info(second, "OperationTypePlan"))
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
	ok(t, b.Write(t.Context(), "default", []byte(`{"locked":1}`+"\n")))
	if got := read(t, other, "default"); got != `{"locked":1}`+"\n" {
		t.Errorf("while it is locked others read %q", got)
	}
	ok(t, b.Unlock(t.Context(), "default", lock.ID))
	again, err := other.Lock(t.Context(), "default", Info(second, "OperationTypePlan"))
	ok(t, err)
	ok(t, other.Unlock(t.Context(), "default", again.ID))
}

func (s Suite) unlocks(t *testing.T) {
	b, other := s.Open(t), s.Open(t)
	lock, err := b.Lock(t.Context(), "default", Info(first, "OperationTypeApply"))
	ok(t, err)
	if err := other.Unlock(t.Context(), "default", "1234567890"); err == nil {
		t.Error("another ID released the lock")
	}
	if _, err := other.Lock(t.Context(), "default", Info(second, "OperationTypePlan")); err == nil {
		t.Fatal("an attempt to release it under another ID has released the lock")
	}
	breaker := other
	if s.DiesWithHolder {
		breaker = b
	}
	ok(t, breaker.Unlock(t.Context(), "default", lock.ID))
	if err := breaker.Unlock(t.Context(), "default", lock.ID); !errors.Is(err, snapshot.ErrNotLocked) {
		t.Errorf("releasing it a second time: %v, want ErrNotLocked", err)
	}
	again, err := other.Lock(t.Context(), "default", Info(second, "OperationTypePlan"))
	ok(t, err)
	ok(t, other.Unlock(t.Context(), "default", again.ID))
}

func (s Suite) large(t *testing.T) {
	b := s.Open(t)
	data := append(bytes.Repeat([]byte("0123456789abcdef"), 1<<16), '\n') // 1 MiB
	ok(t, b.Write(t.Context(), "default", data))
	if got := read(t, s.Open(t), "default"); got != string(data) {
		t.Errorf("read %d bytes, want %d", len(got), len(data))
	}
	ok(t, b.Write(t.Context(), "default", []byte(`{"small":1}`)))
	if got := read(t, s.Open(t), "default"); got != `{"small":1}` {
		t.Errorf("read %q after a small state took the place of a large one", got)
	}
}

func (s Suite) workspaces(t *testing.T) {
	b, ctx := s.Open(t), t.Context()
	if s.OneState {
		if _, err := b.Workspaces(ctx); !errors.Is(err, snapshot.ErrNoWorkspaces) {
			t.Errorf("listing workspaces: %v, want ErrNoWorkspaces", err)
		}
		return
	}
	ok(t, b.Create(ctx, "stage"))
	ok(t, b.Create(ctx, "stage"))
	ok(t, b.Create(ctx, "dev"))
	s.lists(t, "default", "dev", "stage")
	ok(t, b.Write(ctx, "stage", []byte(`{"stage":1}`)))
	ok(t, b.Write(ctx, "default", []byte(`{"default":1}`)))
	if got := read(t, s.Open(t), "stage"); got != `{"stage":1}` {
		t.Errorf("the workspace holds %q", got)
	}
	lock, err := b.Lock(ctx, "stage", Info(first, "OperationTypeApply"))
	ok(t, err)
	free, err := s.Open(t).Lock(ctx, "default", Info(second, "OperationTypeApply"))
	if err != nil {
		t.Errorf("the lock of one workspace keeps others out of another one: %v", err)
	} else if !s.DiesWithHolder {
		ok(t, b.Unlock(ctx, "default", free.ID))
	}
	ok(t, b.Unlock(ctx, "stage", lock.ID))
	ok(t, b.Delete(ctx, "stage"))
	if err := b.Delete(ctx, "default"); !errors.Is(err, snapshot.ErrDefault) {
		t.Errorf("deleting the default workspace: %v, want ErrDefault", err)
	}
	s.lists(t, "default", "dev")
	ok(t, b.Create(ctx, "stage"))
	if got := read(t, s.Open(t), "stage"); bytes.Contains([]byte(got), []byte(`"stage":1`)) {
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

func read(t *testing.T, b snapshot.Backend, workspace string) string {
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
