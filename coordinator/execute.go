package coordinator

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/coordinator/loop"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/internal/bug"
	"github.com/millipede-iac/millipede/internal/failpoint"
	"github.com/millipede-iac/millipede/internal/sleep"
	"github.com/millipede-iac/millipede/internal/trace"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/wire"
)

// retryEvery is the pause before something is retried that must succeed in the end, such as an acknowledgement.
const retryEvery = 250 * time.Millisecond

// executor takes the actions of the loop, on goroutines of its own, and posts their results as inputs.
type executor struct {
	Options
	inbox *inbox
	ctx   context.Context // of the run; set by start
	group sync.WaitGroup
	jobs  chan func()   // to goroutines that are idle; see spawn
	cores chan struct{} // a token for each core that computes
	save  *committer
	spans spans

	mu         sync.Mutex // guards all below
	permits    map[loop.PermitKey]wire.Permit
	requests   map[loop.PermitKey]context.CancelCauseFunc
	uses       map[loop.PermitKey]permitUse // of permits, for people
	anyDoubt   bool                         // one of them is, or was, in doubt
	deliveries map[int]wire.Delivery
	last       int // the number of the last delivery
	attempts   map[wire.AttemptID]known
	pools      map[string]bool // that the run has dispatched to
	called     map[string]bool // that the run has called on the fast lane
}

// known is the executor's record of an attempt. Messages about the attempt are checked against it.
type known struct{ pool, address string }

func newExecutor(o Options, i *inbox) *executor {
	x := &executor{
		Options: o, inbox: i, jobs: make(chan func()), cores: make(chan struct{}, runtime.GOMAXPROCS(0)),
		permits: map[loop.PermitKey]wire.Permit{}, requests: map[loop.PermitKey]context.CancelCauseFunc{},
		deliveries: map[int]wire.Delivery{}, uses: map[loop.PermitKey]permitUse{},
		attempts: map[wire.AttemptID]known{}, pools: map[string]bool{}, called: map[string]bool{},
	}
	x.save = newCommitter(x)
	return x
}

// start starts the goroutines that receive from the transport.
func (x *executor) start(ctx context.Context) {
	x.ctx = ctx
	if x.spans.on = trace.On(ctx); x.spans.on {
		x.spans.of = map[int]vertexSpan{}
	}
	x.spawn(x.announceWorkers)
	x.spawn(x.receiveHeartbeats)
	if x.Store != nil {
		x.spawn(x.save.run)
		x.spawn(x.fetch)
		x.spawn(x.receiveControl)
		x.spawn(x.probe)
	}
}

// spawn runs fn on a goroutine that wait waits for. It prefers an idle goroutine to a new one, because the stack of an
// idle one has already grown (growing it for each step of each vertex took a seventh of a plan's CPU time).
func (x *executor) spawn(fn func()) {
	select {
	case x.jobs <- fn:
	default:
		x.group.Go(func() { x.serve(fn) })
	}
}

// serve runs fn, and then the functions that spawn passes to it, until the run's context ends.
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

// guard runs fn. A panic in it ends the run with a Bug.
func (x *executor) guard(fn func()) {
	if err := bug.Catch(func() error { fn(); return nil }); err != nil {
		x.inbox.put(loop.Failed{Err: err})
	}
}

// compute runs fn for a vertex when a core is free.
func (x *executor) compute(vertex int, fn func()) {
	if x.Compute != nil {
		x.Compute(vertex, fn)
		return
	}
	select {
	case x.cores <- struct{}{}:
	case <-x.ctx.Done():
		return // the run is over
	}
	defer func() { <-x.cores }()
	fn()
}

// wait waits for all goroutines. The run's context must have ended.
func (x *executor) wait() { x.group.Wait() }

// waitAtMost is wait with a time limit. Goroutines that are still busy then are left alone.
func (x *executor) waitAtMost(d time.Duration) {
	ended := make(chan struct{})
	go func() {
		x.wait()
		close(ended)
	}()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C:
	}
}

// do carries out one action of the loop.
func (x *executor) do(a loop.Action) {
	switch a := a.(type) {
	case loop.Prepare:
		x.spawn(func() { x.prepare(a) })
	case loop.Call:
		x.spawn(func() { x.call(a) })
	case loop.Complete:
		x.spawn(func() {
			x.compute(a.Vertex, func() {
				x.inbox.put(loop.Completed{Vertex: a.Vertex, Step: x.Program.Complete(x.at(a.Vertex), a.Vertex,
					a.Result)})
			})
		})
	case loop.Publish:
		x.spawn(func() { x.publish(a) })
	case loop.Ack:
		x.spawn(func() { x.ack(a) })
	case loop.ReadClaim:
		x.spawn(func() { x.readClaim(a) })
	case loop.Revoke:
		x.spawn(func() { x.revoke(a) })
	case loop.Declare:
		x.spawn(func() { x.declare(a) })
	case loop.Resize:
		x.spawn(func() { x.resize(a) })
	case loop.Acquire:
		x.acquire(a)
	case loop.Withdraw:
		x.withdraw(a)
	case loop.Release:
		x.release(a)
	case loop.AskContention:
		x.spawn(func() {
			yes, err := x.Hub.Contended(x.ctx, a.Limit, x.asker())
			x.inbox.put(loop.Contention{Limit: a.Limit, Yes: yes && err == nil})
		})
	case loop.FindBlockers:
		if x.Earlier != nil {
			x.spawn(func() { x.findBlockers(a.Limit) })
		}
	case loop.Control:
		x.spawn(func() { x.control(a) })
	default:
		panic(fmt.Sprintf("coordinator: unknown action %T", a))
	}
}

