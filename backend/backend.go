// Package backend stores copies of states in backends, where other engines and tools find them.
//
// The store is authoritative; a snapshot is read to detect changes by others, and written when a command that
// changed the state ends. Each kind of place is a Backend; those that use a network have their own packages, and
// backend/catalog lists all kinds. The format of snapshots is implemented by state/tfstate; this package
// evaluates no configuration.
package backend

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"

	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/tfstate"
)

// Backend stores a snapshot for each workspace. Safe for concurrent use.
type Backend interface {
	// Describe describes the place of a workspace's snapshot, for messages and as its identity, and its layout.
	Describe(workspace string) Description
	// Read returns the snapshot; nil if there is none. An empty file that was not created by the lock of this
	// process is an empty slice, not nil: its content was lost, or has not been written yet.
	Read(ctx context.Context, workspace string) ([]byte, error)
	// Write replaces the snapshot. It is durable when Write returns.
	Write(ctx context.Context, workspace string, data []byte) error

	// Lock locks the snapshot against other engines. It tries once; Acquire waits. The error is *journal.Held if
	// the snapshot is locked.
	Lock(ctx context.Context, workspace string, info journal.LockInfo) (Lock, error)
	// Unlock releases the lock with this ID, taken by this or another process (force-unlock). The ID is compared
	// before anything is deleted: if there is no such lock, the error is ErrNotLocked.
	Unlock(ctx context.Context, workspace, lockID string) error

	// Workspaces lists the workspaces: the default one, then the others, sorted. A backend without other workspaces
	// returns ErrNoWorkspaces, also from Create and Delete.
	Workspaces(ctx context.Context) ([]string, error)
	// Create creates a workspace, which is listed afterwards. If it already exists, that is not an error.
	Create(ctx context.Context, workspace string) error
	// Delete removes a workspace with its snapshot; ErrDefault.
	Delete(ctx context.Context, workspace string) error
}

// Streaming is a Backend that can write a snapshot as a stream, so that a large one is never in memory as a whole.
// Other backends store a few hundred megabytes at most; a local file of a deep configuration can be larger, since
// each object contains all its dependencies.
type Streaming interface {
	Backend
	// WriteFrom is Write with the data that write produces. write is called at most once; if it returns an error,
	// the snapshot is unchanged.
	WriteFrom(ctx context.Context, workspace string, write func(w io.Writer) error) error
	// Digest returns the SHA-256 of the result of Read, in hexadecimal; empty if it cannot be computed without
	// Read.
	Digest(ctx context.Context, workspace string) (string, error)
}

// streaming returns the backend if it supports streaming: snapshots that are encrypted are built in memory.
func streaming(b Backend, workspace string) (Streaming, bool) {
	if e, ok := b.(*encrypted); ok && !e.target.Encrypts() && !e.Describe(workspace).Stale {
		b = e.Backend
	}
	s, ok := b.(Streaming)
	return s, ok
}

// writeState writes a state as a snapshot, and returns its digest.
func writeState(ctx context.Context, b Backend, workspace string, write func(io.Writer) error) (string, error) {
	sum := sha256.New()
	if s, ok := streaming(b, workspace); ok {
		err := s.WriteFrom(ctx, workspace, func(w io.Writer) error { return write(io.MultiWriter(w, sum)) })
		return hex.EncodeToString(sum.Sum(nil)), err
	}
	var text bytes.Buffer
	if err := write(&text); err != nil {
		return "", err
	}
	return hash(text.Bytes()), b.Write(ctx, workspace, text.Bytes())
}

// Description describes the place of a snapshot.
type Description struct {
	Where string
	Form  tfstate.Form
	// Unlockable is set if locking is disabled or not supported: then Lock does nothing, and force-unlock is
	// rejected.
	Unlockable bool
	// Volatile is set if snapshots and workspaces end with the process.
	Volatile bool
	// Stale is set if the snapshot is to be written even without changes: the last one that was read is not encrypted
	// as configured, or is another file than the one that is written (-state-out).
	Stale bool
}

// Conditions that callers handle.
var (
	// ErrNotLocked means that Unlock was called with the ID of a lock that does not exist, or that is not held by
	// this process.
	ErrNotLocked = errors.New("the state is not locked under this lock ID")
	// ErrDefault means that the default workspace was to be deleted.
	ErrDefault = errors.New("the default workspace cannot be deleted")
	// ErrNoWorkspaces means that the backend stores one state and does not support workspaces.
	ErrNoWorkspaces = errors.New("workspaces not supported")
)

// State reads the state of a snapshot; nil if there is none. Problems with its content are a list of diagnostics in
// the error, or *Sealed.
func State(ctx context.Context, b Backend, workspace string) (*state.State, error) {
	data, err := b.Read(ctx, workspace)
	var sealed *Sealed
	switch {
	case errors.As(err, &sealed):
		return nil, err
	case err != nil:
		return nil, diag.Errors("Failed to load state", fmt.Sprintf("Reading %s: %s.", b.Describe(workspace).Where,
			err), nil).Err()
	}
	st, diags := tfstate.Parse(data)
	return st, diags.Err()
}

// EmptyState returns the snapshot of a new workspace: serial 1, a new lineage, and no content.
func EmptyState() ([]byte, error) {
	s := state.Empty()
	s.Serial, s.Lineage = 1, uuid.NewString()
	var text bytes.Buffer
	err := tfstate.Write(&text, s, config.LanguageVersion, tfstate.Compact)
	return text.Bytes(), err
}
