// Package service manages workspaces and their states, and executes their runs: it checks permissions, orders
// the runs, and decides how long their records are kept.
//
// It implements no protocol and no pages: service/tfe, service/httpstate and others do, with its parts. It
// does not plan or apply: the Engine does. A change is durable when the method that makes it returns without an
// error.
package service

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/coordinator/timeline"
	"github.com/millipede-iac/millipede/service/accounts"
	"github.com/millipede-iac/millipede/service/audit"
	"github.com/millipede-iac/millipede/service/events"
	"github.com/millipede-iac/millipede/service/identity"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
)

// Options configure a service.
type Options struct {
	Store  *store.Store
	Engine Engine
	// Homes gives access to the files that the engine keeps in the directory of the store; nil if there are
	// none.
	Homes store.Homes
	Now   func() time.Time // default time.Now
	// Version is the version of the engine; each run records it.
	Version string
	Logger  *slog.Logger // default: nothing is logged
	// Capacity gives access to workers and limits; nil if they are not shown.
	Capacity Capacity

	// Host is the address at which clients reach the service, HOST or HOST:PORT. It is part of the name of the
	// environment variable with a run's token. Empty for none.
	Host string

	// Plans and Applies bound the number of phases that are executed at the same time.
	Plans, Applies int
	// WatchReads is how many objects are read at the same time to watch for drift; default 1.
	WatchReads int
	// MaxConfiguration and MaxState bound the size of uploads, in bytes.
	MaxConfiguration, MaxState int64
	// Became is called with each new status of a run, after it is committed. It must not block. May be nil.
	Became func(record.RunStatus)
	// Mail says whether notifications can be sent by mail.
	Mail bool
	// Retention says how long records of the past are kept.
	Retention record.Retention
	// ForceCancelAfter is the time between a cancellation and the first moment at which the run may be
	// force-canceled; default 10 s.
	ForceCancelAfter time.Duration
	// RenewIdentity is the interval at which the files with identity tokens of a phase get new tokens; 0 means a
	// quarter of the time for which a token is valid.
	RenewIdentity time.Duration
}

// Service manages workspaces and runs, by its parts. Safe for concurrent use. Runs are executed while Run, which is
// called once, is running.
type Service struct {
	*shared
	opts Options

	*accounts.Accounts

	Workspaces     *Workspaces
	Variables      *Variables
	VariableSets   *VariableSets
	Configurations *Configurations
	States         *States
	Objects        *Objects
	Drift          *Drift
	Doubts         *Doubts
	Halts          *Halts
	Notifications  *Notifications
	RunTriggers    *RunTriggers
	Retention      *Retention

	Runs      *Runs
	Plans     *Plans
	Logs      *Logs
	Timelines *Timelines
	Identity  *Identity
	Pools     *Pools
	Audit     *audit.Log

	queue       *queue
	transitions *transitions
	outlines    *outlines
	watcher     *watcher
}

// shared is what all parts of the service use.
type shared struct {
	store  *store.Store
	now    func() time.Time
	log    *slog.Logger
	stream *events.Stream
	audit  *audit.Log
}

