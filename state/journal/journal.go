// Package journal defines the events of runs, the statuses of vertices with the transition function between them, and
// the contract of the store that keeps states and journals together.
//
// state/bolt and state/mem implement the store. The package does no I/O and decides nothing about a run: the
// coordinator's loop makes the events, and Fold computes the statuses of a run from recorded events.
package journal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/state"
)

// Status is the status of a vertex of the apply graph.
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

// Kind is the kind of an event.
type Kind byte

// The kinds of events.
const (
	// Want: the vertex is ready and its task is computed; it was not sent yet.
	Want Kind = iota + 1
	// Dispatch: the intent with its attempt and permits; the task is published after this is durable.
	Dispatch
	// Finish: the result was accepted; the state changes of the same transaction hold its effect.
	Finish
	// Fail: the result of the operation, or the evaluation, is an error. State changes may come with it.
	Fail
	// Skip: a vertex that this one depends on has failed.
	Skip
	// Suspect: the outcome is unknown; the operation is in doubt.
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

// KeptRuns is how many ended runs of a workspace a store keeps, the newest ones. It keeps all runs that have not
// ended.
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

// Event is one record of the journal. Fields that do not apply to its kind are zero.
type Event struct {
	Kind    Kind      `msgpack:"k"`
	Vertex  int       `msgpack:"x"`
	At      time.Time `msgpack:"t"`
	Address string    `msgpack:"a,omitempty"`
	Attempt string    `msgpack:"at,omitempty"`
	Pool    string    `msgpack:"p,omitempty"`
	Worker  string    `msgpack:"w,omitempty"`
	// Permits are the request ids of the permits held, widest last. Those of a doubt, if it has any, are the ones that are
	// still held.
	Permits []string `msgpack:"pm,omitempty"`
	Action  string   `msgpack:"ac,omitempty"`
	// Took is how long the operations of an ended vertex took. Waited is how long it was ready before and between
	// them: it waited for a slot, for permits, or for messages. A dispatch has the time since the vertex was ready.
	Took   time.Duration `msgpack:"d,omitempty"`
	Waited time.Duration `msgpack:"wt,omitempty"`
	// Waits lists the waits of the vertex since it was ready. The rest of Waited was spent on messages. Waits of a few
	// milliseconds are left out.
	Waits []Wait `msgpack:"ws,omitempty"`
	// Sequence is the position of the accepted result in the result stream.
	Sequence uint64 `msgpack:"s,omitempty"`
	// Phase counts the operations of a vertex that are done (Want, Step).
	Phase  int    `msgpack:"ph,omitempty"`
	Detail string `msgpack:"m,omitempty"`
	// Over says that the operation in doubt does not run any more, though its outcome is unknown, so that no permit is
	// held for it.
	Over bool `msgpack:"o,omitempty"`
}

// EncodeMsgpack implements msgpack.CustomEncoder.
func (e *Event) EncodeMsgpack(to *msgpack.Encoder) error {
	return coding.EncodeFields(to, func(f *coding.Fields) {
		f.AnyInt("k", int64(e.Kind), true)
		f.AnyInt("x", int64(e.Vertex), true)
		f.Time("t", e.At)
		f.Text("a", e.Address)
		f.Text("at", e.Attempt)
		f.Text("p", e.Pool)
		f.Text("w", e.Worker)
		f.Other("pm", &e.Permits, len(e.Permits) > 0)
		f.Text("ac", e.Action)
		f.Int("d", int64(e.Took))
		f.Int("wt", int64(e.Waited))
		f.Other("ws", &e.Waits, len(e.Waits) > 0)
		f.Uint("s", e.Sequence)
		f.Int("ph", int64(e.Phase))
		f.Text("m", e.Detail)
		f.Bool("o", e.Over)
	})
}

// Wait is how long a vertex has waited for one thing.
type Wait struct {
	Kind WaitKind      `msgpack:"k"`
	Name string        `msgpack:"n,omitempty"` // of the limit, or of the pool
	For  time.Duration `msgpack:"f"`
}

// WaitKind is the kind of a wait.
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
	// Status is running, done, failed, interrupted or cancelled. A run whose process crashed still has the status
	// running.
	Status string `json:"status"`
	Who    string `json:"who,omitempty"`
	// Vertices is the number of vertices of the apply graph.
	Vertices int `json:"vertices"`
	// BaseSerial is the serial of the state that the plan was made for.
	BaseSerial uint64 `json:"base_serial"`
	// Request is the name that the requester of the run has given it, such as the ID of a service's run; empty without
	// one.
	Request string `json:"request,omitempty"`
	// Plan is the digest of the saved plan that the run applies; empty if the plan was not saved. See plan.Plan.
	Plan string `json:"plan,omitempty"`
	// Domains are the JetStream domains of the pools that had a message store of their own when the run began, by pool.
	// The registers of its operations are there for as long as the run can be resumed.
	Domains map[string]string `json:"domains,omitempty"`
	// After is the run of the round before, for a later round of an apply with deferral.
	After string `json:"after,omitempty"`
}

