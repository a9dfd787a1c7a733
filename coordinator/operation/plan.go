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
func (s *Session) Plan(ctx context.Context, prior *state.State, o plan.Options) (planned *Planned, diags diag.List) {
	defer caught(&diags)
	switch {
	case len(o.Imports) > 0:
		return s.planImports(ctx, prior, o)
	case o.Mode == plan.Destroy:
		return s.planDestroy(ctx, prior, nil, o)
	}
	return s.planOrdinary(ctx, prior, o)
}

// planOrdinary makes an ordinary plan or, in the mode refresh-only, finds changes outside of Millipede.
func (s *Session) planOrdinary(ctx context.Context, prior *state.State, o plan.Options) (*Planned, diag.List) {
	d := s.draft(prior, o)
	if !d.prelude(ctx) {
		return nil, d.diags
	}
	if o.Mode == plan.Normal && o.Defers {
		d.store.Defers, d.scope = true, d.scope.Next(o.After)
	}
	changed := s.onlyChanged(o)
	with := d.plannerOptions()
	with.OnlyChanged, with.Verdicts = changed, s.verdicts(ctx, changed && !o.NoVerdicts)
	if !d.run(ctx, with) || !d.configured(ctx) || !d.placed() {
		return nil, d.diags
	}
	planned, whole := d.planned()
	d.storeObservations(ctx, planned.Plan, changed)
	if whole {
		d.warnUnmatched()
	}
	return planned, d.diags
}

// planImports plans the imports of the import command.
func (s *Session) planImports(ctx context.Context, prior *state.State, o plan.Options) (*Planned, diag.List) {
	d := s.draft(prior, o)
	// As in OpenTofu, it moves nothing. The block of an object to import may not be complete yet, so it is not validated;
	// and an import of another object ends no doubt.
	if !d.begin() || !d.join(ctx, unmoved) || !d.open(planning.NewImporting(o.Imports)) {
		return nil, d.diags
	}
	if !d.run(ctx, d.plannerOptions()) || !d.configured(ctx) || !d.placed() {
		return nil, d.diags
	}
	planned, whole := d.planned()
	d.storeObservations(ctx, planned.Plan, false)
	if whole {
		d.warnUnmatched()
	}
	return planned, d.diags
}

// unmoved returns a state as it is.
func unmoved(_ *config.Tree, prior *state.State) (moves.Result, diag.List) {
	return moves.Result{State: prior}, nil
}

// planReading makes a refresh-only plan of some managed instances. It is only shown, so it ends no doubt, validates no
// blocks, and records nothing.
func (s *Session) planReading(ctx context.Context, prior *state.State, reads map[addr.Instance]bool) (planned *Planned,
	diags diag.List) {
	defer caught(&diags)
	d := s.draft(prior, plan.Options{Mode: plan.RefreshOnly})
	if !d.begin() || !d.join(ctx, moves.Apply) || !d.open(planning.NewReading(d.static, reads)) {
		return nil, d.diags
	}
	if !d.run(ctx, d.plannerOptions()) || !d.placed() {
		return nil, d.diags
	}
	planned, _ = d.planned()
	return planned, d.diags
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
	release := s.forwardStop(r)
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
	d := diag.New(diag.Error, "The run could not be continued", err.Error(), nil)
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
func leftBehind(previous map[addr.Instance]addr.Instance, o plan.Options) diag.List {
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

func scopeWarning(o plan.Options) diag.List {
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
		found, live, err := s.objectPools(ctx, nil)
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
