package graph

import (
	"slices"

	"github.com/millipede-iac/millipede/graph/dag"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
)

// InstanceReference is a reference, as evaluated for one instance.
type InstanceReference struct {
	*addr.Reference
	// Instance is the single instance that is referred to, if known; otherwise the zero address.
	Instance addr.Instance
}

// InstanceReferences returns the references in the block of a change, as evaluated for its instance.
type InstanceReferences func(c *plan.Change, n *Node) []InstanceReference

// ApplyOptions say how an apply graph is made.
type ApplyOptions struct {
	// Covered reports which static vertices the plan covers; the others only pass the order on.
	Covered    func(node int) bool
	References InstanceReferences
	// Unrefreshed says that nothing was refreshed, so that recorded dependencies are not up to date either.
	Unrefreshed bool
}

// BuildApply makes the apply graph of a plan.
//
// Every vertex of the plan graph for a named value, or for the end of a resource, becomes a Sync vertex (an output or a
// check becomes an evaluating one). So the order passes through unchanged values, with O(V+E) edges. Every change
// becomes one or two vertices: a making (ApplyObject, ReadObject, OpenObject), and an ending (DestroyObject). The order
// of endings is the reverse of the order of makings. Between makings and endings these rules hold:
//
//   - an object ends before its dependencies end;
//   - a replaced object ends before its new object is made and before its dependents change. If the new object is
//     created first, the old one ends after that, and after the dependents have changed;
//   - an object is changed or made only after those of its dependents that end have ended, except dependents whose new
//     object is created first;
//   - a provider is configured before its objects end. If its configuration depends on objects that change in the same
//     plan, it gets their new values, and these objects do not wait for the endings of the provider's objects. In a
//     destroy, which makes no new values, they do wait: the provider needs them until then.
//
// The dependencies of an object are the references of its block, and the dependencies that the state has recorded for
// it. The two may contradict each other, so that objects wait for each other in a circle. Then the graph is made with
// fewer edges (see variants); OpenTofu refuses such plans. For a destroy there is always an order. If there is none for
// another plan, circle names the objects of a circle, and the graph cannot be executed.
func BuildApply(s *Static, p *plan.Plan, o ApplyOptions) (g plan.Graph, circle []string) {
	for _, t := range variants(p, o) {
		tried := build(s, p, o, t)
		found := circleIn(tried)
		if found == nil {
			return tried, nil
		}
		g, circle = tried, found // after the last variant, the circle that remains
	}
	return g, circle
}

// variant is one of the ways to make the graph.
type variant struct {
	// endingsOnly applies recorded dependencies only to endings and to replacements, and not to other makings.
	endingsOnly bool
	// recordedAlone orders endings only by the dependencies that the state has recorded. Where these form a circle
	// themselves, they do not count.
	recordedAlone bool
	// withinProviders ignores recorded dependencies between objects of different providers.
	withinProviders bool
	// bare orders endings only among each other, and before or after the making of the same object: nothing else waits
	// for them.
	bare bool
}

// variants returns the ways to make the graph, in the order in which they are tried. Each gives up a part of the order
// that is less important than the parts that remain:
//
//   - Dependencies that are only recorded do not order makings. (OpenTofu never lets them do that.)
//   - In a plan that refreshed nothing, the recorded dependencies alone order the endings.
//   - Recorded dependencies between objects of different providers are ignored, except in a destroy.
//   - The recorded dependencies alone order the endings, in every plan.
//   - The same without recorded dependencies between different providers, also in a destroy: objects end before the
//     objects from which their provider is configured.
//   - Endings are ordered only relative to other endings, and to the making of the same object. In a destroy, which
//     makes nothing, such a graph cannot have a circle.
func variants(p *plan.Plan, o ApplyOptions) []variant {
	out := []variant{{}, {endingsOnly: true}}
	alone := variant{endingsOnly: true, recordedAlone: true}
	if o.Unrefreshed {
		out = append(out, alone)
	}
	if p.Mode != plan.Destroy {
		out = append(out, variant{endingsOnly: true, recordedAlone: o.Unrefreshed, withinProviders: true})
	}
	if !o.Unrefreshed {
		out = append(out, alone)
	}
	alone.withinProviders = true
	if p.Mode == plan.Destroy || !o.Unrefreshed {
		out = append(out, alone)
	}
	return append(out, variant{endingsOnly: true, recordedAlone: true, withinProviders: p.Mode != plan.Destroy,
		bare: true})
}

// circleIn returns the changes on a cycle of a graph, each before the change that it depends on; nil if there is none.
func circleIn(g plan.Graph) []string {
	d := dag.New(len(g.Vertices))
	for _, e := range g.Edges {
		d.Edge(int(e[0]), int(e[1]))
	}
	cycles := d.Cycles()
	if len(cycles) == 0 {
		return nil
	}
	names := []string{}
	for _, i := range cycles[0].Loop {
		if v := g.Vertices[i]; v.Kind == plan.DestroyObject {
			names = append(names, v.Address+" (destroy)")
		} else if v.Address != "" {
			names = append(names, v.Address)
		}
	}
	return slices.Compact(names)
}

