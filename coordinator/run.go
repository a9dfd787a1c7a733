// Package coordinator executes a program of vertices on workers: it takes the actions of the run's loop, records them
// durably, and feeds their results back to the loop.
//
// Package coordinator/loop makes all decisions, as a pure function; this package makes none. It knows neither
// configuration nor values nor providers (the Program does), and imports no adapter: cmd passes in the transport and
// the store.
package coordinator

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/millipede-iac/millipede/coordinator/hub"
	"github.com/millipede-iac/millipede/coordinator/loop"
	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/internal/bug"
	"github.com/millipede-iac/millipede/internal/trace"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

// readOnly is the prefix of the name under which a run without a store requests permits.
const readOnly = "read-"

// Reader returns the name under which work that changes nothing requests permits. If its process ends, others may
// release the permits.
func Reader(id string) string { return readOnly + id }

// Options are the program of a run, and its store, transport and limits.
type Options struct {
	Program program.Program
	// Hub is the connection to the workers; the run belongs to the hub's coordinator. A resumed run needs a hub with the
	// same coordinator as before.
	Hub *hub.Hub

	// Store records a run that changes the state. The caller has begun the run there; Run ends it. It is nil for a run
	// that changes nothing, such as a plan: then nothing is persisted, the changes of steps are ignored, and the program
	// may use only the fast lane.
	Store     journal.Store
	Workspace string
	LockID    string

	// Earlier has the records of earlier runs on the state, which may hold the permits that this run waits for. It may
	// be nil.
	Earlier Records

	// RunID names the run.
	RunID string

	// Parallelism is the number of slots of the default limit; zero leaves it to Rules.Slots. A limit that exists keeps
	// its size, unless Embedded.
	Parallelism placement.Parallelism
	// OwnSlots gives the run the slots of the default limit for itself. Otherwise it shares them with all runs on the
	// same server.
	OwnSlots bool
	// Background gives the other runs of the process priority: the run requests a permit only while no other run waits
	// for the limit, and releases its permits as soon as one does.
	Background bool
	// Sole says that no other coordinator uses the transport. Embedded implies it.
	Sole bool
	// Who is the person who has begun the run; empty if it is not known.
	Who string
	// Stores are the pools with a message store of their own, as the run has recorded them.
	Stores []string
	// Rules place vertices in pools; nil places them by the region of their provider configuration alone.
	Rules *placement.Rules
	// Envelope seals the messages of the safe lane, which the server stores; nil sends them unsealed.
	Envelope Envelope
	// Observer may be nil.
	Observer Observer
	// Embedded says that the workers run in this process and end with it.
	Embedded bool

	// Durations stores how long operations took, under the key Kind ("plan", "apply"), so that later runs can start the
	// longest ones first. It may be nil.
	Durations Values
	Kind      string

	// DoubtWait is how long the run waits for the result of an operation in doubt when it could end otherwise; 0 means 30
	// s.
	DoubtWait time.Duration
	// Settle is how long after its start the run waits for heartbeats before it takes a silent pool for one without
	// workers; 0 means 2 s.
	Settle time.Duration

	// Own executes a task of the fast lane that only this process can execute. It returns nil for any other task, which
	// then goes to a worker. It may be nil, and is called from several goroutines.
	Own func(ctx context.Context, t *wire.Task) *wire.Result

	// Environment returns the environment that tasks for a pool run in. It may be nil, and is called from several
	// goroutines.
	Environment func(ctx context.Context, pool string) (*wire.Environment, error)

	// Now and NewID default to time.Now and random texts. They are called from several goroutines.
	Now   func() time.Time
	NewID func() string
	// Compute calls fn, which keeps a processor busy for a vertex, and returns when fn has returned. Nil runs as many at
	// a time as there are processors. It is called from several goroutines.
	Compute func(vertex int, fn func())
}

// Values stores small values by bucket and key. GetValue returns nil for a key without a value. journal.Store
// implements it.
type Values interface {
	PutValue(ctx context.Context, bucket, key string, value []byte) error
	PutHint(ctx context.Context, bucket, key string, value []byte) error // a crash may lose it
	GetValue(ctx context.Context, bucket, key string) ([]byte, error)
}

// Envelope seals messages between coordinator and pool that the server stores; large ones go into blobs. Unwrap
// reverses Wrap.
type Envelope interface {
	Wrap(ctx context.Context, ref wire.TaskRef, data []byte) ([]byte, error)
	Unwrap(ctx context.Context, ref wire.TaskRef, data []byte, held *wire.Reservation) ([]byte, error)
}

