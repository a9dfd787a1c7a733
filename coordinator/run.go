// Package coordinator carries a program of vertices out on workers: it does what the loop of a run decides, makes it
// durable, and feeds back what comes of it.
//
// The decisions are those of coordinator/loop, which is pure. This package decides nothing. It knows neither
// configuration nor values nor providers (those are the Program's), and no adapter: cmd hands it the transport and the
// store.
package coordinator

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/millipede-iac/millipede/bug"
	"github.com/millipede-iac/millipede/coordinator/hub"
	"github.com/millipede-iac/millipede/coordinator/loop"
	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/trace"
	"github.com/millipede-iac/millipede/wire"
)

// readOnly begins the name under which a run without a store asks for permits.
const readOnly = "read-"

// Options say what to run, and over what.
type Options struct {
	Program program.Program
	// Hub is what the run reaches workers over, and whose coordinator it belongs to. A run that is resumed must have
	// the coordinator that it had.
	Hub *hub.Hub

	// Store is where an applying run is recorded; nil for a run that changes nothing, such as a plan: then nothing is
	// persisted, the changes of steps are ignored, and the program may use the fast lane only. The run must have
	// been begun there, and is ended there by Run.
	Store     journal.Store
	Workspace string
	LockID    string

	// Earlier is where earlier runs on the state are looked up when permits are waited for; may be nil.
	Earlier Records

	// RunID names the run.
	RunID string

	// Parallelism is the number of slots of the default limit; zero leaves it to Rules.Slots. A limit that exists keeps
	// its size, unless Embedded.
	Parallelism placement.Parallelism
	// OwnSlots says that the slots of the default limit are the run's alone. Otherwise all runs over the connection's
	// server share them.
	OwnSlots bool
	// Background says that the run makes way for the others of its process: it asks for a permit only while none of them
	// waits for the limit, and gives one back as soon as somebody does.
	Background bool
	// Sole says that no other coordinator uses the transport. It goes without saying where Embedded is set.
	Sole bool
	// Rules place vertices; nil for the region rule alone.
	Rules *placement.Rules
	// Envelope seals what the safe lane persists on the way; nil for none.
	Envelope Envelope
	// Observer may be nil.
	Observer Observer
	// Embedded says that the workers are in this process and end with it.
	Embedded bool

	// Durations keeps how long operations took, under the key Kind ("plan", "apply"), to order later runs; may be nil.
	Durations Values
	Kind      string

	// DoubtWait is how long a late result is waited for once nothing else would end the run; 0 means 30 s.
	DoubtWait time.Duration
	// Settle is how long a run leaves open at most whether a region has workers, until all were asked; 0 means 2 s.
	Settle time.Duration

	// Own answers a task that only this process can, on the fast lane; nil for one that a worker is to answer. It may
	// be nil, and is called from several goroutines.
	Own func(ctx context.Context, t *wire.Task) *wire.Result

	// Environment returns what the tasks for a pool say of the environment that they run in. It may be nil, and is
	// called from several goroutines.
	Environment func(ctx context.Context, pool string) (*wire.Environment, error)

	// Now and NewID may be nil: then they are the clock, and random. They are called from several goroutines.
	Now   func() time.Time
	NewID func() string
	// Compute runs what takes a processor for a vertex, and returns when that is done; nil: as many at a time as there
	// are cores. It is called from several goroutines.
	Compute func(vertex int, fn func())
}

// Values keeps small things by key; journal.Store does.
type Values interface {
	PutValue(ctx context.Context, bucket, key string, value []byte) error
	GetValue(ctx context.Context, bucket, key string) ([]byte, error)
}

// Envelope wraps what is persisted on its way between coordinator and pool: sealed, and in a blob when it is large.
type Envelope interface {
	Wrap(ctx context.Context, ref wire.TaskRef, data []byte) ([]byte, error)
	Unwrap(ctx context.Context, ref wire.TaskRef, data []byte) ([]byte, error)
}

// Bug is the error of a run that a mistake of ours ended.
type Bug = bug.Error

// Runner is one run. Make it with New or Resume, then call Run once; Interrupt, Cancel and Leave may be called from any
// goroutine, before, while and after it runs.
type Runner struct {
	Options
	loop   *loop.Loop
	memory loop.Memory // of the processes before this one
	inbox  *inbox
	acts   *executor
	tracer Tracer // the observer, if it is one; else nil

	records []loop.Record // of one step
}

// New returns a run from the beginning.
func New(o Options) *Runner {
	r, err := newRunner(context.Background(), o, nil)
	if err != nil {
		panic(err) // only a journal can be wrong
	}
	return r
}

