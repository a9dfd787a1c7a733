// Package service owns the states of many workspaces, and carries out their runs: who may do what, which run has its
// turn, what is kept of it.
//
// It speaks no protocol and draws no pages: service/tfe, service/httpstate and others ask it for people and programs.
// It plans and applies nothing: the Engine does. What a method has answered without an error is durable.
package service

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/service/events"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/view/timeline"
)

// Options are what a service works with.
type Options struct {
	Store  *store.Store
	Engine Engine
	// Homes are what the engine keeps in the directory of the store; nil for nothing.
	Homes store.Homes
	Now   func() time.Time // default time.Now
	// Version is the engine's, which runs record.
	Version string
	Logger  *slog.Logger // default: nothing is logged
	// Floor is where operations are carried out; nil where people do not look at that.
	Floor Floor

	// Host is where clients reach the service, HOST or HOST:PORT: the variable of the environment with the token of a
	// run is called after it. Empty for none.
	Host string

	// Plans and Applies bound how many compute at a time.
	Plans, Applies int
	// WatchReads is how many objects are read at a time to watch for drift; default 1.
	WatchReads int
	// MaxConfiguration and MaxState bound what is uploaded, in bytes.
	MaxConfiguration, MaxState int64
	// Became is told of each status that a run comes to, once that is durable; it must return at once, and may be nil.
	Became func(record.RunStatus)
	// Mail tells whether notifications can go by mail.
	Mail bool
	// Keep says what is kept of what is over.
	Keep Keep
	// ForceCancelAfter is how long a cancellation has time before the run may be left; default 10 s.
	ForceCancelAfter time.Duration
}

// Service is the service. Safe for concurrent use. Run has to be called, once, for runs to get on.
type Service struct {
	opts   Options
	store  *store.Store
	engine Engine
	now    func() time.Time
	log    *slog.Logger

	queue   *queue
	watcher *watcher
	logs    *logs
	stream  *events.Stream
	books   books

	outlines outlines
	uploads  queues
	signing  sync.Mutex // one at a time makes keys
	// documents is held while the document of a plan is made: they are large.
	documents sync.Mutex

	outgoing chan struct{} // holds a token when there are notifications to send

	lastUsed sync.Map // token id -> when it was last written that it was used
	lent     sync.Map // the IDs of the tokens of phases that are carried out
}

// New returns the service over its store. The caller calls Run, and closes the store after that has returned.
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
	if o.ForceCancelAfter == 0 {
		o.ForceCancelAfter = 10 * time.Second
	}
	s := &Service{opts: o, store: o.Store, engine: o.Engine, now: o.Now, log: o.Logger, logs: newLogs(o.Store),
		outgoing: make(chan struct{}, 1), stream: events.New(o.Now)}
	s.outlines.wanted = make(chan func() error, 64)
	s.queue, s.watcher = newQueue(s), newWatcher(s)
	o.Store.OnUnsure(s.queue.doubt)
	return s, s.recover()
}

// Run has runs carried out until ctx ends. It then stops what is under way as after an interrupt, waits for it, and
// returns.
func (s *Service) Run(ctx context.Context) error {
	var outlining sync.WaitGroup
	outlining.Go(func() { s.outlineWanted(ctx) })
	outlining.Go(func() { s.sweep(ctx) })
	outlining.Go(func() { s.watcher.run(ctx) })
	err := s.queue.run(ctx)
	s.stream.Close()
	outlining.Wait()
	return errors.Join(err, s.logs.close())
}

// alphabet is what identities are made of.
const alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

// newID makes an identity: the kind, and 16 characters drawn at random.
func newID(kind string) string { return kind + "-" + random(16) }

// random returns n characters of the alphabet, each equally likely.
func random(n int) string {
	out := make([]byte, 0, n)
	var drawn [32]byte
	for len(out) < n {
		_, _ = rand.Read(drawn[:]) // never fails
		for _, b := range drawn {
			if b &= 63; int(b) < len(alphabet) && len(out) < n {
				out = append(out, alphabet[b])
			}
		}
	}
	return string(out)
}

// newSecret makes what is told to one program and guessed by none: over 256 bits.
func newSecret() string { return random(44) }

// Page is a part of a list. Number counts from 1.
type Page struct{ Number, Size int }

// Cut returns the part of a list that the page has.
func Cut[T any](all []T, p Page) []T {
	from := min(len(all), max(0, p.Number-1)*p.Size)
	return all[from:min(len(all), from+p.Size)]
}

