package coordinator

import (
	"slices"
	"time"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/lang/diag"
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
	// Failed tells that the vertex failed; its diagnostics were told before.
	Failed(vertex int, d program.Description, took time.Duration)
	// Skipped tells that the vertex will not run because another one failed, whose address is because.
	Skipped(vertex int, d program.Description, because string)
	// Doubtful tells that the outcome of the vertex's operation is not known. It may be finished or failed later.
	Doubtful(vertex int, d program.Description, reason string)
	// Waiting tells which vertices wait for something that is missing, whenever that changes. An empty list: none.
	Waiting(waits []Wait)
	// Counts tells how far the run is, about four times a second while that changes.
	Counts(Counts)
	// Diagnostics tells problems as they are found.
	Diagnostics(diag.List)
}

// ProgressEvery is how often the observer hears of an operation that still runs.
const ProgressEvery = 10 * time.Second

// Wait says that vertices wait for something other than each other.
type Wait struct {
	// Pool without a live worker, or Limit without a free permit; the other one is empty.
	Pool, Limit string
	// Vertices is how many wait; Address names the first of them.
	Vertices int
	Address  string
	// InDoubt are the addresses of operations whose outcome is not known that hold permits of Limit, once for each permit; the
	// limit has Slots.
	InDoubt []string
	Slots   int
}

func (w Wait) equal(o Wait) bool {
	return w.Pool == o.Pool && w.Limit == o.Limit && w.Vertices == o.Vertices && w.Address == o.Address && w.Slots == o.Slots &&
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

// Silent is the observer that looks away.
type Silent struct{}

func (Silent) Started(int, program.Description, string, time.Time)             {}
func (Silent) Progress(int, program.Description, time.Duration)                {}
func (Silent) Finished(int, program.Description, program.Notes, time.Duration) {}
func (Silent) Failed(int, program.Description, time.Duration)                  {}
func (Silent) Skipped(int, program.Description, string)                        {}
func (Silent) Doubtful(int, program.Description, string)                       {}
func (Silent) Waiting([]Wait)                                                  {}
func (Silent) Counts(Counts)                                                   {}
func (Silent) Diagnostics(diag.List)                                           {}