// Running is the status of a run whose end is not recorded.
const Running = "running"

// Over reports whether the run is finished: it is neither cut off nor interrupted.
func (r Run) Over() bool { return r.Status != Running && r.Status != "interrupted" }

// PermitName returns the name of a permit in a dispatch: its limit and the ID of its request.
func PermitName(limit, id string) string { return limit + "/" + id }

// ParsePermit is the inverse of PermitName. It returns false for a text that is no such name. Names of limits may
// contain slashes, IDs of requests may not.
func ParsePermit(name string) (limit, id string, ok bool) {
	i := strings.LastIndexByte(name, '/')
	if i < 0 {
		return "", "", false
	}
	return name[:i], name[i+1:], true
}

// Fold returns the status of each vertex, and the last dispatch of each vertex that is in progress. The error wraps
// ErrTransition.
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
	// ErrDefaultWorkspace means that the default workspace, which always exists, was to be deleted.
	ErrDefaultWorkspace = errors.New("the default workspace cannot be deleted")
	// ErrNoRun means that no such run is recorded.
	ErrNoRun = errors.New("no such run")
	// ErrFenced means that the lock of a commit is not held any more.
	ErrFenced = errors.New("the state lock was lost")
	// ErrLockID means that Unlock was called with the ID of another lock.
	ErrLockID = errors.New("the state is not locked under this lock ID")
	// ErrSealed means that the store cannot be decrypted with the present configuration.
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

// Held is the error of Lock if the state is already locked.
type Held struct{ Holder LockInfo }

func (h *Held) Error() string { return "the state is locked by " + h.Holder.Who }

// Commit is the data that a store makes durable together. Stores change a state only by commits: two stores that apply
// the same commits in the same order have the same states.
type Commit struct {
	Workspace string
	// Fence is the ID of the lock, or of the granted request, under which the commit is made; empty for no lock. A
	// store refuses the commit with ErrFenced if that lock is not held, or if there is a lock although none is named.
	Fence   string
	Changes []state.Change
	// Events are appended to the journal of Run. Without events Run may be empty.
	Run    string
	Events []Event
	// EndVersion ends a version of the state: the serial grows by one, and the version before stays readable.
	// Changes that are committed without it belong to the version that is being made. If all changes since the
	// version before cancel each other out, no version ends and the serial stays the same; the first version always
	// ends.
	EndVersion bool
	// EndUnfinished ends the version that is being made, if earlier commits have left changes in it.
	EndUnfinished bool
	// Cause is the command that made the version that ends, for Versions. Empty means the command of the run.
	Cause string
	// End, if it is not nil, ends Run as EndRun does.
	End *Ending
}

// Ending is the end of a run.
type Ending struct {
	Status string
	At     time.Time
}

// Cause is the origin of a state that replaces the stored one.
type Cause struct {
	Text string
	// Elsewhere says that the state was made elsewhere; the holder of the lock has only read it.
	Elsewhere bool
}

// Because returns the cause of a state that the holder of the lock has made.
func Because(text string) Cause { return Cause{Text: text} }

// VersionInfo describes a version of a state that is kept.
type VersionInfo struct {
	Serial  uint64
	Lineage string
	At      time.Time
	Cause   string // the command that made it
	// Run is the run that made it, Who the holder of the lock at the time; empty if unknown.
	Run, Who string
}

// Difference is one thing that has changed since an earlier version of a state.
type Difference struct {
	state.Difference
	// By is the last version that changed it. It has the serial 0 if no version has ended since the change.
	By VersionInfo
}

