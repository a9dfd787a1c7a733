// Package protocol has the messages between the service and its engines, which are other processes.
//
// The service sends calls; while an engine carries one out, it sends its progress, and asks the service for what
// belongs to the call: the state, the configuration. A message may get new fields at its end: a reader takes missing
// ones as zero and skips those that it does not know. Whoever sends uses the highest version that both sides have. The
// package has no behaviour beside coding; docs/format/engine.md describes the messages.
package protocol

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"

	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/service/work"
)

// Lowest and Highest are the versions of the protocol that this program has.
const (
	Lowest  = 1
	Highest = 1
)

// The paths of requests to an engine. CallPath carries one call: both bodies are streams of frames, ToEngine and
// ToService. BeatPath is that of heartbeats, which are answered at any time, also before the first message.
const (
	HelloPath = "/hello"
	CallPath  = "/call"
	QuitPath  = "/quit"
	BeatPath  = "/beat"
)

// Beat answers a heartbeat.
func Beat(http.ResponseWriter, *http.Request) {}

// The paths of requests to the service about a call, which CallHeader names.
const (
	StatePath         = "/call/state"
	ProvidersPath     = "/call/providers"
	ConfigurationPath = "/call/configuration"
	AlivePath         = "/call/alive"
)

// The headers of requests to the service. EpochHeader has the epoch of the engine's seat. CallHeader has the number of
// the call that the request belongs to. NumberHeader has the number of a request that changes something, so that a
// repeated one is answered as the first one was.
const (
	EpochHeader  = "Millipede-Epoch"
	CallHeader   = "Millipede-Call"
	NumberHeader = "Millipede-Number"
)

// Hello is the first message to an engine.
type Hello struct {
	Lowest, Highest int
	// Seat is the number of the seat that the engine has taken, and Epoch counts the engines that sat there.
	Seat  int
	Epoch uint64
	// Setup is what the program that starts engines tells them.
	Setup []byte
}

// Welcome is the answer to Hello: the version that both sides use, and the versions of the engine.
type Welcome struct {
	Version         int
	Lowest, Highest int
	// Program is the version of Millipede that the engine is; empty from engines of before.
	Program string
}

// Agree returns the highest version that both sides have.
func Agree(h Hello) (int, error) {
	version := min(h.Highest, Highest)
	if version < h.Lowest || version < Lowest {
		return 0, fmt.Errorf("the service speaks the versions %d to %d of the protocol of engines, and this engine %d to %d",
			h.Lowest, h.Highest, Lowest, Highest)
	}
	return version, nil
}

// Kind is what a call asks for: a method of work.Engine.
type Kind string

// The kinds of calls.
const (
	Plan          Kind = "plan"
	PlanJSON      Kind = "plan-json"
	Apply         Kind = "apply"
	Resolve       Kind = "resolve"
	ChangeObjects Kind = "change-objects"
	Watch         Kind = "watch"
)

// Call asks an engine to carry something out. Which fields it has depends on the kind: they are the arguments of the
// method.
type Call struct {
	Number uint64
	Kind   Kind
	Job    *Job
	// Workspace, Data, Text and Shape are the arguments of PlanJSON.
	Workspace, Data string
	Text, Shape     []byte
	Resolution      *work.Resolution
	Who             string
	Change          *work.ObjectChange
	Addresses       []string
	Reads           int
	// Most bounds the answer, in bytes. An engine that has a larger one answers with an error that says so.
	Most int64
}

// Job is work.Job without its functions.
type Job struct {
	// Run and Workspace are records in JSON, as the service stores them.
	Run, Workspace      []byte
	Scratch, Data, Kept string
	Variables           []work.Value
	Environment         []string
	Plan                []byte
	Resumed             bool
	Who                 string
	Structured          bool
	// Configured says that the run has a configuration. The others say that the service wants to be told of these.
	Configured, Concealed, Watched, Doubted bool
}

// ToEngine is a frame to an engine. The first one of a request has the call, and no other has one. It has a stop, too,
// if the job was stopped before: then the engine knows that before it begins.
type ToEngine struct {
	Call *Call
	Stop *Stop
	// Leave ends the call without waiting for operations.
	Leave bool
}

// Stop is the end of work.Job.Stopping. Suspended and Canceled say that its cause was ErrSuspended, or ErrCanceled.
type Stop struct{ Suspended, Canceled bool }

// ToService is a frame from an engine: one of its fields. Their order in the stream is the order of the events.
type ToService struct {
	Log     []byte
	Conceal []string
	Waits   *Waits
	Begun   *Begun
	// Changes are those of the timeline, in JSON.
	Changes []byte
	// Doubts is a list of record.Doubt in JSON.
	Doubts []byte
	// Answer is the last frame.
	Answer *Answer
}

// Waits are the arguments of work.Job.Waits; Run is that or the pool. Earlier versions have no Kind.
type Waits struct{ Run, Text, Kind string }

// Begun says that the timeline begins: Head is a timeline.Head in JSON, Engine the ID of the engine's run.
type Begun struct {
	Head   []byte
	Engine string
}

// Answer is the result of a call. Failure is nil if there was no error.
type Answer struct {
	Failure *Failure
	Plan    *work.PlanResult
	Apply   *work.ApplyResult
	Data    []byte
	Found   []work.Found
}

// Failure is an error that the other side recognizes: its text, and which of the errors that both sides know it wraps.
type Failure struct {
	Text string
	Is   []string
	// Refused is the reason of a work.Refused.
	Refused string
}

// known are the errors that both sides know. New names may be added.
var known = map[string]error{
	"stopped":   work.ErrStopped,
	"again":     work.ErrAgain,
	"reported":  work.ErrReported,
	"lost":      work.ErrLost,
	"conflict":  tables.ErrConflict,
	"not found": tables.ErrNotFound,
	"invalid":   tables.ErrInvalid,
	"no room":   syscall.ENOSPC,
}

// FailureOf returns the message for an error; nil for nil.
func FailureOf(err error) *Failure {
	if err == nil {
		return nil
	}
	f := &Failure{Text: cut(err.Error())}
	for name, is := range known {
		if errors.Is(err, is) {
			f.Is = append(f.Is, name)
		}
	}
	var refused *work.Refused
	if errors.As(err, &refused) {
		f.Refused = cut(refused.Reason)
	}
	return f
}

// cut returns at most MaxText bytes of a text.
func cut(text string) string {
	if len(text) <= MaxText {
		return text
	}
	return strings.ToValidUTF8(text[:MaxText], "") + "... (cut off)"
}

// Size is about how many bytes an answer has.
func (a *Answer) Size() int64 {
	size := len(a.Data)
	if a.Plan != nil {
		size += len(a.Plan.Plan) + len(a.Plan.Shape) + len(a.Plan.Redacted)
	}
	for _, f := range a.Found {
		size += len(f.Address)
		for _, name := range f.Attributes {
			size += len(name)
		}
	}
	return int64(size)
}

// Err returns the error; nil for nil.
func (f *Failure) Err() error {
	if f == nil {
		return nil
	}
	e := &failed{text: f.Text}
	for _, name := range f.Is {
		if is := known[name]; is != nil {
			e.is = append(e.is, is)
		}
	}
	if f.Refused != "" {
		e.is = append(e.is, &work.Refused{Reason: f.Refused})
	}
	return e
}

// failed is an error of the other side.
type failed struct {
	text string
	is   []error
}

func (e *failed) Error() string   { return e.text }
func (e *failed) Unwrap() []error { return e.is }
