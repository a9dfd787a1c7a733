package coordinator

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/test/failpoint"
	"github.com/millipede-iac/millipede/wire"
)

// retryEvery is the pause between attempts at what must be done in the end, such as an acknowledgement.
const retryEvery = 250 * time.Millisecond

// executor does what the loop wants done, never on the loop's goroutine, and posts what came of it.
type executor struct {
	Options
	inbox *inbox
	ctx   context.Context // of the run; set by start
	group sync.WaitGroup
	jobs  chan func()   // what an idle goroutine takes; see spawn
	cores chan struct{} // a token for each core that computes
	save  *committer

	mu         sync.Mutex // guards all below
	permits    map[permitKey]wire.Permit
	requests   map[permitKey]context.CancelCauseFunc
	deliveries map[int]wire.Delivery
	last       int // the number of the last delivery
	attempts   map[wire.AttemptID]known
	pools      map[string]bool          // that the run has dispatched to
	expanding  map[string]chan struct{} // by pool: those whose results are being expanded
}

func newExecutor(o Options, i *inbox) *executor {
	x := &executor{
		Options: o, inbox: i, jobs: make(chan func()), cores: make(chan struct{}, runtime.GOMAXPROCS(0)),
		permits: map[permitKey]wire.Permit{}, requests: map[permitKey]context.CancelCauseFunc{}, deliveries: map[int]wire.Delivery{},
		attempts: map[wire.AttemptID]known{}, pools: map[string]bool{}, expanding: map[string]chan struct{}{},
	}
	x.save = newCommitter(x)
	return x
}

// start begins to watch the transport.
func (x *executor) start(ctx context.Context) {
	x.ctx = ctx
	x.spawn(x.survey)
	x.spawn(x.watchWorkers)
	if x.Store != nil {
		x.spawn(x.save.run)
		x.spawn(x.fetch)
		x.spawn(x.watchControl)
		x.spawn(x.probe)
	}
}

// spawn runs fn in a goroutine that wait waits for: in one that has done its work, if there is any, for its stack has
// grown to what the work needs (growing it anew for each step of each vertex took a seventh of a plan's CPU time).
func (x *executor) spawn(fn func()) {
	select {
	case x.jobs <- fn:
	default:
		x.group.Go(func() { x.serve(fn) })
	}
}

// serve runs fn, then what spawn hands over, until the run's context ends.
func (x *executor) serve(fn func()) {
	for {
		x.guard(fn)
		select {
		case fn = <-x.jobs:
		case <-x.ctx.Done():
			return
		}
	}
}

// guard runs fn. A panic ends the run as a bug.
func (x *executor) guard(fn func()) {
	defer func() {
		if p := recover(); p != nil {
			x.inbox.put(failed{&Bug{p, debug.Stack()}})
		}
	}()
	fn()
}

// compute runs fn for a vertex when a core is free.
func (x *executor) compute(vertex int, fn func()) {
	if x.Compute != nil {
		x.Compute(vertex, fn)
		return
	}
	x.cores <- struct{}{}
	defer func() { <-x.cores }()
	fn()
}

// wait returns when all goroutines have ended; the run's context must have.
func (x *executor) wait() { x.group.Wait() }

// do carries out one action of the loop.
func (x *executor) do(a action) {
	switch a := a.(type) {
	case prepare:
		x.spawn(func() { x.prepare(a) })
	case call:
		x.spawn(func() { x.call(a) })
	case complete:
		x.spawn(func() {
			x.compute(a.vertex, func() {
				x.inbox.put(completed{vertex: a.vertex, step: x.Program.Complete(x.ctx, a.vertex, a.result)})
			})
		})
	case publish:
		x.spawn(func() { x.publish(a) })
	case ack:
		x.spawn(func() { x.ack(a) })
	case readClaim:
		x.spawn(func() { x.readClaim(a) })
	case bury:
		x.spawn(func() { x.bury(a) })
	case declare:
		x.spawn(func() { x.declare(a) })
	case resize:
		x.spawn(func() { x.resize(a) })
	case acquire:
		x.acquire(a)
	case withdraw:
		x.withdraw(a)
	case release:
		x.release(a)
	case askContention:
		x.spawn(func() {
			yes, err := x.Transport.Contended(x.ctx, a.limit, x.asker())
			x.inbox.put(contention{a.limit, yes && err == nil})
		})
	case findBlockers:
		if x.Earlier != nil {
			x.spawn(func() { x.findBlockers(a.limit) })
		}
	case control:
		x.spawn(func() { x.control(a) })
	default:
		panic(fmt.Sprintf("coordinator: unknown action %T", a))
	}
}

