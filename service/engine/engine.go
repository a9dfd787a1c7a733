// Package engine executes the phases of the service's runs, with the same library as the command line.
//
// It turns a job of the service into an estate with a plan or an apply, and its progress into text for people
// or lines for programs. It has no knowledge of workspaces, permissions or the queue.
package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/coordinator/timeline"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/graph/plan/planfile"
	"github.com/millipede-iac/millipede/install/providers"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/internal/trace"
	"github.com/millipede-iac/millipede/internal/unpacking"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/service/work"
	"github.com/millipede-iac/millipede/state/locks"
	"github.com/millipede-iac/millipede/view/document"
)

// Place is the environment in which a phase is executed.
type Place struct {
	// Dir is the directory of the root module; Data is the permanent directory of the workspace. Root is the directory of
	// the whole configuration, which is all that its expressions can read; empty for none.
	Dir, Data, Root string
	Environ         environ.Variables
	Brought         environ.Variables // the run's own part of Environ, which external workers add to theirs
	// Backend stores the state.
	Backend backend.Backend
	Stop    operation.Stop
	// Tell prints a message for people.
	Tell func(text string)
}

// Options configure the engine.
type Options struct {
	// Open returns the estate of a place, with the connections of the process.
	Open func(Place) *estate.Estate
	// Environ is the environment of every run, to which its own variables are added.
	Environ     environ.Variables
	Parallelism placement.Parallelism
	// EngineVersion is the version of OpenTofu whose behaviour runs have.
	EngineVersion string
	Now           func() time.Time
	// Connected returns for how long workers have been reachable without interruption; 0 if they are not
	// reachable. May be nil.
	Connected func() time.Duration
	// Observe returns an observer that wraps inner, and a function that is called when there are no further
	// events; may be nil.
	Observe func(run string, inner coordinator.Observer) (o coordinator.Observer, end func())
	// Unpack bounds the size of an unpacked configuration.
	Unpack unpacking.Bounds
}

// Engine implements work.Engine. Safe for concurrent use.
type Engine struct {
	o      Options
	shares estate.SharedStores // shared by runs that work on one state
}

var _ work.Engine = (*Engine)(nil)

// New returns the engine.
func New(o Options) *Engine { return &Engine{o: o} }

// phase is a phase of a run in progress.
type phase struct {
	*Engine
	job    *work.Job
	estate *estate.Estate
	screen screen
	vars   estate.Variables
	// unwatched is called when there are no further events.
	unwatched func()
	began     time.Time
	// settles says that the run was canceled before this phase could resume it.
	settles bool
}

// Plan implements work.Engine.
func (e *Engine) Plan(ctx context.Context, j *work.Job) (_ *work.PlanResult, err error) {
	ctx, span := phaseSpan(ctx, "plan", j)
	defer func() { endSpan(span, err) }()
	p, err := e.begin(ctx, j)
	if err != nil {
		return nil, err
	}
	result, diags := p.plan(ctx)
	return result, p.end(diags)
}

// Apply implements work.Engine.
func (e *Engine) Apply(ctx context.Context, j *work.Job) (_ *work.ApplyResult, err error) {
	ctx, span := phaseSpan(ctx, "apply", j)
	defer func() { endSpan(span, err) }()
	p, err := e.begin(ctx, j)
	if err != nil {
		return nil, err
	}
	if p.settles {
		return nil, p.end(p.settle(ctx))
	}
	result, diags := p.apply(ctx)
	return result, p.end(diags)
}

// phaseSpan begins the trace of a phase. The phases of a run have separate traces, because they may be days
// apart.
func phaseSpan(ctx context.Context, name string, j *work.Job) (context.Context, *trace.Span) {
	ctx, span := trace.Start(ctx, name, trace.Internal)
	span.Set("millipede.run", j.Run.ID)
	span.Set("millipede.workspace", j.Workspace.Name)
	return ctx, span
}

func endSpan(span *trace.Span, err error) {
	if err != nil {
		span.Fail("failed")
	}
	span.End()
}