// Bug is the error of a run that ended with a panic, which is a bug in Millipede. It has the stack trace.
type Bug = bug.Error

// Runner is one run. Make it with New or Resume, then call Run once; Interrupt, Cancel and Leave may be called from any
// goroutine, before, while and after it runs.
type Runner struct {
	Options
	loop   *loop.Loop
	past   loop.Past // of the processes before this one
	inbox  *inbox
	acts   *executor
	tracer Tracer // the observer, if it is one; else nil
	// earlier are the pools to which earlier processes of the run have dispatched tasks.
	earlier []string
	former  *former // the permits of earlier processes of a resumed run; nil for a new run

	records []loop.Record // of one step
}

// New returns a run from the beginning.
func New(o Options) *Runner {
	r, err := newRunner(context.Background(), o, false, nil)
	if err != nil {
		panic(err) // only a journal can be wrong
	}
	return r
}

// newRunner returns a run; again says that an earlier process has begun it, and left these events.
func newRunner(ctx context.Context, o Options, again bool, events []journal.Event) (*Runner, error) {
	slots := o.Rules.Slots(o.Parallelism)
	if o.Observer == nil {
		o.Observer = Silent{}
	}
	if o.DoubtWait == 0 {
		o.DoubtWait = 30 * time.Second
	}
	if o.Settle == 0 {
		o.Settle = 2 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = rand.Text
	}
	known := loadDurations(ctx, o.Durations, o.Kind)
	s := loop.Settings{
		Run: o.RunID, Coordinator: o.Hub.Coordinator(), Durable: o.Store != nil, Embedded: o.Embedded,
		Yields: o.Background,
		Stores: o.Stores,
		Cores:  runtime.GOMAXPROCS(0), Slots: slots, OwnSlots: o.OwnSlots, Sole: o.Sole || o.Embedded,
		DoubtTerm: o.Rules.Term(), OfOnePool: o.Rules.OfOnePool,
		DoubtWait: o.DoubtWait, SettleFor: o.Settle,
		Program: o.Program, Place: o.Rules.Placer(slots), Weight: known.weight,
		Recorded: known.has,
		Attempt:  func() wire.AttemptID { return wire.AttemptID(o.NewID()) },
	}
	if again {
		s.Process = o.NewID()
	}
	tracer, _ := o.Observer.(Tracer)
	s.Traced = tracer != nil
	if len(events) > 0 {
		var err error
		if s.Past, err = loop.PastOf(o.Program.Graph().Len(), events); err != nil {
			return nil, err
		}
	}
	r := &Runner{Options: o, loop: loop.New(s), past: s.Past, inbox: newInbox(), tracer: tracer,
		earlier: PoolsOf(events)}
	r.acts = newExecutor(r.Options, r.inbox)
	if again {
		r.former = newFormer(o.RunID, s.Process, s.Past)
	}
	return r, nil
}

// Address returns the address of the vertex of an attempt. It returns false if this run has not dispatched the attempt
// to this pool; a message of the pool about it must then be ignored.
func (r *Runner) Address(id wire.AttemptID, pool string) (string, bool) {
	k, ok := r.acts.attempt(id, pool)
	return k.address, ok
}

// Pools returns the pools that the run has dispatched tasks to so far, sorted.
func (r *Runner) Pools() []string { return r.acts.used() }

// Interrupt stops the run gracefully: it starts nothing more, asks providers to stop, and waits for operations that are
// under way. A second call is Leave.
func (r *Runner) Interrupt() { r.inbox.put(loop.Interrupted{}) }

// Cancel is Interrupt for a run that must not be resumed.
func (r *Runner) Cancel() { r.inbox.put(loop.Interrupted{Cancel: true}) }

// Settle is Interrupt without asking providers to stop: operations that are under way finish normally.
func (r *Runner) Settle() { r.inbox.put(loop.Interrupted{Settle: true}) }

// Fail ends the run with an error of something that belongs to it.
func (r *Runner) Fail(err error) { r.inbox.put(loop.Failed{Err: err}) }

// Leave makes Run return at once. Remote workers finish their operations all the same.
func (r *Runner) Leave() { r.inbox.put(loop.Abandoned{}) }