// New returns a service with its store. The caller calls Run, and closes the store after Run has returned.
func New(o Options) (*Service, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Homes == nil {
		o.Homes = noHomes{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Plans <= 0 || o.Applies <= 0 || o.MaxConfiguration <= 0 || o.MaxState <= 0 {
		return nil, errors.New("a service needs its limits")
	}
	o.WatchReads = max(1, o.WatchReads)
	if o.Became == nil {
		o.Became = func(record.RunStatus) {}
	}
	if o.RenewIdentity == 0 {
		o.RenewIdentity = identity.Term / 4
	}
	if o.ForceCancelAfter == 0 {
		o.ForceCancelAfter = 10 * time.Second
	}
	s := assemble(&o)
	o.Store.OnUnsure(s.queue.requireReread)
	return s, s.recover()
}

// assemble makes the parts of a service, and connects them.
func assemble(o *Options) *Service {
	c := &shared{store: o.Store, now: o.Now, log: o.Logger, stream: events.New(o.Now),
		audit: &audit.Log{Store: o.Store, Now: o.Now}}
	s := &Service{shared: c, opts: *o, queue: newQueue(c, o.Plans, o.Applies), outlines: newOutlines(c)}
	q := s.queue
	s.VariableSets = &VariableSets{shared: c}
	s.Accounts = accounts.New(o.Store, o.Now, o.Logger, c.audit, organizationWorkspaces{s.VariableSets})
	s.Notifications = &Notifications{shared: c, tokens: s.Tokens, mail: o.Mail, outgoing: make(chan struct{}, 1)}
	s.transitions = &transitions{shared: c, notifications: s.Notifications, queue: q, became: o.Became,
		version: o.Version}
	s.Runs = &Runs{shared: c, queue: q, transitions: s.transitions, forceCancelAfter: o.ForceCancelAfter}
	s.Logs = newLogs(c, q, s.Runs)
	s.Timelines = &Timelines{shared: c, runs: s.Runs}
	s.Pools = &Pools{shared: c, capacity: o.Capacity, runs: s.Runs, timelines: s.Timelines}
	s.Runs.pools = s.Pools
	s.Identity = &Identity{shared: c, host: o.Host, renewIdentity: o.RenewIdentity}
	phases := &phases{shared: c, engine: o.Engine, host: o.Host, identity: s.Identity, tokens: s.Tokens,
		timelines: s.Timelines, outlines: s.outlines, queue: q}
	q.logs, q.notifications, q.phases, q.transitions, q.version = s.Logs, s.Notifications, phases, s.transitions, o.Version
	s.Drift = &Drift{shared: c, notifications: s.Notifications, outlines: s.outlines, runs: s.Runs}
	s.watcher = newWatcher(c, o.WatchReads)
	s.watcher.drift, s.watcher.outlines, s.watcher.phases, s.watcher.queue = s.Drift, s.outlines, phases, q
	s.watcher.engine = o.Engine
	s.outlines.drift, s.outlines.queue = s.Drift, q
	s.Workspaces = &Workspaces{shared: c, drift: s.Drift, runs: s.Runs, queue: q, transitions: s.transitions,
		watcher: s.watcher}
	uploads := &queues{}
	s.Variables = &Variables{shared: c}
	s.Configurations = &Configurations{shared: c, maxConfiguration: o.MaxConfiguration, queue: q,
		transitions: s.transitions, uploads: uploads}
	s.States = &States{shared: c, users: s.Users, outlines: s.outlines, maxState: o.MaxState, uploads: uploads}
	s.Objects = &Objects{shared: c, engine: o.Engine, phases: phases, queue: q, transitions: s.transitions}
	s.Doubts = &Doubts{shared: c, engine: o.Engine, phases: phases, queue: q, transitions: s.transitions,
		timelines: s.Timelines, workspaces: s.Workspaces}
	s.Halts = &Halts{shared: c, queue: q}
	s.RunTriggers = &RunTriggers{shared: c}
	s.Retention = &Retention{shared: c, retention: o.Retention, transitions: s.transitions}
	s.Plans = &Plans{shared: c, engine: o.Engine, outlines: s.outlines, runs: s.Runs}
	s.Audit = c.audit
	return s
}

// Run executes runs until ctx ends. It then stops the phases in progress as by an interrupt, waits for them,
// and returns.
func (s *Service) Run(ctx context.Context) error {
	s.Pools.applyDrains(ctx)
	var others sync.WaitGroup
	others.Go(func() { s.outlines.makeWanted(ctx) })
	others.Go(func() { s.Retention.sweep(ctx) })
	others.Go(func() { s.watcher.run(ctx) })
	err := s.queue.run(ctx)
	s.stream.Close()
	others.Wait()
	return errors.Join(err, s.Logs.close())
}

// Page selects a part of a list. Number counts from 1.
type Page struct{ Number, Size int }

// Cut returns the part of a list that a page selects.
func Cut[T any](all []T, p Page) []T {
	from := min(len(all), max(0, p.Number-1)*p.Size)
	return all[from:min(len(all), from+p.Size)]
}

// Engine executes the phases of runs.
type Engine interface {
	// Plan makes the plan of a run. It changes nothing outside of the job's directories.
	Plan(ctx context.Context, j *Job) (*PlanResult, error)
	// PlanJSON makes the JSON document of a plan from the results of Plan and from the state versions in the
	// directory of the workspace. It needs no worker, and also works when the state has changed since.
	PlanJSON(ctx context.Context, data string, plan, shape []byte) ([]byte, error)
	// Apply applies the plan of a run, or resumes an interrupted apply. A nil error means that everything was
	// applied.
	Apply(ctx context.Context, j *Job) (*ApplyResult, error)
	// Resolve records the outcome of an operation in doubt, as the person who states it.
	Resolve(ctx context.Context, j *Job, r Resolution, who string) error
	// ChangeObjects changes instances of a state on which runs work, under locks of these instances. The error is
	// *Refused if runs have locked or changed them.
	ChangeObjects(ctx context.Context, j *Job, c ObjectChange) error
	// Watch reads objects of the workspace, at most reads at a time, and returns those that differ from the
	// state. It changes nothing, takes no lock of the state, and yields to the operations of plans and applies.
	// If it returns an error, some objects could not be read; the findings about the others are returned all
	// the same.
	Watch(ctx context.Context, j *Job, addresses []string, reads int) ([]Found, error)
}

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
	// Waits is called when the apply of a run with object locks starts to wait: with the run that it waits for,
	// and a description. Both are empty when it continues. Safe for concurrent use.
	Waits func(run, text string)
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

	// renew renews the files with identity tokens until ctx ends.
	renew func(ctx context.Context)
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

// PlanResult is the result of a plan.
type PlanResult struct {
	HasChanges, Generated        bool
	Add, Change, Destroy, Import int
	// Sensitive has the names of the variables that the configuration declares sensitive.
	Sensitive []string
	// Plan and Shape are opaque data: Apply needs Plan, and PlanJSON needs both to make the complete document.
	// Redacted is the JSON document without sensitive values.
	Plan, Shape, Redacted []byte
}

// ApplyResult counts the changes of an apply.
type ApplyResult struct{ Add, Change, Destroy, Import int }

// ErrStopped is returned by the engine when it has ended because it was asked to stop.
var ErrStopped = errors.New("the run was stopped")

// ErrAgain is wrapped by the engine's error if a phase has failed because something that it needs was
// temporarily unavailable. The phase is then repeated: planned again, or resumed.
var ErrAgain = errors.New("something that the run needs was unavailable")

// ErrSuspended is the cause of a stop after which the service continues the phase later; errCanceled is the
// cause when a person has canceled the run.
var (
	ErrSuspended = errors.New("the service continues the run later")
	errCanceled  = errors.New("the run was canceled")
)

// ErrReported is wrapped by errors whose text is already in the run's log.
var ErrReported = errors.New("reported in the log")
