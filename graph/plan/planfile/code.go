package planfile

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/millipede-iac/millipede/coding"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/tfstate"
)

// The encoded forms. Addresses are text; values are msgpack with a type from the table, so that a type that ten
// thousand changes share is stored once.

type codedPlan struct {
	Mode          byte                     `msgpack:"mo"`
	EngineVersion string                   `msgpack:"ev"`
	Timestamp     time.Time                `msgpack:"ts"`
	Workspace     string                   `msgpack:"ws"`
	Variables     map[string]codedVariable `msgpack:"va"`
	Targets       []string                 `msgpack:"ta"`
	Excludes      []string                 `msgpack:"ex"`
	Replace       []string                 `msgpack:"re"`
	Changes       codedChanges             `msgpack:"ch"`
	Drift         codedChanges             `msgpack:"dr"`
	Outputs       []codedOutput            `msgpack:"ou"`
	Checks        []state.CheckResult      `msgpack:"ck"`
	Relevant      []codedRelevant          `msgpack:"rl,omitempty"`
	Prior         []byte                   `msgpack:"pr"`
	BaseLineage   string                   `msgpack:"bl"`
	BaseSerial    uint64                   `msgpack:"bs"`
	BaseAt        *time.Time               `msgpack:"ba,omitempty"`
	BackendType   string                   `msgpack:"bt"`
	BackendConfig []byte                   `msgpack:"bc"`
	Graph         codedGraph               `msgpack:"ag"`
	OldGraph      *oldGraph                `msgpack:"gr,omitempty"` // of format 1, instead
	Dependencies  *codedDependencies       `msgpack:"ro,omitempty"`
	Untouched     []string                 `msgpack:"un,omitempty"`
	Unread        *codedUnread             `msgpack:"ur,omitempty"`
	Errored       bool                     `msgpack:"er"`
	Circle        []string                 `msgpack:"ci,omitempty"`
	Providers     []plan.ProviderSelection `msgpack:"ps"`
	Types         *[][]byte                `msgpack:"ty"` // the last field: encoding the others completes it
}

// codedChanges are encoded one by one, so that a large plan is not in memory in this form as well.
type codedChanges struct {
	decoded []codedChange
	of      []*plan.Change
	encoder *encoder
}

// EncodeMsgpack implements msgpack.CustomEncoder.
func (c codedChanges) EncodeMsgpack(to *msgpack.Encoder) error {
	if err := to.EncodeArrayLen(len(c.of)); err != nil {
		return err
	}
	for _, ch := range c.of {
		coded := c.encoder.change(ch)
		if err := to.Encode(&coded); err != nil {
			return err
		}
	}
	return nil
}

// DecodeMsgpack implements msgpack.CustomDecoder.
func (c *codedChanges) DecodeMsgpack(from *msgpack.Decoder) error { return from.Decode(&c.decoded) }

type codedUnread struct {
	Objects  int       `msgpack:"n"`
	Since    time.Time `msgpack:"s"`
	Verdicts int       `msgpack:"v,omitempty"`
}

type codedVariable struct {
	Value     *codedValue `msgpack:"v"`
	Ephemeral bool        `msgpack:"e,omitempty"`
	Sensitive bool        `msgpack:"s,omitempty"`
}

type codedValue struct {
	Type  int      `msgpack:"t"`
	Data  []byte   `msgpack:"d"`
	Marks [][]byte `msgpack:"m,omitempty"` // the paths of sensitive values
}

type codedProvider struct {
	Module string        `msgpack:"m,omitempty"`
	Source addr.Provider `msgpack:"s"`
	Alias  string        `msgpack:"a,omitempty"`
	Key    string        `msgpack:"k,omitempty"`
	Keyed  bool          `msgpack:"kd,omitempty"`
}

