package loop

import (
	"slices"
	"time"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

// Shown is an action: it tells views something about the run. It is plain data, so what a run shows can be kept,
// compared, sent, and shown again. Hidden vertices are never shown. No answer.
type Shown struct {
	Kind ShownKind
	// Vertex is what it is about, -1: the run. What follows describes the vertex; it is empty for diagnostics.
	Vertex                 int
	Address, Class, Action string
	// Deposed is the key of a deposed object.
	Deposed string
	// Pool and At tell where an operation was started, and when.
	Pool string
	At   time.Time
	// Took is how long the operations of a vertex took. It is zero when nothing had to be sent. For ShownProgress it is
	// how long the operation under way runs already.
	Took time.Duration
	// Notes tell of a finished vertex what the program found.
	Notes program.Notes
	// Reason says why the outcome of an operation is not known, or is the address of the vertex that failed and kept a
	// skipped one from running. Of one that failed it has the errors.
	Reason string
	// Attempt is the last one, Worker who carried it out, where that is known.
	Attempt wire.AttemptID
	Worker  string
	// Ready, Waited and Limits are set for a vertex that has started: when it became ready, what it has waited for since
	// then, and the limits that it holds permits of. They must not be changed.
	Ready  time.Time
	Waited []journal.Wait
	Limits []string
	// Queue is a number for the vertices that wait for the same, in ShownQueued and ShownLacking; Waited names that
	// there, without a length.
	Queue       int
	Waits       []Wait
	Counts      Counts
	Diagnostics diag.List
}

// ShownKind says what a Shown tells.
type ShownKind byte

const (
	// ShownStarted: an operation of the vertex went out. A vertex is started once, however many tasks it has.
	ShownStarted ShownKind = iota + 1
	// ShownProgress: the operation still runs. It is shown every ProgressEvery.
	ShownProgress
	ShownFinished
	// ShownFailed: the vertex failed. Its diagnostics were shown before.
	ShownFailed
	// ShownSkipped: the vertex will not run because another one failed.
	ShownSkipped
	// ShownDoubtful: the outcome of the vertex's operation is not known. It may be finished, or fail, later.
	ShownDoubtful
	// ShownWaiting: what vertices wait for has changed. An empty list: for nothing.
	ShownWaiting
	// ShownCounts: how far the run is, about four times a second while that changes.
	ShownCounts
	ShownDiagnostics
	// ShownQueued: the vertex is ready, and has to wait. Only a Tracer is told, as of the two below.
	ShownQueued
	// ShownLacking: the vertices of a queue wait for something else than before.
	ShownLacking
	// ShownHeld: a worker has taken the operation of the vertex.
	ShownHeld
)

// ProgressEvery is how often views hear of an operation that still runs.
const ProgressEvery = 10 * time.Second

// Wait says that vertices wait for something other than each other.
type Wait struct {
	// Pool without a live worker, or Limit without a free permit; the other one is empty.
	Pool, Limit string
	// Vertices is how many wait; Address names the first of them.
	Vertices int
	Address  string
	// InDoubt are the addresses of operations whose outcome is not known that hold permits of Limit, once for each
	// permit; the limit has Slots.
	InDoubt []string
	Slots   int
}

func (w Wait) equal(o Wait) bool {
	return w.Pool == o.Pool && w.Limit == o.Limit && w.Vertices == o.Vertices && w.Address == o.Address &&
		w.Slots == o.Slots &&
		slices.Equal(w.InDoubt, o.InDoubt)
}

// Counts is how far a run is. Hidden vertices are not counted.
type Counts struct {
	Total, Done, Failed, Skipped, InDoubt, Running int
	// Pools counts by pool what runs there now, and what is ready to.
	Pools map[string]PoolCounts
	// Left is the estimated time to the end, from the durations that operations of the same kind took; zero when
	// nothing is known.
	Left time.Duration
}

// PoolCounts counts the vertices of one pool.
type PoolCounts struct{ Running, Queued, Done int }

// about returns what tells of a vertex.
func about(kind ShownKind, vertex int, d *program.Description) Shown {
	return Shown{Kind: kind, Vertex: vertex, Address: d.Address, Class: d.Class, Action: d.Action, Deposed: d.Deposed}
}
