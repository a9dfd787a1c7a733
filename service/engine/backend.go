package engine

import (
	"context"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/service/work"
	"github.com/millipede-iac/millipede/state/journal"
)

// snapshots stores the snapshot of one workspace in the service, which has already locked the workspace for the
// run.
type snapshots struct {
	state          work.State
	workspace, run string
}

var _ backend.Backend = (*snapshots)(nil)

// Describe implements backend.Backend.
func (b *snapshots) Describe(workspace string) backend.Description {
	return backend.Description{Where: "the state of the workspace " + workspace}
}

// Read implements backend.Backend.
func (b *snapshots) Read(ctx context.Context, _ string) ([]byte, error) { return b.state.Read(ctx) }

// Write implements backend.Backend.
func (b *snapshots) Write(ctx context.Context, _ string, data []byte) error {
	return b.state.Write(ctx, data)
}

// Lock implements backend.Backend: the lock is the run's.
func (b *snapshots) Lock(context.Context, string, journal.LockInfo) (backend.Lock, error) {
	return backend.Lock{ID: b.run}, nil
}

// Unlock implements backend.Backend.
func (b *snapshots) Unlock(_ context.Context, _, lockID string) error {
	if lockID != b.run {
		return backend.ErrNotLocked
	}
	return nil
}

// Workspaces implements backend.Backend.
func (b *snapshots) Workspaces(context.Context) ([]string, error) { return []string{b.workspace}, nil }

// Create implements backend.Backend.
func (b *snapshots) Create(context.Context, string) error { return nil }

// Delete implements backend.Backend: workspaces are deleted in the service.
func (b *snapshots) Delete(context.Context, string) error { return backend.ErrNoWorkspaces }
