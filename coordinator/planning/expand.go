package planning

import (
	"slices"
	"sort"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph"
	"github.com/millipede-iac/millipede/graph/dag"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
)

// expandResource returns the objects of a resource block: its instances in all instances of its module, and further
// ones that the state has.
func (p *Planner) expandResource(node int, n *graph.Node) program.Step {
	f := &found{node: node}
	var diags diag.List
	imports, more := p.imports(n)
	if more.HasErrors() {
		// The imports are unknown, so nothing of the resource is planned: an object to import could be planned as
		// one to create.
		return program.Step{Diags: more}
	}
	diags = diags.Append(more)
	destroy := p.Mode == plan.Destroy && n.Resource.Addr.Mode == addr.Managed
	wanted := func(a addr.Instance) bool { return !destroy && (p.configured(a) || p.mayBe(a)) }
	if p.Mode != plan.Destroy && len(n.Resource.Preconditions)+len(n.Resource.Postconditions) > 0 {
		f.expected = &expectation{kind: "resource", config: n.Address()}
	}
	if p.deferral != nil {
		if f.deferred = p.unexpanded(n); len(f.deferred) > 0 {
			f.expected = nil // the objects with rules are not known
		}
	}
	for _, m := range p.Store.Instances(n.Module) {
		r := m.ResourceBlock(n.Resource.Addr)
		e, more := r.Expansion()
		if destroy {
			f.unevaluable = f.unevaluable || p.refreshesToDestroy() && (more.HasErrors() || !p.allStored(r, e))
			p.assumeUnknown(r, e)
			continue
		}
		if p.Mode == plan.Destroy && more.HasErrors() {
			// The instances may depend on objects that do not exist and that nothing will create. If existing objects are
			// refreshed, an ordinary plan decides whether that is an error.
			f.unevaluable = f.unevaluable || p.refreshesToDestroy()
			continue
		}
		diags = diags.Append(more)
		f.objects = slices.Grow(f.objects, len(e.Keys))
		abs := r.Addr()
		for _, k := range e.Keys {
			a := abs.Instance(k)
			if f.expected != nil {
				f.expected.instances = append(f.expected.instances, a.String())
			}
			if !p.Scope.Instance(a) {
				p.excluded(r, a)
				continue
			}
			f.objects = append(f.objects, object{addr: a, resource: r, imported: imports[a]})
		}
		if e.Unknown && diags.HasErrors() {
			// The instances are unknown: no existing object may be considered superfluous.
			p.missImports(imports)
			return program.Step{Diags: diags.WithAddress(n.Address())}
		}
	}
	p.missImports(imports)
	if circle := circular(f.objects); circle.HasErrors() {
		return program.Step{Diags: circle}
	}
	p.keepBeyond(n, wanted)
	p.settleKept(node, f)
	f.objects = append(f.objects, p.superfluous(n, wanted)...)
	return p.grow(node, f, diags)
}

// circular reports that instances of one resource depend on each other, because their block refers to the resource
// itself. None of the instances is planned then, as in OpenTofu. An instance does not depend on itself: provisioners
// may refer to it by its address.
func circular(instances []object) diag.List {
	if len(instances) < 2 || len(instances[0].resource.Code.Own) == 0 {
		return nil
	}
	index := make(map[addr.Instance]int, len(instances))
	for i := range instances {
		index[instances[i].addr] = i
	}
	d := dag.New(len(instances))
	for i := range instances {
		for _, own := range instances[i].resource.Code.Own {
			if one, single := own.(addr.ResourceRef); single {
				if before, ok := index[instances[i].resource.Addr().Instance(one.Key)]; ok && before != i {
					d.Edge(before, i)
				}
				continue
			}
			// A reference to all instances is one to the neighbours in the same module instance.
			for _, before := range []int{i - 1, i + 1} {
				if 0 <= before && before < len(instances) && instances[before].addr.Module == instances[i].addr.Module {
					d.Edge(before, i)
				}
			}
		}
	}
	d.Dedupe()
	cycles := d.Cycles()
	if len(cycles) == 0 {
		return nil
	}
	var names []string
	for _, i := range cycles[0].Loop {
		names = append(names, instances[i].addr.String())
	}
	return diag.Errors("Cycle: "+strings.Join(names, ", "), "Each of these instances refers to the next one, and the "+
		"last one to the first, so none of them can be the first to be made. Refer to the own object with self.", nil)
}

