package loop

import (
	"slices"
	"time"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

// Shown is an action that informs views of the run. It is plain data, so that it can be stored, compared, sent and
// shown again. Hidden vertices are never shown. No answer.
type Shown struct {
	Kind ShownKind
	// Vertex is the vertex that it is about; -1 is the run. The fields after it describe the vertex; they are empty for
	// diagnostics.
	Vertex                 int
	Address, Class, Action string
	// Deposed is the key of a deposed object.
	Deposed string
	// Unsettled says that the operation may turn out to have nothing to do.
	Unsettled bool
	// Pool and At are the pool and the time of a start.
	Pool string
	At   time.Time
	// Took is how long the operations of a vertex took; zero for a vertex without a task. For ShownProgress it is how long
	// the current operation has been running.
	Took time.Duration
	// Notes are what the program noted about a finished vertex.
	Notes program.Notes
	// Reason says why the outcome of an operation is unknown. For a skipped vertex it is the address of the failed vertex
	// that it depends on, for a failed one it has the errors.
	Reason string
	// Attempt is the last attempt, Worker the worker that executed it, if known.
	Attempt wire.AttemptID
	Worker  string
	// Ready, Waited and Limits are set for a vertex that has started: when it became ready, what it has waited for since
	// then, and the limits that it holds permits of. They must not be modified.
	Ready  time.Time
	Waited []journal.Wait
	Limits []string
	// Queue identifies, in ShownQueued and ShownLacking, the queue of vertices that wait for the same thing. Waited names
	// that thing there, without a duration.
	Queue       int
	Waits       []Wait
	Counts      Counts
	Diagnostics diag.List
}

// ShownKind is the kind of a Shown.
type ShownKind byte

const (
	// ShownStarted: the vertex has sent its first task. It is shown at most once per vertex.
	ShownStarted ShownKind = iota + 1
	// ShownProgress: the operation is still running. It is shown every ProgressEvery.
	ShownProgress
	ShownFinished
	// ShownFailed: the vertex failed. Its diagnostics were shown before.
	ShownFailed
	// ShownSkipped: the vertex will not run because another one failed.
	ShownSkipped
	// ShownDoubtful: the outcome of the vertex's operation is unknown. ShownFinished or ShownFailed may follow.
	ShownDoubtful
	// ShownWaiting: what vertices wait for has changed. An empty list means that none waits any more.
	ShownWaiting
	// ShownCounts: the progress of the run, about four times a second while it changes.
	ShownCounts
	ShownDiagnostics
	// ShownQueued: the vertex is ready and has to wait. Like the next two kinds it is shown only to a Tracer.
	ShownQueued
	// ShownLacking: the vertices of a queue wait for a different thing than before.
	ShownLacking
	// ShownHeld: a worker has taken the task of the vertex.
	ShownHeld
)

// ProgressEvery is the interval of ShownProgress.
const ProgressEvery = 10 * time.Second

// Wait says that vertices wait for something other than another vertex.
type Wait struct {
	// Pool is a pool without a live worker, Limit a limit without a free permit; one of them is empty.
	Pool, Limit string
	// Away is since when the message store of Pool, which is its own, has not answered; zero if it does.
	Away time.Time
	// Vertices is the number of waiting vertices, Address the address of the first one.
	Vertices int
	Address  string
	// Call says that it is no vertex that waits, but a question about a provider.
	Call bool
	// InDoubt are the addresses of operations in doubt that hold permits of Limit, once for each permit. Slots is the size
	// of the limit.
	InDoubt []string
	Slots   int
	// Holders are the other runs that hold permits of Limit, if they were looked up.
	Holders []Holder
	// Unsuited says for the first workers of Pool that are of other versions why they are given nothing, and what to do.
	Unsuited []string
}

// Holder is a run that holds permits of a limit.
type Holder struct {
	Run, Coordinator string
	// By is the person who began the run, and Pool the pool of its oldest operation, if this store has the run or its
	// process says so.
	By, Pool string
	// Permits is how many it holds, InDoubt how many of them for operations in doubt, as its process says; Since is when
	// the oldest was asked for.
	Permits, InDoubt int
	Since            time.Time
	State            HolderState
}

// HolderState says what is known about a Holder.
type HolderState byte

const (
	// HolderWorks: its process answers.
	HolderWorks HolderState = iota
	// HolderMute: its process is connected and does not answer. It may be stopped.
	HolderMute
	// HolderGone: its process has ended, and what it began may still be running.
	HolderGone
	// HolderEnded: the run has ended, or is not known any more.
	HolderEnded
)

func (w Wait) equal(o Wait) bool {
	return w.Pool == o.Pool && w.Away.Equal(o.Away) && w.Limit == o.Limit && w.Vertices == o.Vertices &&
		w.Address == o.Address && w.Slots == o.Slots && slices.Equal(w.Unsuited, o.Unsuited) &&
		slices.Equal(w.InDoubt, o.InDoubt) && slices.Equal(w.Holders, o.Holders)
}

// Counts is the progress of a run. Hidden vertices are not counted.
type Counts struct {
	Total, Done, Failed, Skipped, InDoubt, Running int
	// Pools counts the running and the ready vertices by pool.
	Pools map[string]PoolCounts
	// Left is the estimated time to the end, from the durations of operations of the same kind; zero if none is known.
	Left time.Duration
}

// PoolCounts counts the vertices of one pool.
type PoolCounts struct{ Running, Queued, Done int }

// about returns a Shown with the description of a vertex.
func about(kind ShownKind, vertex int, d *program.Description) Shown {
	return Shown{Kind: kind, Vertex: vertex, Address: d.Address, Class: d.Class, Action: d.Action, Deposed: d.Deposed,
		Unsettled: d.Unsettled}
}
