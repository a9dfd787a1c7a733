package operation

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/planning"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/coordinator/validating"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph"
	"github.com/millipede-iac/millipede/graph/moves"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

// PlanOptions are the options of Plan.
type PlanOptions struct {
	Mode        plan.Mode
	SkipRefresh bool
	// Refresh is how much of the infrastructure is read, unless SkipRefresh is set: placement.RefreshAll or
	// RefreshChanged; empty for the setting in the rules. It affects only ordinary plans.
	Refresh string
	// NoVerdicts makes workers plan every object, in spite of earlier plans' verdicts.
	NoVerdicts        bool
	Targets, Excludes []addr.Target
	Replace           []addr.Instance
	Imports           map[addr.Instance]*planning.ImportTarget
	// reads restricts a refresh-only plan to these managed instances; nil for all.
	reads map[addr.Instance]bool
	// beforeDestroy makes the ordinary plan that precedes a destroy plan: in it, failed conditions are warnings.
	beforeDestroy bool
	// refreshed is set if such a plan has already refreshed everything; stored is the state before that.
	refreshed bool
	stored    *state.State
	// found is the state that a destroy plan has refreshed before it turned out that an ordinary plan has to come first;
	// nil if nothing was refreshed.
	found *state.State
}

// The error of an interrupted plan.
const (
	notBegun    = "The plan was not begun."
	notFinished = "The plan was not finished."
)

// Planned is a plan with the schemas and values that it was made with.
type Planned struct {
	Plan    *plan.Plan
	Schemas *values.Schemas
	// Values are the values of the planned configuration, for expressions.
	Values *values.Store
	// Outcome is the outcome of the planning run.
	Outcome coordinator.Outcome
}

