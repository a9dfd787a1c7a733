// Package timeline is a run as people look at it: its vertices, what each waited for, when it ran and where, and how it
// ended.
//
// It is plain data with a JSON form that browsers read (docs/format/timeline.md). It knows neither journals nor loops:
// package view/history fills it in. Values of attributes never enter.
package timeline

// Version is the version of the JSON forms. Readers refuse another one. Fields may be added without a new version.
const Version = 2

// None is the time of something that has not happened.
const None = -1

// Model is a run as a whole. All times are milliseconds since Head.Begun.
type Model struct {
	// Cursor is the position in the changes of the run that the model has already: ask for changes since then.
	Cursor uint64
	Head   Head
	Counts Counts
	// Vertices are in the order of their numbers, which need not follow each other.
	Vertices []Vertex
	// Shortages are what the run lacks at the moment.
	Shortages []Shortage
}

// Head says which run it is.
type Head struct {
	Run       string `json:"run"`
	Workspace string `json:"workspace,omitempty"`
	Command   string `json:"command"` // apply, destroy, plan, ...
	Who       string `json:"who,omitempty"`
	// Begun is milliseconds since 1970, UTC.
	Begun int64 `json:"begun"`
	// Ended is None while the run goes on, and for a run that was cut off.
	Ended int64 `json:"ended"`
	// Now is when the model was made: running operations are drawn up to here.
	Now int64 `json:"now"`
	// Outcome is empty while a process carries the run out, else done, failed, interrupted, cancelled, or cut off.
	Outcome string `json:"outcome,omitempty"`
	// Errors are problems that belong to no vertex.
	Errors []string `json:"errors,omitempty"`
}

// Status is where a vertex stands: one letter in JSON.
type Status byte

// The statuses.
const (
	Waiting Status = 'w' // for vertices that it depends on, or for its turn
	Queued  Status = 'q' // ready: it waits for a worker, a place, or permits; Waits says for which
	Running Status = 'r'
	Done    Status = 'd'
	Failed  Status = 'f'
	Skipped Status = 's' // because another one failed
	Doubt   Status = 'u' // its outcome is not known; it may still end
	// Junction is a vertex that nobody sees: it passes dependencies on, so that many before and many after it need
	// not each name each other. It has neither an address nor a time.
	Junction Status = 'j'
)

// Over tells that nothing more is expected of a vertex.
func (s Status) Over() bool { return s == Done || s == Failed || s == Skipped }

// Vertex is one operation on one object.
type Vertex struct {
	Number int
	// Module is the path of the module instance, empty for the root module; Address is the whole address, Module
	// included. Deposed is the key of a deposed object.
	Module, Address, Deposed string
	Type, Action             string
	// After are the numbers of the vertices that it waits for: Junctions among them.
	After []int

	Status       Status
	Pool, Worker string // where its last operation was sent, and who carried it out, when that is known
	Attempt      string // the last one
	Attempts     int    // that were dispatched
	// Ready is when nothing that it depends on was missing any more, Started when its first operation went out, Ended
	// when its outcome was known, or when it came into doubt.
	Ready, Started, Ended int64
	// Took is how long its operations took, by their workers' clocks; zero when nobody has told.
	Took int64
	// Waits tile the time from Ready to Started, as far as it is known what the vertex waited for.
	Waits []Wait
	// Holds are the limits of which it holds a permit while it runs, or is in doubt.
	Holds []string
	// Failure is what went wrong, Because the address of the vertex whose failure kept this one from running, Doubtful
	// why the outcome is not known.
	Failure, Because, Doubtful string
}

// Wait is a time that a ready vertex spent waiting. The times for each Name are exact in their sum; where a vertex
// waited for several, turn about, they are put one behind the other.
type Wait struct {
	Kind WaitKind
	// Name is that of the limit, or of the pool.
	Name string
	// From and To are its ends; To is None while it waits.
	From, To int64
}

// WaitKind is what a vertex waits for: one letter in JSON.
type WaitKind byte

// The kinds of waits.
const (
	ForTurn   WaitKind = 't' // others come first: it has not been looked at
	ForPermit WaitKind = 'l' // a permit of the limit
	ForPlace  WaitKind = 'p' // a slot among the live workers of the pool
	ForWorker WaitKind = 'm' // a worker of the pool: none is there
	ForOther  WaitKind = 'o' // on the way: a moment until the next try, a message, a commit
)

// Shortage is something that vertices wait for, and that nothing of this run will bring.
type Shortage struct {
	Kind     string `json:"kind"` // "permit", "place" or "worker"
	Name     string `json:"name"` // of the limit, or of the pool
	Vertices int    `json:"vertices"`
	Example  string `json:"example,omitempty"` // the address of one of them
	// Slots is how many permits there are; InDoubt are the addresses of operations of unknown outcome that hold them.
	Slots   int      `json:"slots,omitempty"`
	InDoubt []string `json:"inDoubt,omitempty"`
}

// Counts says how far the run is.
type Counts struct {
	Total   int `json:"total"`
	Waiting int `json:"waiting"`
	Queued  int `json:"queued"`
	Running int `json:"running"`
	Done    int `json:"done"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"`
	Doubt   int `json:"doubt"`
	// Left is the estimated time to the end in milliseconds; zero when nothing is known.
	Left int64 `json:"left,omitempty"`
}

// Changes are what is different since a cursor. They are states, not steps: whoever applies them twice, or leaves some
// out and applies those after a later cursor, ends with the same model.
type Changes struct {
	// Cursor is the one to ask with next.
	Cursor uint64
	Head   Head
	Counts Counts
	// Vertices have their whole new state. Those that are new to the cursor have all fields; the others leave out what
	// never changes: Module, Address, Deposed, Type, After.
	Vertices  []Vertex
	Shortages []Shortage
}

// add counts a vertex with weight n.
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