// Engine carries out the phases of runs.
type Engine interface {
	// Plan makes the plan of a run. It changes nothing outside of the job's directories.
	Plan(ctx context.Context, j *Job) (*PlanResult, error)
	// PlanJSON makes the JSON document of a plan of what Plan has returned, and of the versions of the state in the
	// directory of the workspace. It needs no worker, and the state may have moved on.
	PlanJSON(ctx context.Context, data string, plan, shape []byte) ([]byte, error)
	// Apply carries out the plan of a run, or goes on with what was begun of it. With a nil error everything was
	// applied.
	Apply(ctx context.Context, j *Job) (*ApplyResult, error)
	// Resolve ends the doubt about an operation of the workspace, as who says what became of it.
	Resolve(ctx context.Context, j *Job, r Resolution, who string) error
	// Watch reads objects of the workspace, at most reads at a time, and returns those that are not as the state has
	// them. It changes nothing, keeps nobody from changing the state, and lets the plans and applies of others go first.
	// With an error some of the objects were not read; what was found in the others is returned all the same.
	Watch(ctx context.Context, j *Job, addresses []string, reads int) ([]Found, error)
}

// Job is one phase of a run for the engine. When ctx, which comes with it, ends, the engine returns without waiting for
// anything.
type Job struct {
	Run       record.Run
	Workspace record.Workspace
	// Stopping ends when nothing new is to be begun: what is under way is ended, and kept. Its cause is ErrSuspended
	// where the phase is gone on with later: then what is under way is finished, not asked to end.
	Stopping context.Context //nolint:containedctx // the other one of the two contexts of a stop
	// Configuration is the archive, gzip of tar; nil for none.
	Configuration func() (io.ReadCloser, error)
	// Scratch is an empty directory of this phase, removed after it; Data is the workspace's own, which stays.
	Scratch, Data string
	// Kept, where it is not empty, is a directory that stays from one job with this configuration to the next, so that
	// it is unpacked, and its modules are brought there, once.
	Kept string
	// Variables are those that the run has, and Environment is what its programs see, as NAME=value.
	Variables   []Value
	Environment []string
	// State is the state of the workspace.
	State State
	// Plan is what the plan phase returned; for Apply.
	Plan []byte
	// Resumed tells that an apply was begun before and has not ended.
	Resumed bool
	// Who is the person who has approved the run, or else made it.
	Who string
	// Alive tells of a run whether its apply is under way, or will be gone on with.
	Alive func(run string) bool
	// Waits is told what an apply waits for that has to have objects for itself: for which run, and more as text. Both
	// are empty when it goes on. Safe for calls from any goroutine.
	Waits func(run, text string)
	// Log is what people read; Structured that it has a line of JSON for each message.
	Log        io.Writer
	Structured bool
	// Watched is told, once, what the vertices of the phase do, as soon as there is something to look at, and which name
	// the engine's own run has, under which permits are held. The engine goes on writing the book until the phase ends;
	// people look at it meanwhile. Safe for calls from any goroutine.
	Watched func(book *timeline.Book, engine string)
	// Doubtful is told which operations the state has in doubt, whenever the engine has looked; the last word counts.
	Doubtful func([]record.Doubt)
}

// Value is the value of an input variable.
type Value struct {
	Name      string
	Text      string // an expression in HCL, or the text itself
	HCL       bool
	Sensitive bool
	// Run tells that it came with the run, and wins over files of the configuration.
	Run bool
}

// State is what a run sees of its workspace's state.
type State interface {
	// Read returns the current version, nil when there is none.
	Read(ctx context.Context) ([]byte, error)
	// Providers returns the configurations of providers that the objects of the current version belong to, as the state
	// writes them; nil where that is not known.
	Providers(ctx context.Context) ([]string, error)
	// Write makes a new version the current one. It is durable when Write returns.
	Write(ctx context.Context, data []byte) error
}

// PlanResult is what a plan came to.
type PlanResult struct {
	HasChanges, Generated        bool
	Add, Change, Destroy, Import int
	// Sensitive are the names of the variables whose values the configuration declares sensitive.
	Sensitive []string
	// Plan is what Apply needs. Redacted is the document of the plan that clients show; the whole one is made of Plan and
	// Shape when somebody asks for it.
	Plan, Shape, Redacted []byte
}

// ApplyResult is what an apply came to.
type ApplyResult struct{ Add, Change, Destroy, Import int }

// ErrStopped is what the engine returns when it has ended because it was asked to stop.
var ErrStopped = errors.New("the run was stopped")

// ErrAgain is wrapped by the engine's error when a phase has failed while something was away that it needs and that
// comes back. It is carried out again: planned again, or gone on with.
var ErrAgain = errors.New("something that the run needs was away")

// ErrSuspended is the cause of a phase's stop after which the service goes on with it; errCanceled that of one that
// somebody has asked for.
var (
	ErrSuspended = errors.New("the service goes on with the run later")
	errCanceled  = errors.New("the run was canceled")
)

// ErrReported is wrapped by errors whose text is in the run's log already.
var ErrReported = errors.New("reported in the log")
