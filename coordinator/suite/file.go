package suite

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
)

// fileRunner executes one file.
type fileRunner struct {
	*Runner
	file *File
	// tracks are the states of the file's modules by source address; that of the module under test has the key
	// "".
	tracks map[string]*moduleState
}

// moduleState is the state of one module.
type moduleState struct {
	store journal.Store
	// run is the last run that was applied, and session its session; nil until there is one.
	run     *Run
	session *operation.Session
}

// load returns a copy of the state, which belongs to the caller.
func (t *moduleState) load(ctx context.Context) (*state.State, diag.List) {
	s, err := t.store.Load(ctx, journal.DefaultWorkspace)
	if err != nil {
		return state.Empty(), diag.Errors("Failed to load state", err.Error()+".", nil)
	}
	return s, nil
}

func (f *fileRunner) run(ctx context.Context) {
	f.file.Status = Pass
	for _, r := range f.file.Runs {
		if f.cancelled() {
			return // runs that have not started stay pending, and are not reported
		}
		if f.Stop.Asked() || f.file.Status == Error {
			r.Status = Skip
			continue
		}
		began := f.Session.Now()
		f.carryOut(ctx, r)
		r.Took = f.Session.Now().Sub(began)
		f.file.Status = max(f.file.Status, r.Status)
	}
	f.View.Ran(f.file)
	f.clean(ctx)
}

// close closes the states.
func (f *fileRunner) close() error {
	var all []error
	for _, t := range f.tracks {
		all = append(all, t.store.Close())
	}
	return errors.Join(all...)
}

// trackOf returns the state on which a run works.
func (f *fileRunner) trackOf(r *Run) *moduleState {
	key := ""
	if r.Config.Module != nil {
		key = r.Config.Module.Source
	}
	if f.tracks[key] == nil {
		f.tracks[key] = &moduleState{store: f.NewStore()}
	}
	return f.tracks[key]
}

// treeOf returns the configuration that a run plans.
func (f *fileRunner) treeOf(r *Run) *config.Tree {
	if r.Config.Tree != nil {
		return r.Config.Tree
	}
	return f.Tree
}

// carryOut executes one run.
func (f *fileRunner) carryOut(ctx context.Context, r *Run) {
	fail := func(diags diag.List) bool {
		r.Diags = append(r.Diags, fresh(r.Diags, diags)...)
		if diags.HasErrors() {
			r.Status = Error
		}
		return diags.HasErrors()
	}
	if fail(f.file.Config.Check()) || fail(r.Config.Check()) || fail(f.Refusal) {
		return
	}
	s, scope, diags := f.session(ctx, r)
	if fail(diags) {
		return
	}
	_, diags = operation.Do(ctx, s, "validate", func(ctx context.Context, s *operation.Session) (struct{}, diag.List) {
		return struct{}{}, s.Validate(ctx)
	})
	if fail(f.settled(diags, r, nil)) {
		return
	}
	o, diags := planOptions(r.Config)
	if fail(diags) {
		return
	}
	t := f.trackOf(r)
	prior, diags := t.load(ctx)
	if fail(diags) {
		return
	}
	planned, diags := planFor(ctx, s, prior, o)
	diags = f.settled(diags, r, nil)
	expected := newExpectations(r.Config)
	if !r.Config.Apply {
		if fail(expected.check(diags)) {
			return
		}
		if planned == nil { // an expected failure has prevented the plan
			r.Status = Pass
			return
		}
		f.assert(r, scope, planned.Values, prior)
		if f.Verbose {
			r.Verbose = &Verbose{Plan: planned.Plan, Schemas: planned.Schemas, Tree: s.Tree}
		}
		return
	}
	if !diags.HasErrors() {
		diags = withoutChecks(diags)
	}
	if fail(expected.warn(diags)) {
		return
	}
	f.apply(ctx, r, t, s, scope, planned.Plan, expected, fail)
}

