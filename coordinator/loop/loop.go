// Package loop decides what a run does next: which vertices are prepared, which operations start under which permits,
// what the results of operations lead to, and when the run is over.
//
// It is a pure state machine. Loop.Step takes an input and the time, and returns actions. It starts no goroutine, reads
// no clock and does no I/O, so that a run, its resumption, its simulation and its replay execute the same code. Inputs
// and actions are plain data. Package coordinator executes the actions and feeds their results back as inputs.
//
// Read this file first, then vertex.go for the phases of a vertex, attempt.go for the statuses of its attempt, and
// status.go for how a status changes. settle.go, launch.go and lane.go have the way of a vertex through its phases,
// doubt.go the operations with an unknown outcome, liveness.go what depends on time and on workers, adopt.go a resumed
// run, and stop.go one that is interrupted.
//
// The parts of a loop have the data of one concern each, and tests of their own: ending.go (how the run ends), store.go
// (whether messages can be stored), workers.go (who works), permits.go and places.go (what an operation needs in order
// to start), queues.go, waitaccount.go and blocked.go (what vertices wait for), records.go (which records share a
// transaction), messages.go (which messages are not accepted), tally.go and estimate.go (what views are shown).
package loop

import (
	"errors"
	"fmt"
	"time"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/graph/dag"
	"github.com/millipede-iac/millipede/graph/sched"
	"github.com/millipede-iac/millipede/wire"
)

// TickEvery is how often the loop expects a Ticked input.
const TickEvery = 250 * time.Millisecond

// Settings say what to run. The functions among them must be pure, except for Attempt.
type Settings struct {
	// Run is the ID of the run, Coordinator the name of the coordinator that executes it.
	Run, Coordinator string
	// Stores are the pools that had a message store of their own when the run began.
	Stores []string
	// Process is part of the names of this process's requests for permits, so that they are not those of earlier
	// processes of the run; empty in the first one.
	Process string
	// Durable says that the run has a journal: the loop returns Commit actions.
	Durable bool
	// Embedded says that the workers end with this process.
	Embedded bool
	// Cores is how many vertices may be prepared at a time.
	Cores int
	// Slots is the initial number of slots of the default limit.
	Slots int
	// Yields says that the run releases a permit as soon as another run waits for its limit, and not only after the
	// quantum.
	Yields bool
	// OwnSlots says that these slots belong to this run alone, so that it needs no permits for them.
	OwnSlots bool
	// Sole says that no other coordinator uses the transport, so that the slots of its workers need no permits.
	Sole bool
	// DoubtWait is how long the run waits for the result of an operation in doubt.
	DoubtWait time.Duration
	// DoubtTerm is how long an operation in doubt, whose worker is silent, may still be running. OfOnePool reports whether
	// only operations of one pool need permits of a limit: these are held until the doubt is resolved.
	DoubtTerm time.Duration
	OfOnePool func(limit string) bool
	// SettleFor is how long after the start a pool that has sent no heartbeat is not yet taken for one without workers.
	SettleFor time.Duration

	// Traced says that an observer wants ShownQueued, ShownLacking and ShownHeld.
	Traced bool

	// Program is what the run executes. The loop calls its Graph, Accept and Describe and, if it implements them, the
	// methods of program.Closer and program.Doubter. It calls no method that computes.
	Program program.Program
	// Place returns the pool of a vertex and the limits that apply to it, the narrowest first. live reports whether a pool
	// has workers.
	Place func(p program.Placement, live func(pool string) bool) (string, []wire.Limit)
	// Weight returns the expected duration of a vertex in seconds.
	Weight func(program.Description) float64
	// Recorded reports whether Weight comes from an earlier run; nil means that it never does.
	Recorded func(program.Description) bool
	// Attempt returns a new attempt ID, which must never have been used before.
	Attempt func() wire.AttemptID
	// Past is what the journal has about the run; nil for a new run.
	Past Past
}

// Loop is the state of a run. Only Step changes it. It is not safe for concurrent use.
//
// Its own methods are those that need several of its parts. No part knows another one, with four exceptions: all of
// them see how the run ends, the queues have vertices of the table, the tally reads other parts to estimate the
// remaining time, and a pool counts its live workers.
type Loop struct {
	Settings
	common
	table

	store    store
	workers  workers
	permits  permits
	queues   queues
	records  records
	messages messages
	tally

	attempts map[wire.AttemptID]*attempt
	unheard  int // vertices of Past with an operation under way, or in doubt, that this process has not looked at yet
}

// PermitKey names a permit: the limit, and the name under which it was asked for.
type PermitKey struct{ Limit, ID string }

