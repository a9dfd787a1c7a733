// Package querying is the program that lists existing objects: it evaluates list blocks, and has workers list what they
// ask for.
//
// It changes nothing, and reads nothing but lists: the other objects that a list block may refer to have the values of
// the state. It shows nothing; what was found goes to a Watcher, as it arrives.
package querying

import (
	"context"
	"slices"
	"sync"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/instance"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph"
	"github.com/millipede-iac/millipede/graph/dag"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/wire"
)

// Watcher receives what a query finds. Its methods are called from several goroutines, and for each list in the order
// Begun, Found, Ended. They may block: that holds back the worker.
type Watcher interface {
	// Begun reports that a list is about to be made.
	Begun(l *List)
	// Found reports an object. It is called once for each object of a list.
	Found(l *List, o *Object)
	// Ended reports that a list is complete; it is not called for one that has failed.
	Ended(l *List)
}

// List is one instance of a list block.
type List struct {
	Addr addr.Instance
	// Type is the type of the resources that are listed.
	Type string
	// Local is the name of the provider configuration in the block; Provider is the instance that it means.
	Local    addr.LocalProvider
	Provider addr.ProviderInstance
	// Place is the region that the config block names, or else the configuration of the provider; empty if neither does.
	Place string
	// Input is the evaluated config block, with sensitive parts marked.
	Input cty.Value
	// Managed has the schemas of the listed objects.
	Managed *Managed
	// Limit is the most objects that the block wants. Total is how many were found so far, and Left how many were left out
	// because they are managed.
	Limit, Total, Left int64
}

// Full reports whether the limit was reached: there may be more objects.
func (l *List) Full() bool { return l.Total >= l.Limit }

// Managed are the schemas of a managed resource type.
type Managed struct {
	Block *schema.Block
	// Type and Identity are the types of objects and of their identities.
	Type, Identity  cty.Type
	IdentityVersion int64
}

// NewManaged returns the schemas of a type. The identity has a body.
func NewManaged(s *schema.Schema, identity *schema.Identity) *Managed {
	return &Managed{Block: s.Block, Type: s.Block.ImpliedType(), Identity: identity.Body.ImpliedType(),
		IdentityVersion: identity.Version}
}

// Object is an object that was found.
type Object struct {
	Name     string // what people call it; may be empty
	Identity cty.Value
	// Value is the whole object, with sensitive parts marked; cty.NilVal if it was not asked for. Config is what the
	// provider recommends as its configuration; cty.NilVal if there is no such recommendation.
	Value, Config cty.Value
}

// Options are the options of a query.
type Options struct {
	Static  *graph.Static
	Code    *values.Code
	Store   *values.Store // of the phase Planning
	Package func(addr.Provider) wire.Package
	// Prior is the stored state.
	Prior *state.State
	// Unmanaged leaves out objects that the state has.
	Unmanaged bool
	// Generate asks for whole objects, and for the configurations that providers recommend for them.
	Generate bool
	Watcher  Watcher
}

// Querier is the querying program.
type Querier struct {
	Options
	needed []bool // by node: a list block, or something that one depends on
	// used are the list blocks whose results others refer to.
	used  map[addr.ConfigResource]bool
	known *managedIndex

	mu       sync.RWMutex // guards vertices
	vertices []vertex
}

// vertex is a vertex of the program: one of the plan graph, or an instance of a list block.
type vertex struct {
	node int
	list *listing // nil for a vertex of the plan graph
}

// New returns the program of a query.
func New(o Options) *Querier {
	q := &Querier{Options: o, needed: make([]bool, len(o.Static.Nodes)), used: map[addr.ConfigResource]bool{},
		vertices: make([]vertex, len(o.Static.Nodes))}
	for i := range q.vertices {
		q.vertices[i].node = i
	}
	if o.Unmanaged {
		q.known = newManagedIndex(o.Prior)
	}
	q.findNeeded()
	return q
}

// findNeeded finds the vertices that list blocks depend on.
func (q *Querier) findNeeded() {
	var open []int
	for i := range q.Static.Nodes {
		if n := &q.Static.Nodes[i]; n.Kind == graph.ResourceNode && n.Resource.Addr.Mode == addr.List {
			open = append(open, i)
		}
	}
	for len(open) > 0 {
		i := open[len(open)-1]
		open = open[:len(open)-1]
		if q.needed[i] {
			continue
		}
		q.needed[i] = true
		open = slices.AppendSeq(open, q.Static.Graph.Before(i))
	}
	for i := range q.Static.Nodes {
		n := &q.Static.Nodes[i]
		if q.needed[i] && n.Kind == graph.ResourceDone && n.Resource.Addr.Mode == addr.List {
			q.used[n.ConfigResource()] = true // something needs its end
		}
	}
}