// Run executes the program. It returns when all vertices are settled or the run was stopped; the end of ctx is Leave.
// Failed vertices are part of the outcome. The error says why the run could not continue; the outcome then tells how
// far it came.
func (r *Runner) Run(ctx context.Context) (out loop.Outcome, err error) {
	ctx, span := trace.Start(ctx, "walk", trace.Internal)
	defer span.End()
	span.Set("millipede.kind", r.Kind)
	span.Set("millipede.run", r.RunID)
	span.Set("millipede.workspace", r.Workspace)
	span.SetInt("millipede.vertices", int64(r.Program.Graph().Len()))
	base, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer func() {
		if p := recover(); p != nil {
			err = bug.New(p)
			if r.acts.ctx != nil {
				keep := r.acts.all() // if the loop can no longer tell which of them protect an operation
				_ = bug.Catch(func() error { keep = r.kept(base, r.loop.Held()); return nil })
				r.acts.finish(keep)
			}
			cancel(errEnded)
			r.acts.waitAtMost(bugTimeout)
			r.loop.Break(err)
			_ = bug.Catch(func() error { out = r.loop.Outcome(); return nil }) // it may panic, too
		}
	}()
	if err := r.open(base, ctx); err != nil {
		cancel(err)
		return r.loop.Outcome(), err
	}
	if r.former != nil {
		defer r.Hub.Decide(r.former.decide)()
	}
	defer r.Hub.OnPermitUses(r.acts.permitUses)()
	r.acts.start(base)
	r.work(ctx)
	r.acts.finish(r.kept(base, r.loop.Held()))
	cancel(errEnded)
	defer r.acts.settleRest()
	if r.endedByBug() {
		r.acts.waitAtMost(bugTimeout)
	} else {
		r.acts.wait()
	}
	out = r.loop.Outcome()
	saveDurations(context.WithoutCancel(ctx), r.Durations, r.Kind, r.loop.Durations())
	if err := r.loop.Err(); err != nil {
		return out, err
	}
	return out, r.close(context.WithoutCancel(ctx), &out)
}

// kept returns the permits that stay held after the end of the run, because operations may still run under them: all of
// keys, or none if another process has ended the run, which it does only when nothing runs any more.
func (r *Runner) kept(ctx context.Context, keys []loop.PermitKey) []loop.PermitKey {
	if len(keys) == 0 || r.Store == nil {
		return keys
	}
	if run, _, err := r.Store.RunPlan(ctx, r.RunID); err == nil && run.Over() {
		return nil
	}
	return keys
}

// errEnded is the cause of the end of the run's context. As an ErrLeft it leaves permits alone that the run has not
// taken over yet from an earlier process: operations may still run under them.
var errEnded = fmt.Errorf("the run has ended: %w", wire.ErrLeft)

// bugTimeout is how long a run that a bug has ended waits for its goroutines. One of them may be blocked for ever by a
// lock that the bug has left locked.
const bugTimeout = 5 * time.Second

// endedByBug tells whether the run has ended because of a bug.
func (r *Runner) endedByBug() bool {
	var b *Bug
	return errors.As(r.loop.Err(), &b)
}

// work passes inputs to the loop, and takes its actions, until the run is over.
func (r *Runner) work(ctx context.Context) {
	ticker := time.NewTicker(loop.TickEvery)
	defer ticker.Stop()
	done := ctx.Done()
	r.take(loop.Began{})
	for !r.loop.Over() {
		select {
		case <-r.inbox.ready:
			for _, e := range r.inbox.take() {
				if r.loop.Over() {
					return
				}
				r.take(e)
			}
		case <-ticker.C:
			r.take(loop.Ticked{Connected: r.Hub.Connected()})
		case <-done:
			done = nil
			r.take(loop.Abandoned{})
		}
	}
	r.take(loop.Ticked{Connected: r.Hub.Connected()}) // so that views show the end
}

func (r *Runner) take(e loop.Input) {
	r.records = r.records[:0]
	for _, a := range r.loop.Step(r.Now(), e) {
		switch a := a.(type) {
		case loop.Shown:
			r.acts.settle(a)
			r.tell(a)
		case loop.Commit:
			r.records = append(r.records, a.Record) // the records of one step go into one transaction
		default:
			r.acts.do(a)
		}
	}
	r.acts.useRecorded(r.records)
	r.acts.save.add(r.records)
	clear(r.records)
}
