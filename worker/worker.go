// Package worker is the actor that takes tasks and carries them out.
//
// It takes only what it has slots for, starts nothing that it has not claimed, and loses no result: each step of the
// safe lane is in its journal before the next begins (docs/adr, the protocol). It decides nothing about the estate,
// reads no configuration, and keeps nothing of it beyond what it holds at the moment.
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
// KeyPatience.
type Options struct {
	// ID names the worker in claims, results and heartbeats. It stays the same over restarts with one journal.
	ID string
	// Pools are the pools that it serves; Slots is how many operations it carries out at a time, over all pools.
	Pools []string
	Slots int
	// Identity and Proof are those of wire.Heartbeat; they may be empty.
	Identity string
	Proof    []byte
	// Version is the version of the program; Platform is os_arch; Host is the machine's name, for people.
	Version, Platform, Host string

	Queue    Queue
	Claims   wire.Claims
	Caller   Caller
	Presence Presence
	Blobs    Blobs
	Keys     Keys

	Journal      Journal
	Providers    Providers
	Provisioners Provisioners

	// OwnEnvironment refuses tasks that bring an environment.
	OwnEnvironment bool

	// KeyPatience is how long the worker leaves a task alone whose run's key it is not given; then it buries the
	// attempt. 0 means a minute.
	KeyPatience time.Duration

	// Done is told of each operation that has been carried out; it must return at once, and may be nil.
	Done func(Done)

	Log *slog.Logger
	// Now is the clock, with a monotonic reading. Nonce returns an ID that is unique for ever. Rand is a source of
	// random bytes for keys; it must be safe for concurrent use.
	Now   func() time.Time
	Nonce func() string
	Rand  io.Reader
}

// Done is an operation that a worker has carried out.
type Done struct {
	// Operation is that of wire.Task; Outcome is succeeded, failed, in_doubt or not_started.
	Operation, Outcome, Pool string
	Took                     time.Duration
}

// Queue is the worker's side of wire.Queue.
type Queue interface {
	TakeHanded(ctx context.Context, pool, worker string, take func(after wire.AttemptID, d wire.Delivery) bool) error
	FetchTasks(ctx context.Context, pool string, n int) ([]wire.Delivery, error)
	PublishResult(ctx context.Context, ref wire.TaskRef, data []byte) error
}

// Caller is the worker's side of wire.Caller.
type Caller interface {
	Serve(ctx context.Context, pool string, slots int, handle func(ctx context.Context, data []byte) []byte) error
}

// Presence is the worker's side of wire.Presence.
type Presence interface {
	Beat(ctx context.Context, b wire.Heartbeat) error
	WatchControl(ctx context.Context, pool string, fn func(wire.Control)) error
	Emit(ctx context.Context, pool, run string, data []byte) error
}

// Blobs are read, and those of a pool written.
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

// Journal is the worker's durable record. *journal.Journal is one; its documentation says what is durable when.
type Journal interface {
	Pending() []journal.Entry
	Intend(ref wire.TaskRef, nonce string, notStarted []byte) error
	Start(ref wire.TaskRef, doubt []byte) error
	End(ref wire.TaskRef, result []byte) error
	Done(ref wire.TaskRef) error
	// Room returns journal.ErrFull as long as the disk has no room for what could not be noted last.
	Room() error
}

// Providers finds and starts providers.
type Providers interface {
	// Acquire returns the provider, running in an environment; nil is the worker's own. configure is called once for
	// each process before anybody gets it, with what the digest of p stands for; nil for a provider that is not to be
	// configured.
	Acquire(ctx context.Context, p wire.Provider, env *wire.Variables, configure Configure) (Lease, diag.List)
}

// Configure hands a provider its configuration.
type Configure func(context.Context, provider.Provider) diag.List

// Lease is a provider in use. It is not closed before Release.
type Lease interface {
	// Provider is valid until Release. Plugins may not recover from its Stop: whoever hosts them does not lease them
	// to others afterwards.
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
	// left are tasks for other workers, keyless those whose key is not here.
	left, keyless sightings
	ops           *operations
	kept          keptSlots
	environments  environments
	trouble       trouble
	// announce asks for a heartbeat now.
	announce chan struct{}
	// held are the attempts and other work that Run waits for before it leaves.
	held sync.WaitGroup
	// draining tells that the taking has ended.
	draining atomic.Bool
	// giveUp ends the taking with the reason why the worker cannot go on.
	giveUp context.CancelCauseFunc
}

// New returns a worker that does nothing yet.
func New(o Options) *Worker {
	if o.Slots < 1 || len(o.Pools) == 0 {
		panic("worker: no slots, or no pools")
	}
	if o.Done == nil {
		o.Done = func(Done) {}
	}
	return &Worker{
		Options: o, slots: newSlots(o.Slots), keys: newRunKeys(o.Keys, o.Now), ops: newOperations(o.Now),
		announce: make(chan struct{}, 1),
		left:     sightings{patience: courtesy}, keyless: sightings{patience: cmp.Or(o.KeyPatience, keyPatience)},
	}
}

// Load returns how many operations the worker is carrying out, over both lanes, as far as they need a slot.
func (w *Worker) Load() int { return w.slots.running() }

// brokenError is the cause of the end of the taking when the worker itself has failed.
type brokenError struct{ err error }

func (e brokenError) Error() string { return e.err.Error() }

// Run works until taking ends, then finishes and reports what it holds, and leaves. The end of working stops what
// still runs: operations that may have begun are in doubt then, and results that could not be published wait in the
// journal. It returns an error only for a failure that keeps the worker from going on (its journal, mostly).
func (w *Worker) Run(taking, working context.Context) error {
	taking, w.giveUp = context.WithCancelCause(taking)
	defer w.giveUp(nil)
	defer context.AfterFunc(taking, func() { w.draining.Store(true) })()
	defer context.AfterFunc(working, func() { w.giveUp(context.Cause(working)) })()

	// What accompanies the work outlives the taking, and even the working, until nothing is held any more.
	around, end := context.WithCancel(context.WithoutCancel(working))
	defer end()
	var company, lanes sync.WaitGroup
	company.Go(func() { w.beat(around, taking) })
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
		return fmt.Errorf("worker %s cannot go on: %w", w.ID, broken.err)
	}
	return nil
}

// fail ends the taking because the worker cannot keep its promises any more.
func (w *Worker) fail(err error) {
	w.Log.Error("the worker cannot go on", "error", err)
	w.giveUp(brokenError{err})
}