// build makes the graph.
func build(s *Static, p *plan.Plan, o ApplyOptions, t variant) plan.Graph {
	b := flow(s, p, o, t)
	b.endings()
	b.invocations()
	return b.g
}

// flow makes the graph without the endings: along each of its edges a value flows.
func flow(s *Static, p *plan.Plan, o ApplyOptions, t variant) *applyBuilder {
	b := &applyBuilder{s: s, p: p, ApplyOptions: o, variant: t,
		begin: make([]int32, len(s.Nodes)), end: make([]int32, len(s.Nodes)),
		makes: map[addr.Instance]int32{}, ends: map[changeKey]int32{},
		byResource: map[addr.ConfigResource][]int{},
	}
	b.values()
	b.changes()
	b.openInDestroy()
	b.makings()
	b.g.Values = len(b.g.Edges)
	b.observers()
	return b
}

type changeKey struct {
	addr    addr.Instance
	deposed state.DeposedKey
}

type applyBuilder struct {
	s *Static
	p *plan.Plan
	ApplyOptions
	variant
	g plan.Graph

	// begin and end are the vertices before and after all work of a static vertex. For a resource begin is the Sync vertex
	// of its expansion, and end that of ResourceDone.
	begin, end []int32
	makes      map[addr.Instance]int32
	ends       map[changeKey]int32
	byResource map[addr.ConfigResource][]int // indexes of changes
}

func (b *applyBuilder) vertex(v plan.Vertex) int32 {
	b.g.Vertices = append(b.g.Vertices, v)
	return int32(len(b.g.Vertices) - 1)
}

func (b *applyBuilder) edge(before, after int32) {
	b.g.Edges = append(b.g.Edges, [2]int32{before, after})
}

// values makes the vertices for static ones, with the static edges.
func (b *applyBuilder) values() {
	destroy := b.p.Mode == plan.Destroy
	for i := range b.s.Nodes {
		n := &b.s.Nodes[i]
		v := plan.Vertex{Kind: plan.Sync, Change: -1, Address: n.Address(), Node: n.Name()}
		switch n.Kind {
		case OutputNode:
			v.Kind = plan.EvalOutput
		case CheckNode:
			v.Kind = plan.EvalCheck
		case CloseNode:
			v.Kind = plan.CloseObject
		case ResourceNode:
			if n.Resource.Addr.Mode == addr.Ephemeral {
				v.Kind = plan.OpenObject
			}
		}
		if destroy && v.Kind != plan.EvalOutput {
			v.Kind = plan.Sync
		}
		if !b.Covered(i) {
			v.Kind, v.Node = plan.Sync, plan.Node{}
		}
		b.begin[i] = b.vertex(v)
		b.end[i] = b.begin[i]
	}
	for e := range b.s.Graph.Edges() {
		if e.Before < len(b.s.Nodes) && e.After < len(b.s.Nodes) {
			b.edge(b.begin[e.Before], b.begin[e.After])
		}
	}
}

// openInDestroy makes a destroy open and close the ephemeral objects that the configurations of providers refer to, if
// those providers destroy something. It needs no others.
func (b *applyBuilder) openInDestroy() {
	if b.p.Mode != plan.Destroy {
		return
	}
	var providers []int
	for _, c := range b.p.Changes {
		if i, ok := b.s.providerVertex(c); ok && endsObject(c) {
			providers = append(providers, i)
		}
	}
	for _, i := range b.s.Graph.Ancestors(providers...) {
		if i >= len(b.s.Nodes) {
			continue
		}
		n := &b.s.Nodes[i]
		if n.Kind != ResourceNode || n.Resource.Addr.Mode != addr.Ephemeral || !b.Covered(i) {
			continue
		}
		closer, _ := b.s.Find(CloseNode, n.Module, n.Named)
		b.g.Vertices[b.begin[i]].Kind = plan.OpenObject
		b.g.Vertices[b.begin[closer]].Kind = plan.CloseObject
	}
}

// providerVertex returns the static vertex of the provider configuration of a change, if there is such a block.
func (s *Static) providerVertex(c *plan.Change) (int, bool) {
	pc := c.Provider.Config()
	return s.Find(ProviderNode, pc.Module, pc)
}

// changes makes the vertices of the changes, with the makings between the beginning and the end of their resource.
func (b *applyBuilder) changes() {
	for i, c := range b.p.Changes {
		b.byResource[c.Addr.Config()] = append(b.byResource[c.Addr.Config()], i)
		address := c.Addr.String()
		if c.Deposed != state.CurrentObject {
			address += " (deposed object " + string(c.Deposed) + ")"
		}
		if making, kind := makingOf(c); making {
			v := b.vertex(plan.Vertex{Kind: kind, Change: i, Address: address})
			b.makes[c.Addr] = v
		}
		if endsObject(c) {
			b.ends[changeKey{c.Addr, c.Deposed}] = b.vertex(plan.Vertex{Kind: plan.DestroyObject, Change: i,
				Address: address})
		}
	}
}