// destroyRequested is the reason of deletions in a destroy plan, which is not shown.
const destroyRequested = plan.Reason("-")

// assumeUnknown gives the instances of a resource that do not exist an unknown value, for a destroy plan: it creates
// nothing, but expressions that refer to them are evaluated, because provider configurations may depend on them.
func (p *Planner) assumeUnknown(r *values.Resource, e *values.Expansion) {
	if r.Code.Schema == nil {
		return
	}
	for _, k := range e.Keys {
		if p.Prior.Object(r.Addr().Instance(k), state.CurrentObject) == nil {
			r.Set(k, cty.UnknownVal(r.Code.Schema.Block.ImpliedType()))
		}
	}
}

// allStored reports whether the state has an object of each instance that the plan covers.
func (p *Planner) allStored(r *values.Resource, e *values.Expansion) bool {
	return !slices.ContainsFunc(e.Keys, func(k addr.Key) bool {
		a := r.Addr().Instance(k)
		return p.Scope.Instance(a) && p.Prior.Object(a, state.CurrentObject) == nil
	})
}

// excluded is for an instance that -target or -exclude leaves out, or that the import command does not import. Without
// a stored object, it is omitted from the value of a resource with several instances: neither this plan nor its apply
// creates it.
func (p *Planner) excluded(r *values.Resource, a addr.Instance) {
	if len(p.Imports) > 0 && p.Prior.Object(a, state.CurrentObject) == nil && r.Code.Schema != nil {
		p.leaveOut(r, a)
		return
	}
	if a.Key != addr.NoKey && p.Prior.Object(a, state.CurrentObject) == nil {
		r.SetGone(a.Key)
		return
	}
	p.keepStored(r, a)
}

// keepBeyond is for the instances that are not configured any more, and that -target or -exclude leaves out, or that
// others use which are left out: they stay.
func (p *Planner) keepBeyond(n *graph.Node, wanted func(addr.Instance) bool) {
	if p.Mode == plan.Destroy || p.Scope.Whole() {
		return
	}
	stays := func(a addr.Instance, i *state.Instance) bool {
		return i.Current != nil && !wanted(a) && !p.Scope.Leftover(a)
	}
	p.eachStored(n.Module, n.Resource.Addr, stays, func(a addr.Instance, i *state.Instance) {
		m := p.Store.Module(a.Module)
		if m == nil {
			return
		}
		if r := m.ResourceBlock(a.Resource); r != nil && r.Code.Schema != nil {
			r.KeepBeyond(a.Key, i.Current)
		}
	})
}

// keepStored gives an instance that is not part of the plan its stored value.
func (p *Planner) keepStored(r *values.Resource, a addr.Instance) {
	if o := p.Prior.Object(a, state.CurrentObject); o != nil && r.Code.Schema != nil {
		r.Keep(a.Key, o)
	}
}

// configured reports whether the configuration has an instance.
func (p *Planner) configured(a addr.Instance) bool {
	m := p.Store.Module(a.Module)
	if m == nil {
		return false
	}
	r := m.ResourceBlock(a.Resource)
	if r == nil {
		return false
	}
	e, _ := r.Expansion()
	return e.Has(a.Key)
}

// superfluous returns the existing objects of a resource block that are not wanted: instances that are not in the
// expansion, and deposed objects.
func (p *Planner) superfluous(n *graph.Node, wanted func(addr.Instance) bool) []object {
	var out []object
	left := func(a addr.Instance, i *state.Instance) bool {
		return (len(i.Deposed) > 0 || !wanted(a)) && p.Scope.Instance(a)
	}
	p.eachStored(n.Module, n.Resource.Addr, left, func(a addr.Instance, i *state.Instance) {
		var r *values.Resource
		if m := p.Store.Module(a.Module); m != nil {
			r = m.ResourceBlock(a.Resource)
		}
		if i.Current != nil && !wanted(a) && p.Scope.Leftover(a) {
			out = append(out, object{addr: a, resource: r, orphan: p.orphanReason(a, r)})
		}
		out = append(out, p.deposedObjects(a, i, r)...)
	})
	return out
}