// SnapshotMark identifies the content that the workspace's snapshot had when it last agreed with the store.
type SnapshotMark struct {
	Where   string `json:"where"` // which snapshot it was
	Lineage string `json:"lineage"`
	Serial  uint64 `json:"serial"`
	SHA256  string `json:"sha256"`
}

// Store keeps the states and journals of all workspaces. It has all roles of a store; code that needs only some of
// them takes those interfaces. Every method that changes something returns when the change is durable (fsync), at a
// cost proportional to the change. It is safe for concurrent use within a process. It keeps a second process out:
// opening the store there returns *Held.
type Store interface {
	Workspaces
	States
	Versions
	Locks
	ObjectLocks
	Marks
	Runs
	Values
	Observations
	Close() error
}

// Workspaces are the workspaces of a store.
type Workspaces interface {
	Workspaces(ctx context.Context) ([]string, error) // sorted; "default" always exists
	CreateWorkspace(ctx context.Context, name string) error
	DeleteWorkspace(ctx context.Context, name string) error
}

// States are the current states, one for each workspace.
type States interface {
	// Load returns the workspace's state, which is empty if none was stored. The caller owns it.
	Load(ctx context.Context, workspace string) (*state.State, error)
	// Commit returns when all of the commit is durable; with an error, nothing of it was made.
	Commit(ctx context.Context, c Commit) error
	// Replace stores a whole state (from state push, or from a snapshot) as a new version, with its own lineage and
	// serial. The state before it stays readable as an earlier version; a version that was being made ends first.
	Replace(ctx context.Context, workspace, lockID string, s *state.State, cause Cause) error
}

// Versions are the earlier states.
type Versions interface {
	// Versions returns the ended versions, newest first.
	Versions(ctx context.Context, workspace string) ([]VersionInfo, error)
	// LoadVersion returns the state at the end of the newest version with this serial, or ErrVersion.
	LoadVersion(ctx context.Context, workspace string, serial uint64) (*state.State, error)
	// LoadExactly is LoadVersion of the one version with this lineage, serial and time.
	LoadExactly(ctx context.Context, workspace string, v VersionInfo) (*state.State, error)
	// Since returns how the state differs from the version with this lineage and serial, as state.Differences does,
	// at a cost proportional to the changes since then. Instances that were changed and changed back are listed
	// too. Serial 0 without a lineage is the state before the first version. It returns ErrVersion if there is no
	// such version, or several with this serial because a state was pushed.
	Since(ctx context.Context, workspace, lineage string, serial uint64) ([]Difference, error)
}

// Locks exclude two processes or operations from changing a workspace at the same time.
type Locks interface {
	// Lock locks a workspace until Unlock, or until the store is closed: locks of a process that died are gone, and
	// commits under them are fenced off. It returns *Held if the workspace is locked.
	Lock(ctx context.Context, workspace string, info LockInfo) error
	Unlock(ctx context.Context, workspace, lockID string) error      // ErrLockID
	Locked(ctx context.Context, workspace string) (*LockInfo, error) // nil when not
}

// Marks record which version of a workspace its snapshot has.
type Marks interface {
	Mark(ctx context.Context, workspace string) (SnapshotMark, error)
	SetMark(ctx context.Context, workspace string, m SnapshotMark) error
}

// Runs are the runs on the states, with their plans and events.
type Runs interface {
	// BeginRun records a run and its plan, and removes all but the newest KeptRuns ended runs of the workspace.
	// Like a commit, BeginRun and EndRun are refused under a lock that is not held: a process that has lost the
	// lock must not end the run of another.
	BeginRun(ctx context.Context, lockID string, r Run, plan []byte) error
	EndRun(ctx context.Context, lockID, id, status string, at time.Time) error // ErrNoRun
	Runs(ctx context.Context, workspace string) ([]Run, error)                 // newest first
	RunPlan(ctx context.Context, id string) (Run, []byte, error)               // ErrNoRun
	// Events returns the events of a run in the order of their commits, or ErrNoRun.
	Events(ctx context.Context, id string) ([]Event, error)
}

// Values stores small values by bucket and key: schema caches, high-water marks, durations of operations.
type Values interface {
	PutValue(ctx context.Context, bucket, key string, value []byte) error
	// PutHint is PutValue for a value that may be lost: a crash before the next commit loses it. The caller does not
	// change the value any more.
	PutHint(ctx context.Context, bucket, key string, value []byte) error
	GetValue(ctx context.Context, bucket, key string) ([]byte, error) // nil when absent
}