func (x *executor) prepare(a loop.Prepare) {
	ctx := x.at(a.Vertex)
	x.compute(a.Vertex, func() {
		var step program.Step
		c, can := x.Program.(program.Continuer)
		switch {
		case a.Phase == 0:
			step = x.Program.Prepare(ctx, a.Vertex)
		case can:
			step = c.PrepareAfter(ctx, a.Vertex, a.Phase, a.Worker)
		default:
			step = program.Step{Diags: unfinished(x.Program.Describe(a.Vertex).Address)}
		}
		x.note(a.Vertex, "prepared", "", "")
		x.inbox.put(loop.Prepared{Vertex: a.Vertex, Step: step})
	})
}

// unfinished is the diagnostic of a vertex that was interrupted between its two operations, when the program cannot
// resume there.
func unfinished(address string) diag.List {
	return diag.Errors("This operation cannot be resumed",
		fmt.Sprintf("The run was interrupted between the two operations on %s, and this command cannot resume it there. "+
			"The state has the result of the first one; the next plan shows what is left to do.",
			address), nil).WithAddress(address)
}

// call sends a task on the fast lane, waits for the result, and has the program complete the vertex with it.
func (x *executor) call(a loop.Call) {
	if err := x.confirm(a.Permits); err != nil {
		x.inbox.put(loop.CallFailed{Vertex: a.Vertex, Err: err})
		return
	}
	x.note(a.Vertex, "dispatched", "millipede.pool", a.Pool)
	ctx := x.at(a.Vertex)
	began := x.Now()
	x.use(a.Permits, permitUse{pool: a.Pool, address: a.Task.Address, since: began})
	if x.Own != nil {
		if result := x.Own(ctx, a.Task); result != nil {
			x.compute(a.Vertex, func() {
				x.inbox.put(loop.Completed{Vertex: a.Vertex, Step: x.Program.Complete(ctx, a.Vertex, result),
					Took: x.Now().Sub(began), Worker: result.Worker})
			})
			return
		}
	}
	// The fast lane persists nothing, so nothing is sealed; large messages go through blobs.
	held := x.Hub.Budget.For(a.Pool)
	defer held.Release()
	packer := wire.Packer{Run: x.RunID, Blobs: x.Hub.TaskBlobs(a.Pool), Incoming: x.Hub.PoolBlobs(a.Pool),
		Rand: rand.Reader, Held: held, Version: a.Task.Protocol}
	about := wire.CallSubject(a.Pool, a.Task.Protocol)
	x.mu.Lock()
	x.called[a.Pool] = true
	x.mu.Unlock()
	list, err := x.takePages(a)
	if err != nil {
		x.inbox.put(loop.CallFailed{Vertex: a.Vertex, Err: err})
		return
	}
	sent := a.Task
	if list != nil {
		defer list.Stop()
		sent = list.For(sent)
	}
	var data, answer []byte
	task, err := x.withEnvironment(sent, a.Pool)
	if err == nil {
		err = x.Hub.Supply(ctx, a.Pool, task.Provider.Package)
	}
	if err == nil {
		data, err = packer.Pack(x.ctx, about, wire.EncodeTask(task))
	}
	if err == nil {
		answer, err = wire.Timed(ctx, task, func(ctx context.Context) ([]byte, error) {
			return x.Hub.Dispatch(ctx, a.Pool, data)
		})
	}
	if err == nil {
		answer, err = packer.Unpack(x.ctx, about, answer)
	}
	if err != nil {
		x.inbox.put(loop.CallFailed{Vertex: a.Vertex, Err: err})
		return
	}
	took := x.Now().Sub(began)
	x.compute(a.Vertex, func() {
		result, err := wire.DecodeResult(answer)
		if err == nil && result.NotStarted {
			err = wire.ErrLostCall // the worker is stopping; another one may take the task
		}
		if err == nil && list != nil {
			err = list.End(result)
		}
		if err != nil {
			x.inbox.put(loop.CallFailed{Vertex: a.Vertex, Err: err})
			return
		}
		if !result.Started.IsZero() && result.Ended.After(result.Started) {
			took = result.Ended.Sub(result.Started) // without the transport, and without waiting for a slot
		}
		x.inbox.put(loop.Completed{Vertex: a.Vertex, Step: x.Program.Complete(ctx, a.Vertex, result), Took: took,
			Worker: result.Worker})
	})
}

// withEnvironment returns the task with the environment that it runs in.
func (x *executor) withEnvironment(t *wire.Task, pool string) (*wire.Task, error) {
	if x.Environment == nil {
		return t, nil
	}
	sent := *t
	var err error
	sent.Environment, err = x.Environment(x.ctx, pool)
	return &sent, err
}

