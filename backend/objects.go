package backend

import (
	"context"
	"time"
)

// ObjectChange is a change of some instances of a snapshot. The others may change at the same time.
type ObjectChange struct {
	// Operation is the command that makes the change.
	Operation string
	// Lineage and Serial identify the snapshot that the change was made for.
	Lineage string
	Serial  uint64
	// Removed are the addresses of the instances that are removed.
	Removed []string
	// State is a state in the exchange format that has only the instances that are added or changed, each as a whole;
	// nil if there are none.
	State []byte
}

// ObjectChanger is a Backend for which runs of others change single objects of a state.
type ObjectChanger interface {
	Backend
	// LocksObjects reports whether runs change objects of the workspace's state now, each under locks of these objects.
	// The state cannot be locked as a whole meanwhile; use ChangeObjects.
	LocksObjects(ctx context.Context, workspace string) (bool, error)
	// ChangeObjects makes a change under locks of its objects, and waits for these locks, at most for the given time. If
	// it returns an error, nothing was changed; *Refused says why. A change that was made already is not an error.
	ChangeObjects(ctx context.Context, workspace string, c ObjectChange, wait time.Duration) error
}

// Refused is the error of ChangeObjects if other runs have locked the objects, or have changed them since the
// snapshot that the change was made for.
type Refused struct{ Reason string }

func (r *Refused) Error() string { return r.Reason }

// Objects returns the backend if it can change single objects. A backend whose snapshots are encrypted here cannot:
// it would have to read them.
func Objects(b Backend) (ObjectChanger, bool) {
	if e, ok := b.(*encrypted); ok && !e.target.Encrypts() {
		b = e.Backend
	}
	c, ok := b.(ObjectChanger)
	return c, ok
}
