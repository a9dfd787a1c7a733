package coordinator

import (
	"time"

	"github.com/millipede-iac/millipede/coordinator/loop"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/lang/diag"
)

// What a run tells, in the words of its loop.
type (
	Outcome    = loop.Outcome
	Failure    = loop.Failure
	Skipped    = loop.Skipped
	Doubtful   = loop.Doubtful
	Counts     = loop.Counts
	PoolCounts = loop.PoolCounts
	Wait       = loop.Wait
)

// Observer sees a run from outside. Its methods are called on the loop's goroutine, one at a time, so they must
// return at once: what takes longer belongs into a goroutine of the observer's own. Hidden vertices are never told.
type Observer interface {
	// Started tells that an operation of the vertex went out. A vertex is started once, however many tasks it has.
	Started(vertex int, d program.Description, pool string, at time.Time)
	// Progress tells, every ProgressEvery, that the operation still runs.
	Progress(vertex int, d program.Description, elapsed time.Duration)
	// Finished tells that the vertex is done. took is zero when nothing had to be sent.
	Finished(vertex int, d program.Description, notes program.Notes, took time.Duration)
	// Failed tells that the vertex failed; its diagnostics were told before. Notes are there when its operation had an
	// outcome all the same.
	Failed(vertex int, d program.Description, n program.Notes, took time.Duration)
	// Skipped tells that the vertex will not run because another one failed, whose address is because.
	Skipped(vertex int, d program.Description, because string)
	// Doubtful tells that the outcome of the vertex's operation is not known. It may be finished or failed later.
	Doubtful(vertex int, d program.Description, reason string)
	// Waiting tells which vertices wait for something that is missing, whenever that changes. An empty list: none.
	Waiting(waits []loop.Wait)
	// Counts tells how far the run is, about four times a second while that changes.
	Counts(loop.Counts)
	// Diagnostics tells problems as they are found.
	Diagnostics(diag.List)
}

// Tracer is an Observer that wants to be told everything that a run shows, as the loop shows it, before its other
// methods are called. What it is given must not be changed.
type Tracer interface {
	Observer
	Shown(loop.Shown)
}

// Silent is the observer that looks away.
type Silent struct{}

func (Silent) Started(int, program.Description, string, time.Time)             {}
func (Silent) Progress(int, program.Description, time.Duration)                {}
func (Silent) Finished(int, program.Description, program.Notes, time.Duration) {}
func (Silent) Failed(int, program.Description, program.Notes, time.Duration)   {}
func (Silent) Skipped(int, program.Description, string)                        {}
func (Silent) Doubtful(int, program.Description, string)                       {}
func (Silent) Waiting([]loop.Wait)                                             {}
func (Silent) Counts(loop.Counts)                                              {}
func (Silent) Diagnostics(diag.List)                                           {}

// tell passes on to the observer what the loop shows.
func (r *Runner) tell(s loop.Shown) {
	if r.tracer != nil {
		r.tracer.Shown(s)
	}
	d := program.Description{Address: s.Address, Deposed: s.Deposed, Class: s.Class, Action: s.Action,
		Called: func() (key, id string) {
			if called := r.Program.Describe(s.Vertex).Called; called != nil {
				return called()
			}
			return "", ""
		}}
	switch o := r.Observer; s.Kind {
	case loop.ShownStarted:
		o.Started(s.Vertex, d, s.Pool, s.At)
	case loop.ShownProgress:
		o.Progress(s.Vertex, d, s.Took)
	case loop.ShownFinished:
		o.Finished(s.Vertex, d, s.Notes, s.Took)
	case loop.ShownFailed:
		o.Failed(s.Vertex, d, s.Notes, s.Took)
	case loop.ShownSkipped:
		o.Skipped(s.Vertex, d, s.Reason)
	case loop.ShownDoubtful:
		o.Doubtful(s.Vertex, d, s.Reason)
	case loop.ShownWaiting:
		o.Waiting(s.Waits)
	case loop.ShownCounts:
		o.Counts(s.Counts)
	case loop.ShownDiagnostics:
		o.Diagnostics(s.Diagnostics)
	}
}
