package work

import (
	"context"
	"io"

	"github.com/millipede-iac/millipede/coordinator/timeline"
	"github.com/millipede-iac/millipede/service/record"
)

// The kinds of things for which a phase waits, for Job.Waits.
const (
	ForObjects = "objects" // that another run changes
	ForWorker  = "worker"  // of a pool without one
)

// Job is one phase of a run, for the engine. When the context that comes with it ends, the engine returns
// without waiting for operations.
type Job struct {
	Run       record.Run
	Workspace record.Workspace
	// Stopping ends when the engine must start nothing new: it interrupts the running operations and records
	// their results. If its cause is ErrSuspended the phase is continued later; then the engine does not
	// interrupt running operations but waits for them.
	Stopping context.Context //nolint:containedctx // the second of the two contexts of a stop
	// Configuration opens the archive of the configuration, a gzipped tar; nil if there is none.
	Configuration func() (io.ReadCloser, error)
	// Scratch is an empty directory that is removed after the phase; Data is a permanent directory of the
	// workspace.
	Scratch, Data string
	// Kept, if not empty, is a directory that later jobs with the same configuration use again, so that the
	// configuration is unpacked, and its modules are installed, only once.
	Kept string
	// Variables are the input variables of the run. Environment is the environment of its programs, as
	// NAME=value.
	Variables   []Value
	Environment []string
	// State gives access to the state of the workspace.
	State State
	// Plan is the result of the plan phase; only for Apply.
	Plan []byte
	// Resumed says that this apply was started before and has not ended.
	Resumed bool
	// Who is the person who approved the run or, if nobody did, who created it.
	Who string
	// Alive reports whether the apply of a run is running or will be resumed.
	Alive func(run string) bool
	// Waits is called when a phase starts to wait for something that its timeline does not show: of which kind (ForObjects
	// or ForWorker), for which run or pool, and with a description. All are empty when it continues. Safe for concurrent
	// use.
	Waits func(kind, on, text string)
	// Log is the log for people. With Structured it has one JSON message per line.
	Log        io.Writer
	Structured bool
	// Conceal hides texts in the log, and in errors, from now on; nil if there is no log to hide them in.
	Conceal func(secrets []string)
	// Watched is called once, when the timeline of the phase begins: with the timeline, which the engine writes
	// until the phase ends and which may be read meanwhile, and with the ID of the engine's run, under which it
	// holds permits. Safe for concurrent use.
	Watched func(recorder *timeline.Recorder, engine string)
	// Doubtful is called with all operations in doubt in the state whenever the engine has determined them; the
	// last call counts.
	Doubtful func([]record.Doubt)
}

// Value is the value of an input variable.
type Value struct {
	Name      string
	Text      string // an HCL expression, or the value itself
	HCL       bool
	Sensitive bool
	// Run says that the value was given with the run, and overrides the files of the configuration.
	Run bool
}

// State gives a run access to the state of its workspace.
type State interface {
	// Read returns the current version, or nil if there is none.
	Read(ctx context.Context) ([]byte, error)
	// Providers returns the provider configurations of the objects in the current version, as they are written
	// in the state; nil if they are unknown.
	Providers(ctx context.Context) ([]string, error)
	// Write stores a new version, which becomes the current one. It is durable when Write returns.
	Write(ctx context.Context, data []byte) error
}