func (x *executor) prepare(a prepare) {
	x.compute(a.vertex, func() {
		var step program.Step
		c, can := x.Program.(Continuer)
		switch {
		case a.phase == 0:
			step = x.Program.Prepare(x.ctx, a.vertex)
		case can:
			step = c.PrepareAfter(x.ctx, a.vertex, a.phase, a.worker)
		default:
			step = program.Step{Diags: unfinished(x.Program.Describe(a.vertex).Address)}
		}
		x.inbox.put(prepared{a.vertex, step})
	})
}

// confirm tells whether permits are still held, before something is started under them.
func (x *executor) confirm(keys []permitKey) error {
	for _, k := range keys {
		x.mu.Lock()
		p := x.permits[k]
		x.mu.Unlock()
		if err := p.Confirm(x.ctx); err != nil {
			return err
		}
	}
	return nil
}

// call goes out, waits for the answer and has the program complete it.
func (x *executor) call(a call) {
	if err := x.confirm(a.permits); err != nil {
		x.inbox.put(callFailed{a.vertex, err})
		return
	}
	began := x.Now()
	if x.Own != nil {
		if result := x.Own(x.ctx, a.task); result != nil {
			x.compute(a.vertex, func() {
				x.inbox.put(completed{a.vertex, x.Program.Complete(x.ctx, a.vertex, result), x.Now().Sub(began), result.Worker})
			})
			return
		}
	}
	// The fast lane persists nothing, so nothing is sealed; large messages go through blobs.
	packer := wire.Packer{Run: x.RunID, Blobs: x.Transport, Incoming: x.Transport.PoolBlobs(a.pool), Rand: rand.Reader}
	about := wire.CallSubject(a.pool)
	data, err := packer.Pack(x.ctx, about, wire.EncodeTask(a.task))
	var answer []byte
	if err == nil {
		answer, err = x.Transport.Call(x.ctx, a.pool, data)
	}
	if err == nil {
		answer, err = packer.Unpack(x.ctx, about, answer)
	}
	if err != nil {
		x.inbox.put(callFailed{a.vertex, err})
		return
	}
	took := x.Now().Sub(began)
	x.compute(a.vertex, func() {
		result, err := wire.DecodeResult(answer)
		if err == nil && result.NotStarted {
			err = wire.ErrLostCall // the worker is about to stop; another one may take it
		}
		if err != nil {
			x.inbox.put(callFailed{a.vertex, err})
			return
		}
		if !result.Started.IsZero() && result.Ended.After(result.Started) {
			took = result.Ended.Sub(result.Started) // without the way, and the time that it waited for a slot
		}
		x.inbox.put(completed{a.vertex, x.Program.Complete(x.ctx, a.vertex, result), took, result.Worker})
	})
}

// remember notes an attempt before anybody else can know of it.
func (x *executor) remember(id wire.AttemptID, k known) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.attempts[id] = k
	x.pools[k.pool] = true
}

// attempt returns what is known of an attempt of this run, if a pool may speak about it.
func (x *executor) attempt(id wire.AttemptID, pool string) (known, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	k, ok := x.attempts[id]
	return k, ok && k.pool == pool
}

// used lists the pools that the run has dispatched to.
func (x *executor) used() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Sorted(maps.Keys(x.pools))
}

func (x *executor) publish(a publish) {
	x.remember(a.ref.Attempt, known{a.ref.Pool, a.task.Address})
	err := x.confirm(a.permits)
	if err != nil && !errors.Is(err, wire.ErrPermitLost) {
		err = fmt.Errorf("%w: %w", wire.ErrDisconnected, err) // nothing was sent
	}
	failpoint.Hit(failpoint.PermitsConfirmed)
	data := wire.EncodeTask(a.task)
	if err == nil && x.Envelope != nil {
		data, err = x.Envelope.Wrap(x.ctx, a.ref, data)
	}
	if err == nil && !x.hand(a, data) {
		err = x.Transport.PublishTask(x.ctx, a.ref, data)
	}
	failpoint.Hit(failpoint.TaskSent)
	x.inbox.put(published{a.vertex, a.ref.Attempt, err})
}

// handTime is how long a worker may take to take a task that it keeps a slot for.
const handTime = time.Second

// hand offers a task to the worker that keeps a slot for it, and tells whether that has taken it.
func (x *executor) hand(a publish, data []byte) bool {
	if a.to == "" {
		return false
	}
	ctx, cancel := context.WithTimeout(x.ctx, handTime)
	defer cancel()
	return x.Transport.HandTask(ctx, a.to, a.after, a.ref, data) == nil
}

// ack confirms a message, whatever it takes: until then it would come again.
func (x *executor) ack(a ack) {
	x.mu.Lock()
	d := x.deliveries[a.delivery]
	x.mu.Unlock()
	if x.persist("acknowledging a result", func() error { return d.Ack(x.ctx) }) {
		x.mu.Lock()
		delete(x.deliveries, a.delivery)
		x.mu.Unlock()
		failpoint.Hit(failpoint.ResultAcked)
		x.inbox.put(acked(a))
	}
}

