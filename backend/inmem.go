package backend

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/tfstate"
)

// Memory contains the snapshots of inmem backends. It ends with the process; backends that share it have the same
// ones.
type Memory struct {
	mu        sync.Mutex // guards the fields below
	snapshots map[string][]byte
	locks     map[string]journal.LockInfo
}

// NewMemory returns a memory with only the default workspace.
func NewMemory() *Memory {
	return &Memory{
		snapshots: map[string][]byte{journal.DefaultWorkspace: nil},
		locks:     map[string]journal.LockInfo{},
	}
}

// openInmem opens a backend for tests. With lock_id the default workspace is locked initially.
func openInmem(_ context.Context, p Place, args Arguments) (Backend, diag.List) {
	if id := args.String("lock_id"); id != "" {
		p.Memory.mu.Lock()
		defer p.Memory.mu.Unlock()
		if _, held := p.Memory.locks[journal.DefaultWorkspace]; !held {
			p.Memory.locks[journal.DefaultWorkspace] = journal.LockInfo{
				ID: id, Operation: "test", Info: "test config", Who: "the lock_id argument of the backend",
				Created: p.Now().UTC(),
			}
		}
	}
	return p.Memory, nil
}

// Describe describes the place of the snapshot.
func (m *Memory) Describe(workspace string) Description {
	return Description{Where: "inmem:" + workspace, Form: tfstate.Compact, Volatile: true}
}

// Read returns the snapshot.
func (m *Memory) Read(_ context.Context, workspace string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.snapshots[workspace]), nil
}

// Write replaces the snapshot.
func (m *Memory) Write(_ context.Context, workspace string, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.snapshots[workspace] = slices.Clone(data)
	return nil
}

// Lock locks the snapshot.
func (m *Memory) Lock(_ context.Context, workspace string, info journal.LockInfo) (Lock, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if held, ok := m.locks[workspace]; ok {
		return Lock{}, &journal.Held{Holder: held}
	}
	m.locks[workspace] = info
	return Lock{ID: info.ID}, nil
}

// Unlock releases a lock, regardless of its holder.
func (m *Memory) Unlock(_ context.Context, workspace, lockID string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if held, ok := m.locks[workspace]; !ok || held.ID != lockID {
		return fmt.Errorf("%w: %s", ErrNotLocked, lockID)
	}
	delete(m.locks, workspace)
	return nil
}

// Workspaces lists the workspaces.
func (m *Memory) Workspaces(context.Context) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return defaultFirst(slices.Collect(maps.Keys(m.snapshots))), nil
}

// Create creates a workspace.
func (m *Memory) Create(_ context.Context, workspace string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.snapshots[workspace]; !ok {
		m.snapshots[workspace] = nil
	}
	return nil
}

// Delete removes a workspace.
func (m *Memory) Delete(_ context.Context, workspace string) error {
	if workspace == journal.DefaultWorkspace {
		return ErrDefault
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.snapshots, workspace)
	return nil
}

// defaultFirst sorts the names of workspaces.
func defaultFirst(names []string) []string {
	names = slices.DeleteFunc(names, func(n string) bool { return n == journal.DefaultWorkspace })
	slices.Sort(names)
	return append([]string{journal.DefaultWorkspace}, names...)
}
