// Package worker is the actor that takes tasks and executes them.
//
// It takes only as many tasks as it has slots, starts no attempt that it has not claimed, and loses no result: each
// step of the safe lane is in its journal before the next one begins (see docs/adr for the protocol). It decides
// nothing about the infrastructure, reads no configuration, and keeps nothing of either beyond the tasks that it is
// executing.
package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/worker/journal"
)

// Options are the worker's identity and all that it works with. Every field is needed, except Host, Identity, Proof and
// KeyTimeout.
type Options struct {
	// ID is the name of the worker in claims, results and heartbeats. It stays the same over restarts with the same
	// journal.
	ID string
	// Pools are the pools that it serves. Slots is how many operations it executes at a time, over all pools.
	Pools []string
	Slots int
	// Identity and Proof are those of wire.Heartbeat; they may be empty.
	Identity string
	Proof    []byte
	// Version is the version of the program; Platform is os_arch; Host is the machine's name, for people.
	Version, Platform, Host string
	// EngineVersion is the version of OpenTofu whose behaviour the worker has. Providers are told it: they compare it
	// with their requirements, and send it to the services that they manage.
	EngineVersion string

	Queue    Queue
	Claims   wire.Claims
	Caller   Caller
	Parts    Parts
	Presence Presence
	Blobs    Blobs
	Keys     Keys

	Journal      Journal
	Providers    Providers
	Provisioners Provisioners

	// OwnEnvironment refuses tasks that bring an environment.
	OwnEnvironment bool

	// KeyTimeout is how long the worker leaves a task alone if it does not get the key of the task's run; then it writes
	// a tombstone for the attempt. 0 means a minute.
	KeyTimeout time.Duration

	// Done is called after each operation; it must not block, and may be nil.
	Done func(Done)

	Log *slog.Logger
	// Now is the clock, with a monotonic reading. Nonce returns an ID that was never used before. Rand is a source of
	// random bytes for keys; it must be safe for concurrent use.
	Now   func() time.Time
	Nonce func() string
	Rand  io.Reader
}

// Done describes an operation that a worker has executed.
type Done struct {
	// Operation is that of wire.Task; Outcome is succeeded, failed, in_doubt or not_started.
	Operation, Outcome, Pool string
	Took                     time.Duration
}

// Queue is the worker's side of wire.WorkQueue.
type Queue interface {
	TakeHanded(ctx context.Context, pool, worker string, take func(after wire.AttemptID, d wire.Delivery) bool) error
	FetchTasks(ctx context.Context, pool string, n int) ([]wire.Delivery, error)
	PublishResult(ctx context.Context, ref wire.TaskRef, data []byte) error
}

// Caller is the worker's side of wire.Caller.
type Caller interface {
	Serve(ctx context.Context, pool string, slots int, handle func(ctx context.Context, data []byte) []byte) error
}

// Parts is the worker's side of wire.Parts.
type Parts interface {
	SendPart(ctx context.Context, pool, address string, data []byte) error
}

// Presence is the worker's side of wire.Presence.
type Presence interface {
	Beat(ctx context.Context, b wire.Heartbeat) error
	SubscribeControl(ctx context.Context, pool string, fn func(wire.Control)) error
	Emit(ctx context.Context, pool, run string, data []byte) error
}

// Blobs is the worker's side of wire.Blobs and wire.PoolBlobs: it reads the former and writes the latter.
type Blobs interface {
	wire.Blobs
	wire.PoolBlobs
}

// Keys opens the keys of runs. *wire.Keyring is one.
type Keys interface {
	PublicKey() string
	// Open returns wire.ErrNoKey while nobody has shared the run's key for the pool with this worker.
	Open(ctx context.Context, pool, run string) (*wire.Sealer, error)
	// Forget drops the keys of a run from memory.
	Forget(run string)
}

// Journal is the worker's durable record. *journal.Journal implements it; its documentation states the durability of
// each record.
type Journal interface {
	Pending() []journal.Entry
	Intend(ref wire.TaskRef, nonce string, notStarted []byte) error
	Start(ref wire.TaskRef, doubt []byte) error
	Progress(ref wire.TaskRef, doubt []byte) error
	End(ref wire.TaskRef, result []byte) error
	Done(ref wire.TaskRef) error
	// CheckSpace returns journal.ErrFull while the disk has no space for the last record that failed.
	CheckSpace() error
}