type codedChange struct {
	Addr            string        `msgpack:"a"`
	Previous        string        `msgpack:"p,omitempty"`
	Deposed         string        `msgpack:"d,omitempty"`
	Provider        codedProvider `msgpack:"pr"`
	Action          string        `msgpack:"ac"`
	Reason          string        `msgpack:"r,omitempty"`
	Kept            bool          `msgpack:"kp,omitempty"`
	Before          *codedValue   `msgpack:"b,omitempty"`
	After           *codedValue   `msgpack:"f,omitempty"`
	Same            bool          `msgpack:"sa,omitempty"` // After is Before
	ReplacePaths    [][]byte      `msgpack:"rp,omitempty"`
	PriorPrivate    []byte        `msgpack:"pp,omitempty"`
	PlannedPrivate  []byte        `msgpack:"np,omitempty"`
	BeforeIdentity  *codedValue   `msgpack:"bi,omitempty"`
	AfterIdentity   *codedValue   `msgpack:"ai,omitempty"`
	SchemaVersion   int64         `msgpack:"sv,omitempty"`
	IdentityVersion int64         `msgpack:"iv,omitempty"`
	CreateFirst     bool          `msgpack:"cf,omitempty"`
	SkipDestroy     bool          `msgpack:"sd,omitempty"`
	Importing       *codedImport  `msgpack:"im,omitempty"`
	Generated       string        `msgpack:"gc,omitempty"`
	Legacy          bool          `msgpack:"l,omitempty"`
	Tainted         bool          `msgpack:"t,omitempty"`
}

// EncodeMsgpack implements msgpack.CustomEncoder.
func (c *codedValue) EncodeMsgpack(to *msgpack.Encoder) error {
	return coding.EncodeFields(to, func(f *coding.Fields) {
		f.AnyInt("t", int64(c.Type), true)
		f.AnyBytes("d", c.Data, true)
		f.Other("m", &c.Marks, len(c.Marks) > 0)
	})
}

// EncodeMsgpack implements msgpack.CustomEncoder.
func (c *codedProvider) EncodeMsgpack(to *msgpack.Encoder) error {
	return coding.EncodeFields(to, func(f *coding.Fields) {
		f.Text("m", c.Module)
		f.Other("s", &c.Source, true)
		f.Text("a", c.Alias)
		f.Text("k", c.Key)
		f.Bool("kd", c.Keyed)
	})
}

// EncodeMsgpack implements msgpack.CustomEncoder.
func (c *codedChange) EncodeMsgpack(to *msgpack.Encoder) error {
	return coding.EncodeFields(to, func(f *coding.Fields) {
		f.AnyText("a", c.Addr, true)
		f.Text("p", c.Previous)
		f.Text("d", c.Deposed)
		f.Other("pr", &c.Provider, true)
		f.AnyText("ac", c.Action, true)
		f.Text("r", c.Reason)
		f.Bool("kp", c.Kept)
		f.Other("b", c.Before, c.Before != nil)
		f.Other("f", c.After, c.After != nil)
		f.Bool("sa", c.Same)
		f.Other("rp", &c.ReplacePaths, len(c.ReplacePaths) > 0)
		f.Bytes("pp", c.PriorPrivate)
		f.Bytes("np", c.PlannedPrivate)
		f.Other("bi", c.BeforeIdentity, c.BeforeIdentity != nil)
		f.Other("ai", c.AfterIdentity, c.AfterIdentity != nil)
		f.Int("sv", c.SchemaVersion)
		f.Int("iv", c.IdentityVersion)
		f.Bool("cf", c.CreateFirst)
		f.Bool("sd", c.SkipDestroy)
		f.Other("im", c.Importing, c.Importing != nil)
		f.Text("gc", c.Generated)
		f.Bool("l", c.Legacy)
		f.Bool("t", c.Tainted)
	})
}

type codedImport struct {
	ID       string      `msgpack:"i,omitempty"`
	Identity *codedValue `msgpack:"n,omitempty"`
	Unknown  bool        `msgpack:"u,omitempty"`
}

type codedOutput struct {
	Name            string      `msgpack:"n"`
	Action          string      `msgpack:"ac"`
	Before          *codedValue `msgpack:"b"`
	After           *codedValue `msgpack:"a"`
	Sensitive       bool        `msgpack:"s,omitempty"`
	BeforeSensitive bool        `msgpack:"bs,omitempty"`
}

type codedRelevant struct {
	Resource  string `msgpack:"r"`
	Attribute []byte `msgpack:"a"`
}

type codedGraph struct {
	Vertices []codedVertex `msgpack:"v"`
	Edges    [][2]int32    `msgpack:"e"`
	Values   int           `msgpack:"f,omitempty"`
}

