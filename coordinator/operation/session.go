// Package operation implements the operations of the command line and the service: plan, apply, validate, evaluate.
//
// It connects configuration, state, workers and the run's loop. It prints nothing and parses no arguments.
package operation

import (
	"context"
	"time"

	"github.com/zclconf/go-cty/cty/function"

	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/hub"
	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/coordinator/renewal"
	"github.com/millipede-iac/millipede/coordinator/timeline"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/internal/reach"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/funcs"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

// DefaultPool is the pool of everything that no placement rule assigns to another one.
const DefaultPool = "default"

// Session has the dependencies of operations. Its fields are set before the first operation and not changed
// afterwards.
type Session struct {
	Tree *config.Tree
	// Inputs are the root variables.
	Inputs        map[string]values.Input
	Workspace     string
	EngineVersion string

	// Hub is the coordinator's connection. All runs on one store use the same coordinator name, which a resumed run needs
	// again.
	Hub *hub.Hub
	// Keyring creates and opens the keys that seal the messages of the safe lane.
	Keyring *wire.Keyring
	// Store may be nil for operations that do not use a state.
	Store journal.Store
	// Prior is the state whose objects say, besides the configuration, in which pools providers are asked; nil for none.
	// Places remembers these pools for all operations of the session, and may be nil.
	Prior  *state.State
	Places *Places
	// Package returns the selected package of a provider; Selections are all selected packages.
	Package    func(addr.Provider) wire.Package
	Selections []plan.ProviderSelection
	// WorkerWait is how long an operation waits for a worker of the pools that it may ask about a provider.
	WorkerWait time.Duration

	// Parallelism is the number of slots of the default limit, as in coordinator.Options. Rules place vertices and limit
	// them.
	Parallelism placement.Parallelism
	Rules       *placement.Rules
	// OwnSlots gives each run the slots of the default limit for itself. Otherwise all runs share them.
	OwnSlots bool
	// Background gives all other operations of the process priority over those of this session.
	Background bool
	// Sole is set if no other coordinator uses the transport.
	Sole bool
	// Embedded is set if the workers end with the session's operations.
	Embedded bool
	Observer coordinator.Observer
	// Timeline returns the recorder in which a run in progress is recorded for pages and other processes; nil for a run
	// that is not recorded. It may be nil.
	Timeline func(timeline.Head) *timeline.Recorder
	// Events receives live events of workers, on another goroutine; may be nil.
	Events func(wire.Event)
	// Reveal shows the output of provisioners whose configuration has sensitive values.
	Reveal bool
	// Stop stops operations; the zero value never does.
	Stop Stop

	// Dir is the absolute directory of the configuration: relative paths in it start there, and plugins and provisioners
	// run there, if their worker has it. Empty is the working directory of each process. Cwd is path.cwd: the directory in
	// which the command was given, from which -chdir may lead elsewhere; empty is Dir.
	Dir, Cwd string
	// Environment is the environment of plugins and provisioners; nil is their worker's own.
	Environment *Environment
	// Env is the environment of the operation itself: of functions, and of everything that this process reads for it.
	Env environ.Variables
	// Files are the files that expressions may read; nil is all of them.
	Files *reach.Files
	Now   func() time.Time
	NewID func() string
	// TemplateDepth is the maximum depth of nested templates; zero is the default.
	TemplateDepth int
	// Compute and Own are those of coordinator.Options; may be nil.
	Compute func(vertex int, fn func())
	Own     func(ctx context.Context, t *wire.Task) *wire.Result
}

// functions returns the function table of a phase. at is the timestamp of the plan; zero if it is not known yet.
func (s *Session) functions(phase values.Phase, at time.Time) map[string]function.Function {
	return funcs.Table(funcs.Options{
		BaseDir: s.Dir, Env: s.Env, Files: s.Files, PlanTimestamp: at, Now: s.Now, TemplateDepth: s.TemplateDepth,
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

// renewals returns the Renewer that renews open ephemeral objects during a run. The caller stops it when the run has
// ended.
func (s *Session) renewals() *renewal.Renewer {
	return renewal.NewRenewer(func(ctx context.Context, pool string, task *wire.Task) (*wire.Result, diag.List) {
		// Open objects must be renewed, and closed, after a stop as well.
		return s.callWith(ctx, ctx, task, func(ctx context.Context, task *wire.Task) (*wire.Result,
			error) {
			return s.callPool(ctx, pool, task)
		})
	})
}
