package operation

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/planning"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph"
	"github.com/millipede-iac/millipede/graph/moves"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
)

// draft is a plan in the making. Its steps that return a bool report whether the plan can go on; if it cannot, the
// caller returns diags without a plan.
type draft struct {
	session *Session
	options plan.Options
	prior   *state.State
	// refreshed is set if an earlier plan has refreshed prior, so that the options say to refresh nothing.
	refreshed bool
	// diags are those of the steps so far.
	diags diag.List

	schemas *values.Schemas // set by join, as the next three
	moved   moves.Result
	code    *values.Code
	static  *graph.Static

	now   time.Time // set by open, as the next two
	store *values.Store
	scope planning.Scope

	planner *planning.Planner // set by run, as the next one
	outcome coordinator.Outcome
}

// draft returns a plan of a state on which no step was made.
func (s *Session) draft(prior *state.State, o plan.Options) *draft {
	return &draft{session: s, options: o, prior: prior}
}

// prelude makes the steps before the run of a plan of changes.
func (d *draft) prelude(ctx context.Context) bool {
	return d.begin() && d.endDoubts(ctx) && d.join(ctx, moves.Apply) && d.actions() && d.validate(ctx) &&
		d.open(d.covered())
}

// actions checks whether the actions to invoke exist.
func (d *draft) actions() bool {
	more := planning.UnknownActions(d.static, d.options.Invoke)
	d.diags = d.diags.Append(more)
	return !more.HasErrors()
}

// covered returns the scope of the plan.
func (d *draft) covered() planning.Scope {
	o := d.options
	o.SkipRefresh = o.SkipRefresh && !d.refreshed
	return planning.NewScope(d.static, o, d.moved.State)
}

// begin checks the configuration by itself.
func (d *draft) begin() bool {
	tree := d.session.Tree
	d.diags = tree.Check().Append(checkStatements(tree, d.options, d.prior.IsEmpty()), checkLifecycles(tree),
		d.session.interrupted(notBegun))
	return !d.diags.HasErrors()
}

// endDoubts prevents operations in doubt that have not started from starting. An object then shows the outcome of its
// operation.
func (d *draft) endDoubts(ctx context.Context) bool {
	byAttempt := func(a, b *state.Doubt) int { return strings.Compare(a.Attempt, b.Attempt) }
	for _, doubt := range slices.SortedFunc(d.prior.Doubts(), byAttempt) {
		_, more := d.session.writeTombstone(ctx, doubt, "a new plan uses the object as it is now")
		if more.HasErrors() {
			d.diags = d.diags.Append(more)
			return false
		}
	}
	return true
}

// join builds the graph of the configuration and the moved state, and runs the checks that need the graph.
func (d *draft) join(ctx context.Context, move func(*config.Tree, *state.State) (moves.Result, diag.List)) bool {
	tree := d.session.Tree
	var more diag.List
	d.schemas, more = d.session.Schemas(ctx, d.prior)
	if d.diags = d.diags.Append(more); d.diags.HasErrors() {
		return false
	}
	d.moved, more = move(tree, d.prior)
	if more.HasErrors() {
		if still := movedBlocks(tree); len(still) > 0 { // as in OpenTofu, they come before a cycle of moves
			more = still
		}
	}
	if d.diags = d.diags.Append(more); d.diags.HasErrors() {
		return false
	}
	d.code = values.NewCode(tree, d.schemas)
	d.static = graph.Build(tree, d.moved.State, d.code)
	if unknown := unknownProviders(d.static, d.code); unknown.HasErrors() {
		d.diags = d.diags.Append(unknown)
		return false
	}
	cycles := cycleDiags(d.static)
	// The other modes check the blocks of the instances that they plan.
	if d.options.Mode == plan.Destroy && !d.prior.IsEmpty() {
		cycles = cycles.Append(selfReferences(d.static, d.code))
	}
	if cycles.HasErrors() {
		d.diags = d.diags.Append(cycles)
	}
	return !cycles.HasErrors()
}

