package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/state/seal"
	"github.com/millipede-iac/millipede/test/stage/disk"
)

// When a run could not write because of a full disk, the service checked whether the disk was full, found that there
// was space again, and ended the run as failed.
func TestAFullDiskIsNoticedAlthoughOthersWriteThere(t *testing.T) {
	dir := t.TempDir()
	v, err := disk.Mount(dir, 16<<20)
	if errors.Is(err, disk.ErrUnsupported) {
		t.Skip("no small disk can be mounted here")
	}
	if err != nil {
		t.Fatal(err)
	}
	key, err := seal.NewKey(seal.NewSecret())
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(dir, key)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Watch(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		if err := errors.Join(s.Close(), v.Close()); err != nil {
			t.Error(err)
		}
	})
	if err := s.Room(); err != nil || s.Refused() != 0 {
		t.Fatalf("%v, %d", err, s.Refused())
	}
	if err := v.Fill(); err != nil {
		t.Fatal(err)
	}
	for again := time.NewTicker(time.Millisecond); s.Refused() == 0; <-again.C { // nobody but the watcher looks
		if t.Context().Err() != nil {
			t.Fatal("the store has not noticed that the disk is full")
		}
	}
	if err := s.Room(); !store.NoRoom(err) {
		t.Errorf("a full disk: %v", err)
	}
	if err := v.Free(); err != nil {
		t.Fatal(err)
	}
	if err := s.Room(); err != nil {
		t.Error(err)
	}
}
