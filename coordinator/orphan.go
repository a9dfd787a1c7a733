package coordinator

import (
	"context"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

// permitDeadline is how long the permit of an operation that nobody can ask about is kept.
const permitDeadline = 24 * time.Hour

// Orphans decides about permits whose run is gone, for wire.Semaphore.OnOrphan: what this coordinator's own journal
// tells of, it resolves; what another coordinator's journal would have to tell, it leaves alone until the deadline.
type Orphans struct {
	Store  journal.Store
	Claims wire.Claims
	// Now and NewID are those of Options; here they are required.
	Now   func() time.Time
	NewID func() string
}

// Decide is a wire.Orphan.
func (o *Orphans) Decide(ctx context.Context, limit string, r wire.PermitRequest) (free bool) {
	if strings.HasPrefix(r.Run, readOnly) {
		return true // what ran under it changes nothing
	}
	if _, place := wire.LimitedPool(limit); place {
		return true // it protects nothing: the worker's own slot is taken while it works on
	}
	if o.Now().Sub(r.At) > permitDeadline {
		return true
	}
	run, past, err := remember(ctx, o.Store, r.Run)
	if err != nil {
		return false // another coordinator's run, or nothing is known
	}
	switch under, found := past.UnderPermit(journal.PermitName(limit, r.ID)); {
	case !found:
		return true // nothing was dispatched under it, or all that was is resolved
	case under.Doubtful:
		return under.Over || o.resolved(ctx, run.Workspace, under.Dispatch.Attempt)
	default:
		return o.revoke(ctx, wire.TaskRef{
			Pool: under.Dispatch.Pool, Coordinator: run.Coordinator, Run: run.ID,
			Attempt: wire.AttemptID(under.Dispatch.Attempt)})
	}
}

// resolved tells whether the state has no doubt of the attempt any more: the user has told what became of it, or the
// object was read.
func (o *Orphans) resolved(ctx context.Context, workspace, attempt string) bool {
	stored, err := o.Store.Load(ctx, workspace)
	if err != nil {
		return false
	}
	for d := range stored.Doubts() {
		if d.Attempt == attempt {
			return false
		}
	}
	return true
}

// revoke ends an attempt that nobody has claimed. It reports whether nothing can run.
func (o *Orphans) revoke(ctx context.Context, ref wire.TaskRef) bool {
	c, err := o.Claims.Claim(ctx, ref, wire.Claim{Nonce: o.NewID(), At: o.Now(), Tombstone: true,
		Reason: "its run is gone, and its permit was needed"})
	return err == nil && c.Tombstone
}