// Graph implements program.Program.
func (q *Querier) Graph() *dag.Graph { return q.Static.Graph }

func (q *Querier) vertex(v int) vertex {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return q.vertices[v]
}

// Describe implements program.Program.
func (q *Querier) Describe(v int) program.Description {
	vx := q.vertex(v)
	if vx.list == nil {
		return program.Description{Address: q.Static.Nodes[vx.node].Address(), Hidden: true}
	}
	a := vx.list.Addr
	return program.Description{Address: a.String(), Class: a.Resource.Type, Action: "list"}
}

// Prepare implements program.Program.
func (q *Querier) Prepare(_ context.Context, v int) program.Step {
	vx := q.vertex(v)
	if vx.list != nil {
		step := q.prepareList(vx.list)
		step.Diags = step.Diags.WithAddress(vx.list.Addr.String())
		return step
	}
	n := &q.Static.Nodes[vx.node]
	var step program.Step
	if !q.needed[vx.node] {
		return step
	}
	switch n.Kind {
	case graph.VariableNode, graph.LocalNode, graph.CallNode, graph.OutputNode:
		for _, m := range q.Store.Instances(n.Module) {
			diags := instance.Value(m, n)
			if !diags.HasErrors() {
				_, more := instance.Rules(m, n)
				diags = diags.Append(more)
			}
			step.Diags = step.Diags.Append(diags)
		}
	case graph.ProviderNode:
		for _, m := range q.Store.Instances(n.Module) {
			for _, k := range m.ProviderKeys(n.Provider) {
				_, diags := q.Store.Provider(n.ProviderAddr.Instance(m.Addr, k))
				step.Diags = step.Diags.Append(diags)
			}
		}
	case graph.ResourceNode:
		if n.Resource.Addr.Mode == addr.List {
			return q.expand(vx.node, n)
		}
		q.keep(n)
	}
	return step
}

// keep gives the instances of a resource the values of the state. Others are unknown.
func (q *Querier) keep(n *graph.Node) {
	for _, m := range q.Store.Instances(n.Module) {
		r := m.ResourceBlock(n.Resource.Addr)
		stored := q.Prior.Resources[r.Addr()]
		if stored == nil || r.Code.Schema == nil {
			continue
		}
		for k, i := range stored.Instances {
			if i.Current != nil {
				r.Keep(k, i.Current)
			}
		}
	}
}

// expand appends a vertex for each instance of a list block.
func (q *Querier) expand(node int, n *graph.Node) program.Step {
	r := q.Store.Root().ResourceBlock(n.Resource.Addr)
	e, diags := r.Expansion()
	step := program.Step{Diags: diags.WithAddress(n.Address())}
	if diags.HasErrors() {
		return step
	}
	if diags := r.Code.SelfReferences(r.Addr().Config()); diags.HasErrors() {
		step.Diags = step.Diags.Append(diags.WithAddress(n.Address()))
		return step
	}
	var grown []vertex
	growth := &program.Growth{Vertices: len(e.Keys)}
	done, _ := q.Static.Find(graph.ResourceDone, n.Module, n.Named)
	for i, k := range e.Keys {
		grown = append(grown, vertex{node: node, list: &listing{
			List: List{Addr: r.Addr().Instance(k), Type: n.Resource.Addr.Type, Local: n.Resource.Provider}, resource: r,
			used: q.used[n.ConfigResource()],
		}})
		growth.Edges = append(growth.Edges, dag.Edge{Before: program.Grown(i), After: done})
	}
	if len(grown) > 0 {
		step.Growth, step.Value = growth, grown
	}
	return step
}

// Accept implements program.Program.
func (q *Querier) Accept(_ int, step *program.Step) {
	grown, _ := step.Value.([]vertex)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.vertices = append(q.vertices, grown...)
}

// Complete implements program.Program.
func (q *Querier) Complete(_ context.Context, v int, r *wire.Result) program.Step {
	l := q.vertex(v).list
	step := q.completeList(l, r)
	step.Diags = step.Diags.WithAddress(l.Addr.String())
	return step
}

// Page implements program.Pager.
func (q *Querier) Page(v int, page *wire.ListPage) { q.takePage(q.vertex(v).list, page) }

// Incomparable returns, after the run, the addresses of objects of listed types in the state that could not be compared
// with listed ones, sorted. It is empty unless Options.Unmanaged is set.
func (q *Querier) Incomparable() []string { return q.known.incomparable() }

// Problems that the package reports about values that are not known.
func unknownValue(what string) *diag.Diagnostic {
	return diag.New(diag.Error, "Value is not known in a query", what+" depends on a value that only a plan or an apply "+
		"determines. A query uses variables, local values, the results of other list blocks, and the objects that are in "+
		"the state.", nil)
}
