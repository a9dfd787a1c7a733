// Package journal records what happened in a run: events, the statuses of vertices, the transition function
// between them; it holds the contract of the store that keeps state and journal together.
//
// state/bolt and state/mem implement the store. The package does no I/O and decides nothing about a run: the
// coordinator's loop makes the events, Fold turns recorded events back into where the run stands.
package journal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/state"
)

// Status is where a vertex of the apply graph stands.
type Status byte

// The statuses. Picture:
//
//	Waiting -> Wanted -> Dispatched -> Done | Failed | Doubt
//	   |         |           |  \-> Wanted (tombstone won, or the worker says that it never started)
//	   |         \-> Failed (evaluation), Done (inline)
//	   \-> Skipped                  Doubt -> Done | Failed | Wanted (resolved)
const (
	Waiting Status = iota
	Wanted
	Dispatched
	Done
	Failed
	Skipped
	Doubt
)

var statusNames = [...]string{"waiting", "wanted", "dispatched", "done", "failed", "skipped", "in doubt"}

func (s Status) String() string { return statusNames[s] }

// Kind is what an event says.
type Kind byte

// The kinds of events.
const (
	// Want: the vertex is ready and its task is computed; nothing was sent.
	Want Kind = iota + 1
	// Dispatch: the intent with its attempt and permits; the task is published after this is durable.
	Dispatch
	// Finish: the result was accepted; the state changes of the same transaction hold its effect.
	Finish
	// Fail: the result, or the evaluation, is an error; state changes may come with it.
	Fail
	// Skip: something before it failed.
	Skip
	// Suspect: the outcome cannot be known.
	Suspect
	// Retract: the attempt was proved not to have started; a new one may be made.
	Retract
	// Step: a vertex with several operations (create, then provision) finished one of them.
	Step
	// RunEnd closes a run; Detail says how ("done", "failed", "cancelled").
	RunEnd
)

var kindNames = [...]string{
	Want: "want", Dispatch: "dispatch", Finish: "finish", Fail: "fail", Skip: "skip", Suspect: "suspect",
	Retract: "retract", Step: "step", RunEnd: "end of run",
}

func (k Kind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return fmt.Sprintf("unknown kind %d", byte(k))
}

// KeptRuns is how many ended runs of a workspace a store keeps, newest first; those that have not ended are all kept.
const KeptRuns = 50

// DefaultWorkspace is the workspace that always exists.
const DefaultWorkspace = "default"

// ErrTransition is wrapped by the error of an illegal event; the error names both.
var ErrTransition = errors.New("illegal event")

// Next is the transition function.
func Next(s Status, k Kind) (Status, error) {
	switch {
	case k == Want && (s == Waiting || s == Wanted):
		return Wanted, nil
	case k == Dispatch && (s == Wanted || s == Dispatched):
		return Dispatched, nil
	case k == Finish && s != Done && s != Failed && s != Skipped:
		return Done, nil
	case k == Fail && s != Done && s != Failed && s != Skipped:
		return Failed, nil
	case k == Skip && (s == Waiting || s == Wanted):
		return Skipped, nil
	case k == Suspect && (s == Dispatched || s == Doubt): // again, when more is known
		return Doubt, nil
	case k == Retract && (s == Dispatched || s == Doubt):
		return Wanted, nil
	case k == Step && (s == Dispatched || s == Wanted || s == Doubt):
		return Wanted, nil
	}
	return s, fmt.Errorf("%w: %s on a vertex that is %s", ErrTransition, k, s)
}

// Event is one thing that happened. Zero fields do not apply.
type Event struct {
	Kind    Kind      `msgpack:"k"`
	Vertex  int       `msgpack:"x"`
	At      time.Time `msgpack:"t"`
	Address string    `msgpack:"a,omitempty"`
	Attempt string    `msgpack:"at,omitempty"`
	Pool    string    `msgpack:"p,omitempty"`
	Worker  string    `msgpack:"w,omitempty"`
	Permits []string  `msgpack:"pm,omitempty"` // request ids of the permits held, widest last
	Action  string    `msgpack:"ac,omitempty"`
	// Took is how long the operations of a vertex that has ended took; Waited is how long it was ready before and
	// between them, for a slot, for permits, on the way. A dispatch has the time since the vertex was ready.
	Took   time.Duration `msgpack:"d,omitempty"`
	Waited time.Duration `msgpack:"wt,omitempty"`
	// Waits says what the vertex has waited for since it was ready: what is missing to Waited was spent on the way.
	// Waits of a few milliseconds are left out.
	Waits []Wait `msgpack:"ws,omitempty"`
	// Sequence is the position of the accepted result in the result stream.
	Sequence uint64 `msgpack:"s,omitempty"`
	// Phase counts the operations of a vertex that are done (Want, Step).
	Phase  int    `msgpack:"ph,omitempty"`
	Detail string `msgpack:"m,omitempty"`
	// Over tells that nothing runs any more of what is suspected, though its outcome is not known: no permit is held
	// for it.
	Over bool `msgpack:"o,omitempty"`
}

