package planfile

import (
	"bytes"
	"fmt"
	"time"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/tfstate"
)

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
		EndsDoubts: p.EndsDoubts, Defers: p.Defers,
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
	for _, t := range p.Invoke {
		c.Invoke = append(c.Invoke, t.String())
	}
	for _, a := range p.Replace {
		c.Replace = append(c.Replace, a.String())
	}
	c.Changes, c.Drift, c.Types = codedChanges{of: p.Changes, encoder: e}, codedChanges{of: p.Drift, encoder: e}, &e.types
	c.Invocations = e.invocations(p.Invocations)
	for _, d := range p.Deferred {
		c.Deferred = append(c.Deferred, e.deferred(d))
	}
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
	var sets state.Sets
	if err := tfstate.WriteWithSets(&prior, p.Prior, p.EngineVersion, &sets); err != nil {
		return nil, fmt.Errorf("coding the state: %w", err)
	}
	c.Prior = prior.Bytes()
	c.SetResources, c.Sets = sets.Encoded()
	if e.err != nil {
		return nil, e.err
	}
	var out bytes.Buffer
	out.Grow(len(c.Prior) + sizeOfChange*len(p.Changes))
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
	if c.Inputs != (plan.Inputs{}) {
		out.Inputs = c.Inputs[:]
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

func encodeGraph(g plan.Graph) codedGraph {
	out := codedGraph{Vertices: make([]codedVertex, len(g.Vertices)), Edges: g.Edges, Values: g.Values}
	for i, v := range g.Vertices {
		out.Vertices[i] = codedVertex{byte(v.Kind), v.Change, v.Address, v.Node.Kind,
			string(v.Node.Module), v.Node.Name}
	}
	return out
}
