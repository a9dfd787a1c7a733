package bolt

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/millipede-iac/millipede/bug"
	"github.com/millipede-iac/millipede/state/journal"
)

// A panic in one operation kept the right to write with the goroutine that had it: all later operations waited for ever.
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
	fine := func(*bbolt.Tx) error { wrote++; return nil }
	failed, err := s.transact([]func(*bbolt.Tx) error{fine, func(*bbolt.Tx) error { panic("oops") }, fine})
	var b *bug.Error
	if failed != 1 || !errors.As(err, &b) || wrote != 1 {
		t.Errorf("operation %d failed with %v, after %d others", failed, err, wrote)
	}
	if err := s.write(t.Context(), func(*bbolt.Tx) error { panic("oops") }); !errors.As(err, &b) {
		t.Errorf("the panic became %v", err)
	}
	if err := s.write(t.Context(), fine); err != nil {
		t.Errorf("the next operation fails: %v", err)
	}
}
