// Package planning is the program that makes a plan: it expands the configuration, has workers refresh and plan every
// object, and collects the changes.
//
// It makes no decisions about readiness, permits or lanes, which belong to the loop, and changes nothing outside:
// all its tasks use the fast lane.
package planning

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millipede-iac/millipede/coordinator/instance"
	"github.com/millipede-iac/millipede/coordinator/loop"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/coordinator/renewal"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph"
	"github.com/millipede-iac/millipede/graph/dag"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

// Options are the options of a Planner.
type Options struct {
	Code   *values.Code
	Store  *values.Store
	Static *graph.Static
	// Prior is the stored state after moves; the planner refreshes its own copy of it. Stored is the state before
	// moves.
	Prior, Stored *state.State
	// Previous maps the addresses of moved instances to their old addresses.
	Previous map[addr.Instance]addr.Instance
	// MovedByBlock are those that a moved block has moved; it is the reason if their new address is not declared.
	MovedByBlock map[addr.Instance]bool
	// Options are the options of the plan. Those about reading have been evaluated already, into SkipRefresh, OnlyChanged
	// and Verdicts.
	plan.Options
	// Refreshed is set if SkipRefresh is because an earlier plan has refreshed the state.
	Refreshed bool
	// BeforeDestroy is set for the ordinary plan that finds the objects for a destroy plan.
	BeforeDestroy bool
	// OnlyChanged reads an object only if planning against the stored object gives a change, or if one of its
	// dependencies changes.
	OnlyChanged bool
	// Verdicts are the verdicts that OnlyChanged may use, by address; nil for none.
	Verdicts map[string]journal.Verdict
	Scope    Scope
	// WholeEdges makes a reference to one instance wait for all instances of its resource (edges = "resource").
	WholeEdges bool
	// Removed returns the removed block that decides about an instance, or nil.
	Removed func(addr.Instance) *config.Removed
	// Package returns the package of a provider for workers.
	Package func(addr.Provider) wire.Package
	// Now is the plan's timestamp.
	Now time.Time
	// Renewals renews open ephemeral objects; nil lets them expire.
	Renewals *renewal.Renewer
}

// Planner is the program of a plan.
type Planner struct {
	Options

	// closure returns the resources on which a vertex depends; first contains the resources that are created before
	// they are destroyed.
	closure *graph.Closure
	first   map[addr.ConfigResource]bool

	storedOnce sync.Once
	byConfig   map[addr.ConfigResource][]addr.AbsResource // the stored resources by block; see stored

	configuringOnce sync.Once
	configuring     map[int]bool // see configures

	triggerMu sync.Mutex // guards triggers
	triggers  map[*values.Resource]bool

	orderedMu  sync.Mutex // guards the two fields below; see orderedOutputs
	ordered    map[int][]int
	anyOrdered bool

	endsDoubts atomic.Bool // see plan.Plan

	deferral *deferral // nil unless the plan may leave something out for a later round

	mu sync.RWMutex // guards the fields below
	// vertices are the static nodes, followed by the instances in the order in which they were added.
	vertices []vertex
	changes  map[changeKey]*plan.Change
	drift    []*plan.Change
	outputs  map[string]*plan.OutputChange
	// invocations are planned invocations of actions, invoked all that have vertices.
	invocations []*plan.Invocation
	invoked     []*invocation
	checks      map[string]*checkState
	// pending are the resources with a planned change that is not a no-op, and the module instances that have it.
	pending map[addr.ConfigResource]map[addr.ModuleInstance]bool
	// missed are the errors of imports whose target is no instance of its resource.
	missed diag.List
	// open are the ephemeral objects that have yet to be closed.
	open map[addr.ConfigResource][]*object
	// closing are the objects that are being closed.
	closing map[addr.ConfigResource]*object
	// refreshed is the refreshed state.
	refreshed *state.State
	// unevaluable is the result of Unevaluable.
	unevaluable bool
	// refusals are the result of Refusals.
	refusals diag.List
	// observations are the observations about instances.
	observations Observations
}

type changeKey struct {
	addr    addr.Instance
	deposed state.DeposedKey
}

// vertex is a vertex of the growing graph: a static node, or one object of an instance.
type vertex struct {
	// node is the static node; for an object, the one of its resource (or orphan); for an invocation, -1 minus its index
	// in Planner.invoked.
	node int
	// object is set for an object's vertex.
	object *object
}

// object is the object of a vertex.
type object struct {
	addr     addr.Instance
	deposed  state.DeposedKey
	imported *ImportTarget
	resource *values.Resource // nil for an orphan without a block
	// orphan is the reason why an object without an instance in the configuration is removed; empty for one that is
	// kept.
	orphan plan.Reason

	// work belongs to the vertex's own steps, which never run concurrently. It exists from the first step to the
	// last; that of an opened ephemeral object, until it is closed.
	work *work
}

