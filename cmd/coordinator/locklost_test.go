package main

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/coordinator/layout"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/snapshot"
)

// severable is a backend whose lock can be lost.
type severable struct {
	snapshot.Backend
	lost chan struct{}
}

func (b *severable) Lock(ctx context.Context, workspace string, info journal.LockInfo) (snapshot.Lock, error) {
	lock, err := b.Backend.Lock(ctx, workspace, info)
	lock.Lost = b.lost
	return lock, err
}

// A session of a database, or of Consul, that ends takes its lock along. The command that held it went on, and wrote its
// snapshot over what somebody else had written in the meantime.
func TestALostLockStopsTheCommandAndKeepsItFromWriting(t *testing.T) {
	dir := t.TempDir()
	var mu sync.Mutex
	var told strings.Builder
	a := newApp(strings.NewReader(""), &told, &told, []string{"TF_DATA_DIR=" + filepath.Join(dir, "data")})
	back := a.interrupts.say(func(text string) {
		mu.Lock()
		defer mu.Unlock()
		told.WriteString(text)
	})
	defer back()
	b := &severable{snapshot.NewMemory(), make(chan struct{})}
	info := a.lockInfo("apply")
	store, diags := a.openStore(t.Context(), layout.At(filepath.Join(dir, "data")).Workspace("default"), info, writes, time.Second)
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	s := &openState{
		app: a, store: store, workspace: "default", backend: b, info: info,
		sync: &snapshot.Sync{Store: store, Backend: b, Version: engineVersion},
	}
	if diags := s.lock(t.Context(), 0); diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	if diags := s.push(t.Context()); diags.HasErrors() || a.interrupts.Asked() {
		t.Fatalf("while the lock is held: %v", diags.Err())
	}
	close(b.lost)
	<-a.interrupts.Stopping.Done()
	diags = s.push(t.Context())
	if !diags.HasErrors() || diags[0].Summary != "State lock lost" {
		t.Errorf("a snapshot is written without the lock: %v", diags.Err())
	}
	if diags := s.close(t.Context()); diags.HasErrors() {
		t.Error(diags.Err())
	}
	mu.Lock()
	defer mu.Unlock()
	if !strings.Contains(told.String(), "was lost") {
		t.Errorf("the user is told %q", told.String())
	}
}