// remember registers an attempt, before any message about it can arrive.
func (x *executor) remember(id wire.AttemptID, k known) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.attempts[id] = k
	x.pools[k.pool] = true
}

// attempt returns the record of an attempt of this run; false if it was not dispatched to the pool.
func (x *executor) attempt(id wire.AttemptID, pool string) (known, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	k, ok := x.attempts[id]
	return k, ok && k.pool == pool
}

// used returns the pools that the run has dispatched tasks to, sorted.
func (x *executor) used() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Sorted(maps.Keys(x.pools))
}

// asked returns the pools whose workers the run has used on any lane. It is not nil.
func (x *executor) asked() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.AppendSeq(slices.AppendSeq([]string{}, maps.Keys(x.pools)), maps.Keys(x.called))
}

func (x *executor) publish(a loop.Publish) {
	x.remember(a.Ref.Attempt, known{a.Ref.Pool, a.Task.Address})
	x.note(a.Vertex, "dispatched", "millipede.attempt", string(a.Ref.Attempt))
	err := x.confirm(a.Permits)
	if err != nil && !errors.Is(err, wire.ErrPermitLost) {
		err = fmt.Errorf("%w: %w", wire.ErrDisconnected, err) // nothing was sent
	}
	failpoint.Hit(failpoint.PermitsConfirmed)
	x.use(a.Permits, permitUse{pool: a.Ref.Pool, address: a.Task.Address, since: x.Now(), attempt: a.Ref.Attempt})
	var data []byte
	if err == nil {
		var task *wire.Task
		if task, err = x.withEnvironment(a.Task, a.Ref.Pool); err == nil {
			data = wire.EncodeTask(task)
			err = x.Hub.Supply(x.ctx, a.Ref.Pool, task.Provider.Package)
		}
	}
	if err == nil && x.Envelope != nil {
		data, err = x.Envelope.Wrap(x.ctx, a.Ref, data)
	}
	if err == nil && !x.hand(a, data) {
		err = x.Hub.PublishTask(x.at(a.Vertex), a.Ref, data)
	}
	failpoint.Hit(failpoint.TaskSent)
	x.inbox.put(loop.Published{Vertex: a.Vertex, Attempt: a.Ref.Attempt, Err: err})
}

// handTime is how long a worker has to accept a task for a slot that it reserved.
const handTime = time.Second

// hand offers a task to the worker that has reserved a slot for it. It reports whether the worker has accepted it.
func (x *executor) hand(a loop.Publish, data []byte) bool {
	if a.To == "" {
		return false
	}
	ctx, cancel := context.WithTimeout(x.at(a.Vertex), handTime)
	defer cancel()
	return x.Hub.HandTask(ctx, a.To, a.After, a.Ref, data) == nil
}

// ack acknowledges a result, and retries until that succeeds: otherwise the result would be delivered again.
func (x *executor) ack(a loop.Ack) {
	x.mu.Lock()
	d := x.deliveries[a.Delivery]
	x.mu.Unlock()
	if x.persist("acknowledging a result", func() error { return d.Ack(x.ctx) }) {
		x.mu.Lock()
		delete(x.deliveries, a.Delivery)
		x.mu.Unlock()
		failpoint.Hit(failpoint.ResultAcked)
		x.inbox.put(loop.Acked(a))
	}
}

// pause waits for d. It reports false if the run ended meanwhile.
func (x *executor) pause(d time.Duration) bool {
	return sleep.For(x.ctx, d) == nil
}

func (x *executor) readClaim(a loop.ReadClaim) {
	c, err := x.Hub.ReadClaim(x.ctx, a.Ref)
	if errors.Is(err, wire.ErrNotFound) {
		x.inbox.put(loop.Registered{Vertex: a.Vertex, Attempt: a.Ref.Attempt})
		return
	}
	x.inbox.put(loop.Registered{Vertex: a.Vertex, Attempt: a.Ref.Attempt, Claim: c, Found: err == nil, Err: err})
}

// revoke writes a tombstone, and retries until it knows whether that or the claim of a worker was first.
func (x *executor) revoke(a loop.Revoke) {
	tomb := wire.Claim{Nonce: x.NewID(), At: x.Now(), Tombstone: true, Reason: a.Reason}
	x.persist(fmt.Sprintf("revoking attempt %s", a.Ref.Attempt), func() error {
		c, err := x.Hub.Claim(x.ctx, a.Ref, tomb)
		if err == nil {
			x.inbox.put(loop.Registered{Vertex: a.Vertex, Attempt: a.Ref.Attempt, Claim: c, Found: true, Err: nil})
		}
		return err
	})
}

func (x *executor) control(a loop.Control) {
	err := x.Hub.Control(x.ctx, "", wire.Control{Kind: a.Kind, Run: x.RunID})
	for range 3 { // it is only a request, so a few attempts are enough
		if err == nil || !x.pause(retryEvery) {
			return
		}
		err = x.Hub.Control(x.ctx, "", wire.Control{Kind: a.Kind, Run: x.RunID})
	}
}