// New returns the program of a plan.
func New(o Options) *Planner {
	p := &Planner{
		Options: o,
		changes: map[changeKey]*plan.Change{}, outputs: map[string]*plan.OutputChange{},
		checks: map[string]*checkState{}, pending: map[addr.ConfigResource]map[addr.ModuleInstance]bool{},
		open: map[addr.ConfigResource][]*object{}, closing: map[addr.ConfigResource]*object{},
		closure:   graph.NewClosure(o.Static),
		first:     graph.CreatedFirst(o.Static, o.Prior, o.Scope.Node),
		refreshed: o.Prior.Clone(), triggers: map[*values.Resource]bool{},
	}
	p.vertices = make([]vertex, len(o.Static.Nodes))
	for i := range p.vertices {
		p.vertices[i].node = i
	}
	if o.Store.Defers {
		p.deferral = newDeferral(o.Static)
	}
	return p
}

// Graph implements program.Program.
func (p *Planner) Graph() *dag.Graph { return p.Static.Graph }

func (p *Planner) vertex(v int) vertex {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.vertices[v]
}

// Describe implements program.Program.
func (p *Planner) Describe(v int) program.Description {
	vx := p.vertex(v)
	if v := p.invokedAt(vx); v != nil {
		return program.Description{Address: v.Addr.String(), Class: v.Addr.Resource.Type, Action: "plan"}
	}
	n := &p.Static.Nodes[vx.node]
	if vx.object == nil {
		return program.Description{Address: n.Address(), Hidden: true}
	}
	o := vx.object
	d := program.Description{Address: o.addr.String(), Class: o.addr.Resource.Type, Action: "plan"}
	prior := p.Prior.Object(o.addr, o.deposed)
	switch {
	case o.addr.Resource.Mode == addr.Data:
		d.Action = "read"
	case o.addr.Resource.Mode == addr.Ephemeral:
		d.Action = "open"
	case prior != nil && !p.SkipRefresh && !p.mayUseStored(o):
		d.Action = "refresh"
		d.Called = func() (string, string) { return values.IDOfStored(prior) }
	case prior == nil && o.imported != nil:
		importing := plan.Importing{ID: o.imported.ID, Identity: o.imported.Identity}
		d.Action = "import"
		d.Called = func() (string, string) { return values.IDOfImport(&importing) }
	}
	if o.deposed != state.CurrentObject {
		d.Deposed = string(o.deposed)
	}
	return d
}

// Anyway reports that ephemeral objects are closed even if their users have failed.
func (p *Planner) Anyway(v int) bool {
	vx := p.vertex(v)
	return vx.object == nil && vx.node >= 0 && p.Static.Nodes[vx.node].Kind == graph.CloseNode
}

// Prepare implements program.Program.
func (p *Planner) Prepare(ctx context.Context, v int) program.Step {
	vx := p.vertex(v)
	if vx.object != nil {
		step := p.prepareObject(vx)
		step.Diags = step.Diags.WithAddress(vx.object.addr.String())
		return step
	}
	if i := p.invokedAt(vx); i != nil {
		step := p.prepareInvocation(i)
		step.Diags = step.Diags.WithAddress(i.Addr.String())
		return step
	}
	n := &p.Static.Nodes[vx.node]
	p.beginning(vx.node)
	if !p.Scope.Node(vx.node) {
		return program.Step{}
	}
	switch n.Kind {
	case graph.VariableNode, graph.LocalNode, graph.CallNode:
		return p.named(vx.node, n)
	case graph.OutputNode:
		return p.output(n)
	case graph.ProviderNode:
		if !p.Static.Used(vx.node) {
			return program.Step{}
		}
		return p.provider(vx.node, n)
	case graph.ResourceNode:
		if n.Resource.Addr.Mode == addr.Action {
			return p.expandAction(vx.node, n)
		}
		return p.expandResource(vx.node, n)
	case graph.TriggerNode:
		return p.expandTriggers(vx.node, n)
	case graph.OrphanNode:
		return p.expandOrphan(vx.node, n)
	case graph.CheckNode:
		return p.check(n)
	case graph.CloseNode:
		return p.closeEphemerals(n)
	}
	return program.Step{}
}

// Complete implements program.Program.
func (p *Planner) Complete(ctx context.Context, v int, r *wire.Result) program.Step {
	vx := p.vertex(v)
	if i := p.invokedAt(vx); i != nil {
		step := p.completeInvocation(i, r)
		step.Diags = step.Diags.WithAddress(i.Addr.String())
		return step
	}
	if vx.object == nil {
		return p.answered(&p.Static.Nodes[vx.node], v, r)
	}
	step := p.completeObject(vx, r)
	step.Diags = step.Diags.WithAddress(vx.object.addr.String())
	return step
}

// found is the value that a finished step passes to Accept.
type found struct {
	change *plan.Change
	drift  *plan.Change
	output *plan.OutputChange
	checks []instance.Outcome
	// expected are the objects with rules; nil for none.
	expected    *expectation
	objects     []object         // new objects
	invoked     []*invocation    // new ones
	invocation  *plan.Invocation // a planned one
	kept        []*found         // objects that are settled without vertices
	node        int
	state       []state.Change
	opened      *object
	unevaluable bool
	seen        observation
	refusal     diag.List
	deferred    []*plan.Deferred
	// held is the change that triggers an action which its provider has put off, without the change itself.
	held *plan.Deferred
	// unknownCall is set for a call or an action whose instances are not known in a module instance.
	unknownCall bool
}

