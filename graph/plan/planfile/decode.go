package planfile

import (
	"errors"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/tfstate"
)

// decoder decodes the output of encoder.
type decoder struct {
	types []cty.Type
	err   error
}

var errReference = errors.New("a reference in it leads nowhere")

// maxDepth is the maximum nesting of a plan, in which values are byte strings.
const maxDepth = 16

func decodePlan(data []byte) (p *plan.Plan, baseAt time.Time, err error) {
	var c codedPlan
	if err := coding.Unmarshal(data, maxDepth, &c); err != nil {
		return nil, baseAt, err
	}
	if c.BaseAt != nil {
		baseAt = c.BaseAt.UTC()
	}
	p, err = c.plan()
	return p, baseAt, err
}

func (c *codedPlan) plan() (*plan.Plan, error) {
	d := &decoder{}
	if c.Types == nil {
		c.Types = &[][]byte{}
	}
	for _, t := range *c.Types {
		ty, err := coding.UnmarshalType(t)
		if err != nil {
			return nil, err
		}
		d.types = append(d.types, ty)
	}
	p := &plan.Plan{
		Mode: plan.Mode(c.Mode), EngineVersion: c.EngineVersion, Timestamp: c.Timestamp, Workspace: c.Workspace,
		Variables: map[string]plan.Variable{}, Checks: c.Checks, BaseLineage: c.BaseLineage, BaseSerial: c.BaseSerial,
		BackendType: c.BackendType, BackendConfig: c.BackendConfig, Graph: decodeGraph(c),
		Errored: c.Errored, Circle: c.Circle,
		Providers: c.Providers, Untouched: c.Untouched, Unread: (*plan.Unread)(c.Unread),
		EndsDoubts: c.EndsDoubts, Defers: c.Defers,
	}
	for name, v := range c.Variables {
		p.Variables[name] = plan.Variable{Value: d.value(v.Value), Ephemeral: v.Ephemeral, Sensitive: v.Sensitive}
	}
	p.Targets, p.Excludes, p.Invoke = d.targets(c.Targets), d.targets(c.Excludes), d.targets(c.Invoke)
	for _, r := range c.Replace {
		p.Replace = append(p.Replace, d.instance(r))
	}
	for i := range c.Changes.decoded {
		p.Changes = append(p.Changes, d.change(&c.Changes.decoded[i]))
	}
	for i := range c.Drift.decoded {
		p.Drift = append(p.Drift, d.change(&c.Drift.decoded[i]))
	}
	p.Invocations = d.invocations(c.Invocations)
	for i := range c.Deferred {
		p.Deferred = append(p.Deferred, d.deferred(&c.Deferred[i]))
	}
	for _, o := range c.Outputs {
		p.Outputs = append(p.Outputs, &plan.OutputChange{
			Name: o.Name, Action: plan.Action(o.Action), Before: d.value(o.Before), After: d.value(o.After),
			Sensitive: o.Sensitive, BeforeSensitive: o.BeforeSensitive,
		})
	}
	for _, r := range c.Relevant {
		path, err := coding.DecodePath(r.Attribute)
		d.fail(err)
		p.Relevant = append(p.Relevant, plan.Relevant{Resource: d.instance(r.Resource), Attribute: path})
	}
	p.Dependencies = d.dependencies(p, c.Dependencies)
	if len(c.Prior) == 0 {
		return nil, errors.New("it has no state")
	}
	prior, diags := tfstate.ReadWithSets(c.Prior, d.sets(c))
	if err := diags.Err(); err != nil {
		return nil, err
	}
	p.Prior = prior
	if d.err != nil {
		return nil, d.err
	}
	return p, checkGraph(p)
}

// sets decodes the sets of dependencies in the state; none before format 5, in which objects have lists.
func (d *decoder) sets(c *codedPlan) []*state.Dependencies {
	resources := make([]state.Dependency, len(c.SetResources))
	for i, text := range c.SetResources {
		a, diags := addr.ParseAbsResource(text)
		d.fail(diags.Err())
		resources[i] = state.DependOn(a.Config())
	}
	if d.err != nil {
		return nil
	}
	sets, ok := state.DecodeSets(resources, c.Sets)
	if !ok {
		d.fail(errReference)
	}
	return sets
}

func decodeGraph(c *codedPlan) plan.Graph {
	if c.OldGraph != nil {
		return decodeOldGraph(c.OldGraph)
	}
	out := plan.Graph{Vertices: make([]plan.Vertex, len(c.Graph.Vertices)), Edges: c.Graph.Edges,
		Values: c.Graph.Values}
	for i, v := range c.Graph.Vertices {
		out.Vertices[i] = plan.Vertex{
			Kind: plan.VertexKind(v.Kind), Change: v.Change, Address: v.Address,
			Node: plan.Node{Kind: v.NodeKind, Module: addr.Module(v.NodeModule), Name: v.NodeName},
		}
	}
	return out
}

