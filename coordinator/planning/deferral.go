package planning

import (
	"maps"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/instance"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
)

// deferral is what a plan leaves out for a later round. Some vertices are deferred by themselves: calls and resources
// whose instances are not known, and resources with an instance that its provider has put off. What depends on them is
// deferred because of them. A deferred instance is planned as far as that is possible, and its change is not part of
// the plan.
type deferral struct {
	static *graph.Static
	// before has the vertices that each static vertex waits for. It is made before the run, in which the graph grows.
	before [][]int
	// itself are the static vertices that are deferred by themselves; behind those that wait for one, as far as the run
	// has come. Planner.mu guards both.
	itself, behind []bool
	// list is what is deferred so far. Planner.mu guards it.
	list []*plan.Deferred
	// held are the changes that trigger an action which its provider has put off. Planner.mu guards it.
	held map[addr.Instance]*plan.Deferred
}

func newDeferral(s *graph.Static) *deferral {
	d := &deferral{static: s, before: make([][]int, len(s.Nodes)), itself: make([]bool, len(s.Nodes)),
		behind: make([]bool, len(s.Nodes)), held: map[addr.Instance]*plan.Deferred{}}
	for v := range s.Nodes {
		d.before[v] = slices.Collect(s.Graph.Before(v))
	}
	return d
}

// reach decides whether a vertex waits for something that is deferred. Those before it have been decided.
func (d *deferral) reach(v int) {
	for _, b := range d.before[v] {
		if d.itself[b] || d.behind[b] {
			d.behind[v] = true
			return
		}
	}
}

// beginning decides, when a static vertex begins, whether it waits for something that is deferred.
func (p *Planner) beginning(v int) {
	if p.deferral == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.deferral.reach(v)
}

// behindDeferred reports whether a static vertex waits for something that is deferred.
func (p *Planner) behindDeferred(v int) bool {
	if p.deferral == nil {
		return false
	}
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.deferral.behind[v]
}

// add requires the lock of the planner. It takes what a vertex has deferred. The resource of an instance is deferred
// from its end on: its other instances are planned.
func (d *deferral) add(list []*plan.Deferred, node int) {
	if d == nil {
		return
	}
	d.list = append(d.list, list...)
	for _, x := range list {
		v := node
		if x.Reason != plan.DeferCountUnknown {
			n := &d.static.Nodes[node]
			if done, ok := d.static.Find(graph.ResourceDone, n.Module, n.Named); ok {
				v = done
			}
		}
		d.itself[v] = true
	}
}

// callDeferred requires the lock of the planner: the instances of a call are not known.
func (d *deferral) callDeferred(v int) {
	if d != nil {
		d.itself[v] = true
	}
}

// unexpanded returns what a resource defers because its instances, or those of its module, are not known.
func (p *Planner) unexpanded(n *graph.Node) (out []*plan.Deferred) {
	code := p.Code.Resource(n.Resource)
	for _, m := range p.Store.Unexpanded(n.Module) {
		out = append(out, p.unknownInstances(n, n.Resource.Addr.Absolute(m).Instance(code.UnknownKey()), nil))
	}
	for _, m := range p.Store.Instances(n.Module) {
		r := m.ResourceBlock(n.Resource.Addr)
		if e, diags := r.Expansion(); e.Unknown && !diags.HasErrors() {
			out = append(out, p.unknownInstances(n, r.Addr().Instance(code.UnknownKey()), r))
		}
	}
	return out
}

// unknownInstances returns the change that stands for the unknown instances of a resource. r is nil if not even its
// module is known.
func (p *Planner) unknownInstances(n *graph.Node, a addr.Instance, r *values.Resource) *plan.Deferred {
	d := &plan.Deferred{Addr: a, Reason: plan.DeferCountUnknown}
	code := p.Code.Resource(n.Resource)
	if code.Schema == nil || a.Resource.Mode == addr.Ephemeral {
		return d
	}
	ty := code.Schema.Block.ImpliedType()
	c := &plan.Change{Addr: a, Previous: a, Provider: n.ProviderAddr.Instance(n.ProviderAddr.Module.Unkeyed(), addr.NoKey),
		Action: plan.Create, Before: cty.NullVal(ty), After: cty.UnknownVal(ty), SchemaVersion: code.Schema.Version}
	if a.Resource.Mode == addr.Data {
		c.Action, c.Reason = plan.Read, plan.ReadBecauseConfigUnknown
	}
	if r != nil {
		if e, _ := r.Expansion(); e != nil {
			v, diags := r.Bound().Eval(e.Repetition(addr.WildcardKey), cty.NilVal)
			if !diags.HasErrors() {
				c.After = values.MarkSensitive(values.UnknownComputed(v, code.Schema.Block), code.Schema.Block, nil)
			}
		}
	}
	d.Change = c
	return d
}

