package hub

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/millipede-iac/millipede/wire"
)

// drained are the pools to which the runs of this process dispatch nothing. Hubs over one connection share it.
type drained struct{ pools atomic.Pointer[[]string] }

func (d *drained) has(pool string) bool {
	list := d.pools.Load()
	return list != nil && slices.Contains(*list, pool)
}

// seen returns a heartbeat as runs see it: the workers of a drained pool take no new tasks.
func (d *drained) seen(h wire.Heartbeat) wire.Heartbeat {
	h.Draining = h.Draining || slices.ContainsFunc(h.Pools, d.has)
	return h
}

// Drain sets the pools to which the runs of this hub, and of those that For has returned, dispatch nothing. Operations
// in progress there continue; vertices that need one of the pools wait as for a pool without a worker. It asks the
// workers for heartbeats, so that runs find out at once; an error means that they do only within a second.
func (h *Hub) Drain(ctx context.Context, pools []string) error {
	list := slices.Clone(pools)
	h.drained.pools.Store(&list)
	return h.transport.Control(ctx, "", wire.Control{Kind: "announce"})
}

// Dispatch is Call for an operation of a run. For a drained pool it returns wire.ErrNoWorker.
func (h *Hub) Dispatch(ctx context.Context, pool string, data []byte) ([]byte, error) {
	if h.drained.has(pool) {
		return nil, fmt.Errorf("the pool %q is drained: %w", pool, wire.ErrNoWorker)
	}
	return h.transport.Call(ctx, pool, data)
}