// apply applies the plan of a run.
func (f *fileRunner) apply(ctx context.Context, r *Run, t *moduleState, s *operation.Session, scope *scope,
	p *plan.Plan, expected *expectations, fail func(diag.List) bool) {
	applied, diags := applyTo(ctx, s, p)
	t.run, t.session = r, s
	if fail(expected.check(f.settled(diags, r, p))) || applied == nil {
		return
	}
	after, diags := t.load(ctx)
	if fail(diags) {
		return
	}
	f.assert(r, scope, applied.Values, after)
	if f.Verbose {
		r.Verbose = &Verbose{Plan: p, State: after, Schemas: applied.Schemas, Tree: s.Tree}
	}
}

// assert evaluates the assertions of a run. left has the objects that the run may not have touched.
func (f *fileRunner) assert(r *Run, scope *scope, store *values.Store, left *state.State) {
	store.Complete(left)
	given, diags := scope.all(r)
	r.Diags = append(r.Diags, diags...)
	if diags.HasErrors() {
		r.Status = Error
		return
	}
	statuses, diags := store.CheckTest(r.Config.Asserts, given)
	r.Diags = append(r.Diags, diags...)
	r.Status = Pass
	for _, st := range statuses {
		r.Status = max(r.Status, statusOf(st))
	}
}

// settled adds information about an operation that was abandoned because the suite was cancelled: the existing
// objects, and the objects that the plan p (may be nil) was about to create.
func (f *fileRunner) settled(diags diag.List, r *Run, p *plan.Plan) diag.List {
	if !f.cancelled() {
		return diags
	}
	a := Abandoned{File: f.file, Run: r, Main: state.Empty(), Others: map[*Run]*state.State{}}
	for key, t := range f.tracks {
		s, _ := t.load(context.Background()) // an unreadable state is shown as empty
		if key == "" {
			a.Main = s
		} else if t.run != nil {
			a.Others[t.run] = s
		}
	}
	if p != nil {
		for _, c := range p.Changes {
			if c.Action == plan.Create {
				a.Creating = append(a.Creating, c.Addr.String())
			}
		}
	}
	f.showCancelled() // before the list of objects
	f.View.Abandoned(a)
	return diags.Append(diag.New(diag.Error, "Test interrupted",
		"The run was interrupted before it was over. The other messages name the objects that are left behind and have "+
			"to be cleaned up by hand.", nil))
}

// session returns the session of a run, with the scope of its expressions.
func (f *fileRunner) session(ctx context.Context, r *Run) (*operation.Session, *scope, diag.List) {
	tree := f.treeOf(r)
	scope, diags := f.scope(ctx, tree)
	inputs, more := scope.inputs(r)
	diags = diags.Append(more)
	if diags.HasErrors() {
		return nil, nil, diags
	}
	variant, more := tree.ForTest(f.file.Config, r.Config, scope.forProviders(inputs))
	diags = diags.Append(more)
	s := *f.Session
	s.Tree, s.Inputs, s.Store, s.Workspace = variant, inputs, f.trackOf(r).store, journal.DefaultWorkspace
	// Runs of the file that have started are completed, and their objects destroyed, even after Stopping.
	s.Stop = operation.Stop{Stopping: f.Stop.Leaving, Leaving: f.Stop.Leaving}
	return &s, scope, diags
}