// begin unpacks the configuration and opens the estate.
func (e *Engine) begin(ctx context.Context, j *work.Job) (*phase, error) {
	p := &phase{Engine: e, job: j, began: e.o.Now()}
	root := filepath.Join(j.Scratch, "configuration")
	if j.Kept != "" {
		root = filepath.Join(j.Kept, "configuration")
	}
	if err := p.unpackOnce(root); err != nil {
		return nil, err
	}
	dir := filepath.Join(root, filepath.FromSlash(path.Clean("/"+j.Workspace.WorkingDirectory)))
	weak, strong, err := writeVariables(j)
	if err != nil {
		return nil, err
	}
	p.vars = estate.Variables{Weak: weak}
	for _, v := range j.Variables {
		if v.Sensitive {
			p.vars.Sensitive = append(p.vars.Sensitive, v.Name)
		}
	}
	for _, file := range strong {
		p.vars.List = append(p.vars.List, config.VariableFlag{File: true, Text: file})
	}
	p.screen = newScreen(j, e.o)
	p.unwatched = func() {}
	until := j.Stopping
	if p.settles = j.Resumed && until.Err() != nil && !errors.Is(context.Cause(until), work.ErrSuspended); p.settles {
		until = context.WithoutCancel(until) // it starts nothing, so there is nothing to stop
	}
	environment, brought := e.environ(j)
	p.estate = e.o.Open(Place{
		Dir: dir, Data: j.Data, Root: root, Environ: environment, Brought: brought,
		Backend: &snapshots{state: j.State, workspace: j.Workspace.Name, run: j.Run.ID},
		Stop:    operation.Stop{Stopping: until, Leaving: ctx}, Tell: p.screen.note,
	})
	return p, nil
}

// unpackOnce is unpack; into a directory that is kept, it unpacks only once.
func (p *phase) unpackOnce(dir string) error {
	if p.job.Kept == "" {
		return p.unpack(dir)
	}
	done := filepath.Join(p.job.Kept, "unpacked")
	if _, err := os.Stat(done); err == nil {
		return nil
	}
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(p.job.Kept, 0o700)); err != nil {
		return err
	}
	if err := p.unpack(dir); err != nil {
		return err
	}
	return os.WriteFile(done, nil, 0o600)
}

func (p *phase) unpack(dir string) error {
	if err := makeDir(dir); err != nil || p.job.Configuration == nil {
		return err
	}
	archive, err := p.job.Configuration()
	if err != nil {
		return err
	}
	err = unpack(archive, dir, p.o.Unpack)
	if err := archive.Close(); err != nil {
		return err
	}
	if err != nil {
		return fmt.Errorf("the configuration cannot be unpacked: %w", err)
	}
	return nil
}

// unheard are variables with which a run could access the process and the files of the service: they name
// programs that it connects to, and directories that it writes to.
var unheard = []string{"TF_REATTACH_PROVIDERS", "TF_DATA_DIR", "TF_CLI_CONFIG_FILE", "TERRAFORM_CONFIG"}

// environ returns the environment of the run's programs on this machine, and the part of it that external
// workers get, which have their own home, network settings and programs.
func (e *Engine) environ(j *work.Job) (all, brought environ.Variables) {
	brought = slices.DeleteFunc(slices.Clone(j.Environment), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(unheard, name)
	})
	brought = append(brought,
		"TF_WORKSPACE="+j.Workspace.Name, "TF_INPUT=0", "TF_IN_AUTOMATION=1", "TFC_RUN_ID="+j.Run.ID,
		"TFE_RUN_ID="+j.Run.ID,
		"TFC_WORKSPACE_NAME="+j.Workspace.Name, "TFC_ORGANIZATION_NAME="+j.Workspace.Organization,
	)
	return e.o.Environ.With("HOME=" + j.Scratch).With(brought...), brought
}

// end shows diagnostics, and returns the error for the service.
func (p *phase) end(diags diag.List) error {
	p.unwatched()
	p.screen.diagnostics(diags)
	err := p.screen.end()
	switch {
	case !diags.HasErrors():
		return err
	case p.job.Stopping.Err() != nil:
		return errors.Join(work.ErrStopped, err)
	}
	if p.o.Connected != nil && p.o.Connected() < p.o.Now().Sub(p.began) {
		err = errors.Join(err, work.ErrAgain)
	}
	return errors.Join(work.ErrReported, err)
}

// storeWait is how long a phase waits for the store of its workspace, which only the previous phase, of an
// abandoned run, can still have open.
const storeWait = 20 * time.Second

