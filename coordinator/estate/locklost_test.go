package estate

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/state/journal"
)

// severable is a backend whose lock can be lost.
type severable struct {
	backend.Backend
	lost chan struct{}
}

func (b *severable) Lock(ctx context.Context, workspace string, info journal.LockInfo) (backend.Lock, error) {
	lock, err := b.Backend.Lock(ctx, workspace, info)
	lock.Lost = b.lost
	return lock, err
}

// When a session of a database or of Consul ends, its lock is released. The command that had the lock continued, and
// overwrote the snapshot that another process had written meanwhile.
func TestALostLockStopsTheCommandAndKeepsItFromWriting(t *testing.T) {
	stop, ask, _ := operation.NewStop(t.Context())
	p := &process{stop: ask}
	e := testEstate(t, t.TempDir())
	e.Stop, e.Process = stop, p
	b := &severable{backend.NewMemory(), make(chan struct{})}
	info := e.lockInfo("apply")
	store, diags := e.openStore(t.Context(), storeAt{Home: e.Directory().Workspace("default")}, info, writes, time.Second)
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	s := &Opened{
		estate: e, store: store, Workspace: "default", backend: b, info: info,
		sync: &backend.Sync{Store: store, Backend: b, Version: e.EngineVersion},
	}
	if diags := s.lock(t.Context(), 0); diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	if diags := s.Push(t.Context()); diags.HasErrors() || e.Stop.Asked() {
		t.Fatalf("while the lock is held: %v", diags.Err())
	}
	close(b.lost)
	<-e.Stop.Stopping.Done()
	diags = s.Push(t.Context())
	if !diags.HasErrors() || diags[0].Summary != "State lock lost" {
		t.Errorf("a snapshot was written without the lock: %v", diags.Err())
	}
	if diags := s.Close(t.Context()); diags.HasErrors() {
		t.Error(diags.Err())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !strings.Contains(p.reason, "was lost") {
		t.Errorf("the message is %q", p.reason)
	}
}

// process implements Process.
type process struct {
	noProcess
	stop context.CancelCauseFunc

	mu     sync.Mutex // guards reason
	reason string
}

// Demand implements Process.
func (p *process) Demand(reason string) {
	p.mu.Lock()
	p.reason = reason
	p.mu.Unlock()
	p.stop(operation.ErrInterrupted)
}
