// Package coordinator carries a program of vertices out on workers: one loop for each run decides which vertex is
// started when, under which permits, and what its answer leads to.
//
// The decisions are a pure function, loop.step; Runner executes what it returns and feeds it what happens. The package
// knows neither configuration nor values nor providers (those are the Program's), and no adapter: cmd hands it the
// transport and the store.
package coordinator

import (
	"context"
	"crypto/rand"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

// DefaultLimit is the name of the limit that covers every vertex; -parallelism sets its slots.
const DefaultLimit = "default"

// readOnly begins the name under which a run without a store asks for permits.
const readOnly = "read-"

// Options say what to run, and over what.
type Options struct {
	Program   program.Program
	Transport wire.Transport

	// Store is where an applying run is recorded; nil for a run that changes nothing, such as a plan: then nothing is
	// persisted, the changes of steps are ignored, and the program may use the fast lane only. The run must have
	// been begun there, and is ended there by Run.
	Store     journal.Store
	Workspace string
	LockID    string

	// Earlier is where earlier runs on the state are looked up when permits are waited for; may be nil.
	Earlier Records

	// RunID names the run; Coordinator who makes it. Results are fetched by coordinator, so no two runs at one time may
	// share that; a run that is resumed must have the one that it had.
	RunID       string
	Coordinator string

	// Parallelism is the number of slots of the default limit; 0 means what the rules say, else 10. A limit that
	// exists keeps its size, unless Embedded.
	Parallelism placement.Parallelism
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

	// Own answers a task that only this process can, on the fast lane; nil for one that a worker is to answer. It may be
	// nil, and is called from several goroutines.
	Own func(ctx context.Context, t *wire.Task) *wire.Result

	// Now and NewID may be nil: then they are the clock, and random. They are called from several goroutines.
	Now   func() time.Time
	NewID func() string
	// Compute runs what takes a processor for a vertex, and returns when that is done; nil: as many at a time as there are
	// cores. It is called from several goroutines.
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

// The optional sides of a Program.
type (
	// Closer is a Program with vertices that close what others opened: they run once all that they wait for is
	// settled, however that ended.
	Closer interface{ Anyway(vertex int) bool }
	// Doubter is a Program that can say in the state that the outcome of an operation is not known. It is called on
	// the loop's goroutine; the changes are made durable with the event.
	Doubter interface {
		Doubt(vertex int, d state.Doubt) []state.Change
		// Undoubt takes back what Doubt has said: the outcome is known now. It is called before Complete, or when the
		// operation was proved not to have begun.
		Undoubt(vertex int) []state.Change
	}
	// Restorer is a Program that a resumed run tells which vertices are done, before it does anything else. Vertices
	// that are in the journal as done are not prepared again; hidden ones without a journal are.
	Restorer interface{ Restore(done []bool) }
	// Continuer is a Program that can go on with a vertex between two of its operations when the run is resumed:
	// phase operations are done, the last one by the worker. It is called instead of Prepare, also when a result of the next operation is waiting.
	// Without it such a vertex fails.
	Continuer interface {
		PrepareAfter(ctx context.Context, vertex, phase int, worker string) program.Step
	}
	// Framed is a Program with changes before the first and after the last vertex. Begin's are made durable before
	// anything starts (again, if a crash came before the first event), End's with the end of the run.
	Framed interface {
		Begin() []state.Change
		End() []state.Change
	}
)

// Outcome is how a run ended.
type Outcome struct {
	// Diags are all the problems, ordered by vertex.
	Diags   diag.List
	Failed  []Failure
	Skipped []Skipped
	InDoubt []Doubtful
	// Interrupted tells that vertices were left because somebody asked to stop; Cancelled that nobody is to go on.
	Interrupted, Cancelled bool
	Counts                 Counts
	// Status is that of the run in the journal: done, failed, interrupted or cancelled.
	Status string
}

// Bug is the error of a run that a mistake of ours ended.
type Bug struct {
	Value any
	Stack []byte
}

func (b *Bug) Error() string {
	return fmt.Sprintf("%v\n\nThis is a bug in Millipede, please report it with this trace:\n%s", b.Value, b.Stack)
}

// Runner is one run. Make it with New or Resume, then call Run once; Interrupt, Cancel and Leave may be called from any
// goroutine, before, while and after it runs.
type Runner struct {
	Options
	loop  *loop
	inbox *inbox
	acts  *executor

	records []record // of one step
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
	s := settings{
		run: o.RunID, coordinator: o.Coordinator, durable: o.Store != nil, embedded: o.Embedded,
		cores: runtime.GOMAXPROCS(0), slots: slots, doubtWait: o.DoubtWait, settleFor: o.Settle,
		program: o.Program, place: placer(o.Rules, slots), weight: known.weight,
		attempt: func() wire.AttemptID { return wire.AttemptID(o.NewID()) },
	}
	if len(events) > 0 {
		var err error
		if s.past, err = recollect(o.Program.Graph().Len(), events); err != nil {
			return nil, err
		}
	}
	r := &Runner{Options: o, loop: newLoop(s), inbox: newInbox()}
	r.acts = newExecutor(r.Options, r.inbox)
	return r, nil
}

// placer puts the widest limit behind those of the rules.
func placer(rules *placement.Rules, slots int) func(program.Placement, func(string) bool) (string, []wire.Limit) {
	widest := wire.Limit{Name: DefaultLimit, Slots: slots}
	return func(p program.Placement, live func(string) bool) (string, []wire.Limit) {
		pool, limits := rules.Place(p, live)
		return pool, append(limits, widest)
	}
}

// Address returns the address of the vertex that an attempt of this run is for. It returns false for an attempt that the
// run has not made, or not in this pool: then what the pool says of it is made up.
func (r *Runner) Address(id wire.AttemptID, pool string) (string, bool) {
	k, ok := r.acts.attempt(id, pool)
	return k.address, ok
}

// Pools returns the pools that the run has dispatched to by now.
func (r *Runner) Pools() []string { return r.acts.used() }

// Interrupt asks to stop: nothing more is started, providers are asked to stop, what runs is awaited. Called again it
// is Leave.
func (r *Runner) Interrupt() { r.inbox.put(interrupted{}) }

// Cancel is Interrupt for a run that nobody shall resume.
func (r *Runner) Cancel() { r.inbox.put(interrupted{cancel: true}) }

// Settle is Interrupt, but that nobody is asked to stop what is under way: it is finished, and awaited.
func (r *Runner) Settle() { r.inbox.put(interrupted{settle: true}) }

// Leave asks to return at once. Workers elsewhere go on with what they do.
func (r *Runner) Leave() { r.inbox.put(abandoned{}) }

// Run carries the program out and returns when all its vertices are settled, or the run was stopped. The end of ctx is
// Leave. The error is not nil only when the run could not be carried on: the outcome tells then how far it came.
func (r *Runner) Run(ctx context.Context) (out Outcome, err error) {
	base, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer func() {
		if p := recover(); p != nil {
			err = &Bug{p, debug.Stack()}
			cancel(errEnded)
			r.acts.wait()
		}
	}()
	if err := r.open(base); err != nil {
		cancel(err)
		return r.outcome(), err
	}
	r.acts.start(base)
	r.work(ctx)
	r.acts.finish(r.held(base))
	cancel(errEnded)
	r.acts.wait()
	out = r.outcome()
	saveDurations(context.WithoutCancel(ctx), r.Durations, r.Kind, r.loop.durations)
	if r.loop.broken != nil {
		return out, r.loop.broken
	}
	return out, r.close(context.WithoutCancel(ctx), &out)
}

// held lists the permits that the run keeps beyond its end, because something may still run under them: nothing does when
// another process has ended the run meanwhile.
func (r *Runner) held(ctx context.Context) []permitKey {
	keys := r.loop.held()
	if len(keys) == 0 || r.Store == nil {
		return keys
	}
	if run, _, err := r.Store.RunPlan(ctx, r.RunID); err == nil && run.Over() {
		return nil
	}
	return keys
}

// errEnded leaves the permits that could not be taken over yet as they are: of what an earlier process left, something may
// still run under them.
var errEnded = fmt.Errorf("the run has ended: %w", wire.ErrLeft)

// work is the loop: it waits for events, and has done what follows from them.
func (r *Runner) work(ctx context.Context) {
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	done := ctx.Done()
	r.take(began{})
	for !r.loop.over() {
		select {
		case <-r.inbox.ready:
			for _, e := range r.inbox.take() {
				if r.loop.over() {
					return
				}
				r.take(e)
			}
		case <-ticker.C:
			r.take(ticked{r.Transport.Connected()})
		case <-done:
			done = nil
			r.take(abandoned{})
		}
	}
	r.take(ticked{r.Transport.Connected()}) // the last word to views
}

func (r *Runner) take(e event) {
	r.records = r.records[:0]
	for _, a := range r.loop.step(r.Now(), e) {
		switch a := a.(type) {
		case show:
			a(r.Observer)
		case commit:
			r.records = append(r.records, a.record) // those of one step go into one transaction
		default:
			r.acts.do(a)
		}
	}
	r.acts.save.add(r.records)
	clear(r.records)
}

// outcome sums up.
func (r *Runner) outcome() Outcome {
	l := r.loop
	out := Outcome{
		Failed: l.failed, Skipped: l.skipped, InDoubt: l.doubted,
		Interrupted: l.stopping && !l.sched.Finished(), Cancelled: l.cancelled, Counts: l.progress(),
	}
	slices.SortStableFunc(l.problems, func(a, b problem) int { return a.vertex - b.vertex })
	for _, p := range l.problems {
		out.Diags = append(out.Diags, p.list...)
	}
	slices.SortFunc(out.Failed, func(a, b Failure) int { return a.Vertex - b.Vertex })
	slices.SortFunc(out.Skipped, func(a, b Skipped) int { return a.Vertex - b.Vertex })
	slices.SortFunc(out.InDoubt, func(a, b Doubtful) int { return a.Vertex - b.Vertex })
	switch {
	case l.cancelled && len(l.doubted) == 0 && !l.openEnded():
		out.Status = "cancelled"
	case out.Interrupted, l.frozen, l.broken != nil, len(l.doubted) > 0, l.leaving:
		out.Status = "interrupted"
	case len(l.failed) > 0, out.Diags.HasErrors():
		out.Status = "failed"
	default:
		out.Status = "done"
	}
	return out
}