// pause waits; it reports false when the run ended meanwhile.
func (x *executor) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return x.ctx.Err() == nil
	case <-x.ctx.Done():
		return false
	}
}

func (x *executor) readClaim(a readClaim) {
	c, err := x.Transport.ReadClaim(x.ctx, a.ref)
	if errors.Is(err, wire.ErrNotFound) {
		x.inbox.put(registered{vertex: a.vertex, attempt: a.ref.Attempt})
		return
	}
	x.inbox.put(registered{a.vertex, a.ref.Attempt, c, err == nil, err})
}

// bury writes a tombstone, whatever it takes: the loop must know who won.
func (x *executor) bury(a bury) {
	tomb := wire.Claim{Nonce: x.NewID(), At: x.Now(), Tombstone: true, Reason: a.reason}
	x.persist(fmt.Sprintf("ending attempt %s for good", a.ref.Attempt), func() error {
		c, err := x.Transport.Claim(x.ctx, a.ref, tomb)
		if err == nil {
			x.inbox.put(registered{a.vertex, a.ref.Attempt, c, true, nil})
		}
		return err
	})
}

// declare creates a limit. What several coordinators share stays as it is, until somebody changes it on purpose.
func (x *executor) declare(a declare) {
	x.persist(fmt.Sprintf("declaring the limit %q", a.limit.Name), func() error {
		l, err := x.Transport.DeclareLimit(x.ctx, a.limit)
		if err == nil && x.Embedded && a.exact && l.Slots != a.limit.Slots {
			// Nobody else uses an embedded transport: the limit is left from a run that was told another size.
			l, err = a.limit, x.Transport.ResizeLimit(x.ctx, a.limit)
		}
		if err == nil {
			x.inbox.put(declared{l.Name, l.Slots})
		}
		return err
	})
}

// resize has the places of a pool follow its live slots. Every coordinator that uses the pool does so: they see the same
// heartbeats.
func (x *executor) resize(a resize) {
	x.persist(fmt.Sprintf("resizing the limit %q", a.limit.Name), func() error {
		l, err := x.Transport.DeclareLimit(x.ctx, a.limit)
		if err == nil && (l.Slots < a.limit.Slots || a.shrink && l.Slots > a.limit.Slots) {
			l, err = a.limit, x.Transport.ResizeLimit(x.ctx, a.limit)
		}
		if err == nil {
			x.inbox.put(declared{l.Name, l.Slots})
		}
		return err
	})
}

// asker is the name under which the run asks for permits. Whoever finds a permit of a dead run that changes nothing
// may free it.
func (x *executor) asker() string {
	if x.Store == nil {
		return readOnly + x.RunID
	}
	return x.RunID
}

func (x *executor) acquire(a acquire) {
	ctx, cancel := context.WithCancelCause(x.ctx)
	key := a.permitKey
	x.mu.Lock()
	x.requests[key] = cancel
	x.mu.Unlock()
	x.spawn(func() {
		defer cancel(nil)
		p, err := x.Transport.Acquire(ctx, a.limit, wire.PermitRequest{ID: a.id, Coordinator: x.Coordinator, Run: x.asker(), At: x.Now()})
		if err != nil && ctx.Err() == nil {
			x.pause(retryEvery)
		}
		x.mu.Lock()
		delete(x.requests, key)
		if err == nil {
			x.permits[key] = p
		}
		x.mu.Unlock()
		if err != nil {
			x.inbox.put(refused{a.permitKey, err})
			return
		}
		x.inbox.put(granted(a))
	})
}

func (x *executor) withdraw(a withdraw) {
	x.mu.Lock()
	cancel := x.requests[a.permitKey]
	x.mu.Unlock()
	if cancel != nil {
		cancel(nil)
	}
}

func (x *executor) release(a release) {
	key := a.permitKey
	x.mu.Lock()
	p := x.permits[key]
	delete(x.permits, key)
	x.mu.Unlock() // from here on the end of the run does not give it back too
	x.spawn(func() {
		if x.persist("giving a permit back", func() error {
			// The end of the run waits for this, so it does not cut it short.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(x.ctx), partTime)
			defer cancel()
			return p.Release(ctx)
		}) {
			failpoint.Hit(failpoint.PermitReleased)
			x.inbox.put(released(a))
		}
	})
}

func (x *executor) control(a control) {
	err := x.Transport.Control(x.ctx, "", wire.Control{Kind: a.kind, Run: x.RunID})
	for range 3 { // it is a request, and nothing rests on it
		if err == nil || !x.pause(retryEvery) {
			return
		}
		err = x.Transport.Control(x.ctx, "", wire.Control{Kind: a.kind, Run: x.RunID})
	}
}