// planOptions returns the options of a run's plan.
func planOptions(r *config.TestRun) (plan.Options, diag.List) {
	o := plan.Options{SkipRefresh: !r.Refresh}
	if r.RefreshOnly {
		o.Mode = plan.RefreshOnly
	}
	var diags diag.List
	for _, t := range r.Target {
		target, more := addr.ParseTargetTraversal(t)
		diags = diags.Append(more)
		if !more.HasErrors() {
			o.Targets = append(o.Targets, target)
		}
	}
	for _, t := range r.Replace {
		target, more := addr.ParseTargetTraversal(t)
		diags = diags.Append(more)
		switch {
		case more.HasErrors():
		case target.Kind != addr.TargetInstance && target.Kind != addr.TargetResource:
			diags = diags.Append(diag.New(diag.Error, "Invalid address", "The replace argument names instances of "+
				"resources.", t.SourceRange().Ptr()))
		case target.Resource.Mode != addr.Managed:
			diags = diags.Append(diag.New(diag.Error, "Can only target managed resources for forced replacements.",
				fmt.Sprintf("%s is no managed resource.", target.Resource), t.SourceRange().Ptr()))
		default:
			o.Replace = append(o.Replace, addr.Instance{Module: target.Instance, Resource: target.Resource,
				Key: target.Key})
		}
	}
	if r.RefreshOnly && len(r.Replace) > 0 && !diags.HasErrors() {
		diags = diags.Append(diag.New(diag.Error, "Unsupported plan mode", "In the mode refresh-only nothing is "+
			"changed, so nothing can be replaced either: leave one of mode and replace out.",
			r.Replace[0].SourceRange().Ptr()))
	}
	return o, diags
}

// clean destroys the objects of the runs, in reverse order.
func (f *fileRunner) clean(ctx context.Context) {
	var tracks []*moduleState
	for _, t := range f.tracks {
		if t.run != nil {
			tracks = append(tracks, t)
		}
	}
	slices.SortFunc(tracks, func(a, b *moduleState) int { return b.run.Index - a.run.Index })
	for _, t := range tracks {
		if f.cancelled() {
			return
		}
		diags := f.destroy(ctx, t)
		left, more := t.load(ctx)
		f.View.Cleaned(f.file, t.run, left, diags.Append(more))
	}
}

func (f *fileRunner) destroy(ctx context.Context, t *moduleState) diag.List {
	prior, diags := t.load(ctx)
	if diags.HasErrors() || !destroyable(prior) {
		return diags
	}
	planned, more := planFor(ctx, t.session, prior, plan.Options{Mode: plan.Destroy})
	diags = diags.Append(f.settled(more, t.run, nil))
	if diags.HasErrors() || planned == nil {
		return diags
	}
	_, more = applyTo(ctx, t.session, planned.Plan)
	return diags.Append(f.settled(more, t.run, planned.Plan))
}

// destroyable reports whether a state has an object that a destroy would end. If it has only data, a destroy would do
// nothing but read them again, and might fail to.
func destroyable(s *state.State) bool {
	for abs := range s.Resources {
		if abs.Resource.Mode == addr.Managed {
			return true
		}
	}
	return false
}

// planFor plans, as a separate operation.
func planFor(
	ctx context.Context, s *operation.Session, prior *state.State, o plan.Options,
) (*operation.Planned, diag.List) {
	return operation.Do(ctx, s, "plan", func(ctx context.Context, s *operation.Session) (*operation.Planned,
		diag.List) {
		return s.Plan(ctx, prior, o)
	})
}

// applyTo applies a plan, as a separate operation.
func applyTo(ctx context.Context, s *operation.Session, p *plan.Plan) (*operation.Applied, diag.List) {
	return operation.Do(ctx, s, "test", func(ctx context.Context, s *operation.Session) (*operation.Applied,
		diag.List) {
		return s.Apply(ctx, operation.ApplyOptions{Plan: p, Command: "test"})
	})
}

// outputs returns the values of run.NAME in expressions: the outputs of each state, by the last run that was
// applied to it.
func (f *fileRunner) outputs(ctx context.Context) (cty.Value, diag.List) {
	runs := map[string]cty.Value{}
	for _, t := range f.tracks {
		if t.run == nil {
			continue
		}
		s, diags := t.load(ctx)
		if diags.HasErrors() {
			return cty.EmptyObjectVal, diags
		}
		outputs := make(map[string]cty.Value, len(s.Outputs))
		for name, o := range s.Outputs {
			outputs[name] = o.Value
		}
		runs[t.run.Name] = cty.ObjectVal(outputs)
	}
	return cty.ObjectVal(runs), nil
}
