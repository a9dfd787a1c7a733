package estate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/millipede-iac/millipede/coordinator/rebase"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/graph/plan/planfile"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/journal"
)

// Kept returns the bytes of a plan for readers that have the store. If several operations share a state, it leaves
// out what the store contains anyway, so that the size of a plan is proportional to its changes, and not to the
// state.
func (r *Operation) Kept(ctx context.Context, p *plan.Plan) ([]byte, error) {
	return planfile.Encode(r.kept(ctx, p))
}

// recorded is Kept for the journal.
func (r *Operation) recorded(ctx context.Context, p *plan.Plan) ([]byte, error) {
	return planfile.EncodeRecorded(r.kept(ctx, p))
}

func (r *Operation) kept(ctx context.Context, p *plan.Plan) planfile.Saved {
	saved := r.Saved(p)
	if r.State.sharing != nil {
		if reduced, at, ok := r.reduced(ctx, p); ok {
			saved.Plan, saved.BaseAt = reduced, at
		}
	}
	return saved
}

// reduced returns a plan without the content of the store's version for which it was made, and when that version
// ended. It has verified that the version makes the plan complete again.
func (r *Operation) reduced(ctx context.Context, p *plan.Plan) (reduced *plan.Plan, at time.Time, ok bool) {
	versions, err := r.State.store.Versions(ctx, r.State.Workspace)
	if err != nil {
		return nil, at, false
	}
	i := slices.IndexFunc(versions, func(v journal.VersionInfo) bool {
		return v.Serial == p.BaseSerial && v.Lineage == p.BaseLineage
	})
	if i < 0 || versions[i].At.IsZero() {
		return nil, at, false
	}
	version, err := r.State.store.LoadExactly(ctx, r.State.Workspace, versions[i])
	if err != nil {
		return nil, at, false
	}
	reduced, ok = rebase.Reduced(p, version)
	return reduced, versions[i].At, ok
}

// complete completes a reduced plan.
func complete(ctx context.Context, store journal.Versions, saved *planfile.Saved) diag.List {
	if !saved.Reduced() {
		return nil
	}
	p := saved.Plan
	version, err := store.LoadExactly(ctx, p.Workspace, journal.VersionInfo{Lineage: p.BaseLineage, Serial: p.BaseSerial,
		At: saved.BaseAt})
	if err != nil {
		return diag.Errors("Failed to read the plan", fmt.Sprintf("The plan was made for serial %d of the state, which "+
			"cannot be read any more: %s.", p.BaseSerial, err), nil)
	}
	saved.Plan, saved.BaseAt = rebase.Complete(p, version), time.Time{}
	return nil
}

// Complete completes a plan of Kept with the last commit of the store, even if another process works on the state.
func (e *homes) Complete(ctx context.Context, saved *planfile.Saved) (diags diag.List) {
	if !saved.Reduced() {
		return nil
	}
	at, diags := e.storeFor(StateOptions{}, nil)
	if diags.HasErrors() {
		return diags
	}
	store, diags := e.openStore(ctx, at, e.lockInfo(""), reads, 0)
	if diags.HasErrors() {
		return diags
	}
	defer func() { diags = diags.Append(store.close()) }()
	return diags.Append(complete(ctx, store, saved))
}