// Plan makes a plan. It does not change prior, which is the stored state. If the run fails, it returns the plan, marked
// as errored, together with the errors; it returns nil if planning could not begin.
func (s *Session) Plan(ctx context.Context, prior *state.State, o PlanOptions) (planned *Planned, diags diag.List) {
	defer caught(&diags)
	diags = s.Tree.Check().Append(checkStatements(s.Tree, o, prior.IsEmpty()),
		checkLifecycles(s.Tree), s.interrupted(notBegun))
	if diags.HasErrors() {
		return nil, diags
	}
	// The object shows the outcome of an operation in doubt, unless the operation may still start.
	byAttempt := func(a, b *state.Doubt) int { return strings.Compare(a.Attempt, b.Attempt) }
	for _, d := range slices.SortedFunc(prior.Doubts(), byAttempt) {
		if o.reads != nil || len(o.Imports) > 0 {
			break // a plan that is only shown, or an import of another object, stops nothing
		}
		if _, more := s.writeTombstone(ctx, d, "a new plan uses the object as it is now"); more.HasErrors() {
			return nil, diags.Append(more)
		}
	}
	schemas, more := s.Schemas(ctx, prior)
	diags = diags.Append(more)
	if diags.HasErrors() {
		return nil, diags
	}
	moved, more := s.moved(prior, o)
	if more.HasErrors() {
		if still := movedBlocks(s.Tree); len(still) > 0 { // as in OpenTofu, they come before a cycle of moves
			more = still
		}
	}
	diags = diags.Append(more)
	if diags.HasErrors() {
		return nil, diags
	}
	code := values.NewCode(s.Tree, schemas)
	static := graph.Build(s.Tree, moved.State, code)
	if unknown := unknownProviders(static, code); unknown.HasErrors() {
		return nil, diags.Append(unknown)
	}
	cycles := cycleDiags(static)
	if o.Mode == plan.Destroy && !prior.IsEmpty() { // the other modes check the blocks of the instances that they plan
		cycles = cycles.Append(selfReferences(static, code))
	}
	if cycles.HasErrors() {
		return nil, diags.Append(cycles)
	}
	// The block of an object to import may not be complete yet.
	if len(o.Imports) == 0 && o.reads == nil {
		// When planning, providers validate the blocks that are planned, but not those that are left out,
		// destroyed, or only read.
		planned := o.Mode == plan.Normal && len(o.Targets)+len(o.Excludes) == 0
		more = s.check(ctx, static, code, planned)
		if diags = diags.Append(more); more.HasErrors() {
			return nil, diags
		}
	}
	now := s.Now().UTC().Truncate(time.Second)
	store := s.store(code, values.Planning, now)
	store.Lenient = o.Mode != plan.Normal || o.beforeDestroy
	scope := planning.NewScope(static, planning.ScopeOptions{Targets: o.Targets, Excludes: o.Excludes, Mode: o.Mode,
		SkipRefresh: o.SkipRefresh, Prior: moved.State})
	switch {
	case o.reads != nil:
		scope = planning.NewReading(static, o.reads)
	case len(o.Imports) > 0:
		scope = planning.NewImporting(o.Imports)
	}
	diags = diags.Append(s.deprecatedInputs(), scopeWarning(o), leftBehind(moved.Previous, o))
	if diags.HasErrors() {
		return nil, diags
	}
	if more := s.interrupted(notFinished); more.HasErrors() {
		return nil, diags.Append(more)
	}
	if o.Mode == plan.Destroy && !o.SkipRefresh && !prior.IsEmpty() && beyondState(s.Tree, static, moved.State, scope) {
		return s.destroyByPlan(ctx, prior, o)
	}
	renewals := s.renewals()
	defer renewals.Stop()
	stored := o.stored
	if stored == nil {
		stored = prior
	}
	changed := s.onlyChanged(o)
	planner := planning.New(planning.Options{
		Code: code, Store: store, Static: static, Prior: moved.State, Stored: stored, Previous: moved.Previous,
		MovedByBlock: moved.Explicit,
		Mode:         o.Mode, SkipRefresh: o.SkipRefresh, Refreshed: o.refreshed, Scope: scope, Replace: o.Replace,
		Imports: o.Imports, BeforeDestroy: o.beforeDestroy,
		OnlyChanged: changed, Verdicts: s.verdicts(ctx, changed && !o.NoVerdicts),
		WholeEdges: s.Rules.WholeEdges(), Removed: removedBlocks(s.Tree).deciding, Package: s.Package, Now: now,
		Renewals: renewals,
	})
	if more := planner.MissingProviders(); more.HasErrors() {
		return nil, diags.Append(more)
	}
	outcome, err := s.run(ctx, "plan", planner)
	diags = diags.Append(outcome.Diags)
	if err != nil {
		return nil, diags.Append(runFailed(err))
	}
	if planner.Unevaluable() && !outcome.Interrupted && !planner.Unreadable(outcome.Failed) {
		o.found = planner.Found()
		return s.destroyByPlan(ctx, prior, o)
	}
	if diags.HasErrors() && !outcome.Interrupted && o.reads == nil {
		if more := s.check(ctx, static, code, false); more.HasErrors() {
			return nil, more // problems of the configuration come before those of planning
		}
	}
	if diags.HasErrors() && !outcome.Interrupted && o.Mode == plan.Destroy && !o.SkipRefresh && !prior.IsEmpty() {
		return nil, diags // the existing objects are unknown, so there is nothing to show, as in OpenTofu
	}
	if more := misplaced(planner, s.Tree); more.HasErrors() && !outcome.Interrupted {
		return nil, scopeWarning(o).Append(more) // other errors are likely to follow from these
	}
	diags = diags.Append(planner.Refusals())
	failed := outcome.Interrupted || diags.HasErrors() || len(outcome.Failed) > 0
	p, more := planner.Plan(failed)
	diags = diags.Append(more)
	p.EngineVersion, p.Workspace = s.EngineVersion, s.Workspace
	p.Variables = s.variables()
	p.Providers = s.Selections
	s.storeObservations(ctx, planner, p, o, now)
	p.Relevant = relevant(p, store, static, scope)
	if !failed && !o.beforeDestroy {
		diags = diags.Append(unmatched(o, static, store, prior))
	}
	if outcome.Interrupted && !diags.HasErrors() {
		diags = diags.Append(diag.New(diag.Error, "Operation interrupted", notFinished, nil))
	}
	return &Planned{Plan: p, Schemas: schemas, Values: store, Outcome: outcome}, diags
}

// moved returns the state after the moves of the configuration. The import command moves nothing, as in OpenTofu.
func (s *Session) moved(prior *state.State, o PlanOptions) (moves.Result, diag.List) {
	if len(o.Imports) > 0 {
		return moves.Result{State: prior}, nil
	}
	return moves.Apply(s.Tree, prior)
}

// destroyByPlan first makes an ordinary plan, which finds out what exists, and then plans to destroy that. As in
// OpenTofu, errors of the ordinary plan prevent the destroy plan, and data that it would read only during the apply is
// not read. The ordinary plan is made only if it could find something else than the state has.
func (s *Session) destroyByPlan(ctx context.Context, prior *state.State, o PlanOptions) (*Planned, diag.List) {
	ordinary := o
	ordinary.Mode, ordinary.beforeDestroy = plan.Normal, true
	from := prior
	if o.found != nil { // nothing is refreshed twice
		from, ordinary.SkipRefresh, ordinary.refreshed = o.found, true, true
	}
	before, diags := s.Plan(ctx, from, ordinary)
	if diags.HasErrors() || before.Outcome.Interrupted {
		return nil, diags
	}
	exists := before.Plan.Prior
	for _, c := range before.Plan.Outputs {
		if c.After.IsWhollyKnown() && !c.After.IsNull() {
			exists.Outputs[c.Name] = &state.Output{Value: c.After, Sensitive: c.Sensitive}
		}
	}
	o.SkipRefresh, o.refreshed, o.stored = true, !o.SkipRefresh, prior
	// It repeats all warnings except those of the ordinary plan alone, which are left out as in OpenTofu.
	return s.Plan(ctx, exists, o)
}

