package migration

import (
	"context"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/state/journal"
)

// Named is one workspace of a backend, under any requested name.
type Named struct {
	backend.Backend
	// Name is the workspace.
	Name string
}

// Describe describes the workspace.
func (n Named) Describe(string) backend.Description { return n.Backend.Describe(n.Name) }

// Read reads the snapshot of the workspace.
func (n Named) Read(ctx context.Context, _ string) ([]byte, error) {
	return n.Backend.Read(ctx, n.Name)
}

// Write writes the snapshot of the workspace.
func (n Named) Write(ctx context.Context, _ string, data []byte) error {
	return n.Backend.Write(ctx, n.Name, data)
}

// Lock locks the workspace.
func (n Named) Lock(ctx context.Context, _ string, info journal.LockInfo) (backend.Lock, error) {
	return n.Backend.Lock(ctx, n.Name, info)
}

// Unlock releases a lock of the workspace.
func (n Named) Unlock(ctx context.Context, _, lockID string) error {
	return n.Backend.Unlock(ctx, n.Name, lockID)
}

// Create creates the workspace.
func (n Named) Create(ctx context.Context, _ string) error { return n.Backend.Create(ctx, n.Name) }
