package bolt

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/internal/bug"
	"github.com/millipede-iac/millipede/state/groupcommit"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/recorded"
)

// After a panic in one operation, its goroutine still held the right to write, and all later operations waited for
// ever.
func TestAnOperationThatPanicsFailsAlone(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "state.db"), journal.LockInfo{}, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	wrote := 0
	fine := func(*recorded.Tx) error { wrote++; return nil }
	failed, err := s.transact([]groupcommit.Op{fine, func(*recorded.Tx) error { panic("oops") }, fine})
	var b *bug.Error
	if failed != 1 || !errors.As(err, &b) || wrote != 1 {
		t.Errorf("operation %d failed with %v, after %d others", failed, err, wrote)
	}
	if err := s.write(t.Context(), func(*recorded.Tx) error { panic("oops") }); !errors.As(err, &b) {
		t.Errorf("the panic became %v", err)
	}
	if err := s.write(t.Context(), fine); err != nil {
		t.Errorf("the next operation fails: %v", err)
	}
}

// A plan without changes wrote five transactions, each with two syncs: in addition to its lock, one for the durations
// of its operations, one for the times of its reads, and one that ended an unfinished version, although there was none.
func TestWhatMayBeLostNeedsNoTransactionOfItsOwn(t *testing.T) {
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "state.db")
	open := func() *Store {
		s, err := Open(path, journal.LockInfo{}, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	at := time.Now().UTC()
	writes := func() int64 {
		all := s.db.Stats()
		return all.TxStats.GetWrite()
	}
	before := writes()
	if err := errors.Join(
		s.Commit(ctx, journal.Commit{Workspace: "default", EndUnfinished: true}),
		s.PutHint(ctx, "durations", "plan", []byte("x")),
		s.NoteReads(ctx, "default", at, true, nil),
	); err != nil {
		t.Fatal(err)
	}
	if n := writes() - before; n != 0 {
		t.Errorf("%d writes", n)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open()
	reads, err := s.Reads(ctx, "default")
	if err != nil || !reads.All.Equal(at) {
		t.Errorf("the store was closed without the noted reads: %v, %v", reads.All, err)
	}
	if value, err := s.GetValue(ctx, "durations", "plan"); err != nil || string(value) != "x" {
		t.Errorf("the store was closed without the hint: %q, %v", value, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
