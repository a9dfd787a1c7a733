package estate

import (
	"context"
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/migration"
	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/coordinator/timeline"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/graph/plan/planfile"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

// OperationOptions are the options of an operation.
type OperationOptions struct {
	// Name is the name of the operation for people.
	Name string
	// Bare: the operation needs no configuration. Without configuration it can read or destroy existing objects, but
	// cannot create any.
	Bare        bool
	Variables   Variables
	State       StateOptions
	Parallelism placement.Parallelism
	// Background: other operations of the process have priority over this one.
	Background bool
	// LockAs is the name of the operation in the lock.
	LockAs string
	// Saved is the plan to apply, whose configuration replaces the files; nil for none.
	Saved *planfile.Saved
	// Suits checks the configuration as soon as it is loaded. It may be nil.
	Suits func(*config.Tree) diag.List
	// Dir is the directory of the root module; if it is empty, the root module is in the directory of the estate.
	Dir string
	// Delegates: if the configuration names a service that executes runs, the service executes the operation.
	Delegates bool
	// Settles: the operation itself settles an interrupted run, so Begin does not.
	Settles bool
	// Request is the requester's name for the operation. Estate.Asked finds the run by this name.
	Request string
	Watch   Watch
}

// Watch has the functions that observe an operation.
type Watch struct {
	// Sources is called before the first diagnostic is returned, with a function that returns the source files.
	Sources  func(func() map[string]*hcl.File)
	Observer coordinator.Observer
	// Timeline returns the recorder in which a run is recorded, or nil for none. The function may be nil, too. An apply is
	// always recorded, for other processes in this directory.
	Timeline func(timeline.Head) *timeline.Recorder
	// Events receives live events of workers.
	Events func(wire.Event)
	// Note shows the user a text during the operation.
	Note func(text string)
	// Settle ends the display of the run's progress.
	Settle func()
}

// Operation is a plan, an apply or an import, with the state and the engine that were opened for it.
type Operation struct {
	Config *Configuration
	State  *Opened
	// Prior is the state as it was when the operation began.
	Prior  *state.State
	Engine *Engine
	// Delegated is set if a service executes the operation. In that case neither State nor Engine is open.
	Delegated *Delegated
	// Mismatch are the errors about variables that were given together with a saved plan. The caller reports them after
	// those of Fit, because a plan that no longer fits the state is the more important problem.
	Mismatch diag.List

	estate  *Estate
	backend migration.Record // of the state
	inputs  map[string]values.Input
	watch   Watch
	request string
	after   string // the run of the round before; see Next
	// progress writes the snapshot while the run changes the state; nil if other runs change the state at the same time.
	progress *backend.Progress
	// adopted has changes that are in Prior and not in the store. They adapt a state that Terraform has written. An apply
	// stores them; a plan does not change the store.
	adopted []state.Change
}

// Begin opens the state and the engine for an operation. After an error, or a panic, nothing is left open. The caller
// closes the operation.
func (e *Estate) Begin(ctx context.Context, o OperationOptions) (_ *Operation, diags diag.List) {
	r := &Operation{estate: e, watch: o.Watch, request: o.Request}
	c, diags := e.Configuration(o.Variables)
	if o.Saved != nil {
		c.Loader = config.NewLoader(savedFiles(o.Saved.Config))
	}
	r.Config = c
	o.Watch.Sources(c.Sources)
	c.Dir = o.Dir
	if diags.HasErrors() {
		return nil, diags
	}
	if o.Saved == nil && !c.HasFiles() && !o.Bare {
		return nil, diags.Append(diag.New(diag.Error, "No configuration files",
			fmt.Sprintf("The command %s needs configuration, but this directory has no file with a name that ends in "+
				".tf, .tofu, .tf.json or .tofu.json. To destroy the objects of an earlier configuration, create an empty "+
				"configuration file here, or use the destroy command.", o.Name), nil))
	}
	if diags = diags.Append(c.loadFor(o.Saved)); diags.HasErrors() {
		return nil, diags
	}
	if o.Suits != nil {
		if diags = diags.Append(o.Suits(c.Tree)); diags.HasErrors() {
			return nil, diags
		}
	}
	if o.Delegates {
		d, more := e.delegate(ctx, c)
		if diags = diags.Append(more); diags.HasErrors() {
			return nil, diags
		}
		if d != nil && o.Saved != nil {
			return nil, diags.Append(diag.New(diag.Error, "Applying a saved local plan is not supported", fmt.Sprintf(
				"The service %[2]s executes the runs of the workspace %[1]s. It applies only plans that it has made itself: "+
					"make one with plan -out=FILE.", d.Workspace.Name, d.Host), nil))
		}
		if d != nil {
			r.Delegated = d
			return r, diags
		}
	}
	var more diag.List
	if o.Saved != nil {
		if r.inputs, more = savedInputs(o.Saved.Plan, c); more.HasErrors() {
			r.Mismatch, more = more, nil
		}
	} else {
		r.inputs, more = c.Inputs()
	}
	if diags = diags.Append(more); diags.HasErrors() {
		return nil, diags
	}
	if o.Saved != nil {
		if o.State.planned, more = e.backendOf(o.Saved.Plan, o.Settles); more.HasErrors() {
			return nil, diags.Append(more)
		}
		if o.State.planned != nil && o.Saved.Plan.Workspace != e.Workspace() {
			return nil, diags.Append(otherWorkspace(o.Saved.Plan, e.Workspace()))
		}
	}
	if r.backend, more = e.recordFor(o.State); more.HasErrors() {
		return nil, diags.Append(more)
	}
	st, more := e.OpenState(ctx, c.Tree.Root, o.State, o.LockAs)
	if diags = diags.Append(more); diags.HasErrors() {
		return nil, diags
	}
	r.State = st
	begun := false
	defer func() {
		if !begun {
			diags = diags.Append(st.Close(ctx))
		}
	}()
	if o.Saved != nil {
		if diags = diags.Append(complete(ctx, st.store, o.Saved)); diags.HasErrors() {
			return nil, diags
		}
	}
	switch {
	case st.sharing != nil && o.Settles:
		st.home.registerRequest(st.sharing.Request, true)
		st.asked, st.LockID = true, st.sharing.Request
	case st.sharing != nil:
		diags = diags.Append(r.settleLeft(ctx, true))
	case !o.Settles:
		diags = diags.Append(r.settle(ctx))
	}
	if !diags.HasErrors() {
		diags = diags.Append(r.open(ctx, o))
	}
	if diags.HasErrors() {
		return nil, diags
	}
	begun = true
	return r, diags
}

// Secrets returns the texts in the values of root variables that are declared sensitive or ephemeral.
func (r *Operation) Secrets() (out []string) {
	for name, v := range r.Config.Tree.Root.Module.Variables {
		if !v.Sensitive && !v.Ephemeral || r.inputs[name].Value == cty.NilVal {
			continue
		}
		bare, _ := r.inputs[name].Value.UnmarkDeep()
		_ = cty.Walk(bare, func(_ cty.Path, part cty.Value) (bool, error) { // it returns no error
			if part.Type() == cty.String && part.IsKnown() && !part.IsNull() {
				out = append(out, part.AsString())
			}
			return true, nil
		})
	}
	return out
}

// open loads the state and opens the engine.
func (r *Operation) open(ctx context.Context, o OperationOptions) diag.List {
	prior, diags := r.State.Load(ctx)
	if diags.HasErrors() {
		return diags
	}
	r.adopted = r.estate.succession(r.Config.Tree, prior)
	prior.Apply(r.adopted...)
	r.Prior = prior
	var more diag.List
	engine := EngineOptions{
		Tree: r.Config.Tree, Loader: r.Config.Loader, Inputs: r.inputs, Prior: prior, State: r.State,
		Observer: o.Watch.Observer, Timeline: r.timeline, Events: o.Watch.Events, Note: o.Watch.Note,
		Parallelism: o.Parallelism, Background: o.Background,
	}
	// If other runs change the state at the same time, the state is not consistent before the end of this run, so no
	// snapshot is written until then.
	if r.State.sharing == nil {
		if r.progress, more = r.State.progress(o.Watch.Note); more.HasErrors() {
			return diags.Append(more)
		}
		engine.Store = r.progress
	}
	r.Engine, more = r.estate.OpenEngine(ctx, engine)
	return diags.Append(more)
}

// timeline returns the recorder of a run, or nil if the run is not recorded. If this process has the store open, other
// processes can watch an apply.
func (r *Operation) timeline(head timeline.Head) *timeline.Recorder {
	var recorder *timeline.Recorder
	if r.watch.Timeline != nil {
		recorder = r.watch.Timeline(head)
	}
	server := r.State.store.server
	if server == nil || head.Command == "plan" {
		return recorder
	}
	if recorder == nil {
		recorder = timeline.NewRecorder(head)
	}
	server.Watched(recorder)
	return recorder
}

// Close closes the engine, releases the lock and closes the state.
func (r *Operation) Close(ctx context.Context) diag.List {
	return r.Engine.Close().Append(r.State.Close(ctx))
}

// Plan makes a plan. After errors it may return nil.
func (r *Operation) Plan(ctx context.Context, o plan.Options) (*operation.Planned, diag.List) {
	planned, diags := operation.Do(ctx, r.Engine.Session, "plan",
		func(ctx context.Context, s *operation.Session) (*operation.Planned, diag.List) {
			return s.Plan(ctx, r.Prior, o)
		})
	r.watch.Settle()
	switch b := r.Config.Tree.Root.Module.Backend; {
	case planned == nil:
	case r.estate.Backend == nil:
		describeFor(r.backend, planned.Plan)
	default:
		planned.Plan.BackendType = localType
		if b != nil {
			planned.Plan.BackendType = b.Type
		}
	}
	return planned, diags
}

// Compare reads instances with their providers, and returns those that differ from the state. See
// operation.Session.Compare.
func (r *Operation) Compare(ctx context.Context, instances []addr.Instance) ([]operation.Drifted, diag.List) {
	return operation.Do(ctx, r.Engine.Session, "refresh",
		func(ctx context.Context, s *operation.Session) ([]operation.Drifted, diag.List) {
			return s.Compare(ctx, r.Prior, instances)
		})
}

// Saved returns the contents of a plan file: the plan, and the configuration with which it is applied.
func (r *Operation) Saved(p *plan.Plan) planfile.Saved {
	files := map[string][]byte{}
	for name, f := range r.Config.Loader.Sources() {
		files[name] = f.Bytes
	}
	saved := planfile.Saved{Plan: p, Engine: r.estate.Version, Config: planfile.Config{Files: files, Dir: "."}}
	if text, err := r.estate.files().ReadFile(config.ManifestPath(r.estate.dataName())); err == nil {
		saved.Config.Manifest = text
	}
	return saved
}

// Apply applies a plan, and writes the snapshot. It calls begin after it has recorded the plan and before it changes
// anything.
func (r *Operation) Apply(ctx context.Context, p *plan.Plan, command string, begin func()) (*operation.Applied,
	*state.State, diag.List) {
	saved, err := r.recorded(ctx, p)
	if err != nil {
		return nil, nil, diag.Errors("Failed to record the plan", err.Error()+".", nil)
	}
	defer r.estate.Process.Hold()()
	if len(r.adopted) > 0 {
		// After a crash at this point, these changes belong to the version that the next command ends.
		if err := r.State.store.Commit(ctx, journal.Commit{Workspace: r.State.Workspace, Fence: r.State.LockID,
			Changes: r.adopted}); err != nil {
			return nil, nil, diag.Errors("Failed to save state", err.Error()+".", nil)
		}
	}
	begin()
	stop := r.startProgress(ctx)
	applied, diags := operation.Do(ctx, r.Engine.Session, command,
		func(ctx context.Context, s *operation.Session) (*operation.Applied, diag.List) {
			return s.Apply(ctx, operation.ApplyOptions{
				Plan: p, Saved: saved, Command: command, LockID: r.State.LockID, Who: r.State.info.Who,
				Request: r.request, After: r.after,
			})
		})
	stop()
	return r.finish(ctx, applied, diags)
}

// startProgress begins to write the snapshot periodically, until stop is called.
func (r *Operation) startProgress(ctx context.Context) (stop func()) {
	if r.progress == nil {
		return func() {}
	}
	return r.progress.Start(ctx)
}

// Continue resumes or cancels an interrupted run, and writes the snapshot.
func (r *Operation) Continue(ctx context.Context, run journal.Run, p *plan.Plan, cancel bool) (*operation.Applied,
	*state.State, diag.List) {
	defer r.estate.Process.Hold()()
	stop := r.startProgress(ctx)
	applied, diags := operation.Do(ctx, r.Engine.Session, run.Command,
		func(ctx context.Context, s *operation.Session) (*operation.Applied, diag.List) {
			if cancel {
				return s.Cancel(ctx, run, p, r.State.LockID)
			}
			return s.Resume(ctx, run, p, r.State.LockID)
		})
	stop()
	return r.finish(ctx, applied, diags)
}

// Ended returns the outcome of a run that has ended. It also writes the snapshot: the run's process may have ended
// before it wrote the snapshot itself.
func (r *Operation) Ended(ctx context.Context, run journal.Run, p *plan.Plan) (*operation.Applied, *state.State,
	diag.List) {
	applied, diags := operation.Do(ctx, r.Engine.Session, run.Command,
		func(ctx context.Context, s *operation.Session) (*operation.Applied, diag.List) {
			return s.Ended(ctx, run, p)
		})
	return r.finish(ctx, applied, diags)
}

// finish writes the snapshot after an apply or a resumed run, and loads the state. If applied is nil, the returned
// state is nil, too.
func (r *Operation) finish(ctx context.Context, applied *operation.Applied, diags diag.List) (*operation.Applied,
	*state.State, diag.List) {
	r.watch.Settle()
	ctx = context.WithoutCancel(ctx)
	diags = diags.Append(r.State.Push(ctx))
	if applied == nil {
		return nil, nil, diags
	}
	after, more := r.State.Load(ctx)
	return applied, after, diags.Append(more)
}

// Adopt returns a plan that only updates the state with the results of the refresh that found has made. Its outputs
// are those of found that are wholly known.
func Adopt(found *plan.Plan) *plan.Plan {
	adopted := *found
	adopted.Mode, adopted.Changes, adopted.Drift, adopted.Graph = plan.RefreshOnly, nil, nil, plan.Graph{}
	adopted.Invocations, adopted.Invoke = nil, nil
	adopted.Outputs, adopted.Checks = nil, nil
	adopted.Targets, adopted.Excludes = nil, nil // excluded objects do not make the findings incomplete
	for _, o := range found.Outputs {
		if o.Action != plan.Delete && o.After.IsWhollyKnown() {
			adopted.Outputs = append(adopted.Outputs, o)
		}
	}
	return &adopted
}