// Wait is for how long a vertex has waited for one thing.
type Wait struct {
	Kind WaitKind      `msgpack:"k"`
	Name string        `msgpack:"n,omitempty"` // of the limit, or of the pool
	For  time.Duration `msgpack:"f"`
}

// WaitKind is what is waited for.
type WaitKind byte

// The kinds of waits.
const (
	WaitPermit WaitKind = iota + 1 // a permit of a limit
	WaitPlace                      // a slot among the workers of a pool
	WaitWorker                     // a worker of a pool
	WaitOther                      // anything else
)

// Run is one execution of a plan on one workspace's state.
type Run struct {
	ID          string    `json:"id"`
	Workspace   string    `json:"workspace"`
	Coordinator string    `json:"coordinator"`
	Command     string    `json:"command"` // apply, destroy, refresh...
	Started     time.Time `json:"started"`
	Ended       time.Time `json:"ended,omitempty"`
	// Status is running, done, failed, interrupted or cancelled. A run that a crash ended still says running.
	Status string `json:"status"`
	Who    string `json:"who,omitempty"`
	// Vertices is the number of vertices of the apply graph.
	Vertices int `json:"vertices"`
	// BaseSerial is the serial of the state that the plan was made for.
	BaseSerial uint64 `json:"base_serial"`
	// Request is what whoever has asked for the run calls it: the run of a service. Empty where nobody did.
	Request string `json:"request,omitempty"`
}

// Running is the status of a run whose end is not recorded.
const Running = "running"

// Over tells that nobody will go on with the run: it has neither been cut off nor interrupted.
func (r Run) Over() bool { return r.Status != Running && r.Status != "interrupted" }

// PermitName is how a dispatch names a permit among its Permits: by its limit, and by the name that it was asked for
// under.
func PermitName(limit, id string) string { return limit + "/" + id }

// ParsePermit is the inverse of PermitName. It returns false for what is no name of a permit. Limits may have slashes
// in their names, requests have none.
func ParsePermit(name string) (limit, id string, ok bool) {
	i := strings.LastIndexByte(name, '/')
	if i < 0 {
		return "", "", false
	}
	return name[:i], name[i+1:], true
}

// Fold returns the status of each vertex and the last dispatch of those that are under way.
func Fold(n int, events []Event) ([]Status, map[int]Event, error) {
	statuses := make([]Status, n)
	open := map[int]Event{}
	for _, e := range events {
		if e.Kind == RunEnd {
			continue
		}
		if e.Vertex < 0 || e.Vertex >= n {
			return nil, nil, fmt.Errorf("%w: vertex %d of %d", ErrTransition, e.Vertex, n)
		}
		next, err := Next(statuses[e.Vertex], e.Kind)
		if err != nil {
			return nil, nil, fmt.Errorf("vertex %d (%s): %w", e.Vertex, e.Address, err)
		}
		statuses[e.Vertex] = next
		switch next {
		case Dispatched, Doubt:
			if e.Kind == Dispatch {
				open[e.Vertex] = e
			}
		default:
			delete(open, e.Vertex)
		}
	}
	return statuses, open, nil
}

// Conditions that callers handle.
var (
	// ErrNoWorkspace means that the workspace does not exist.
	ErrNoWorkspace = errors.New("the workspace does not exist")
	// ErrWorkspaceExists means that a workspace of this name exists already.
	ErrWorkspaceExists = errors.New("the workspace exists already")
	// ErrDefaultWorkspace means that the default workspace was to be deleted, which always exists.
	ErrDefaultWorkspace = errors.New("the default workspace cannot be deleted")
	// ErrNoRun means that no such run is recorded.
	ErrNoRun = errors.New("no such run")
	// ErrFenced means that the lock under which a commit was made is not held any more.
	ErrFenced = errors.New("the state lock was lost")
	// ErrLockID means that Unlock named a lock that is not the one that is held.
	ErrLockID = errors.New("the state is not locked under this lock ID")
	// ErrSealed means that what a store holds cannot be read with the configuration that there is.
	ErrSealed = errors.New("the state store cannot be decrypted")
	// ErrClosed means that the store was closed before the call.
	ErrClosed = errors.New("the store is closed")
	// ErrVersion means that the requested version of a state is not kept.
	ErrVersion = errors.New("no such version of the state")
)

// LockInfo says who holds a state.
type LockInfo struct {
	ID        string    `json:"ID"`
	Operation string    `json:"Operation"`
	Info      string    `json:"Info"`
	Who       string    `json:"Who"`
	Version   string    `json:"Version"`
	Created   time.Time `json:"Created"`
	Path      string    `json:"Path"`
	PID       int       `json:"PID,omitempty"`
}

// Held is the error of Lock when somebody else holds the state.
type Held struct{ Holder LockInfo }

func (h *Held) Error() string { return "the state is locked by " + h.Holder.Who }

// Tx is what one commit makes durable together.
type Tx struct {
	Changes []state.Change
	// Run and Events append to the run's journal; Run empty: no events.
	Run    string
	Events []Event
	// EndVersion closes a version of the state: the serial grows by one and the version before stays readable.
	// Changes made without it belong to the version that is being made. Where all changes since the version before
	// come to nothing, no version ends and the serial stays; the first version ends always.
	EndVersion bool
	// EndUnfinished closes the version that is being made, if earlier commits have left anything in it.
	EndUnfinished bool
	// Cause says what made the version that ends, for Versions. Empty: the command of the run.
	Cause string
}

