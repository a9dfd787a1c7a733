package coordinator

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/coordinator/loop"
	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

// permitDeadline is the age at which a permit is released although the outcome of its operation cannot be found out.
const permitDeadline = 24 * time.Hour

// Orphans decides whether permits can be released whose run is gone, for wire.Semaphore.OnAbandoned. It decides about
// the runs in this coordinator's journal. Permits of other coordinators' runs stay held until the deadline.
type Orphans struct {
	Store  journal.Store
	Claims wire.Claims
	// Rules say how long an operation in doubt may still be running, and which limits belong to one pool. Workers returns
	// the workers that were heard of; nil has none.
	Rules   *placement.Rules
	Workers func(context.Context) ([]wire.Worker, error)
	// Now and NewID are as in Options, but required.
	Now   func() time.Time
	NewID func() string
}

// Decide implements wire.AbandonedFunc: it reports whether the permit can be released.
func (o *Orphans) Decide(ctx context.Context, limit string, r wire.PermitRequest) (free bool) {
	if strings.HasPrefix(r.Run, readOnly) {
		return true // the run changed nothing
	}
	if _, place := wire.LimitedPool(limit); place {
		return true // a place protects nothing: a worker that is still busy has its slot occupied
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
		return true // no operation was dispatched under it, or its outcome is known
	case under.Doubtful && (under.Over || o.resolved(ctx, run.Workspace, under.Dispatch.Attempt)):
		return true
	case o.termPassed(ctx, limit, under):
		return true
	case under.Doubtful:
		return false
	default:
		return o.revoke(ctx, wire.TaskRef{
			Pool: under.Dispatch.Pool, Coordinator: run.Coordinator, Run: run.ID,
			Attempt: wire.AttemptID(under.Dispatch.Attempt)})
	}
}

// former decides about the permits that earlier processes of a run have requested. That run is resumed by this process,
// so that it need not read the journal for each of them.
type former struct {
	run  string
	own  string          // the prefix of the names of this process's requests
	open map[string]bool // the permits under which operations were under way, or in doubt, when the run was resumed
}

func newFormer(run, process string, past loop.Past) *former {
	f := &former{run: run, own: loop.OwnName(run, process), open: map[string]bool{}}
	for name := range past.Permits() {
		f.open[name] = true
	}
	return f
}

// decide is a wire.AbandonedFunc: it reports whether nothing can run under the permit any more. Earlier processes start
// nothing under the others: they have lost the lock, and commit no dispatch.
func (f *former) decide(_ context.Context, limit string, r wire.PermitRequest) (free bool) {
	return r.Run == f.run && !strings.HasPrefix(r.ID, f.own) && !f.open[journal.PermitName(limit, r.ID)]
}

// termPassed reports whether an operation can hardly be running any more, and pools share the limit: it was dispatched
// longer ago than its term, and no worker has named it within that time.
func (o *Orphans) termPassed(ctx context.Context, limit string, under loop.Open) bool {
	term := o.Rules.Term()
	if o.Rules.OfOnePool(limit) || o.Now().Sub(lastOf(under.Dispatch.At, under.Suspected)) < term {
		return false
	}
	if o.Workers == nil {
		return true
	}
	workers, err := o.Workers(ctx)
	return err == nil && !slices.ContainsFunc(workers, func(w wire.Worker) bool {
		return w.Since < term && slices.Contains(w.Attempts, wire.AttemptID(under.Dispatch.Attempt))
	})
}

func lastOf(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// resolved reports whether the attempt is no longer in doubt: the user has resolved it, or the object was read.
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

// revoke writes a tombstone for an attempt that no worker has claimed. It reports whether that has succeeded, so that
// the attempt can never start.
func (o *Orphans) revoke(ctx context.Context, ref wire.TaskRef) bool {
	c, err := o.Claims.Claim(ctx, ref, wire.Claim{Nonce: o.NewID(), At: o.Now(), Tombstone: true,
		Reason: "its run is gone, and its permit was needed"})
	return err == nil && c.Tombstone
}