// decodeOldGraph decodes a graph of format 1. Vertices other than objects have no identity there, so they cannot be
// executed and only keep their place in the order.
func decodeOldGraph(g *oldGraph) plan.Graph {
	out := plan.Graph{Vertices: make([]plan.Vertex, len(g.Vertices)), Edges: g.Edges}
	for i, v := range g.Vertices {
		out.Vertices[i] = plan.Vertex{Kind: plan.VertexKind(v.Kind), Change: v.Change, Address: v.Address}
		if v.Change < 0 {
			out.Vertices[i].Kind = plan.Sync
		}
	}
	return out
}

// checkGraph checks that all indexes are within the plan, and that each vertex has the data that its kind requires.
func checkGraph(p *plan.Plan) error {
	n := int32(len(p.Graph.Vertices))
	for _, v := range p.Graph.Vertices {
		if v.Kind == plan.InvokeAction {
			if i := v.Invocation(); i < 0 || i >= len(p.Invocations) {
				return errReference
			}
			continue
		}
		if v.Change < -1 || v.Change >= len(p.Changes) {
			return errReference
		}
		switch v.Kind {
		case plan.ApplyObject, plan.DestroyObject, plan.ReadObject:
			if v.Change < 0 {
				return errReference
			}
		case plan.EvalOutput, plan.EvalCheck, plan.OpenObject, plan.CloseObject:
			if v.Node == (plan.Node{}) {
				return errReference
			}
		}
	}
	if p.Graph.Values < 0 || p.Graph.Values > len(p.Graph.Edges) {
		return errReference
	}
	for _, e := range p.Graph.Edges {
		if e[0] < 0 || e[0] >= n || e[1] < 0 || e[1] >= n {
			return errReference
		}
	}
	return nil
}

func (d *decoder) fail(err error) {
	if d.err == nil && err != nil {
		d.err = err
	}
}

func (d *decoder) value(c *codedValue) cty.Value {
	if c == nil {
		return cty.NilVal
	}
	if c.Type < 0 || c.Type >= len(d.types) {
		d.fail(errReference)
		return cty.NilVal
	}
	v, err := coding.DecodeValue(c.Data, d.types[c.Type])
	if err != nil {
		d.fail(err)
		return cty.NilVal
	}
	return marks.Apply(v, marks.Sensitive, d.paths(c.Marks))
}

func (d *decoder) paths(coded [][]byte) []cty.Path {
	var out []cty.Path
	for _, c := range coded {
		p, err := coding.DecodePath(c)
		if err != nil {
			d.fail(err)
			return nil
		}
		out = append(out, p)
	}
	return out
}

func (d *decoder) instance(text string) addr.Instance {
	a, diags := addr.ParseInstance(text)
	d.fail(diags.Err())
	return a
}

func (d *decoder) targets(texts []string) []addr.Target {
	var out []addr.Target
	for _, t := range texts {
		target, diags := addr.ParseTarget(t)
		d.fail(diags.Err())
		out = append(out, target)
	}
	return out
}

func (d *decoder) provider(c codedProvider) addr.ProviderInstance {
	p := addr.ProviderInstance{Provider: c.Source, Alias: c.Alias}
	if c.Module != "" {
		m, diags := addr.ParseModuleInstance(c.Module)
		d.fail(diags.Err())
		p.Module = m
	}
	if c.Keyed {
		p.Key = addr.StringKey(c.Key)
	}
	return p
}

func (d *decoder) change(c *codedChange) *plan.Change {
	out := &plan.Change{
		Addr: d.instance(c.Addr), Deposed: state.DeposedKey(c.Deposed), Provider: d.provider(c.Provider),
		Action: plan.Action(c.Action), Reason: plan.Reason(c.Reason), Kept: c.Kept, Before: d.value(c.Before),
		After:        d.value(c.After),
		ReplacePaths: d.paths(c.ReplacePaths), PriorPrivate: c.PriorPrivate, PlannedPrivate: c.PlannedPrivate,
		BeforeIdentity: d.value(c.BeforeIdentity), AfterIdentity: d.value(c.AfterIdentity),
		SchemaVersion: c.SchemaVersion, IdentityVersion: c.IdentityVersion, CreateBeforeDestroy: c.CreateFirst,
		SkipDestroy: c.SkipDestroy, GeneratedConfig: c.Generated, Legacy: c.Legacy, Tainted: c.Tainted,
	}
	if len(c.Inputs) == len(out.Inputs) {
		out.Inputs = plan.Inputs(c.Inputs)
	}
	out.Previous = out.Addr
	if c.Previous != "" {
		out.Previous = d.instance(c.Previous)
	}
	if c.Same {
		out.After = out.Before
	}
	if c.Importing != nil {
		out.Importing = &plan.Importing{ID: c.Importing.ID, Identity: d.value(c.Importing.Identity),
			Unknown: c.Importing.Unknown}
	}
	return out
}