// mayBe reports whether an instance may be one of those that are not known yet.
func (p *Planner) mayBe(a addr.Instance) bool {
	if p.deferral == nil {
		return false
	}
	m := p.Store.Module(a.Module)
	if m == nil {
		_, maybe := p.Store.MayExist(a.Module)
		node := p.Code.Tree.Modules[a.Module.Module()]
		return maybe && node != nil && node.Module.Resources[a.Resource] != nil
	}
	r := m.ResourceBlock(a.Resource)
	if r == nil {
		return false
	}
	e, diags := r.Expansion()
	return e.Unknown && !diags.HasErrors()
}

// put returns the deferral of an object or an action that its provider has put off, or that could not be asked about
// because the configuration of the provider is not known. It returns nil if there is none of both.
func (p *Planner) put(a addr.Instance, in *instance.Instance, why string, problems diag.List) *plan.Deferred {
	switch {
	case p.deferral == nil:
		return nil
	case problems.HasErrors() && in.Unconfigured:
		for _, d := range problems {
			if d.Severity == diag.Error {
				return &plan.Deferred{Addr: a, Reason: plan.DeferProviderConfig, Detail: d.Summary}
			}
		}
	case problems.HasErrors() || why == "":
		return nil
	}
	return &plan.Deferred{Addr: a, Reason: plan.DeferReason(why)}
}

// deferred returns the last step of a managed object that is left to a later round.
func (p *Planner) deferred(o *object, d *plan.Deferred, a answer, diags diag.List) program.Step {
	w := o.work
	f := &found{checks: w.Checks, deferred: []*plan.Deferred{d}}
	notes := program.Notes{Quiet: true}
	switch {
	case diags.HasErrors():
		d.Change = p.unanswered(o)
	case o.orphan != plan.NoReason:
		d.Change = p.unanswered(o)
		d.Change.Before = a.before
	default:
		d.Change = p.changeOf(o, a)
		if d.Change.Action != plan.NoOp {
			d.Change.After = values.UnknownComputed(d.Change.After, w.Schema.Block)
		}
		if w.prior != nil {
			f.state = append(f.state, p.refreshedObject(o, a))
		}
	}
	w.task = nil
	d.Change.Provider = w.Provider
	if o.orphan == plan.NoReason {
		o.resource.Set(o.addr.Key, d.Change.After)
	}
	return program.Step{Diags: warningsOnly(diags), Value: f, Notes: notes}
}

// unanswered is the change of an object whose provider could not be asked.
func (p *Planner) unanswered(o *object) *plan.Change {
	w := o.work
	ty := w.Schema.Block.ImpliedType()
	c := &plan.Change{Addr: o.addr, Previous: o.addr, Deposed: o.deposed, Provider: w.Provider, Action: plan.Create,
		Before: cty.NullVal(ty), After: cty.NullVal(ty), SchemaVersion: w.Schema.Version, Importing: w.importing}
	if previous, moved := p.Previous[o.addr]; moved {
		c.Previous = previous
	}
	if o.addr.Resource.Mode == addr.Data {
		c.Action = plan.Read
	}
	if w.prior != nil && o.addr.Resource.Mode == addr.Managed {
		c.Action = plan.Update
		if stored, err := values.DecodeStored(w.prior, w.Schema); err == nil {
			c.Before = stored
		}
	}
	if o.orphan != plan.NoReason {
		c.Action = plan.Delete
		return c
	}
	c.After = w.Unread()
	return c
}