// validate evaluates every block without state or real values. When planning, providers validate the blocks that are
// planned, but not those that are left out, destroyed, or only read.
func (d *draft) validate(ctx context.Context) bool {
	planned := d.options.Mode == plan.Normal && len(d.options.Targets)+len(d.options.Excludes)+len(d.options.Invoke) == 0
	more := d.session.check(ctx, d.static, d.code, planned)
	d.diags = d.diags.Append(more)
	return !more.HasErrors()
}

// open makes the store of the values, and checks whether a plan of this scope may be made.
func (d *draft) open(scope planning.Scope) bool {
	d.now = d.session.Now().UTC().Truncate(time.Second)
	d.store = d.session.store(d.code, values.Planning, d.now)
	d.store.Lenient = d.options.Mode != plan.Normal
	d.scope = scope
	d.diags = d.diags.Append(d.session.deprecatedInputs(), scopeWarning(d.options),
		leftBehind(d.moved.Previous, d.options))
	if d.diags.HasErrors() {
		return false
	}
	d.diags = d.diags.Append(d.session.interrupted(notFinished))
	return !d.diags.HasErrors()
}

// plannerOptions returns the options of the planner that all plans have in common.
func (d *draft) plannerOptions() planning.Options {
	s := d.session
	return planning.Options{
		Code: d.code, Store: d.store, Static: d.static, Prior: d.moved.State, Stored: d.prior,
		Previous: d.moved.Previous, MovedByBlock: d.moved.Explicit, Options: d.options, Scope: d.scope,
		WholeEdges: s.Rules.WholeEdges(), Removed: removedBlocks(s.Tree).deciding, Package: s.Package, Now: d.now,
	}
}

// run executes the planner.
func (d *draft) run(ctx context.Context, o planning.Options) bool {
	o.Renewals = d.session.renewals()
	defer o.Renewals.Stop()
	d.planner = planning.New(o)
	if more := d.planner.MissingProviders(); more.HasErrors() {
		d.diags = d.diags.Append(more)
		return false
	}
	var err error
	d.outcome, err = d.session.run(ctx, "plan", d.planner)
	d.diags = d.diags.Append(d.outcome.Diags)
	if err != nil {
		d.diags = d.diags.Append(runFailed(err))
	}
	return err == nil
}

// configured reports, if the run has failed, whether the configuration has no problems. Those come before the problems
// of planning, and replace them.
func (d *draft) configured(ctx context.Context) bool {
	if !d.diags.HasErrors() || d.outcome.Interrupted {
		return true
	}
	more := d.session.check(ctx, d.static, d.code, false)
	if more.HasErrors() {
		d.diags = more
	}
	return !more.HasErrors()
}

// placed reports whether import and moved blocks name the right instances. Other errors are likely to follow if they do
// not, so they are left out.
func (d *draft) placed() bool {
	more := misplaced(d.planner, d.session.Tree)
	if !more.HasErrors() || d.outcome.Interrupted {
		return true
	}
	d.diags = scopeWarning(d.options).Append(more)
	return false
}

// planned returns the plan after its run. whole is false if a part of it could not be planned.
func (d *draft) planned() (out *Planned, whole bool) {
	s := d.session
	d.diags = d.diags.Append(d.planner.Refusals())
	failed := d.outcome.Interrupted || d.diags.HasErrors() || len(d.outcome.Failed) > 0
	p, more := d.planner.Plan(failed)
	d.diags = d.diags.Append(more)
	p.EngineVersion, p.Workspace = s.EngineVersion, s.Workspace
	p.Variables = s.variables()
	p.Providers = s.Selections
	p.Relevant = relevant(p, d.store, d.static, d.scope)
	if d.outcome.Interrupted && !d.diags.HasErrors() {
		d.diags = d.diags.Append(diag.New(diag.Error, "Operation interrupted", notFinished, nil))
	}
	return &Planned{Plan: p, Schemas: d.schemas, Values: d.store, Outcome: d.outcome}, !failed
}

// warnUnmatched warns about addresses of options that match nothing.
func (d *draft) warnUnmatched() {
	d.diags = d.diags.Append(unmatched(d.options, d.static, d.store, d.prior))
}