// state returns the options for opening the state. A plan that does not hold the workspace reads the last
// committed state: others may plan and apply at the same time.
func (p *phase) state(applies bool) estate.StateOptions {
	if p.job.Workspace.ObjectLocks {
		return p.shared()
	}
	if !applies && p.plansOnly() {
		return estate.StateOptions{KeepsNothing: true}
	}
	return estate.StateOptions{Lock: true, LockTimeout: storeWait}
}

// plansOnly reports whether the run plans without holding the workspace.
func (p *phase) plansOnly() bool { return p.job.Run.PlanOnly || p.job.Run.SavePlan }

// shared returns the options for opening a state on which several runs work at the same time.
func (p *phase) shared() estate.StateOptions {
	j := p.job
	return estate.StateOptions{LockTimeout: storeWait, Sharing: &estate.Sharing{
		Stores: &p.shares, Request: j.Run.ID, Who: fmt.Sprintf("%s (%s)", j.Who, j.Run.ID), Alive: j.Alive,
		Snapshot: j.Workspace.CurrentState,
		Waits: func(list []locks.Blocker) {
			if len(list) == 0 {
				j.Waits("", "", "")
				return
			}
			var text []string
			for _, b := range list {
				text = append(text, b.String())
			}
			j.Waits(work.ForObjects, list[0].By.ID, strings.Join(text, "; "))
		},
	}}
}

// operation opens the estate for this phase. saved is the plan to apply, nil if there is none. If the phase
// resumes a run, it settles the run with that plan.
func (p *phase) operation(ctx context.Context, saved *planfile.Saved, resumes bool) (*estate.Operation, diag.List) {
	r := &p.job.Run
	o := estate.OperationOptions{
		Name: "plan", Bare: r.Destroy, Variables: p.vars, State: p.state(saved != nil),
		Parallelism: p.o.Parallelism,
		LockAs:      "OperationTypePlan", Saved: saved, Settles: resumes, Request: r.ID, Watch: p.watch(),
	}
	if saved != nil {
		o.Name, o.LockAs = "apply", "OperationTypeApply"
	}
	op, diags := p.estate.Begin(ctx, o)
	if op != nil && p.job.Conceal != nil {
		p.job.Conceal(op.Secrets()) // providers copy them to attributes that nothing marks as sensitive
	}
	return op, diags
}

// watch returns the observers of an operation: the log, and the timeline.
func (p *phase) watch() estate.Watch {
	w := p.screen.watch()
	if p.job.Watched != nil {
		w.Timeline = func(head timeline.Head) *timeline.Recorder {
			engine := head.Run
			head.Run, head.Workspace = p.job.Run.ID, p.job.Workspace.Name
			recorder := timeline.NewRecorder(head)
			p.job.Watched(recorder, engine)
			return recorder
		}
	}
	if p.job.Waits != nil {
		w.Observer = &asking{Observer: w.Observer, waits: p.job.Waits}
	}
	if p.o.Observe != nil {
		p.unwatched() // the observers of an earlier operation of the phase, if any
		w.Observer, p.unwatched = p.o.Observe(p.job.Run.ID, w.Observer)
	}
	return w
}

// plan installs the dependencies of the configuration, and makes the plan.
func (p *phase) plan(ctx context.Context) (result *work.PlanResult, diags diag.List) {
	if diags := p.install(ctx); diags.HasErrors() {
		return nil, diags
	}
	options, diags := p.planOptions()
	if diags.HasErrors() {
		return nil, diags
	}
	op, diags := p.operation(ctx, nil, false)
	if diags.HasErrors() {
		return nil, diags
	}
	defer closing(ctx, op, &diags)
	p.doubtful(op.Prior)
	var generated []operation.Generated
	if p.job.Run.GenerateConfig {
		generated, diags = op.Generate(ctx, "generated.tf", options.Targets, options.Excludes)
	}
	var planned *operation.Planned
	if !diags.HasErrors() {
		var more diag.List
		planned, more = op.Plan(ctx, options)
		diags = diags.Append(more)
	}
	if planned != nil && !diags.HasErrors() {
		operation.Note(planned.Plan, generated)
		p.screen.plan(planned)
		var err error
		if result, err = p.documents(ctx, op, planned); err != nil {
			diags = diags.Append(diag.New(diag.Error, "Failed to save the plan", err.Error()+".", nil))
		} else {
			result.Generated = len(generated) > 0
		}
		if !planned.Plan.Pending() && !p.plansOnly() {
			// No apply follows that would write the snapshot; an earlier run may have failed to write it.
			diags = diags.Append(op.State.Push(ctx))
		}
	}
	return result, diags
}

