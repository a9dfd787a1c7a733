// Package operation carries out what the command line asks for as a whole: plan, apply, validate, evaluate.
//
// It puts configuration, state, workers and the run loop together; each does its own part. It prints nothing and
// parses no arguments.
package operation

import (
	"context"
	"time"

	"github.com/zclconf/go-cty/cty/function"

	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/hub"
	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/coordinator/renewal"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/environ"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/funcs"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/view/timeline"
	"github.com/millipede-iac/millipede/wire"
)

// DefaultPool is the pool of what no placement rule places.
const DefaultPool = "default"

// Session is what operations work with. Its fields are set before the first operation and not changed after.
type Session struct {
	Tree *config.Tree
	// Inputs are the root variables.
	Inputs        map[string]values.Input
	Workspace     string
	EngineVersion string

	// Hub is the coordinator's connection. Its name is the same for all runs on one store, because a resumed run needs
	// the name that it had.
	Hub *hub.Hub
	// Keyring makes and finds the keys that seal what the safe lane persists.
	Keyring *wire.Keyring
	// Store may be nil for operations that touch no state.
	Store journal.Store
	// Package returns the selected package of a provider; Selections are all of them.
	Package    func(addr.Provider) wire.Package
	Selections []plan.ProviderSelection
	// WorkerWait is how long to wait for the first worker.
	WorkerWait time.Duration

	// Parallelism is the number of slots of the widest limit; Rules place vertices and limit them.
	Parallelism placement.Parallelism
	Rules       *placement.Rules
	// OwnSlots tells that the slots of the widest limit are each run's own. Otherwise all runs share them.
	OwnSlots bool
	// Background tells that what is done here makes way for everybody else's operations.
	Background bool
	// Sole tells that no other coordinator uses the transport.
	Sole bool
	// Embedded tells that the workers end with the session's operations.
	Embedded bool
	Observer coordinator.Observer
	// Timeline returns the book that a run is written into while it goes on, for pages and for other processes to read;
	// nil for a run that nobody looks at. It may be nil.
	Timeline func(timeline.Head) *timeline.Book
	// Events receives what workers tell of operations while they run, from another goroutine; may be nil.
	Events func(wire.Event)
	// Stop ends what operations do; the zero value never does.
	Stop Stop

	// Dir is the absolute directory of the configuration: relative paths in it start there, and plugins and
	// provisioners run there, where their worker has it. Empty is where each process runs. Cwd is path.cwd: the
	// directory in which the command was given, which -chdir changes Dir from; empty is Dir.
	Dir, Cwd string
	// Environment is what plugins and provisioners are started with; nil leaves them to their worker's own environment.
	Environment *Environment
	// Env is the environment of the operation itself: of functions, and of what this process reads for it.
	Env   environ.Variables
	Now   func() time.Time
	NewID func() string
	// TemplateDepth is how many templates may be nested in each other; zero is what is usual.
	TemplateDepth int
	// Compute and Own are those of coordinator.Options; may be nil.
	Compute func(vertex int, fn func())
	Own     func(ctx context.Context, t *wire.Task) *wire.Result
}

// functions returns the function table of a phase. at is the plan's timestamp; zero when it is not known yet.
func (s *Session) functions(phase values.Phase, at time.Time) map[string]function.Function {
	return funcs.Table(funcs.Options{
		BaseDir: s.Dir, Env: s.Env, PlanTimestamp: at, Now: s.Now, TemplateDepth: s.TemplateDepth,
		Pure: phase != values.Applying && phase != values.Evaluating, Console: phase == values.Evaluating,
	})
}

// store returns the values of a phase.
func (s *Session) store(code *values.Code, phase values.Phase, at time.Time) *values.Store {
	cwd := s.Cwd
	if cwd == "" {
		cwd = s.Dir
	}
	return values.NewStore(values.Options{
		Code: code, Phase: phase, Inputs: s.Inputs, Functions: s.functions(phase, at), Cwd: cwd, WorkDir: s.Dir,
		Workspace: s.Workspace,
		ProviderFunction: func(p addr.Provider, name string, sig provider.Function) function.Function {
			return s.providerFunction(phase, p, name, sig)
		},
	})
}

// renewals returns what keeps ephemeral objects alive during a run. Stop it when the run has ended.
func (s *Session) renewals() *renewal.Keeper {
	return renewal.NewKeeper(func(ctx context.Context, pool string, task *wire.Task) (*wire.Result, diag.List) {
		// An object that is open must be kept alive, and closed, after a stop as well.
		return s.callWith(ctx, ctx, task, func(ctx context.Context, task *wire.Task) (*wire.Result,
			error) {
			return s.callPool(ctx, pool, task)
		})
	})
}