type codedVertex struct {
	Kind    byte   `msgpack:"k"`
	Change  int    `msgpack:"c"`
	Address string `msgpack:"a,omitempty"`
	// The identity of the vertex of the plan graph.
	NodeKind   string `msgpack:"nk,omitempty"`
	NodeModule string `msgpack:"nm,omitempty"`
	NodeName   string `msgpack:"nn,omitempty"`
}

// EncodeMsgpack implements msgpack.CustomEncoder.
func (c *codedVertex) EncodeMsgpack(to *msgpack.Encoder) error {
	return coding.EncodeFields(to, func(f *coding.Fields) {
		f.AnyInt("k", int64(c.Kind), true)
		f.AnyInt("c", int64(c.Change), true)
		f.Text("a", c.Address)
		f.Text("nk", c.NodeKind)
		f.Text("nm", c.NodeModule)
		f.Text("nn", c.NodeName)
	})
}

// oldGraph is the graph of a plan in format 1. There, a vertex was identified by its index in a plan graph, whose
// order depends on the version that made the plan. So the indexes are not decoded.
type oldGraph struct {
	Vertices []oldVertex
	Edges    [][2]int32
}

type oldVertex struct {
	Kind    byte
	Change  int
	Address string
}

// encoder builds the type table.
type encoder struct {
	types [][]byte
	index map[string]int // by the type's JSON
	err   error

	recent [4]numbered // the last requested types
	next   int         // the next one to replace
}

func encodePlan(p *plan.Plan, baseAt time.Time) ([]byte, error) {
	e := &encoder{index: map[string]int{}}
	c := codedPlan{
		Mode: byte(p.Mode), EngineVersion: p.EngineVersion, Timestamp: p.Timestamp, Workspace: p.Workspace,
		Variables: map[string]codedVariable{}, Checks: p.Checks, BaseLineage: p.BaseLineage, BaseSerial: p.BaseSerial,
		BackendType: p.BackendType, BackendConfig: p.BackendConfig, Graph: encodeGraph(p.Graph),
		Errored: p.Errored, Circle: p.Circle,
		Providers: p.Providers, Dependencies: encodeDependencies(p), Untouched: p.Untouched, Unread: (*codedUnread)(p.Unread),
	}
	if !baseAt.IsZero() {
		c.BaseAt = &baseAt
	}
	for name, v := range p.Variables {
		c.Variables[name] = codedVariable{Value: e.value(v.Value), Ephemeral: v.Ephemeral, Sensitive: v.Sensitive}
	}
	for _, t := range p.Targets {
		c.Targets = append(c.Targets, t.String())
	}
	for _, t := range p.Excludes {
		c.Excludes = append(c.Excludes, t.String())
	}
	for _, a := range p.Replace {
		c.Replace = append(c.Replace, a.String())
	}
	c.Changes, c.Drift, c.Types = codedChanges{of: p.Changes, encoder: e}, codedChanges{of: p.Drift, encoder: e}, &e.types
	for _, o := range p.Outputs {
		c.Outputs = append(c.Outputs, codedOutput{o.Name, string(o.Action), e.value(o.Before), e.value(o.After),
			o.Sensitive, o.BeforeSensitive})
	}
	for _, r := range p.Relevant {
		path, err := coding.EncodePath(r.Attribute)
		if err != nil {
			e.fail(err)
		}
		c.Relevant = append(c.Relevant, codedRelevant{r.Resource.String(), path})
	}
	var prior bytes.Buffer
	if err := tfstate.Write(&prior, p.Prior, p.EngineVersion, tfstate.Compact); err != nil {
		return nil, fmt.Errorf("coding the state: %w", err)
	}
	c.Prior = prior.Bytes()
	if e.err != nil {
		return nil, e.err
	}
	var out bytes.Buffer
	out.Grow(sizeOfChange * len(p.Changes))
	if err := msgpack.NewEncoder(&out).Encode(&c); err != nil {
		return nil, err
	}
	return out.Bytes(), e.err
}

// sizeOfChange is about the encoded size of a small change with its vertex, in bytes.
const sizeOfChange = 384

func (e *encoder) fail(err error) {
	if e.err == nil && err != nil {
		e.err = err
	}
}

type numbered struct {
	ty     cty.Type
	number int
}