// makingOf reports whether a change is a making: it creates, updates, reads or re-checks an object.
func makingOf(c *plan.Change) (bool, plan.VertexKind) {
	if c.Deposed != state.CurrentObject {
		return false, 0 // it is ended, or was gone already
	}
	switch c.Action {
	case plan.Create, plan.Update, plan.NoOp, plan.DeleteThenCreate, plan.CreateThenDelete, plan.ForgetThenCreate:
		return true, plan.ApplyObject
	case plan.Read:
		return true, plan.ReadObject
	}
	return false, 0
}

// endsObject reports whether a change is an ending: it destroys or forgets an object.
func endsObject(c *plan.Change) bool {
	switch c.Action {
	case plan.Delete, plan.Forget, plan.DeleteThenCreate, plan.CreateThenDelete, plan.ForgetThenCreate:
		return true
	}
	return false
}

// makings orders the makings: each comes after the targets of its block's references or, for a reference to one
// instance, after that instance alone.
func (b *applyBuilder) makings() {
	for i := range b.s.Nodes {
		n := &b.s.Nodes[i]
		if n.Kind != ResourceNode {
			continue
		}
		done, _ := b.s.Find(ResourceDone, n.Module, n.Named)
		for _, ci := range b.byResource[n.ConfigResource()] {
			v, ok := b.makes[b.p.Changes[ci].Addr]
			if !ok || b.p.Changes[ci].Deposed != state.CurrentObject {
				continue
			}
			b.edge(v, b.begin[done])
			b.waits(v, i, n, b.p.Changes[ci])
		}
	}
}

// observers orders the reading of data in check blocks after the making of all managed objects: checks come last, even
// if they refer to nothing that changes. No other vertex depends on such data. As in OpenTofu, they do not wait for
// other data, which may fail to be read.
func (b *applyBuilder) observers() {
	var readings, others []int32
	for i := range b.s.Nodes {
		n := &b.s.Nodes[i]
		if n.Kind != ResourceNode {
			continue
		}
		for _, ci := range b.byResource[n.ConfigResource()] {
			v, ok := b.makes[b.p.Changes[ci].Addr]
			switch {
			case !ok || b.p.Changes[ci].Deposed != state.CurrentObject:
			case n.Resource.Check != "":
				readings = append(readings, v)
			case n.Resource.Addr.Mode == addr.Managed && b.p.Changes[ci].Action != plan.NoOp:
				others = append(others, v)
			}
		}
	}
	if len(readings) == 0 || len(others) == 0 {
		return
	}
	last := b.vertex(plan.Vertex{Kind: plan.Sync, Change: -1})
	for _, v := range others {
		b.edge(v, last)
	}
	for _, v := range readings {
		b.edge(last, v)
	}
}

// waits makes a change depend on everything that its resource's vertex depends on, but for references to single
// instances only on those.
func (b *applyBuilder) waits(v int32, node int, n *Node, c *plan.Change) {
	alone := map[int]bool{}
	always := map[int]bool{}
	for _, d := range n.DependsOn {
		always[d] = true
	}
	for _, d := range n.DependsOnResources {
		always[d] = true
	}
	var instances []addr.Instance
	for _, r := range b.References(c, n) {
		for _, t := range b.s.Targets(n.Module, r.Reference) {
			if _, single := b.makes[r.Instance]; single {
				alone[t] = true
			} else {
				always[t] = true
			}
		}
		if _, single := b.makes[r.Instance]; single {
			instances = append(instances, r.Instance)
		}
	}
	for before := range b.s.Graph.Before(node) {
		if before < len(b.s.Nodes) && (!alone[before] || always[before]) {
			b.edge(b.begin[before], v)
		}
	}
	for _, a := range instances {
		if b.makes[a] != v { // a provisioner may refer to its own object by the address
			b.edge(b.makes[a], v)
		}
	}
}

// endings orders the endings. It mirrors the static graph, with one more vertex for each resource that has endings, or
// whose dependents have: "everything that depends on it has ended".
func (b *applyBuilder) endings() {
	if len(b.ends) == 0 {
		return
	}
	m := &mirror{b: b}
	m.findLate()
	if !b.bare {
		m.reflect()
	}
	for _, c := range b.p.Changes {
		v, ok := b.ends[changeKey{c.Addr, c.Deposed}]
		if !ok {
			continue
		}
		if making, ok := b.makes[c.Addr]; ok && c.Deposed == state.CurrentObject {
			if c.Action == plan.CreateThenDelete {
				b.edge(making, v)
			} else {
				b.edge(v, making)
			}
		}
		switch {
		case forgetsAside(c):
		case b.bare:
			m.provider(v, c)
		default:
			m.order(v, c)
		}
	}
	m.recorded()
}