// Accept implements program.Program.
func (p *Planner) Accept(v int, step *program.Step) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if o := p.vertices[v].object; o != nil && step.Finished() && o.work != nil && !o.work.opened {
		o.work = nil // it is the larger part of an instance's memory
	}
	f, _ := step.Value.(*found)
	if f == nil {
		return
	}
	p.deferral.add(f.deferred, p.vertices[v].node)
	if f.held != nil {
		p.deferral.held[f.held.Addr] = f.held
	}
	if f.unknownCall {
		p.deferral.callDeferred(v)
	}
	for i := range f.objects {
		p.vertices = append(p.vertices, vertex{node: f.node, object: &f.objects[i]})
	}
	for _, i := range f.invoked {
		p.invoked = append(p.invoked, i)
		p.vertices = append(p.vertices, vertex{node: -len(p.invoked)})
	}
	for _, k := range f.kept {
		p.take(k)
	}
	p.take(f)
}

// take requires the lock. It adds the findings of a step.
func (p *Planner) take(f *found) {
	if f.change != nil {
		p.changes[changeKey{f.change.Addr, f.change.Deposed}] = f.change
		if f.change.Action != plan.NoOp {
			r := f.change.Addr.Config()
			if p.pending[r] == nil {
				p.pending[r] = map[addr.ModuleInstance]bool{}
			}
			p.pending[r][f.change.Addr.Module] = true
		}
	}
	if f.invocation != nil {
		p.invocations = append(p.invocations, f.invocation)
	}
	if f.drift != nil {
		p.drift = append(p.drift, f.drift)
	}
	if f.output != nil {
		p.outputs[f.output.Name] = f.output
	}
	if f.expected != nil {
		p.expect(f.expected)
	}
	for _, c := range f.checks {
		p.record(c)
	}
	p.unevaluable = p.unevaluable || f.unevaluable
	p.refusals = p.refusals.Append(f.refusal)
	if f.seen.how != unseen {
		p.observations.add(f.change.Addr, f.seen)
	}
	if f.opened != nil {
		r := f.opened.addr.Config()
		p.open[r] = append(p.open[r], f.opened)
	}
	p.refreshed.Apply(f.state...)
}

// Refusals returns, after the run has ended, the errors about objects that a destroy plan may not destroy. They do
// not prevent the rest from being planned, since everything is to be destroyed.
func (p *Planner) Refusals() diag.List {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.refusals
}

// refreshesToDestroy reports whether the plan refreshes existing objects before they are destroyed. OpenTofu does that
// by an ordinary plan, whose errors stop the destroy. Without refreshing, only the values that provider configurations
// need are evaluated.
func (p *Planner) refreshesToDestroy() bool {
	return p.Mode == plan.Destroy && !p.SkipRefresh && !p.Prior.IsEmpty()
}

// Unevaluable reports, after the run has ended, whether a destroy that refreshes encountered something that an
// ordinary plan may treat differently: data that cannot be read yet, which it may read during the apply; an expression
// or a condition that cannot be evaluated, which may be an error there; an instance without an object, which it would
// create.
func (p *Planner) Unevaluable() bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.unevaluable
}

// Found returns the refreshed state, after the run has ended.
func (p *Planner) Found() *state.State {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.refreshed
}

// Unreadable reports whether a managed object is among the vertices that have failed. An ordinary plan would fail with
// it in the same way.
func (p *Planner) Unreadable(failed []loop.Failure) bool {
	return slices.ContainsFunc(failed, func(f loop.Failure) bool {
		o := p.vertex(f.Vertex).object
		return o != nil && o.addr.Resource.Mode == addr.Managed
	})
}

// change returns the planned change of a current object, or nil.
func (p *Planner) change(a addr.Instance) *plan.Change {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.changes[changeKey{addr: a}]
}

// anyPending reports whether a managed resource of a set will change; for resources of the same static module, in
// the given module instance.
func (p *Planner) anyPending(set *state.Dependencies, in addr.ModuleInstance) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if len(p.pending) == 0 {
		return false
	}
	for n := range set.Numbers() {
		if p.isPending(set.Universe().At(n).Value(), in) {
			return true
		}
	}
	return false
}

// willChange reports whether a managed resource will change, in the given module instance if it is of that static
// module.
func (p *Planner) willChange(r addr.ConfigResource, in addr.ModuleInstance) bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.isPending(r, in)
}

// isPending requires the lock. It reports whether a managed resource will change.
func (p *Planner) isPending(r addr.ConfigResource, in addr.ModuleInstance) bool {
	if r.Resource.Mode != addr.Managed || p.pending[r] == nil {
		return false
	}
	return r.Module != in.Module() || p.pending[r][in]
}
