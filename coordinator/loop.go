package coordinator

import (
	"errors"
	"fmt"
	"time"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/graph/dag"
	"github.com/millipede-iac/millipede/graph/sched"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

// tickEvery is how often the loop looks at the clock.
const tickEvery = 250 * time.Millisecond

// settings are what a loop is told at its beginning.
type settings struct {
	run, coordinator string
	durable          bool // there is a journal
	embedded         bool // workers end with this process
	cores            int
	slots            int // of the widest limit, to begin with
	doubtWait        time.Duration
	settleFor        time.Duration

	program program.Program
	// place is the placement: the pool, and the limits, narrow first.
	place func(p program.Placement, live func(pool string) bool) (string, []wire.Limit)
	// weight is the expected duration of a vertex in seconds.
	weight func(program.Description) float64
	// attempt makes the name of a new attempt.
	attempt func() wire.AttemptID
	// past is what the journal knows of vertices; nil for a run that begins.
	past map[int]*past
	// unheard is how many of them have an operation under way, or in doubt, that this process has not looked at yet.
	unheard int
}

// loop is where a run stands. step alone changes it: a function without goroutine, clock or I/O, so that a run, its
// resumption and its simulation are the same code. Of the Program it calls Accept and Describe.
type loop struct {
	settings
	sched    *sched.Scheduler
	vertices []vertex
	classes  []*class
	byClass  map[string]int32

	now        time.Time
	acts       []action
	limits     map[string]*limit
	limitOrder []*limit
	pools      map[string]*pool
	poolOrder  []*pool

	counts [phases]int
	under  int // vertices whose phase ends by itself
	saving int // records that are being committed

	out      []int // vertices with an operation under way
	waits    []int // parked vertices
	attempts map[wire.AttemptID]*attempt
	acking   map[int][]permit            // permits that are free once the message of a result is confirmed
	kept     map[wire.AttemptID][]permit // of operations in doubt that the run does not wait for any more
	reclaims map[permitKey]wire.AttemptID

	suspects       []int // vertices in doubt
	workers        map[member]*worker
	workerOrder    []*worker
	members        map[string]int  // how many workers each pool has ever had
	alarms         []string        // that were told
	left           map[uint64]bool // messages that stay in the stream of results
	connectedSince time.Time       // zero while the transport is not connected
	goneSince      time.Time       // from when on a run that is to stop finds the transport gone
	settledAt      time.Time       // from when on silence of a pool means that it has no worker

	stopping  bool // nothing more is started
	cancelled bool
	leaving   bool // what is under way is left alone
	frozen    bool // the transport lost data
	broken    error
	// refusedSince is since when the message store stores nothing; zero while it does.
	refusedSince time.Time

	tally
}

type permitKey struct{ limit, id string }

// newLoop returns a loop at the start of a run.
func newLoop(s settings) *loop {
	l := &loop{
		settings: s, byClass: map[string]int32{}, limits: map[string]*limit{}, pools: map[string]*pool{},
		attempts: map[wire.AttemptID]*attempt{}, acking: map[int][]permit{}, kept: map[wire.AttemptID][]permit{}, reclaims: map[permitKey]wire.AttemptID{},
		workers: map[member]*worker{}, members: map[string]int{}, left: map[uint64]bool{},
	}
	g := s.program.Graph()
	l.join(g.Len())
	traits := sched.Traits{
		Weight: func(v int) float64 { return float64(l.vertices[v].weight) },
		Class:  l.classOf,
	}
	if a, ok := s.program.(Closer); ok {
		traits.Anyway = a.Anyway
	}
	l.sched = sched.New(g, traits)
	return l
}

// join adds n vertices.
func (l *loop) join(n int) {
	for range n {
		v := len(l.vertices)
		d := l.program.Describe(v)
		x := vertex{hidden: d.Hidden, weight: hiddenWeight}
		if !d.Hidden {
			x.weight = float32(l.weight(d))
			l.tally.add(x.weight)
		}
		l.vertices = append(l.vertices, x)
	}
	l.counts[idle] += n
}

func (l *loop) classOf(v int) int {
	switch x := &l.vertices[v]; {
	case x.phase == queued:
		return int(x.class)
	case x.hidden:
		return hiddenClass
	}
	return visibleClass
}

// step takes one event and returns what is to be done about it, in this order. The slice is valid until the next step.
func (l *loop) step(now time.Time, e event) []action {
	clear(l.acts)
	l.acts = l.acts[:0]
	l.now = now
	switch e := e.(type) {
	case began:
		l.begin()
	case prepared:
		l.onPrepared(e)
	case completed:
		l.onCompleted(e)
	case callFailed:
		l.onCallFailed(e)
	case declared:
		l.onDeclared(e)
	case granted:
		l.onGranted(e)
	case released:
		l.forget(l.limits[e.limit], e.id)
	case refused:
		l.onRefused(e)
	case contention:
		l.onContention(e)
	case blocked:
		l.limits[e.limit].blockers = e.addresses
	case committed:
		l.onCommitted(e)
	case published:
		l.onPublished(e)
	case arrived:
		l.onArrived(e)
	case unreadable:
		l.onUnreadable(e)
	case misplacedResult:
		l.onMisplaced(e)
	case acked:
		l.onAcked(e)
	case registered:
		l.onRegistered(e)
	case beat:
		l.onBeat(e)
	case refusing:
		l.onRefusing(e)
	case lostData:
		l.freeze(e.older)
	case surveyed:
		l.settledAt = l.now
		l.unpark()
	case ticked:
		l.onTicked(e)
	case interrupted:
		l.onInterrupted(e)
	case abandoned:
		l.onAbandoned()
	case failed:
		if l.broken == nil {
			l.broken = e.err
		}
	default:
		panic(fmt.Sprintf("coordinator: unknown event %T", e))
	}
	l.advance()
	return l.acts
}

func (l *loop) do(a action) { l.acts = append(l.acts, a) }

// begin takes over what an earlier process of the run left.
func (l *loop) begin() {
	l.settledAt = l.now.Add(l.settleFor)
	l.connectedSince = l.now
	l.adopt()
}

// halted tells that nothing more is started.
func (l *loop) halted() bool { return l.stopping || l.leaving || l.frozen || l.broken != nil }

// advance starts what can be started.
func (l *loop) advance() {
	switch {
	case !l.halted() && !l.refusedSince.IsZero(): // nothing new until it is over
	case !l.halted():
		l.prepareReady()
		l.launchReady()
	case l.stopping && !l.leaving && !l.frozen && l.broken == nil:
		l.recallReady()
	}
	l.request()
	l.giveUp()
}

// search is how many vertices are prepared for pools that are full, at most, to find work for those that are not.
const search = 2048

// prepareReady has ready vertices prepared: hidden ones as long as there are cores, because others wait for them;
// visible ones only so far ahead of what runs that a large estate is not in memory all at once.
func (l *loop) prepareReady() {
	limit := 4 * l.cores
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
	for i, c := range l.classes {
		switch n := l.sched.ReadyIn(i + firstClass); {
		case n == 0 || !l.startable(c):
		case c.pool.full() && l.idleElsewhere(c.pool): // those that idle are to find work behind what waits here
			full += n
		default:
			ahead += n
		}
	}
	for window := 32 + 2*l.slots; l.counts[preparing] < limit && ahead < window && full < search; ahead++ {
		v, ok := l.sched.PopClass(visibleClass)
		if !ok {
			break
		}
		l.prepare(v)
	}
}

// recallReady looks at what the journal tells of, in a run that was resumed and is to stop: an operation that is under way must be
// heard of before the run ends. What only memory held, such as a local value, is computed again as long as such operations
// are behind it. Nothing else is begun; who is popped here stays idle.
func (l *loop) recallReady() {
	for _, class := range []int{hiddenClass, visibleClass} {
		for len(l.past) > 0 {
			v, ok := l.sched.PopClass(class)
			if !ok {
				break
			}
			switch p := l.past[v]; {
			case p != nil:
				l.recall(v, p)
			case l.vertices[v].hidden && l.unheard > 0:
				l.prepare(v)
			}
		}
	}
}

// prepare begins with a vertex, unless the journal says that it is settled already.
func (l *loop) prepare(v int) {
	x := &l.vertices[v]
	p := l.past[v]
	if p != nil && l.recall(v, p) {
		return
	}
	x.work = &work{desc: l.program.Describe(v), out: -1}
	l.move(v, preparing)
	next := prepare{vertex: v, phase: int(x.ops)}
	if p != nil {
		next.worker = p.worker
	}
	l.do(next)
}

// depart notes that an operation goes out, and tells the observer the first time.
func (l *loop) depart(v int) {
	x := &l.vertices[v]
	w := x.work
	w.called = l.now
	if w.out < 0 {
		w.out = len(l.out)
		l.out = append(l.out, v)
		if !x.hidden {
			l.poolOf(w.pool).Running++
		}
	}
	if !w.started.IsZero() {
		return
	}
	w.started = l.now
	if !x.hidden {
		l.changed = true
		at, desc, pool := l.now, w.desc, w.pool
		l.do(show(func(o Observer) { o.Started(v, desc, pool, at) }))
	}
}

// arrive notes that no operation of the vertex is out any more.
func (l *loop) arrive(v int) {
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
		l.poolOf(w.pool).Running--
	}
}

