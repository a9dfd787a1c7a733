package worker

import (
	"context"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

// interval is the time between heartbeats.
const interval = time.Second

// sendHeartbeats sends a heartbeat every second, with the worker's attempts, until ctx ends. A lost heartbeat is
// replaced by the next one.
func (w *Worker) sendHeartbeats(ctx, taking context.Context) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		now := w.Now()
		w.signs.round.Store(&now)
		w.say(ctx, w.heartbeat(taking.Err() != nil))
		select {
		case <-tick.C:
		case <-w.announce:
		case <-ctx.Done():
			return
		}
	}
}

// requestHeartbeat has a heartbeat sent ahead of its time.
func (w *Worker) requestHeartbeat() {
	select {
	case w.announce <- struct{}{}:
	default: // one is about to go out anyway
	}
}

// leave announces that the worker has gone, so that nobody waits for its next heartbeat.
func (w *Worker) leave(working context.Context) {
	b := w.heartbeat(true)
	b.Leaving = true
	w.say(context.WithoutCancel(working), b)
}

func (w *Worker) say(ctx context.Context, b wire.Heartbeat) {
	ctx, cancel := context.WithTimeout(ctx, bestEffortTimeout)
	defer cancel()
	if err := w.Presence.Beat(ctx, b); err != nil {
		w.Log.Debug("a heartbeat was lost", "error", err)
		return
	}
	w.signs.announced.Store(true)
}

func (w *Worker) heartbeat(draining bool) wire.Heartbeat {
	return wire.Heartbeat{
		Worker: w.ID, Pools: w.Pools, Slots: w.Slots, Running: w.slots.running(),
		Version: w.Version, Protocol: wire.Spoken().Highest, Lowest: wire.Spoken().Lowest, Platform: w.Platform, Host: w.Host,
		Draining: draining, PublicKey: w.Keys.PublicKey(), Attempts: w.ops.attempts(),
		Identity: w.Identity, Proof: w.Proof, OwnEnvironment: w.OwnEnvironment, Trouble: w.trouble.text(),
	}
}

// watch obeys the control messages to a pool until ctx ends.
func (w *Worker) watch(ctx context.Context, pool string) {
	var stops sync.WaitGroup
	defer stops.Wait()
	var retry backoff
	for {
		err := w.Presence.SubscribeControl(ctx, pool, func(c wire.Control) { w.handleControl(ctx, c, &stops) })
		if ctx.Err() != nil {
			return
		}
		w.Log.Warn("watching for control messages ended", "pool", pool, "error", err)
		if !retry.wait(ctx) {
			return
		}
	}
}

// mostWarm is the most providers that a worker starts for one message.
const mostWarm = 32

// warm downloads and starts a provider in advance, so that its first operation need not wait for that. A process that
// nobody uses ends by itself after a while.
func (w *Worker) warm(ctx context.Context, p wire.Provider) {
	p.Config, p.Digest, p.Mock = nil, "", nil
	lease, diags := w.Providers.Acquire(ctx, p, nil, nil)
	if diags.HasErrors() {
		w.Log.Debug("a provider was not started ahead", "provider", p.Address, "error", diags.Err())
		return
	}
	defer lease.Release()
	if _, diags := lease.Provider().Schemas(ctx); diags.HasErrors() {
		w.Log.Debug("a provider does not return its schema", "provider", p.Address, "error", diags.Err())
	}
}

func (w *Worker) handleControl(ctx context.Context, c wire.Control, stops *sync.WaitGroup) {
	switch c.Kind {
	case "announce":
		w.requestHeartbeat()
	case "cancel":
		w.ops.cancel(c.Run)
	case "warm":
		for _, p := range c.Providers[:min(len(c.Providers), mostWarm)] {
			stops.Go(func() { w.warm(ctx, p) })
		}
	case "stop":
		for _, op := range w.ops.of(c.Run) {
			stops.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, bestEffortTimeout)
				defer cancel()
				if err := op.stop(ctx); err != nil {
					w.Log.Warn("asking an operation to stop failed", "attempt", op.attempt, "error", err)
				}
			})
		}
	default:
		w.Log.Warn("unknown control message", "kind", c.Kind)
	}
}