func newRunner(ctx context.Context, o Options, events []journal.Event) (*Runner, error) {
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
		Cores:  runtime.GOMAXPROCS(0), Slots: slots, OwnSlots: o.OwnSlots, Sole: o.Sole || o.Embedded,
		DoubtWait: o.DoubtWait, SettleFor: o.Settle,
		Program: o.Program, Place: o.Rules.Placer(slots), Weight: known.weight,
		Recorded: known.has,
		Attempt:  func() wire.AttemptID { return wire.AttemptID(o.NewID()) },
	}
	tracer, _ := o.Observer.(Tracer)
	s.Traced = tracer != nil
	if len(events) > 0 {
		var err error
		if s.Past, err = loop.Recollect(o.Program.Graph().Len(), events); err != nil {
			return nil, err
		}
	}
	r := &Runner{Options: o, loop: loop.New(s), memory: s.Past, inbox: newInbox(), tracer: tracer}
	r.acts = newExecutor(r.Options, r.inbox)
	return r, nil
}

// Address returns the address of the vertex that an attempt of this run is for. It returns false for an attempt that
// the run has not made, or not in this pool: then what the pool says of it is made up.
func (r *Runner) Address(id wire.AttemptID, pool string) (string, bool) {
	k, ok := r.acts.attempt(id, pool)
	return k.address, ok
}

// Pools returns the pools that the run has dispatched to by now.
func (r *Runner) Pools() []string { return r.acts.used() }

// Interrupt asks to stop: nothing more is started, providers are asked to stop, what runs is awaited. Called again it
// is Leave.
func (r *Runner) Interrupt() { r.inbox.put(loop.Interrupted{}) }

// Cancel is Interrupt for a run that nobody shall resume.
func (r *Runner) Cancel() { r.inbox.put(loop.Interrupted{Cancel: true}) }

// Settle is Interrupt, but that nobody is asked to stop what is under way: it is finished, and awaited.
func (r *Runner) Settle() { r.inbox.put(loop.Interrupted{Settle: true}) }

// Fail ends the run, because of a bug in what belongs to it.
func (r *Runner) Fail(err error) { r.inbox.put(loop.Failed{Err: err}) }

// Leave asks to return at once. Workers elsewhere go on with what they do.
func (r *Runner) Leave() { r.inbox.put(loop.Abandoned{}) }

// Run carries the program out and returns when all its vertices are settled, or the run was stopped. The end of ctx is
// Leave. The error is not nil only when the run could not be carried on: the outcome tells then how far it came.
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
				keep := r.acts.all() // unless the loop still knows under which of them something runs
				_ = bug.Catch(func() error { keep = r.kept(base, r.loop.Held()); return nil })
				r.acts.finish(keep)
			}
			cancel(errEnded)
			r.acts.waitAtMost(bugPatience)
			r.loop.Break(err)
			_ = bug.Catch(func() error { out = r.loop.Outcome(); return nil }) // the bug may be there
		}
	}()
	if err := r.open(base); err != nil {
		cancel(err)
		return r.loop.Outcome(), err
	}
	r.acts.start(base)
	r.work(ctx)
	r.acts.finish(r.kept(base, r.loop.Held()))
	cancel(errEnded)
	defer r.acts.settleRest()
	if r.broke() {
		r.acts.waitAtMost(bugPatience)
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

// kept lists those of the permits of operations that may still run which the run keeps beyond its end: none when
// another process has ended the run meanwhile, because nothing runs then.
func (r *Runner) kept(ctx context.Context, keys []loop.PermitKey) []loop.PermitKey {
	if len(keys) == 0 || r.Store == nil {
		return keys
	}
	if run, _, err := r.Store.RunPlan(ctx, r.RunID); err == nil && run.Over() {
		return nil
	}
	return keys
}

// errEnded leaves the permits that could not be taken over yet as they are: of what an earlier process left, something
// may still run under them.
var errEnded = fmt.Errorf("the run has ended: %w", wire.ErrLeft)

// bugPatience is how long a run that a bug has ended waits for its goroutines: one may wait for ever for what the bug
// has left locked.
const bugPatience = 5 * time.Second

// broke tells whether a bug has ended the run.
func (r *Runner) broke() bool {
	var b *Bug
	return errors.As(r.loop.Err(), &b)
}

// work is the loop: it waits for events, and has done what follows from them.
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
	r.take(loop.Ticked{Connected: r.Hub.Connected()}) // the last word to views
}

func (r *Runner) take(e loop.Input) {
	r.records = r.records[:0]
	for _, a := range r.loop.Step(r.Now(), e) {
		switch a := a.(type) {
		case loop.Shown:
			r.acts.settle(a)
			r.tell(a)
		case loop.Commit:
			r.records = append(r.records, a.Record) // those of one step go into one transaction
		default:
			r.acts.do(a)
		}
	}
	r.acts.save.add(r.records)
	clear(r.records)
}
