// Package snapshot keeps copies of states where other engines and tools find them.
//
// The truth is in the store; a snapshot is read to learn what others did to it, and written when a command that
// changed the state ends. Each kind of place is a Backend; those that need a network have a package of their own, and
// state/snapshot/catalog lists them all. What a snapshot says is the business of state/tfstate; the package evaluates
// no configuration.
package snapshot

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

// Backend is a place with a snapshot for each workspace. Safe for concurrent use.
type Backend interface {
	// Describe tells where a workspace's snapshot lies, for messages and as its identity, and how it is laid out.
	Describe(workspace string) Description
	// Read returns the snapshot; nil when there is none. A file without content that the lock of this process did not
	// make is an empty slice, not nil: something emptied it, or nobody has written it yet.
	Read(ctx context.Context, workspace string) ([]byte, error)
	// Write replaces the snapshot. It is durable when Write returns.
	Write(ctx context.Context, workspace string, data []byte) error

	// Lock keeps other engines away from the snapshot. It tries once; Acquire waits. The error is *journal.Held when
	// somebody has locked the snapshot.
	Lock(ctx context.Context, workspace string, info journal.LockInfo) (Lock, error)
	// Unlock releases the lock with this ID, whether this process took it or another one did (force-unlock). The ID is
	// compared before anything is deleted: where no such lock is found the error is ErrNotLocked.
	Unlock(ctx context.Context, workspace, lockID string) error

	// Workspaces lists the workspaces: the default one, then the others sorted. A place that has no others returns
	// ErrNoWorkspaces, from Create and Delete too.
	Workspaces(ctx context.Context) ([]string, error)
	// Create makes a workspace that is listed from then on. That it exists is no error.
	Create(ctx context.Context, workspace string) error
	// Delete removes a workspace with its snapshot; ErrDefault.
	Delete(ctx context.Context, workspace string) error
}

// Streaming is a Backend that takes a snapshot while it is made, so that a large one is never in memory as a whole.
// Other places hold some hundred megabytes at most; a file beside a deep configuration can be larger, since
// each object names all that it depends on.
type Streaming interface {
	Backend
	// WriteFrom is Write with what write puts into w. write is called at most once; its error leaves the snapshot as it
	// was.
	WriteFrom(ctx context.Context, workspace string, write func(w io.Writer) error) error
	// Digest returns the SHA-256 of what Read would return, in hexadecimal; empty where only Read can tell.
	Digest(ctx context.Context, workspace string) (string, error)
}

// streaming returns the backend that takes a snapshot as it is made: one that is encrypted is made in memory.
func streaming(b Backend, workspace string) (Streaming, bool) {
	if e, ok := b.(*encrypted); ok && !e.target.Encrypts() && !e.Describe(workspace).Stale {
		b = e.Backend
	}
	s, ok := b.(Streaming)
	return s, ok
}

// writeState writes a state as a snapshot, and returns the digest of that.
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

// Description is what is known of a snapshot's place.
type Description struct {
	Where string
	Form  tfstate.Form
	// Unlockable tells that locks are switched off for the place, or that it has none: Lock then does nothing, and
	// force-unlock is refused.
	Unlockable bool
	// Volatile tells that snapshots and workspaces end with the process.
	Volatile bool
	// Stale tells that what was read there last is not encrypted as it is to be: it is written again with the next
	// changes, and when there are none, too.
	Stale bool
}

// Conditions that callers handle.
var (
	// ErrNotLocked means that Unlock named a lock that is not held, or not by this process.
	ErrNotLocked = errors.New("the state is not locked under this lock ID")
	// ErrDefault means that the default workspace was to be deleted.
	ErrDefault = errors.New("the default workspace cannot be deleted")
	// ErrNoWorkspaces means that the place holds one state and no workspaces beside it.
	ErrNoWorkspaces = errors.New("workspaces not supported")
)

// State reads the state that a snapshot holds; nil when there is none. What is wrong with it is a list of diagnostics
// in the error, or *Sealed.
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

// EmptyState returns the snapshot of a workspace that was just made: serial 1, a lineage of its own, and nothing in it.
func EmptyState() ([]byte, error) {
	s := state.Empty()
	s.Serial, s.Lineage = 1, uuid.NewString()
	var text bytes.Buffer
	err := tfstate.Write(&text, s, config.LanguageVersion, tfstate.Compact)
	return text.Bytes(), err
}
