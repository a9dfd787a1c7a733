package planning_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/millipede-iac/millipede/coordinator/planning"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph"
	"github.com/millipede-iac/millipede/graph/dag"
	"github.com/millipede-iac/millipede/graph/moves"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/graph/sched"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/funcs"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/worker/change"
)

// stage is a configuration and a state, for which planners run one vertex after the other, without a loop, a transport
// or a worker. The only provider is a cloud.
type stage struct {
	t      *testing.T
	cloud  *cloud
	tree   *config.Tree
	state  *state.State
	inputs map[string]values.Input
}

func newStage(t *testing.T) *stage {
	t.Helper()
	return &stage{t: t, cloud: &cloud{objects: map[string]cty.Value{}}, state: state.Empty()}
}

func (s *stage) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) clean(diags diag.List) {
	s.t.Helper()
	if diags.HasErrors() {
		s.t.Fatal(diags.Err())
	}
}

func (s *stage) equal(what string, got, want []string) {
	s.t.Helper()
	if !slices.Equal(got, want) {
		s.t.Errorf("%s: got\n\t%s\nwant\n\t%s", what, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// beside finds every module in the directory "child".
type beside struct{}

func (beside) Locate(config.ModuleRequest) (config.Installed, diag.List) {
	return config.Installed{Dir: "child"}, nil
}

// configure makes text the configuration; child is that of the module "child", if there is one.
func (s *stage) configure(text string, child ...string) {
	s.t.Helper()
	dir := s.t.TempDir()
	s.check(os.WriteFile(filepath.Join(dir, "main.tf"), []byte(text), 0o600))
	if len(child) > 0 {
		s.check(os.Mkdir(filepath.Join(dir, "child"), 0o700))
		s.check(os.WriteFile(filepath.Join(dir, "child", "main.tf"), []byte(child[0]), 0o600))
	}
	tree, diags := config.NewLoader(config.OS{Base: dir}).LoadTree(config.TreeOptions{Locator: beside{}})
	s.clean(diags)
	s.tree = tree
}

// tryPlan plans, and returns the errors.
func (s *stage) tryPlan(o plan.Options) (*plan.Plan, diag.List) {
	s.t.Helper()
	source, diags := addr.ParseProviderSource("fake")
	s.clean(diags)
	schemas := values.NewSchemas(map[addr.Provider]*provider.Schemas{source: cloudSchemas})
	moved, diags := moves.Apply(s.tree, s.state)
	s.clean(diags)
	code := values.NewCode(s.tree, schemas)
	static := graph.Build(s.tree, moved.State, code)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	store := values.NewStore(values.Options{
		Code: code, Phase: values.Planning, Inputs: s.inputs, Cwd: "/", Workspace: "default",
		Functions: funcs.Table(funcs.Options{PlanTimestamp: now, Now: func() time.Time { return now }, Pure: true}),
		Lenient:   o.Mode != plan.Normal, Defers: o.Defers,
	})
	p := planning.New(planning.Options{
		Options: o, Code: code, Store: store, Static: static, Prior: moved.State, Stored: s.state,
		Previous: moved.Previous, MovedByBlock: moved.Explicit,
		Scope:   planning.NewScope(static, o, moved.State).Next(o.After),
		Removed: func(addr.Instance) *config.Removed { return nil }, Now: now,
		Package: func(p addr.Provider) wire.Package { return wire.Package{Source: p.String()} },
	})
	failed, diags := s.run(p)
	diags = diags.Append(p.MissedImports(), p.Refusals())
	planned, more := p.Plan(failed || diags.HasErrors())
	return planned, diags.Append(more)
}

func (s *stage) plan(o plan.Options) *plan.Plan {
	s.t.Helper()
	p, diags := s.tryPlan(o)
	s.clean(diags)
	return p
}

// run executes a planner.
func (s *stage) run(p *planning.Planner) (failed bool, diags diag.List) {
	s.t.Helper()
	todo := sched.New(p.Graph(), sched.Traits{Anyway: p.Anyway})
	for {
		v, ok := todo.Pop()
		if !ok {
			break
		}
		step := s.step(p, v)
		diags = diags.Append(step.Diags)
		p.Accept(v, &step)
		if g := step.Growth; g != nil {
			first := todo.Len()
			edges := make([]dag.Edge, len(g.Edges))
			for i, e := range g.Edges {
				edges[i] = dag.Edge{Before: g.Resolve(e.Before, first), After: g.Resolve(e.After, first)}
			}
			todo.Append(g.Vertices, edges)
		}
		if step.Bad() {
			failed = true
			todo.Fail(v)
		} else {
			todo.Done(v)
		}
	}
	if !todo.Finished() {
		s.t.Fatal("the planner's vertices wait for each other")
	}
	return failed, diags
}

// step executes a vertex to its end.
func (s *stage) step(p *planning.Planner, v int) program.Step {
	ctx := s.t.Context()
	step := p.Prepare(ctx, v)
	var said diag.List
	for !step.Finished() {
		said = said.Append(step.Diags)
		task := step.Task
		step = p.Complete(ctx, v, change.Do(ctx, change.Host{Provider: s.cloud, Schemas: cloudSchemas, Name: "fake",
			Source: task.Provider.Package.Source, Address: task.Address}, task))
	}
	step.Diags = said.Append(step.Diags)
	return step
}

// apply makes text the configuration, and the state what a plan of it makes of the current one.
func (s *stage) apply(text string, child ...string) {
	s.t.Helper()
	s.configure(text, child...)
	s.record(s.plan(plan.Options{}))
}

// record makes the state what it would be after a plan was applied. Unknown values of the plan become "new".
func (s *stage) record(p *plan.Plan) {
	s.t.Helper()
	s.state = p.Prior.Clone()
	for _, c := range p.Changes {
		if c.Action == plan.NoOp {
			continue
		}
		set := state.SetObject{Addr: c.Addr, Provider: c.Provider}
		if !c.After.IsNull() {
			after, err := cty.Transform(c.After, func(_ cty.Path, v cty.Value) (cty.Value, error) {
				if v.Type() == cty.String && !v.IsKnown() {
					return cty.StringVal("new " + c.Addr.String()), nil
				}
				return v, nil
			})
			s.check(err)
			object := &state.Object{Status: state.Ready, SchemaVersion: c.SchemaVersion}
			object.Attrs, object.Sensitive, err = values.EncodeStored(after, thing.Block)
			s.check(err)
			set.Object = object
			s.cloud.objects[after.GetAttr("id").AsString()] = after
		}
		s.state.Apply(set)
	}
	for _, o := range p.Outputs {
		s.state.Apply(state.SetOutput{Name: o.Name, Output: &state.Output{Value: o.After, Sensitive: o.Sensitive}})
	}
}

// cloud is a provider of things, whose name cannot be changed and whose size can. It is as it was when the things were
// recorded, unless a test changes objects.
type cloud struct {
	provider.Provider // methods that are not faked panic

	objects map[string]cty.Value // by id
	// defers returns why a plan is put off, if that is allowed; it may be nil.
	defers func(config cty.Value) provider.DeferralReason
	// defersActions is the same for actions.
	defersActions func(config cty.Value) provider.DeferralReason
	// down makes planning fail.
	down bool
}

var thing = schema.Schema{Version: 1, Block: &schema.Block{Attributes: map[string]*schema.Attribute{
	"id":   {Type: cty.String, Computed: true},
	"name": {Type: cty.String, Required: true},
	"size": {Type: cty.Number, Optional: true},
	"note": {Type: cty.String, Optional: true},
}}}

var cloudSchemas = &provider.Schemas{
	Provider: schema.Schema{Block: &schema.Block{Attributes: map[string]*schema.Attribute{
		"endpoint": {Type: cty.String, Optional: true},
	}}},
	Managed: map[string]schema.Schema{"fake_thing": thing},
	Actions: map[string]schema.Schema{"fake_send": {Block: &schema.Block{Attributes: map[string]*schema.Attribute{
		"message": {Type: cty.String, Required: true},
	}}}},
	ProtocolVersion: 6,
}

func (c *cloud) ValidateResourceConfig(context.Context, string, cty.Value) diag.List { return nil }

func (c *cloud) UpgradeResourceState(_ context.Context, r provider.UpgradeRequest) (cty.Value, diag.List) {
	v, err := ctyjson.Unmarshal(r.JSON, thing.Block.ImpliedType())
	if err != nil {
		return cty.NilVal, diag.Errors("upgrade failed", err.Error(), nil)
	}
	return v, nil
}

func (c *cloud) ReadResource(_ context.Context, r provider.ReadRequest) (provider.ReadResponse, diag.List) {
	found, ok := c.objects[r.Prior.GetAttr("id").AsString()]
	if !ok {
		found = cty.NullVal(r.Prior.Type())
	}
	return provider.ReadResponse{Object: found}, nil
}

func (c *cloud) PlanResourceChange(ctx context.Context, r provider.PlanRequest) (provider.PlanResponse, diag.List) {
	out := provider.PlanResponse{Planned: r.Proposed}
	if r.Proposed.IsNull() {
		return out, nil
	}
	if c.down {
		return out, diag.Errors("cannot connect", "The endpoint does not answer.", nil)
	}
	if d := provider.DeferralOf(ctx); d != nil && c.defers != nil {
		if why := c.defers(r.Config); why != provider.NoDeferral {
			d.Record(why)
		}
	}
	vals := r.Proposed.AsValueMap()
	replaced := false
	if !r.Prior.IsNull() {
		same := r.Prior.GetAttr("name").Equals(vals["name"])
		replaced = !same.IsKnown() || same.False()
	}
	if replaced {
		out.RequiresReplace = []cty.Path{cty.GetAttrPath("name")}
	}
	if replaced || r.Prior.IsNull() {
		vals["id"] = cty.UnknownVal(cty.String)
	}
	out.Planned = cty.ObjectVal(vals)
	return out, nil
}

func (c *cloud) ValidateActionConfig(context.Context, string, cty.Value) diag.List { return nil }

func (c *cloud) PlanAction(ctx context.Context, _ string, config cty.Value) diag.List {
	if d := provider.DeferralOf(ctx); d != nil && c.defersActions != nil {
		if why := c.defersActions(config); why != provider.NoDeferral {
			d.Record(why)
		}
	}
	return nil
}

// changes lists the changes of a plan, sorted, without unchanged objects.
func changes(p *plan.Plan) []string {
	var out []string
	for _, c := range p.Changes {
		if c.Action != plan.NoOp {
			out = append(out, string(c.Action)+" "+c.Addr.String())
		}
	}
	slices.Sort(out)
	return out
}

// says reports whether a diagnostic contains the text.
func says(diags diag.List, text string) bool {
	return slices.ContainsFunc(diags, func(d *diag.Diagnostic) bool {
		return strings.Contains(d.Summary, text) || strings.Contains(d.Detail, text)
	})
}

// block is a block of a resource, line by line.
func block(name string, lines ...string) string {
	return "resource \"fake_thing\" \"" + name + "\" {\n" + strings.Join(lines, "\n") + "\n}\n"
}