// New returns a loop at the start of a run.
func New(s Settings) *Loop {
	l := &Loop{Settings: s, attempts: map[wire.AttemptID]*attempt{}}
	l.table.common, l.records.common, l.store.common = &l.common, &l.common, &l.common
	l.workers, l.messages = newWorkers(&l.common, s.Stores), newMessages(&l.common)
	l.permits = newPermits(&l.common, &l.Settings)
	l.queues = newQueues(&l.table)
	g := s.Program.Graph()
	l.join(g.Len())
	traits := sched.Traits{
		Weight: func(v int) float64 { return float64(l.vertices[v].weight) },
		Class:  l.classOf,
	}
	if a, ok := s.Program.(program.Closer); ok {
		traits.Anyway = a.Anyway
	}
	l.sched = sched.New(g, traits)
	return l
}

// join adds n vertices.
func (l *Loop) join(n int) {
	for range n {
		v := len(l.vertices)
		d := l.Program.Describe(v)
		x := vertex{hidden: d.Hidden, weight: hiddenWeight}
		if !d.Hidden {
			x.weight = float32(l.Weight(d))
			l.tally.add(x.weight)
			recorded := 0.0
			if l.Recorded != nil && l.Recorded(d) {
				recorded = float64(x.weight)
			}
			x.kind = l.tally.kindOf(DurationKey(d), recorded)
		}
		l.vertices = append(l.vertices, x)
	}
	l.counts[idle] += n
}

// Step processes an input and returns the actions that follow from it, to be taken in this order. The slice is valid
// until the next call.
func (l *Loop) Step(now time.Time, in Input) []Action {
	clear(l.acts)
	l.acts = l.acts[:0]
	l.now = now
	switch e := in.(type) {
	case Began:
		l.workers.begin(l.SettleFor)
		l.adopt()
	case Prepared:
		l.onPrepared(e)
	case Completed:
		l.onCompleted(e)
	case CallFailed:
		l.onCallFailed(e)
	case Declared:
		l.permits.onDeclared(e)
	case Granted:
		l.onGranted(e)
	case Released:
		l.permits.forget(l.permits.limits[e.Limit], e.ID)
	case Refused:
		l.permits.onRefused(e, l.isOpen)
	case Contention:
		l.permits.onContention(e)
	case Blocked:
		l.permits.onBlocked(e)
	case Committed:
		l.onCommitted(e)
	case Published:
		l.onPublished(e)
	case Arrived:
		l.onArrived(e)
	case Unreadable:
		l.onUnreadable(e)
	case MisplacedResult:
		l.onMisplaced(e)
	case Acked:
		l.permits.onAcked(e)
	case Registered:
		l.onRegistered(e)
	case Beat:
		for _, pool := range e.Pools { // one, except in tests
			l.onBeat(pool, e.Heartbeat.For(pool))
		}
	case Probed:
		l.store.probed(e)
		l.storesAnswered(e.Stores, e.Asked)
	case LostData:
		l.freeze(e)
	case Surveyed:
		l.workers.settledAt = l.now
		l.unpark()
	case Ticked:
		l.onTicked(e)
	case Interrupted:
		l.onInterrupted(e)
	case Abandoned:
		l.onAbandoned()
	case Failed:
		l.fail(e.Err)
	default:
		panic(fmt.Sprintf("loop: unknown input %T", in))
	}
	l.advance()
	l.queues.accountLacks(l.halted() || l.store.taking != takes)
	_, ticked := in.(Ticked)
	l.records.flush(l.counts[calling], ticked)
	return l.acts
}

// advance starts what can be started.
func (l *Loop) advance() {
	switch {
	case !l.halted() && l.store.taking != takes: // nothing new until it is over
	case !l.halted():
		l.prepareReady()
		l.launchReady()
	case l.awaits():
		l.restoreReady()
	}
	l.request()
	l.giveUp()
}

// request requests the permits that ready vertices could use at once, of the narrowest limit (the places of the pool)
// first. A permit of a wider limit is requested only for vertices that already have the narrower ones, so that a run
// never holds a wide permit while it waits for a narrow one.
func (l *Loop) request() {
	l.permits.beginWants()
	if !l.halted() {
		l.queues.wants()
	}
	l.permits.acquire()
	l.permits.passOn()
}

// search is the most vertices that are prepared for full pools in order to find work for idle ones.
const search = 2048