// grow appends what an expansion yields.
func (l *loop) grow(g *program.Growth) {
	first := len(l.vertices)
	edges := make([]dag.Edge, len(g.Edges))
	for i, e := range g.Edges {
		edges[i] = dag.Edge{Before: g.Resolve(e.Before, first), After: g.Resolve(e.After, first)}
		if a := edges[i].After; a < first && l.vertices[a].phase != idle && l.vertices[a].phase != settled {
			panic(fmt.Sprintf("coordinator: an expansion wants vertex %d to wait, which is %s", a, l.vertices[a].phase))
		}
	}
	l.join(g.Vertices)
	l.skip(l.sched.Append(g.Vertices, edges))
}

// errStalled is a bug of the program: what it appended closes a circle.
var errStalled = errors.New("the vertices that are left wait for each other")

// over tells whether the run has ended, as far as this process is concerned.
func (l *loop) over() bool {
	switch {
	case l.broken != nil:
		return true
	case l.saving > 0:
		return false
	case l.leaving:
		return true
	case l.under > 0 || len(l.acking) > 0 || l.counts[doubtful] > 0:
		return false
	case l.halted():
		return true
	}
	if l.sched.Stalled() {
		l.broken = errStalled
		return true
	}
	return l.sched.Finished()
}

// tell hands diagnostics to the observer and keeps them.
func (l *loop) tell(v int, list diag.List) {
	if len(list) == 0 {
		return
	}
	l.problems = append(l.problems, problem{v, list})
	l.do(show(func(o Observer) { o.Diagnostics(list) }))
}

// save has a record made durable.
func (l *loop) save(r record) {
	l.saving++
	l.do(commit{r})
}

// event returns an event of a kind about a vertex; see note.
func (l *loop) event(v int, k journal.Kind) journal.Event { return l.note(v, journal.Event{Kind: k}) }
