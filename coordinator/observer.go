package coordinator

import (
	"time"

	"github.com/millipede-iac/millipede/coordinator/loop"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/lang/diag"
)

// The types of the loop that observers and callers see.
type (
	Outcome    = loop.Outcome
	Failure    = loop.Failure
	Skipped    = loop.Skipped
	Doubtful   = loop.Doubtful
	Counts     = loop.Counts
	PoolCounts = loop.PoolCounts
	Wait       = loop.Wait
	Holder     = loop.Holder
)

// Observer is informed of the progress of a run. Its methods are called one at a time on the loop's goroutine, so they
// must not block: slow work belongs on a goroutine of the observer. Hidden vertices are not reported.
type Observer interface {
	// Started reports that the vertex has sent its first task, at most once per vertex.
	Started(vertex int, d program.Description, pool string, at time.Time)
	// Progress reports, every loop.ProgressEvery, that the operation is still running.
	Progress(vertex int, d program.Description, elapsed time.Duration)
	// Finished reports that the vertex is done. took is zero for a vertex without a task.
	Finished(vertex int, d program.Description, notes program.Notes, took time.Duration)
	// Failed reports that the vertex failed, after its diagnostics. It has notes if the operation had a result all the
	// same.
	Failed(vertex int, d program.Description, n program.Notes, took time.Duration)
	// Skipped reports that the vertex will not run because the vertex at the address because has failed.
	Skipped(vertex int, d program.Description, because string)
	// Doubtful reports that the outcome of the vertex's operation is unknown. Finished or Failed may follow.
	Doubtful(vertex int, d program.Description, reason string)
	// Waiting reports which vertices wait for a worker, a permit or a connection, whenever that changes. An empty list
	// means that none waits any more.
	Waiting(waits []loop.Wait)
	// Counts reports the progress of the run, about four times a second while it changes.
	Counts(loop.Counts)
	// Diagnostics reports problems as they are found.
	Diagnostics(diag.List)
}

// Tracer is an Observer that also gets everything that the loop shows, unchanged. Shown is called before the other
// methods; it must not modify its argument.
type Tracer interface {
	Observer
	Shown(loop.Shown)
}

// Silent is an Observer that ignores everything.
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

// tell passes an action that informs views to the observer.
func (r *Runner) tell(s loop.Shown) {
	if r.tracer != nil {
		r.tracer.Shown(s)
	}
	d := program.Description{Address: s.Address, Deposed: s.Deposed, Class: s.Class, Action: s.Action,
		Unsettled: s.Unsettled}
	if s.Kind <= loop.ShownDoubtful {
		d.Called = r.called(s.Vertex)
	}
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

// called returns a function that returns the attribute by which people identify the object of a vertex, and its value.
func (r *Runner) called(vertex int) func() (key, id string) {
	return func() (key, id string) {
		if called := r.Program.Describe(vertex).Called; called != nil {
			return called()
		}
		return "", ""
	}
}
