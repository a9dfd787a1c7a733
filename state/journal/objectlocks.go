package journal

import (
	"context"

	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/locks"
)

// ObjectLocks let several runs change one workspace at the same time: each locks the objects that it touches. Requests
// are durable; the next process that opens the store finds them in their order.
//
// The ID of a granted request is a lock ID for Commit, BeginRun and EndRun. A commit under it is refused as a whole,
// with ErrFenced, if it changes anything that the request does not lock for writing. The changes under it belong to a
// version of their own, which ends with Commit.EndVersion as if all of them had been made at that moment: versions that
// others end before do not contain them. Nobody can lock or replace the whole state meanwhile.
type ObjectLocks interface {
	// AskLocks appends a request to the queue. Repeating a request with the same set leaves it in its place. It returns
	// *Held while the whole workspace is locked.
	AskLocks(ctx context.Context, workspace string, r locks.Request) error
	// AwaitLocks waits until a request is granted, or until ctx ends. It returns locks.ErrUnknown if the request was
	// withdrawn.
	AwaitLocks(ctx context.Context, workspace, id string) error
	// LeaveLocks withdraws a request; it is no error if there is none. Changes that were made under it since its last
	// version ended become a version, whose cause is an interruption.
	LeaveLocks(ctx context.Context, workspace, id string) error
	// LockRequests returns the requests in their order. Their sets must not be modified.
	LockRequests(ctx context.Context, workspace string) ([]locks.Request, error)
	// LockBlockers returns the objects that a request waits for, at most the given number, with the requests that block
	// them.
	LockBlockers(ctx context.Context, workspace, id string, most int) ([]locks.Blocker, error)
	// LoadEnded returns the state at the end of the last version, without changes that are being made. The caller owns it.
	LoadEnded(ctx context.Context, workspace string) (*state.State, error)
}
