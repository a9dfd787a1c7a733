package sim

import (
	"context"

	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/locks"
)

func (h *handle) AskLocks(ctx context.Context, ws string, r locks.Request) error {
	return h.write(ctx, "AskLocks", r.ID, func() error { return h.site.store.AskLocks(context.Background(), ws, r) })
}

func (h *handle) AwaitLocks(ctx context.Context, ws, id string) error {
	return h.site.store.AwaitLocks(ctx, ws, id)
}

func (h *handle) LeaveLocks(ctx context.Context, ws, id string) error {
	return h.write(ctx, "LeaveLocks", id, func() error {
		return h.site.store.LeaveLocks(context.Background(), ws, id)
	})
}

func (h *handle) LockRequests(ctx context.Context, ws string) ([]locks.Request, error) {
	return h.site.store.LockRequests(ctx, ws)
}

func (h *handle) LockBlockers(ctx context.Context, ws, id string, most int) ([]locks.Blocker, error) {
	return h.site.store.LockBlockers(ctx, ws, id, most)
}

func (h *handle) LoadEnded(ctx context.Context, ws string) (*state.State, error) {
	return h.site.store.LoadEnded(ctx, ws)
}