// deposedObjects returns the deposed objects of an instance that the plan may end.
func (p *Planner) deposedObjects(a addr.Instance, i *state.Instance, r *values.Resource) []object {
	if !p.Scope.Deposed(a) {
		return nil
	}
	keys := make([]state.DeposedKey, 0, len(i.Deposed))
	for k := range i.Deposed {
		keys = append(keys, k)
	}
	sort.Slice(keys, func(x, y int) bool { return keys[x] < keys[y] })
	var out []object
	for _, k := range keys {
		out = append(out, object{addr: a, deposed: k, resource: r, orphan: destroyRequested})
	}
	return out
}

// orphanReason returns the reason why the configuration has no such instance of an existing block. A move to this
// address is not mentioned.
func (p *Planner) orphanReason(a addr.Instance, r *values.Resource) plan.Reason {
	if p.Mode == plan.Destroy {
		return destroyRequested
	}
	if r == nil {
		return plan.DeleteBecauseNoModule
	}
	e, _ := r.Expansion()
	_, isInt := a.Key.Int()
	_, isString := a.Key.Str()
	switch {
	case e.Mode == values.Enabled && a.Key == addr.NoKey:
		return plan.DeleteBecauseEnabledFalse
	case e.Mode == values.Count && isInt:
		return plan.DeleteBecauseCountIndex
	case e.Mode == values.ForEach && isString:
		return plan.DeleteBecauseEachKey
	default:
		return plan.DeleteBecauseWrongRepetition
	}
}

// expandOrphan returns the objects of a resource without a block.
func (p *Planner) expandOrphan(node int, n *graph.Node) program.Step {
	f := &found{node: node}
	covered := func(a addr.Instance, _ *state.Instance) bool { return p.Scope.Leftover(a) }
	p.eachStored(n.Module, n.Orphan.Resource, covered, func(a addr.Instance, i *state.Instance) {
		reason := plan.DeleteBecauseNoResourceConfig
		switch {
		case p.Mode == plan.Destroy:
			reason = destroyRequested
		case p.MovedByBlock[a]:
			reason = plan.DeleteBecauseNoMoveTarget
		}
		if i.Current != nil {
			f.objects = append(f.objects, object{addr: a, orphan: reason})
		}
		f.objects = append(f.objects, p.deposedObjects(a, i, nil)...)
	})
	return p.grow(node, f, nil)
}

// eachStored calls fn for each stored instance of a resource for which is holds, in order of address.
func (p *Planner) eachStored(m addr.Module, r addr.Resource, is func(addr.Instance, *state.Instance) bool,
	fn func(addr.Instance, *state.Instance)) {
	for _, abs := range p.stored(addr.ConfigResource{Module: m, Resource: r}) {
		rs := p.Prior.Resources[abs]
		var keys []addr.Key
		for k, i := range rs.Instances {
			if is(abs.Instance(k), i) {
				keys = append(keys, k)
			}
		}
		sort.Slice(keys, func(i, j int) bool { return keys[i].Less(keys[j]) })
		for _, k := range keys {
			fn(abs.Instance(k), rs.Instances[k])
		}
	}
}

// stored returns the resources of the state that are instances of a static resource, in order.
func (p *Planner) stored(c addr.ConfigResource) []addr.AbsResource {
	p.storedOnce.Do(func() {
		p.byConfig = map[addr.ConfigResource][]addr.AbsResource{}
		for _, abs := range p.Prior.SortedResources() {
			cr := abs.Config()
			p.byConfig[cr] = append(p.byConfig[cr], abs)
		}
	})
	return p.byConfig[c]
}

// grow appends the objects, each between the beginning and the end of its resource.
func (p *Planner) grow(node int, f *found, diags diag.List) program.Step {
	step := program.Step{Diags: diags.WithAddress(p.Static.Nodes[node].Address()), Value: f}
	if len(f.objects) == 0 {
		return step
	}
	growth := &program.Growth{Vertices: len(f.objects)}
	n := &p.Static.Nodes[node]
	done, hasEnd := p.Static.Find(graph.ResourceDone, n.Module, n.Named)
	for i := range f.objects {
		if hasEnd && f.objects[i].deposed == state.CurrentObject {
			growth.Edges = append(growth.Edges, dag.Edge{Before: program.Grown(i), After: done})
		}
	}
	step.Growth = growth
	return step
}