// prepareReady starts the preparation of ready vertices: hidden ones whenever there are processors, because others wait
// for them; visible ones only a little ahead of the running ones, so that a large configuration is not in memory all at
// once.
func (l *Loop) prepareReady() {
	limit := 4 * l.Cores
	for l.counts[preparing] < limit {
		v, ok := l.sched.PopClass(hiddenClass)
		if !ok {
			break
		}
		l.prepare(v)
	}
	if l.sched.ReadyIn(visibleClass) == 0 {
		return
	}
	ahead, full := l.counts[wanting]+l.counts[preparing], 0
	for i, c := range l.queues.classes {
		switch n := l.sched.ReadyIn(i + firstClass); {
		case n == 0 || !c.startable():
		case c.pool.full() && l.permits.idleElsewhere(c.pool): // those that idle are to find work behind what waits here
			full += n
		default:
			ahead += n
		}
	}
	for window := 32 + 2*l.Slots; l.counts[preparing] < limit && ahead < window && full < search; ahead++ {
		v, ok := l.sched.PopClass(visibleClass)
		if !ok {
			break
		}
		l.prepare(v)
	}
}

// restoreReady adopts the operations in the journal of a run that was resumed and is being stopped: the run must know
// the outcome of every operation that is under way before it ends. Values that only memory held, such as locals, are
// computed again while such operations depend on them. Nothing else is started; other ready vertices stay idle.
func (l *Loop) restoreReady() {
	for _, class := range []int{hiddenClass, visibleClass} {
		for len(l.Past) > 0 {
			v, ok := l.sched.PopClass(class)
			if !ok {
				break
			}
			switch p := l.Past[v]; {
			case p != nil:
				l.restoreVertex(v, p)
			case l.vertices[v].hidden && l.unheard > 0:
				l.prepare(v)
			}
		}
	}
}

// prepare starts a vertex, unless the journal says that it is settled.
func (l *Loop) prepare(v int) {
	x := &l.vertices[v]
	p := l.Past[v]
	if p != nil && l.restoreVertex(v, p) {
		return
	}
	x.work = &work{desc: l.Program.Describe(v), out: -1}
	l.move(v, preparing)
	next := Prepare{Vertex: v, Phase: int(x.ops)}
	if p != nil {
		next.Worker = p.worker
	}
	l.do(next)
}

// markSent records that a task of the vertex is sent, and shows it the first time.
func (l *Loop) markSent(v int) {
	x := &l.vertices[v]
	w := x.work
	w.called = l.now
	if w.out < 0 {
		w.out = len(l.out)
		l.out = append(l.out, v)
		if !x.hidden {
			l.permits.poolOf(w.pool).Running++
		}
	}
	if !w.started.IsZero() {
		return
	}
	w.started = l.now
	if !x.hidden {
		l.changed = true
		shown := about(ShownStarted, v, &w.desc)
		shown.Pool, shown.At = w.pool, l.now
		shown.Ready, shown.Waited, shown.Attempt = w.ready, w.waits, w.attempt
		if x.class >= firstClass {
			shown.Limits = l.queues.of(x).limitNames
		}
		l.do(shown)
	}
}

// arrive records that no task of the vertex is under way any more.
func (l *Loop) arrive(v int) {
	x := &l.vertices[v]
	w := x.work
	if w.out < 0 {
		return
	}
	last := l.out[len(l.out)-1]
	l.out[w.out] = last
	l.vertices[last].work.out = w.out
	l.out = l.out[:len(l.out)-1]
	w.out = -1
	if !x.hidden {
		l.permits.poolOf(w.pool).Running--
	}
}

// grow adds the vertices that an expansion has appended.
func (l *Loop) grow(g *program.Growth) {
	first := len(l.vertices)
	edges := make([]dag.Edge, len(g.Edges))
	for i, e := range g.Edges {
		edges[i] = dag.Edge{Before: g.Resolve(e.Before, first), After: g.Resolve(e.After, first)}
		if a := edges[i].After; a < first && l.vertices[a].phase != idle && l.vertices[a].phase != settled {
			panic(fmt.Sprintf("loop: an expansion wants vertex %d to wait, which is %s", a, l.vertices[a].phase))
		}
	}
	l.join(g.Vertices)
	l.skip(l.sched.Append(g.Vertices, edges))
}

// errStalled is a bug of the program: the vertices that it has appended depend on each other in a cycle.
var errStalled = errors.New("the vertices that are left wait for each other")

// Over reports whether the run has ended for this process. After that no more inputs are needed, except for one Ticked,
// which shows the final counts.
func (l *Loop) Over() bool {
	switch {
	case l.err != nil:
		return true
	case l.records.saving > 0:
		return false
	case l.leaves():
		return true
	case l.under > 0 || len(l.permits.acking) > 0 || l.counts[doubtful] > 0:
		return false
	case l.halted():
		return true
	}
	if l.sched.Stalled() {
		l.fail(errStalled)
		return true
	}
	return l.sched.Finished()
}