// closing closes an operation, even after a panic in its phase: otherwise nobody could open its store again in
// this process. Use it with defer.
func closing(ctx context.Context, op *estate.Operation, diags *diag.List) {
	*diags = diags.Append(op.Close(ctx))
}

// planOptions returns the options of the run's plan.
func (p *phase) planOptions() (o plan.Options, diags diag.List) {
	r := &p.job.Run
	o.SkipRefresh, o.Refresh = !r.Refresh, p.job.Workspace.Refresh
	switch {
	case r.Destroy:
		o.Mode = plan.Destroy
	case r.RefreshOnly:
		o.Mode = plan.RefreshOnly
	}
	for _, text := range r.Targets {
		t, more := addr.ParseTarget(text)
		diags = diags.Append(more)
		o.Targets = append(o.Targets, t)
	}
	for _, text := range r.Replace {
		at, more := addr.ParseInstance(text)
		diags = diags.Append(more)
		o.Replace = append(o.Replace, at)
	}
	return o, diags
}

// documents makes the stored results of a plan. The complete document, which is as large as the state, is made
// from them on request: see PlanJSON.
func (p *phase) documents(ctx context.Context, op *estate.Operation, planned *operation.Planned) (*work.PlanResult,
	error) {
	text, err := op.Kept(ctx, planned.Plan)
	if err != nil {
		return nil, err
	}
	redacted, err := redact(planned.Plan, planned.Schemas)
	if err != nil {
		return nil, err
	}
	s := document.PlanSummary(planned.Plan)
	return &work.PlanResult{
		HasChanges: planned.Plan.Pending(), Add: s.Add, Change: s.Change, Destroy: s.Remove, Import: s.Import,
		Sensitive: sensitiveVariables(op.Config.Tree.Root.Module.Variables), Plan: text,
		Shape: encodeShape(planned.Schemas, p.vars.Sensitive), Redacted: redacted,
	}, nil
}

// sensitiveVariables returns the names of variables that are declared sensitive.
func sensitiveVariables(all map[string]*config.Variable) (names []string) {
	for name, v := range all {
		if v.Sensitive || v.Ephemeral {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// install installs modules and providers, as the command init does.
func (p *phase) install(ctx context.Context) diag.List {
	c, diags := p.estate.Configuration(p.vars)
	if diags.HasErrors() {
		return diags
	}
	p.screen.sources(c.Sources)
	if !c.HasFiles() {
		return nil // a destroy does not need one; for other runs the plan reports the error
	}
	diags = c.Install(ctx, false, estate.Fetching{
		Downloading: func(config.ModuleRequest, string, string) {}, Done: func(addr.Module, config.Installed) {},
	})
	if diags.HasErrors() {
		return diags
	}
	if more := c.Load(); more.HasErrors() {
		return diags.Append(more)
	}
	used, more := p.usedProviders(ctx, c)
	if diags = diags.Append(more); diags.HasErrors() {
		return diags
	}
	_, more = p.estate.InstallProviders(ctx, c.Tree, used, estate.InstallOptions{
		Begin: func() {}, Report: func(providers.Event) {},
	})
	return diags.Append(more)
}

// usedProviders returns the providers of the objects in the state. The service has recorded them for each
// version that it could read; for other versions the whole state is read.
func (p *phase) usedProviders(ctx context.Context, c *estate.Configuration) ([]addr.Provider, diag.List) {
	noted, err := p.job.State.Providers(ctx)
	if err != nil {
		return nil, diag.Errors("Failed to load state", err.Error()+".", nil)
	}
	known := noted != nil
	used := make([]addr.Provider, 0, len(noted))
	for _, text := range noted {
		config, diags := addr.ParseProviderConfig(text)
		known = known && !diags.HasErrors() // that of an old state may be incomplete
		used = append(used, config.Provider)
	}
	if known {
		return used, nil
	}
	prior, diags := p.estate.Snapshot(ctx, c.Tree.Root)
	return estate.ProvidersOf(prior), diags
}