// Cause says where a whole state that is put comes from.
type Cause struct {
	Text string
	// Elsewhere tells that somebody else has made the state: who holds the lock has only found it.
	Elsewhere bool
}

// Because is the cause of a state that who holds the lock has made.
func Because(text string) Cause { return Cause{Text: text} }

// VersionInfo is one kept version of a state.
type VersionInfo struct {
	Serial  uint64
	Lineage string
	At      time.Time
	Cause   string // the command that made it
	// Run is the run that made it, Who held the lock meanwhile; empty where that is not known.
	Run, Who string
}

// Difference is one thing that has changed since an earlier version of a state.
type Difference struct {
	state.Difference
	// By is the last version that changed it. That of a change which belongs to no ended version has serial 0.
	By VersionInfo
}

// SnapshotMark remembers what the workspace's snapshot held when the store last agreed with it.
type SnapshotMark struct {
	Where   string `json:"where"` // which snapshot it was
	Lineage string `json:"lineage"`
	Serial  uint64 `json:"serial"`
	SHA256  string `json:"sha256"`
}

// Store keeps states and journals of all workspaces: all roles of one store. Who needs some of them names those. Every
// method that changes something returns when it is durable (fsync), at a cost proportional to the change. Safe for
// concurrent use within a process; a second process is kept out by the store itself (Open returns *Held).
type Store interface {
	Workspaces
	States
	Versions
	Locks
	ObjectLocks
	Marks
	Runs
	Values
	Sights
	Close() error
}

// Workspaces are whose states a store keeps.
type Workspaces interface {
	Workspaces(ctx context.Context) ([]string, error) // sorted; "default" always exists
	CreateWorkspace(ctx context.Context, name string) error
	DeleteWorkspace(ctx context.Context, name string) error
}

// States are the states as they are, one for each workspace.
type States interface {
	// Load returns the workspace's state (empty when nothing was stored). The caller owns it.
	Load(ctx context.Context, workspace string) (*state.State, error)
	// Commit applies a transaction under the lock with this ID ("" when the workspace is not locked and the
	// caller does not want it to be); it returns ErrFenced when another lock is held.
	Commit(ctx context.Context, workspace, lockID string, tx Tx) error
	// Replace puts a whole state (state push, adoption of a snapshot) as a new version, with its own lineage and
	// serial. What was there stays readable: as the version before, or, where a version was being made, as one
	// more, which ends first.
	Replace(ctx context.Context, workspace, lockID string, s *state.State, cause Cause) error
}

// Versions are the states as they were.
type Versions interface {
	// Versions lists the ended versions, newest first.
	Versions(ctx context.Context, workspace string) ([]VersionInfo, error)
	// LoadVersion returns the newest version with this serial as it ended, or ErrVersion.
	LoadVersion(ctx context.Context, workspace string, serial uint64) (*state.State, error)
	// Since returns in what the state differs now from the version with this lineage and serial, as
	// state.Differences does, at a cost of what has changed since; serial 0 without a lineage is the state before the
	// first version. The error is ErrVersion where there is no such version, or where several have ended with this
	// serial, because one was pushed.
	Since(ctx context.Context, workspace, lineage string, serial uint64) ([]Difference, error)
}

// Locks keep two who change a workspace apart.
type Locks interface {
	// Lock locks a workspace for as long as this store is open: what a process that died had locked is free, and
	// its lock ID is fenced off. The error is *Held when it is held.
	Lock(ctx context.Context, workspace string, info LockInfo) error
	Unlock(ctx context.Context, workspace, lockID string) error      // ErrLockID
	Locked(ctx context.Context, workspace string) (*LockInfo, error) // nil when not
}

// Marks say of which version the snapshot of a workspace is.
type Marks interface {
	Mark(ctx context.Context, workspace string) (SnapshotMark, error)
	SetMark(ctx context.Context, workspace string, m SnapshotMark) error
}

// Runs are what was carried out on the states, and how far it came.
type Runs interface {
	// BeginRun records a run and its plan. Of the ended runs of a workspace the last 50 are kept. It and EndRun are
	// refused like a commit under a lock that is not held: who has lost the lock ends no run of others.
	BeginRun(ctx context.Context, lockID string, r Run, plan []byte) error
	EndRun(ctx context.Context, lockID, id, status string, at time.Time) error // ErrNoRun
	Runs(ctx context.Context, workspace string) ([]Run, error)                 // newest first
	RunPlan(ctx context.Context, id string) (Run, []byte, error)               // ErrNoRun
	// ErrNoRun; in the order of their commits
	Events(ctx context.Context, id string) ([]Event, error)
}

// Values keeps small things by key: schema caches, high-water marks, durations of types.
type Values interface {
	PutValue(ctx context.Context, bucket, key string, value []byte) error
	GetValue(ctx context.Context, bucket, key string) ([]byte, error) // nil when absent
}