// beyondState reports whether a plan covers a resource block that has an instance for certain and no objects, or the
// data of a check. Then an ordinary plan is made before a destroy from the beginning, so that nothing is read twice.
// Blocks that are repeated may have no instances (count = 0): whether one lacks an object is known when they are
// expanded.
func beyondState(tree *config.Tree, static *graph.Static, prior *state.State, scope planning.Scope) bool {
	stored := map[addr.ConfigResource]bool{}
	for abs := range prior.Resources {
		stored[abs.Config()] = true
	}
	for i := range static.Nodes {
		n := &static.Nodes[i]
		if n.Kind != graph.ResourceNode || !scope.Node(i) {
			continue
		}
		managed := n.Resource.Addr.Mode == addr.Managed
		if managed && !stored[n.ConfigResource()] && hasInstance(tree, n) || n.Resource.Check != "" {
			return true
		}
	}
	return false
}

// hasInstance reports whether neither a resource nor a call of its module is repeated.
func hasInstance(tree *config.Tree, n *graph.Node) bool {
	r := n.Resource
	if r.Count != nil || r.ForEach != nil || r.Enabled != nil {
		return false
	}
	for m := tree.Modules[n.Module]; m != nil && m.Parent != nil; m = m.Parent {
		if c := m.Call; c.Count != nil || c.ForEach != nil || c.Enabled != nil {
			return false
		}
	}
	return true
}

// run executes a program that changes nothing.
func (s *Session) run(ctx context.Context, kind string, p program.Program) (coordinator.Outcome, error) {
	o := s.runnerOptions(kind, p)
	o.RunID = s.NewID()
	ended := func(string) {}
	if kind == "plan" { // a validation takes no time at providers
		ended = s.traced(&o, journal.Run{ID: o.RunID, Workspace: s.Workspace, Command: kind, Started: s.Now()}, nil,
			nil)
	}
	r := coordinator.New(o)
	release := s.watch(r)
	defer release()
	outcome, err := r.Run(s.Stop.running(ctx))
	ended(outcome.Status)
	return outcome, err
}

// runnerOptions returns the options that all runs of the session have in common.
func (s *Session) runnerOptions(kind string, p program.Program) coordinator.Options {
	o := coordinator.Options{
		Program: p, Hub: s.Hub, Workspace: s.Workspace, Parallelism: s.Parallelism, OwnSlots: s.OwnSlots, Sole: s.Sole,
		Background: s.Background,
		Rules:      s.Rules, Observer: s.Observer, Embedded: s.Embedded, Kind: kind, Now: s.Now, NewID: s.NewID,
		Compute: s.Compute, Own: s.Own,
	}
	if s.Environment != nil {
		o.Environment = func(ctx context.Context, pool string) (*wire.Environment, error) {
			return s.Environment.in(ctx, s, pool)
		}
	}
	if s.Store != nil {
		o.Durations, o.Earlier = s.Store, s.Store
	}
	return o
}

// runFailed is the diagnostic of a run that could not continue. Its Extra is the error, which may be a coordinator.Bug.
func runFailed(err error) *diag.Diagnostic {
	d := diag.New(diag.Error, "The run could not be carried on", err.Error(), nil)
	d.Extra = err
	return d
}

// deprecatedInputs warns about deprecated root variables that are set. Users can act on that, so -deprecation,
// which concerns the authors of modules, does not hide it.
func (s *Session) deprecatedInputs() diag.List {
	var diags diag.List
	for _, name := range slices.Sorted(maps.Keys(s.Inputs)) {
		v := s.Tree.Root.Module.Variables[name]
		if v != nil && v.Deprecated != "" && s.Inputs[name].Value != cty.NilVal {
			diags = append(diags, diag.New(diag.Warning, "Deprecated variable used from the root module",
				fmt.Sprintf("A value is given for the variable %q, which is deprecated: %s", name, v.Deprecated),
				v.Range.Ptr()))
		}
	}
	return diags
}