// Providers finds and starts providers.
type Providers interface {
	// Acquire returns a lease on the provider in an environment; nil is the worker's own. configure is called once for
	// each new process, before anybody uses it, with the configuration whose digest p has; it is nil for a provider that
	// is not to be configured. Release the lease.
	Acquire(ctx context.Context, p wire.Provider, env *wire.Variables, configure Configure) (Lease, diag.List)
}

// Configure passes a provider its configuration.
type Configure func(context.Context, provider.Provider) diag.List

// Lease is a provider in use. It is not closed before Release.
type Lease interface {
	// Provider is valid until Release. A plugin may not recover from Stop: the host does not lease a stopped one to
	// others.
	Provider() provider.Provider
	Release()
}

// Provisioners runs provisioners. provision.Runner is one.
type Provisioners interface {
	// Run runs them in an environment; nil is the worker's own.
	Run(ctx context.Context, address string, t *wire.ProvisionTask, env *wire.Variables,
		emit func(wire.Event)) diag.List
}

// Worker is one worker. Use Run once.
type Worker struct {
	Options
	slots *slots
	keys  *runKeys
	// left are tasks that are left to other workers, keyless those whose key is missing.
	left, keyless firstSeen
	ops           *operations
	kept          keptSlots
	environments  environments
	trouble       refusalReason
	// budget is for the large tasks that the worker unpacks and executes.
	budget *wire.MemoryBudget
	// announce asks for a heartbeat now.
	announce chan struct{}
	// signs tell those who ask whether the worker is well.
	signs signs
	// held are the attempts and other work that Run waits for before it returns.
	held sync.WaitGroup
	// draining says that the worker takes nothing new any more.
	draining atomic.Bool
	// giveUp makes the worker take nothing new, with the reason why it cannot continue.
	giveUp context.CancelCauseFunc
}

// New returns a worker. Call Run to start it.
func New(o Options) *Worker {
	if o.Slots < 1 || len(o.Pools) == 0 {
		panic("worker: no slots, or no pools")
	}
	if o.Done == nil {
		o.Done = func(Done) {}
	}
	return &Worker{
		Options: o, slots: newSlots(o.Slots), keys: newRunKeys(o.Keys, o.Now), ops: newOperations(o.Now),
		announce: make(chan struct{}, 1), budget: wire.NewMemoryBudget(wire.DefaultMemoryBudget),
		left: firstSeen{wait: leaveToNamed}, keyless: firstSeen{wait: cmp.Or(o.KeyTimeout, keyTimeout)},
	}
}

// Load returns how many operations that need a slot the worker is executing, in both lanes.
func (w *Worker) Load() int { return w.slots.running() }

// brokenError is the cause when the worker itself has failed.
type brokenError struct{ err error }

func (e brokenError) Error() string { return e.err.Error() }

// Run takes and executes tasks until taking ends. Then it finishes and reports the operations that it has begun, and
// returns. The end of working stops those that still run: operations that may have begun are in doubt, and results that
// could not be published stay in the journal. The error is not nil only if the worker could not continue, mostly
// because of its journal.
func (w *Worker) Run(taking, working context.Context) error {
	taking, w.giveUp = context.WithCancelCause(taking)
	defer w.giveUp(nil)
	defer context.AfterFunc(taking, func() { w.draining.Store(true) })()
	defer context.AfterFunc(working, func() { w.giveUp(context.Cause(working)) })()

	// Heartbeats, control messages and offered tasks are handled after taking and working have ended, until nothing is
	// held.
	around, end := context.WithCancel(context.WithoutCancel(working))
	defer end()
	var company, lanes sync.WaitGroup
	company.Go(func() { w.sendHeartbeats(around, taking) })
	for _, pool := range w.Pools {
		company.Go(func() { w.watch(around, pool) })
		company.Go(func() { w.takeHanded(around, pool) })
	}

	w.settleAll(working)
	for _, pool := range w.Pools {
		lanes.Go(func() { w.take(taking, working, pool) })
		lanes.Go(func() { w.serve(taking, working, pool) })
	}
	lanes.Wait()
	w.held.Wait()
	end()
	company.Wait()
	w.leave(working)

	var broken brokenError
	if errors.As(context.Cause(taking), &broken) {
		return fmt.Errorf("worker %s cannot continue: %w", w.ID, broken.err)
	}
	return nil
}

// fail makes the worker take nothing new because it can no longer keep its guarantees.
func (w *Worker) fail(err error) {
	w.Log.Error("the worker cannot continue", "error", err)
	w.giveUp(brokenError{err})
}