// typeNumber returns the index of a type in the table. Objects of one resource are adjacent, so a type is mostly
// one of the previous ones.
func (e *encoder) typeNumber(ty cty.Type) (int, error) {
	for _, r := range e.recent {
		if r.ty != cty.NilType && r.ty.Equals(ty) {
			return r.number, nil
		}
	}
	tj, err := ctyjson.MarshalType(ty)
	if err != nil {
		return 0, err
	}
	i, ok := e.index[string(tj)]
	if !ok {
		i = len(e.types)
		e.index[string(tj)] = i
		e.types = append(e.types, tj)
	}
	e.recent[e.next] = numbered{ty, i}
	e.next = (e.next + 1) % len(e.recent)
	return i, nil
}

func (e *encoder) value(v cty.Value) *codedValue {
	if v == cty.NilVal {
		return nil
	}
	bare, sensitive := marks.Separate(v, marks.Sensitive)
	ty := bare.Type()
	i, err := e.typeNumber(ty)
	if err != nil {
		e.fail(err)
		return nil
	}
	data, err := coding.EncodeValue(bare, ty)
	if err != nil {
		e.fail(err)
	}
	out := &codedValue{Type: i, Data: data}
	for _, p := range sensitive {
		coded, err := coding.EncodePath(p)
		if err != nil {
			e.fail(err)
		}
		out.Marks = append(out.Marks, coded)
	}
	return out
}

func (e *encoder) change(c *plan.Change) codedChange {
	out := codedChange{
		Addr: c.Addr.String(), Deposed: string(c.Deposed), Provider: encodeProvider(c.Provider),
		Action: string(c.Action), Reason: string(c.Reason), Kept: c.Kept,
		Before: e.value(c.Before), PriorPrivate: c.PriorPrivate, PlannedPrivate: c.PlannedPrivate,
		BeforeIdentity: e.value(c.BeforeIdentity), AfterIdentity: e.value(c.AfterIdentity),
		SchemaVersion: c.SchemaVersion, IdentityVersion: c.IdentityVersion, CreateFirst: c.CreateBeforeDestroy,
		SkipDestroy: c.SkipDestroy, Generated: c.GeneratedConfig, Legacy: c.Legacy, Tainted: c.Tainted,
	}
	if c.Previous != c.Addr {
		out.Previous = c.Previous.String()
	}
	if c.Action == plan.NoOp {
		out.Same = true
	} else {
		out.After = e.value(c.After)
	}
	for _, p := range c.ReplacePaths {
		coded, err := coding.EncodePath(p)
		if err != nil {
			e.fail(err)
		}
		out.ReplacePaths = append(out.ReplacePaths, coded)
	}
	if c.Importing != nil {
		out.Importing = &codedImport{c.Importing.ID, e.value(c.Importing.Identity), c.Importing.Unknown}
	}
	return out
}

func encodeProvider(p addr.ProviderInstance) codedProvider {
	key, keyed := p.Key.Str()
	return codedProvider{p.Module.String(), p.Provider, p.Alias, key, keyed}
}

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
	}
	for name, v := range c.Variables {
		p.Variables[name] = plan.Variable{Value: d.value(v.Value), Ephemeral: v.Ephemeral, Sensitive: v.Sensitive}
	}
	p.Targets, p.Excludes = d.targets(c.Targets), d.targets(c.Excludes)
	for _, r := range c.Replace {
		p.Replace = append(p.Replace, d.instance(r))
	}
	for i := range c.Changes.decoded {
		p.Changes = append(p.Changes, d.change(&c.Changes.decoded[i]))
	}
	for i := range c.Drift.decoded {
		p.Drift = append(p.Drift, d.change(&c.Drift.decoded[i]))
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
	prior, diags := tfstate.Read(bytes.NewReader(c.Prior))
	if err := diags.Err(); err != nil {
		return nil, err
	}
	if prior == nil {
		return nil, errors.New("it has no state")
	}
	p.Prior = prior
	if d.err != nil {
		return nil, d.err
	}
	return p, checkGraph(p)
}

func encodeGraph(g plan.Graph) codedGraph {
	out := codedGraph{Vertices: make([]codedVertex, len(g.Vertices)), Edges: g.Edges, Values: g.Values}
	for i, v := range g.Vertices {
		out.Vertices[i] = codedVertex{byte(v.Kind), v.Change, v.Address, v.Node.Kind,
			string(v.Node.Module), v.Node.Name}
	}
	return out
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