// settle requires the lock. It moves the changes that have to wait for a later round from the plan to its deferred
// ones, and returns the static vertices that the plan leaves out.
func (p *Planner) settle(out *plan.Plan) (left []bool) {
	d := p.deferral
	if d == nil {
		return nil
	}
	out.Defers = true
	for {
		left = d.spread()
		if moved := p.moveDeferred(out, left); !d.hold(out, left) && !moved {
			break
		}
	}
	out.Invocations = invokedHere(out)
	out.Deferred = d.list
	slices.SortFunc(out.Deferred, func(a, b *plan.Deferred) int { return a.Addr.Compare(b.Addr) })
	for _, x := range out.Deferred {
		x.On = slices.Sorted(slices.Values(append(x.On, p.waitsFor(x)...)))
	}
	if p.After != nil { // what was planned before keeps its results
		for _, c := range out.Checks {
			if c.Kind == "resource" && c.Status == state.CheckUnknown {
				out.Untouched = append(out.Untouched, c.Config)
			}
		}
	}
	out.Outputs = slices.DeleteFunc(out.Outputs, func(o *plan.OutputChange) bool {
		v, ok := d.static.Find(graph.OutputNode, addr.RootModule, addr.Output{Name: o.Name})
		return ok && left[v]
	})
	return left
}

// spread returns the vertices that are deferred by themselves or wait for one that is. A resource with deferred
// instances is left out only from its end on, and an ephemeral object that is opened is also closed.
func (d *deferral) spread() []bool {
	order, _ := d.static.Graph.Order()
	for _, v := range order {
		if v < len(d.static.Nodes) {
			d.reach(v)
		}
	}
	left := make([]bool, len(d.static.Nodes))
	for v := range left {
		left[v] = d.itself[v] || d.behind[v]
	}
	for v := range left {
		if n := &d.static.Nodes[v]; n.Kind == graph.CloseNode {
			opened, _ := d.static.Find(graph.ResourceNode, n.Module, n.Named)
			left[v] = left[opened]
		}
	}
	return left
}

// moveDeferred moves the changes that have to wait, and reports whether there were any.
func (p *Planner) moveDeferred(out *plan.Plan, left []bool) bool {
	moved := false
	users := p.deferredUsers()
	out.Changes = slices.DeleteFunc(out.Changes, func(c *plan.Change) bool {
		if !p.waits(c, left, users) {
			return false
		}
		moved = true
		p.deferral.list = append(p.deferral.list, &plan.Deferred{Addr: c.Addr, Reason: plan.DeferPrerequisite, Change: c})
		return true
	})
	return moved
}

// waits reports whether a change has to wait for something that is deferred: because its block does, or the
// configuration of its provider; or because it ends an object that a deferred object still uses.
func (p *Planner) waits(c *plan.Change, left []bool, users []*state.Object) bool {
	d := p.deferral
	if v, ok := d.static.Find(graph.ProviderNode, c.Provider.Module.Module(), c.Provider.Config()); ok && left[v] {
		return true
	}
	if c.Action == plan.Delete {
		used := state.DependOn(c.Addr.Config())
		return slices.ContainsFunc(users, func(o *state.Object) bool { return o.Dependencies.Has(used) })
	}
	v, ok := d.static.ResourceVertex(c.Addr.Config())
	return ok && left[v] && c.Action != plan.Forget
}

// deferredUsers returns the stored objects that are deferred.
func (p *Planner) deferredUsers() (out []*state.Object) {
	round := plan.Round{}
	for _, d := range p.deferral.list {
		round.Waiting = append(round.Waiting, d.Addr)
	}
	for _, a := range p.refreshed.Addrs() {
		if o := p.refreshed.Object(a, state.CurrentObject); o != nil && o.Dependencies.Len() > 0 && round.Covers(a) {
			out = append(out, o)
		}
	}
	return out
}

// waitsFor requires the lock. It returns the nearest blocks that something deferred waits for: those that are deferred
// themselves, and those that the plan changes.
func (p *Planner) waitsFor(x *plan.Deferred) []string {
	d := p.deferral
	open := []int{}
	if v, ok := d.static.ResourceVertex(x.Addr.Config()); ok {
		open = append(open, d.before[v]...)
	}
	seen, found := map[int]bool{}, map[string]bool{}
	for len(open) > 0 {
		v := open[len(open)-1]
		open = open[:len(open)-1]
		if seen[v] {
			continue
		}
		seen[v] = true
		n := &d.static.Nodes[v]
		switch {
		case n.Kind == graph.CallNode && d.itself[v]:
			found[n.Address()] = true
		case n.Kind == graph.ResourceDone && (d.itself[v] || d.behind[v] || p.pending[n.ConfigResource()] != nil):
			if a := n.ConfigResource(); a != x.Addr.Config() {
				found[a.String()] = true
			}
			continue
		}
		open = append(open, d.before[v]...)
	}
	return slices.Sorted(maps.Keys(found))
}
