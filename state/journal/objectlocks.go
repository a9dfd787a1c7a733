package journal

import (
	"context"

	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/locks"
)

// ObjectLocks keep several who change one workspace at the same time apart, by the objects that they touch. Requests
// are durable: the next process that opens the store finds them, in their order.
//
// The ID of a request that is granted is a lock ID for Commit, BeginRun and EndRun. A commit under it is refused with
// ErrFenced, whole, if it changes anything outside of what the request locks to write. Changes under it belong to a
// version of their own, which ends with Tx.EndVersion as if all of it had happened at that moment: until then the
// versions that others end do not have them. State as a whole, with Lock or Replace, is for nobody meanwhile.
type ObjectLocks interface {
	// AskLocks notes a request behind those that are there. The same request again, with the same set, stays where it
	// is. The error is *Held while the workspace is locked as a whole.
	AskLocks(ctx context.Context, workspace string, r locks.Request) error
	// AwaitLocks returns when a request is granted, or ctx has ended. The error is locks.ErrUnknown when it was taken
	// back.
	AwaitLocks(ctx context.Context, workspace, id string) error
	// LeaveLocks takes a request back; one that is not there is no error. What was changed under it since its last
	// version ended becomes a version, whose cause is that it was interrupted.
	LeaveLocks(ctx context.Context, workspace, id string) error
	// LockRequests are the requests, in their order. Nobody may change their sets.
	LockRequests(ctx context.Context, workspace string) ([]locks.Request, error)
	// LockBlockers says why a request waits, by objects, but not by more than a number of them.
	LockBlockers(ctx context.Context, workspace, id string, most int) ([]locks.Blocker, error)
	// LoadEnded returns the state of the version that ended last: without what is being changed. The caller owns it.
	LoadEnded(ctx context.Context, workspace string) (*state.State, error)
}
