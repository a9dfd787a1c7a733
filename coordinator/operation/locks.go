package operation

import (
	"context"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/locks"
)

// Locks returns the locks that are needed to apply a plan to the present state while others change the state.
func (s *Session) Locks(ctx context.Context, p *plan.Plan) (set locks.Set, diags diag.List) {
	defer caught(&diags)
	applier, diags := s.applier(ctx, p, "", "")
	if diags.HasErrors() {
		return nil, diags
	}
	defer applier.Renewals.Stop()
	return applier.Locks(), diags
}

// own returns the locks of the request with this ID; nil if it has the lock of the whole state.
func (s *Session) own(ctx context.Context, lockID string) (locks.Set, error) {
	all, err := s.Store.LockRequests(ctx, s.Workspace)
	for _, r := range all {
		if r.ID == lockID {
			return r.Set, err
		}
	}
	return nil, err
}

// sharing returns the runs that have locks of objects.
func sharing(ctx context.Context, store interface {
	LockRequests(ctx context.Context, workspace string) ([]locks.Request, error)
}, workspace string) (map[string]bool, error) {
	all, err := store.LockRequests(ctx, workspace)
	if err != nil {
		return nil, err
	}
	runs := map[string]bool{}
	for _, r := range all {
		if r.Run != "" {
			runs[r.Run] = true
		}
	}
	return runs, nil
}