// variables returns the root variables as they were given, for the plan.
func (s *Session) variables() map[string]plan.Variable {
	out := map[string]plan.Variable{}
	for name, v := range s.Tree.Root.Module.Variables {
		given := s.Inputs[name].Value
		switch {
		case given == cty.NilVal && !v.Required():
			given = v.Default
		case v.Ephemeral:
			given = cty.NilVal // plans do not contain it
		}
		out[name] = plan.Variable{Value: given, Ephemeral: v.Ephemeral, Sensitive: v.Sensitive}
	}
	return out
}

// cycleDiags reports every cycle with its path.
func cycleDiags(s *graph.Static) diag.List {
	var diags diag.List
	for _, c := range s.Graph.Cycles() {
		var names []string
		for _, v := range c.Loop {
			if n := &s.Nodes[v]; n.Kind != graph.ResourceDone {
				name := n.Address()
				switch n.Kind {
				case graph.CallNode:
					name += " (expand)"
				case graph.CloseNode:
					name += " (close)"
				}
				names = append(names, name)
			}
		}
		diags = diags.Append(diag.New(diag.Error, "Cycle: "+strings.Join(names, ", "),
			"Each of these waits for the next one, and the last one for the first, so none of them can ever be "+
				"evaluated. Remove one of the references between them.", nil))
	}
	return diags
}

// leftBehind rejects a plan that covers only some of the objects that have moved: the others would stay at their
// old addresses.
func leftBehind(previous map[addr.Instance]addr.Instance, o PlanOptions) diag.List {
	hit := func(list []addr.Target, a addr.Instance) bool {
		return slices.ContainsFunc(list, func(t addr.Target) bool { return t.Contains(a) })
	}
	missed := map[string]bool{}
	for to, from := range previous {
		for _, a := range []addr.Instance{from, to} {
			if len(o.Targets) > 0 && !hit(o.Targets, a) || hit(o.Excludes, a) {
				missed[a.Abs().String()] = true
			}
		}
	}
	if len(missed) == 0 {
		return nil
	}
	option, advice := "target", "Leave the -target options out, or add these:"
	if len(o.Excludes) > 0 {
		option, advice = "exclude", "Leave these out:"
	}
	for _, r := range slices.Sorted(maps.Keys(missed)) {
		advice += fmt.Sprintf("\n  -%s=%q", option, r)
	}
	return diag.Errors("Moved resource instances excluded by targeting",
		"Objects have moved to other addresses, and the plan would cover only a part of them, so what is left would "+
			"not be where the configuration says. "+advice, nil)
}

func scopeWarning(o PlanOptions) diag.List {
	if len(o.Targets)+len(o.Excludes) == 0 {
		return nil
	}
	option := "-target"
	if len(o.Excludes) > 0 {
		option = "-exclude"
	}
	return diag.List{diag.New(diag.Warning, "Resource targeting is in effect",
		fmt.Sprintf("The plan was made with the %s option, so it may not hold all the changes that the configuration "+
			"asks for. The option is meant for exceptional situations, such as recovering from errors.", option), nil)}
}

// Validate checks the session's configuration.
func (s *Session) Validate(ctx context.Context) (diags diag.List) {
	defer caught(&diags)
	diags = s.Tree.CheckReusable()
	schemas, more := s.Schemas(ctx, nil)
	diags = diags.Append(more)
	if diags.HasErrors() {
		return diags
	}
	code := values.NewCode(s.Tree, schemas)
	static := graph.Build(s.Tree, nil, code)
	if unknown := unknownProviders(static, code); unknown.HasErrors() {
		return diags.Append(unknown)
	}
	if cycles := cycleDiags(static); cycles.HasErrors() {
		return diags.Append(cycles)
	}
	return diags.Append(s.check(ctx, static, code, false))
}

// check evaluates every block without state or real values. sparing leaves out the validations by providers that
// planning does anyway; if that finds an error, everything is checked, so that all errors are reported at once.
func (s *Session) check(ctx context.Context, static *graph.Static, code *values.Code, sparing bool) diag.List {
	v := &validating.Validator{Static: static, Code: code, Store: s.store(code, values.Validating, time.Time{}),
		Package: s.Package, SkipPlanned: sparing}
	if !s.Embedded {
		found, live, err := s.places(ctx, nil)
		if err != nil {
			return diag.List{runFailed(err)}
		}
		v.Pools = func(n *graph.Node) []string { return s.aboutBlock(found, live, n) }
	}
	outcome, err := s.run(ctx, "validate", v)
	if err != nil {
		return outcome.Diags.Append(runFailed(err))
	}
	if outcome.Interrupted && !outcome.Diags.HasErrors() {
		return outcome.Diags.Append(diag.New(diag.Error, "Operation interrupted", "The validation was not finished.",
			nil))
	}
	if sparing && outcome.Diags.HasErrors() && !outcome.Interrupted {
		return s.check(ctx, static, code, false)
	}
	return outcome.Diags
}
