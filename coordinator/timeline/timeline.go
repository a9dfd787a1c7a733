// Package timeline models a run for visualization: its vertices, their waits, the time and worker of each operation,
// and its outcome.
//
// It is plain data with a JSON form that browsers read (docs/format/timeline.md). It does not depend on journals or
// loops: package coordinator/history makes timelines from them. Timelines never contain values of attributes.
package timeline

// Version is the version of the JSON forms. Readers reject other versions. Fields may be added without a new
// version.
const Version = 2

// None is the time of an event that has not happened.
const None = -1

// Model is a run as a whole. All times are milliseconds since Head.Begun.
type Model struct {
	// Cursor is the position of the model in the changes of the run: later changes are those since Cursor.
	Cursor uint64
	Head   Head
	Counts Counts
	// Vertices are sorted by their numbers, which need not be consecutive.
	Vertices []Vertex
	// Shortages are the limits and workers that the run waits for at the moment.
	Shortages []Shortage
}

// Head identifies a run and has its overall status.
type Head struct {
	Run       string `json:"run"`
	Workspace string `json:"workspace,omitempty"`
	Command   string `json:"command"` // apply, destroy, plan, ...
	Who       string `json:"who,omitempty"`
	// Begun is the start time in milliseconds since 1970, UTC.
	Begun int64 `json:"begun"`
	// Ended is None while the run is in progress, and for a run that was cut off.
	Ended int64 `json:"ended"`
	// Now is the time when the model was made: bars of running operations end here.
	Now int64 `json:"now"`
	// Outcome is empty while a process executes the run; otherwise done, failed, interrupted, cancelled, or cut
	// off.
	Outcome string `json:"outcome,omitempty"`
	// Errors are problems that do not belong to a vertex.
	Errors []string `json:"errors,omitempty"`
}

// Status is the status of a vertex: one letter in JSON.
type Status byte

// The statuses.
const (
	Waiting Status = 'w' // for vertices that it depends on, or for its turn
	Queued  Status = 'q' // ready: it waits for a worker, a place, or permits, which Waits names
	Running Status = 'r'
	Done    Status = 'd'
	Failed  Status = 'f'
	Skipped Status = 's' // because another one failed
	Doubt   Status = 'u' // in doubt; it may still end
	// Junction is an invisible vertex that reduces the number of edges: many vertices depend on it instead of
	// depending on each of many others. It has neither an address nor times.
	Junction Status = 'j'
)

// Over reports whether a vertex has reached a final status.
func (s Status) Over() bool { return s == Done || s == Failed || s == Skipped }

// Vertex is one operation on one object.
type Vertex struct {
	Number int
	// Module is the path of the module instance, empty for the root module; Address is the full address, including
	// Module. Deposed is the key of a deposed object.
	Module, Address, Deposed string
	Type, Action             string
	// After are the numbers of the vertices that it depends on, including Junctions.
	After []int

	Status       Status
	Pool, Worker string // of its last operation; Worker is empty if unknown
	Attempt      string // the last one
	Attempts     int    // the number of dispatched attempts
	// Ready is when its last dependency was met, Started when its first operation was dispatched, Ended when its
	// outcome was known, or when it came into doubt.
	Ready, Started, Ended int64
	// Took is the duration of its operations by their workers' clocks; zero if unknown.
	Took int64
	// Waits cover the time from Ready to Started, as far as it is known what the vertex waited for.
	Waits []Wait
	// Holds are the limits whose permits it holds while it runs or is in doubt.
	Holds []string
	// Failure is its error, Because the address of the vertex whose failure caused it to be skipped, Doubtful the
	// reason why its outcome is unknown.
	Failure, Because, Doubtful string
}

// Wait is a time that a ready vertex spent waiting. The sum for each Name is exact; if a vertex waited for several
// names alternately, its waits are merged by name and placed one after the other.
type Wait struct {
	Kind WaitKind
	// Name is the name of the limit or pool.
	Name string
	// From and To are its start and end; To is None while it lasts.
	From, To int64
}

// WaitKind is the kind of a wait: one letter in JSON.
type WaitKind byte

// The kinds of waits.
const (
	ForTurn   WaitKind = 't' // its turn: others come first
	ForPermit WaitKind = 'l' // a permit of the limit
	ForPlace  WaitKind = 'p' // a slot among the live workers of the pool
	ForWorker WaitKind = 'm' // a worker of the pool: there is none
	ForOther  WaitKind = 'o' // short delays: until the next try, a message, a commit
)

// Shortage is something that vertices wait for and that the run itself cannot provide.
type Shortage struct {
	Kind string `json:"kind"` // "permit", "place", "worker" or "region" (which is cut off)
	Name string `json:"name"` // of the limit, or of the pool
	// Since is when the run began to lack it, in milliseconds since Head.Begun.
	Since    int64  `json:"since"`
	Vertices int    `json:"vertices"`
	Example  string `json:"example,omitempty"` // the address of one of them
	// Slots is the number of permits; InDoubt are the addresses of operations in doubt that hold them.
	Slots   int      `json:"slots,omitempty"`
	InDoubt []string `json:"inDoubt,omitempty"`
}

// same reports whether two shortages are of the same limit, pool or workers.
func (s Shortage) same(o Shortage) bool { return s.Kind == o.Kind && s.Name == o.Name }

// Counts is the progress of the run.
type Counts struct {
	Total   int `json:"total"`
	Waiting int `json:"waiting"`
	Queued  int `json:"queued"`
	Running int `json:"running"`
	Done    int `json:"done"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"`
	Doubt   int `json:"doubt"`
	// Left is the estimated remaining time in milliseconds; zero if unknown.
	Left int64 `json:"left,omitempty"`
}

// Changes are the differences since a cursor. They contain states, not steps: applying them twice, or skipping some
// and applying later ones, gives the same model.
type Changes struct {
	// Cursor is the cursor for the next request.
	Cursor uint64
	Head   Head
	Counts Counts
	// Vertices have their complete new state. Those that are new since the cursor have all fields; the others leave
	// out the fields that never change: Module, Address, Deposed, Type, After.
	Vertices  []Vertex
	Shortages []Shortage
}

// add adds n to the count of a status.
func (c *Counts) add(s Status, n int) {
	if s == Junction {
		return
	}
	c.Total += n
	switch s {
	case Waiting:
		c.Waiting += n
	case Queued:
		c.Queued += n
	case Running:
		c.Running += n
	case Done:
		c.Done += n
	case Failed:
		c.Failed += n
	case Skipped:
		c.Skipped += n
	case Doubt:
		c.Doubt += n
	}
}
