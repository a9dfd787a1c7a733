package loop

import (
	"fmt"
	"time"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/graph/sched"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

// phase is what the loop is doing with a vertex. It refines the statuses of graph/sched and of the journal, which only
// have what is durable.
//
//	idle --> preparing --+--------------------------------------------> concluding --> settled
//	                     |                                                  ^
//	                     +--> wanting --+--> queued --> calling ------------+     fast lane
//	                     |       parked-+      |  ^        |  (lost: parked; another task: queued, wanting)
//	                     |                     |  |
//	                     |                     |  +------- advancing <--+         another operation
//	                     |                     v                        |
//	                     |                  intending --> publishing <-> running --> completing --> concluding
//	                     |                     ^                           |  \       ^
//	                     |   retracting <------|---------------------------+   v      |
//	                     |       +--> queued   |                              doubtful --> settled
//	                     +--> (adopted on resume: running, doubtful)
type phase byte

const (
	idle       phase = iota // not looked at: what it waits for is not done, or there was no time
	preparing               // Program.Prepare is at work
	wanting                 // what it wants is being made durable
	parked                  // waits for a moment in time
	queued                  // waits for a worker, and for permits
	calling                 // a fast-lane call is out
	intending               // the intent to run its task is being made durable
	publishing              // its task is on the way into the stream
	running                 // its task is in the stream, or at a worker
	completing              // Program.Complete is at work
	advancing               // the end of one of its operations is being made durable
	concluding              // its outcome is being made durable
	retracting              // that it was not started is being made durable
	doubtful                // its outcome is not known; a late result may tell
	settled
	phases = iota
)

var phaseNames = [phases]string{"idle", "preparing", "wanting", "parked", "queued", "calling",
	"intending", "publishing",
	"running", "completing", "advancing", "concluding", "retracting", "doubtful", "settled"}

func (p phase) String() string { return phaseNames[p] }

// follows has the picture as a table, with the rarer ways that it leaves out (of vertices that are skipped, adopted or
// interrupted): follows[from] has the bit of each phase that may come next.
var follows = [phases]uint16{
	idle:       bits(preparing, settled),
	preparing:  bits(wanting, parked, queued, intending, calling, concluding, settled, running, doubtful, completing),
	wanting:    bits(queued, parked, calling, intending),
	parked:     bits(queued, parked),
	queued:     bits(calling, intending, settled),
	calling:    bits(wanting, parked, queued, concluding, settled, calling, intending),
	intending:  bits(publishing, retracting, doubtful),
	publishing: bits(running, completing, doubtful, retracting),
	running:    bits(publishing, completing, doubtful, retracting),
	completing: bits(advancing, concluding, doubtful),
	advancing:  bits(queued, parked, calling, intending),
	concluding: bits(settled),
	retracting: bits(queued, parked),
	doubtful:   bits(completing, retracting, settled, publishing),
}

func (p phase) next() uint16 { return follows[p] }

// under reports whether an operation or a commit is under way that will end the phase without further action.
func (p phase) under() bool {
	switch p {
	case idle, queued, doubtful, settled:
		return false
	}
	return true
}

// table has the vertices of a run, by number, and the lists of those that something is under way for.
type table struct {
	*common
	sched    *sched.Scheduler // which of them is next
	vertices []vertex
	counts   [phases]int
	under    int   // vertices whose phase ends by itself
	out      []int // vertices with an operation under way
	suspects []int // vertices in doubt
}

// vertex is what the loop keeps about a vertex for the whole run.
type vertex struct {
	phase  phase
	status journal.Status // what the journal says; Waiting when it says nothing
	hidden bool           // a fact of its description that never changes, and so no status
	class  int32          // while queued
	weight float32
	kind   int32 // what kind of operation it is, where it is not hidden; see estimate.go
	ops    int16 // operations that are done
	work   *work // while under way
}

// work is what the loop keeps about a vertex from its preparation until it is settled.
type work struct {
	desc    program.Description
	step    program.Step // the last one
	permits []permit
	place   permit // the place in the pool; without a limit: none
	out     int    // the place in loop.out, or -1

	started  time.Time       // when the first operation went out; zero before
	called   time.Time       // when the last operation went out
	spent    time.Duration   // that its operations took, by their workers' clocks
	progress int             // how often ProgressEvery was told
	lost     int             // how often its call was lost
	passed   int             // how often its call met a worker of another version
	ready    time.Time       // when it was queued first; zero before
	until    time.Time       // while parked; zero for one that waits for the survey of workers
	mark     []time.Duration // while queued: the sums of its class when it came; see waitAccount
	waits    []journal.Wait  // what it has waited for in queues

	maker     string         // who did the operation before this one, and keeps a slot until the task is offered to it
	after     wire.AttemptID // which that was
	attempt   wire.AttemptID
	origin    origin  // who has made the attempt
	sending   sending // where its task is
	register  register
	effect    effect
	pool      string
	sent      time.Time    // when it was published last
	refused   FailureTimer // with publishing
	worker    string       // who holds it, when that is known
	listed    time.Time    // when the holder was known to hold it
	suspected time.Time    // when it became doubtful
	reason    string       // why
	answer    *wire.Answer // that came, but cannot be kept

	delivery int    // of the result that is being taken; 0: none
	sequence uint64 // where that is in the stream

	resolvedDoubt []state.Change // that take back what was said in doubt; to be recorded
}

// ref returns the reference of the vertex's attempt in messages.
func (s *Settings) ref(w *work) wire.TaskRef {
	return wire.TaskRef{Pool: w.pool, Coordinator: s.Coordinator, Run: s.Run, Attempt: w.attempt}
}

// move is the only place where a phase changes. It keeps the counts in step.
func (t *table) move(v int, to phase) {
	x := &t.vertices[v]
	from := x.phase
	if follows[from]&(1<<to) == 0 {
		panic(cannot(v, from, to))
	}
	x.phase = to
	if from.under() {
		t.under--
	}
	if to.under() {
		t.under++
	}
	t.counts[from]--
	t.counts[to]++
}

// note applies an event of the journal to the vertex's status, and returns the event.
func (t *table) note(v int, e journal.Event) journal.Event {
	x := &t.vertices[v]
	next, err := journal.Next(x.status, e.Kind)
	if err != nil {
		panic(fmt.Sprintf("loop: vertex %d: %v", v, err))
	}
	x.status = next
	e.Vertex, e.At = v, t.now
	if w := x.work; w != nil {
		e.Address, e.Action = w.desc.Address, w.desc.Action
		if x.status != journal.Skipped {
			e.Attempt, e.Pool, e.Worker = string(w.attempt), w.pool, w.worker
		}
	}
	return e
}

// openEnded reports whether the journal has operations without an outcome. If the run were ended for good now, their
// outcomes would be lost.
func (t *table) openEnded() bool {
	for v := range t.vertices {
		if s := t.vertices[v].status; s == journal.Dispatched || s == journal.Doubt {
			return true
		}
	}
	return false
}

func (t *table) classOf(v int) int {
	switch x := &t.vertices[v]; {
	case x.phase == queued:
		return int(x.class)
	case x.hidden:
		return hiddenClass
	}
	return visibleClass
}

// event returns an event of a kind about a vertex; see note.
func (t *table) event(v int, k journal.Kind) journal.Event { return t.note(v, journal.Event{Kind: k}) }

// unclaimed returns how many tasks are in the streams that no worker is known to have claimed, by pool.
func (t *table) unclaimed() map[string]int {
	waiting := map[string]int{}
	for _, v := range t.out {
		if x := &t.vertices[v]; x.phase == running && x.work.worker == "" {
			waiting[x.work.pool]++
		}
	}
	return waiting
}
