// Package hub lets all runs of a coordinator share one connection: it receives results, heartbeats and control messages
// once for all of them, and passes each run its own.
//
// One goroutine fetches results and routes them by run; one receives heartbeats, one control messages, one checks for
// lost data. Each of them runs only while a run needs it. Calls, tasks, claims, permits and blobs belong to a single
// run each, and go directly to the transport. The package makes no decisions about runs, and uses no store.
package hub

import (
	"context"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

// retryEvery is the pause before a retry.
const retryEvery = 250 * time.Millisecond

// Hub is a coordinator's connection. A process has one for each coordinator. Its methods may be called from any
// goroutine.
type Hub struct {
	// These belong to single runs, and go directly to the transport.
	wire.DirectTasks
	wire.Claims
	wire.Blobs
	wire.Keys

	// Budget is shared by all messages from workers that this process unpacks.
	Budget *wire.MemoryBudget

	transport   wire.Transport
	coordinator string

	waiters   waiters
	workers   feed[wire.Heartbeat]
	controls  feed[wire.Control]
	results   results
	probes    probes
	abandoned abandonedPermits
	drained   *drained
	packages  *supplied
}

// New returns the hub of a coordinator. It takes over the transport: nobody else may fetch the coordinator's results,
// decide about its abandoned permits, or request permits over this transport in another coordinator's name. Close the
// hub.
func New(t wire.Transport, coordinator string) *Hub {
	return within(wire.NewMemoryBudget(wire.DefaultMemoryBudget), new(drained), new(supplied), t, coordinator)
}

func within(budget *wire.MemoryBudget, d *drained, p *supplied, t wire.Transport, coordinator string) *Hub {
	h := &Hub{DirectTasks: t, Claims: t, Blobs: t, Keys: t, Budget: budget, transport: t, coordinator: coordinator,
		drained: d, packages: p}
	h.workers.source = func(ctx context.Context, fn func(wire.Heartbeat)) error {
		return t.SubscribeHeartbeats(ctx, func(beat wire.Heartbeat) { fn(d.seen(beat)) })
	}
	h.controls.source = func(ctx context.Context, fn func(wire.Control)) error { return t.SubscribeControl(ctx, "", fn) }
	h.results.init(func(ctx context.Context, n int) ([]wire.Delivery, error) {
		return t.FetchResults(ctx,
			coordinator, n)
	})
	h.probes.init(t.HighWater)
	return h
}

// For returns a hub for another coordinator over the same connection, for a run that the other one has begun. Only one
// of the two may have runs that request permits.
func (h *Hub) For(coordinator string) *Hub {
	if coordinator == h.coordinator {
		return h
	}
	return within(h.Budget, h.drained, h.packages, h.transport, coordinator)
}

// Coordinator returns the name under which the hub's runs are known.
func (h *Hub) Coordinator() string { return h.coordinator }

// Close closes the transport. All runs must have ended.
func (h *Hub) Close() error { return h.transport.Close() }

// SubscribeHeartbeats calls fn for every heartbeat until ctx ends, which is no error; fn must not block, nor call the
// hub. The workers of drained pools seem to be draining. See wire.Presence.
func (h *Hub) SubscribeHeartbeats(ctx context.Context, fn func(wire.Heartbeat)) error {
	return h.workers.listen(ctx, fn)
}

// SubscribeControl calls fn for every control message to all pools until ctx ends, which is no error; fn must not
// block, nor call the hub.
func (h *Hub) SubscribeControl(ctx context.Context, fn func(wire.Control)) error {
	return h.controls.listen(ctx, fn)
}

// Results calls take for each result of a run, until ctx ends; take must not block. It begins with the results that
// arrived before the call. A result may be passed more than once. It returns ErrTaken at once if another call receives
// the run's results.
func (h *Hub) Results(ctx context.Context, run string, take func(wire.Delivery)) error {
	return h.results.take(ctx, run, take)
}

// Probe calls fn at once, and then regularly, with the high-water mark of the transport, or with an error, until ctx
// ends or fn returns false. Each time, pools returns the pools to ask about, and fn is told how long ago the transport
// was asked. See wire.WorkQueue.HighWater.
func (h *Hub) Probe(ctx context.Context, pools func() []string,
	fn func(mark wire.HighWater, age time.Duration, err error) bool) {
	h.probes.probe(ctx, pools, fn)
}

// Decide adds a function that decides about abandoned permits, and returns a function that removes it. A permit is
// released if one of them says so; each decides only about runs that it knows. Add the first one before the first run.
func (h *Hub) Decide(fn wire.AbandonedFunc) (remove func()) {
	return h.abandoned.add(fn, h.transport.OnAbandoned)
}

// Acquire requests a permit in the coordinator's name. See wire.Semaphore.
func (h *Hub) Acquire(ctx context.Context, limit string, r wire.PermitRequest) (wire.Permit, error) {
	r.Coordinator = h.coordinator
	defer h.waiters.enter(limit)()
	return h.transport.Acquire(ctx, limit, r)
}

// DeclareLimit is that of wire.Semaphore.
func (h *Hub) DeclareLimit(ctx context.Context, l wire.Limit) (wire.Limit, error) {
	return h.transport.DeclareLimit(ctx, l)
}

// ResizeLimit is that of wire.Semaphore.
func (h *Hub) ResizeLimit(ctx context.Context, l wire.Limit) error {
	return h.transport.ResizeLimit(ctx, l)
}

// Contended is that of wire.Semaphore.
func (h *Hub) Contended(ctx context.Context, limit, run string) (bool, error) {
	return h.transport.Contended(ctx, limit, run)
}

// Limits is that of wire.Semaphore.
func (h *Hub) Limits(ctx context.Context) ([]wire.LimitStatus, error) { return h.transport.Limits(ctx) }

// OnPermitUses adds a function that says what permits are held for. See wire.PermitTeller.
func (h *Hub) OnPermitUses(fn func() []wire.PermitUse) (remove func()) {
	if t, ok := h.transport.(wire.PermitTeller); ok {
		return t.OnPermitUses(fn)
	}
	return func() {}
}

// Call is that of wire.Caller. It is for questions that are no operations of a run, such as the schemas of providers:
// drained pools answer them, too. For operations there is Dispatch.
func (h *Hub) Call(ctx context.Context, pool string, data []byte) ([]byte, error) {
	return h.transport.Call(ctx, pool, data)
}

// TakeParts is that of wire.Parts.
func (h *Hub) TakeParts(ctx context.Context, pool, address string, take func([]byte)) (stop func(), err error) {
	return h.transport.TakeParts(ctx, pool, address, take)
}

// PoolBlobs is that of wire.PoolBlobs.
func (h *Hub) PoolBlobs(pool string) wire.Blobs { return h.transport.PoolBlobs(pool) }

// PublishTask is that of wire.WorkQueue.
func (h *Hub) PublishTask(ctx context.Context, ref wire.TaskRef, data []byte) error {
	return h.transport.PublishTask(ctx, ref, data)
}

// PurgeRun removes everything of a finished run. See wire.WorkQueue.
func (h *Hub) PurgeRun(ctx context.Context, run string, pools []string) error {
	h.results.forget(run)
	return h.transport.PurgeRun(ctx, run, pools)
}

// HighWater asks what the transport holds, independently of the regular probes. See wire.WorkQueue.
func (h *Hub) HighWater(ctx context.Context, pools []string) (wire.HighWater, error) {
	return h.transport.HighWater(ctx, pools)
}

// Workers is that of wire.Presence.
func (h *Hub) Workers(ctx context.Context) ([]wire.Worker, error) { return h.transport.Workers(ctx) }

// Control sends a control message to all workers of a pool, "" for all pools.
func (h *Hub) Control(ctx context.Context, pool string, c wire.Control) error {
	return h.transport.Control(ctx, pool, c)
}

// Connected is that of wire.Presence.
func (h *Hub) Connected() time.Duration { return h.transport.Connected() }

// Events is that of wire.Presence. Each run subscribes for itself, because each has a subject of its own.
func (h *Hub) Events(ctx context.Context, run string, fn func(pool string, data []byte)) error {
	return h.transport.Events(ctx, run, fn)
}

// shared is a goroutine that runs while it has users.
type shared struct {
	run func(ctx context.Context)

	mu    sync.Mutex // guards the rest
	users int
	stop  context.CancelFunc
	done  chan struct{} // closed when the last goroutine has ended; nil before the first
}

func (s *shared) join() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users++; s.users > 1 {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	before, done := s.done, make(chan struct{})
	s.stop, s.done = stop, done
	go func() { // leave waits for it
		defer close(done)
		if before != nil {
			<-before // the former one may still be ending
		}
		s.run(ctx)
	}()
}

// leave ends the goroutine with its last user, and waits for it.
func (s *shared) leave() {
	s.mu.Lock()
	s.users--
	last, stop, done := s.users == 0, s.stop, s.done
	s.mu.Unlock()
	if last {
		stop()
		<-done
	}
}

// pause waits. It returns false if ctx ends meanwhile.
func pause(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-wake:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}
