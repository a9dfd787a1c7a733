package graph

import (
	"slices"
	"sort"

	"github.com/millipede-iac/millipede/graph/dag"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/state"
)

// Build makes the plan graph of a configuration and the resources of a state, in a sequence of steps.
func Build(tree *config.Tree, prior *state.State, refs ReferencesOf) *Static {
	static := &Static{index: map[nodeKey]int{}, single: map[edge][]addr.Key{}, importing: map[edge]bool{}}
	b := &builder{tree: tree, refs: refs, s: static, whole: map[wholeModule]bool{}}
	b.blocks()
	b.orphans(prior)
	b.s.Graph = dag.New(len(b.s.Nodes))
	b.containment()
	b.providers()
	b.references()
	b.dependsOn()
	b.ephemerals()
	b.s.Graph.Dedupe()
	return b.s
}

type builder struct {
	tree *config.Tree
	refs ReferencesOf
	s    *Static
	// callDepends are the vertices that the depends_on of a module call names, by the called module.
	callDepends map[addr.Module][]int
	// whole has the vertices that already have the edges of a reference to a whole module: such references come several
	// times in a block.
	whole map[wholeModule]bool
}

// wholeModule is a vertex that refers to a module as a whole.
type wholeModule struct {
	vertex int
	module addr.Module
}

func (b *builder) add(n Node) int {
	i := len(b.s.Nodes)
	b.s.Nodes = append(b.s.Nodes, n)
	b.s.index[nodeKey{n.Module, n.Named, n.Kind}] = i
	return i
}

// blocks makes a vertex for each block, in an order that depends only on the configuration.
func (b *builder) blocks() {
	for _, path := range sortedKeys(b.tree.Modules) {
		node := b.tree.Modules[path]
		m := node.Module
		if node.Call != nil {
			b.add(Node{Kind: CallNode, Module: node.Parent.Path, Named: addr.ModuleCall{Name: node.Call.Name},
				Tree: node.Parent, Call: node.Call})
		}
		for _, name := range sortedKeys(m.Variables) {
			b.add(Node{Kind: VariableNode, Module: path, Named: addr.Variable{Name: name}, Tree: node,
				Variable: m.Variables[name]})
		}
		for _, name := range sortedKeys(m.Locals) {
			b.add(Node{Kind: LocalNode, Module: path, Named: addr.Local{Name: name}, Tree: node, Local: m.Locals[name]})
		}
		for _, name := range sortedKeys(m.Outputs) {
			b.add(Node{Kind: OutputNode, Module: path, Named: addr.Output{Name: name}, Tree: node,
				Output: m.Outputs[name]})
		}
		b.providerBlocks(node)
		for _, r := range sortedResources(m.Resources) {
			rc := m.Resources[r]
			n := Node{Kind: ResourceNode, Module: path, Named: r, Tree: node, Resource: rc}
			n.ProviderAddr = node.ProviderFor(rc.Provider)
			b.add(n)
			n.Kind = ResourceDone
			b.add(n)
			if r.Mode == addr.Ephemeral {
				n.Kind = CloseNode
				b.add(n)
			}
			if len(rc.Triggers) > 0 {
				n.Kind = TriggerNode
				b.s.triggers = append(b.s.triggers, b.add(n))
			}
		}
		for _, name := range sortedKeys(m.Checks) {
			b.add(Node{Kind: CheckNode, Module: path, Named: addr.Check{Name: name}, Tree: node, Check: m.Checks[name]})
		}
	}
}

func (b *builder) providerBlocks(node *config.Node) {
	locals := make([]addr.LocalProvider, 0, len(node.Module.Providers))
	for l := range node.Module.Providers {
		locals = append(locals, l)
	}
	sort.Slice(locals, func(i, j int) bool { return locals[i].String() < locals[j].String() })
	for _, l := range locals {
		a := addr.ProviderConfig{Module: node.Path, Provider: node.Module.ProviderFor(l.Name), Alias: l.Alias}
		b.add(Node{Kind: ProviderNode, Module: node.Path, Named: a, Tree: node, Provider: node.Module.Providers[l],
			ProviderAddr: a})
	}
}

// orphans makes a vertex for each resource that exists without a block.
func (b *builder) orphans(prior *state.State) {
	if prior == nil {
		return
	}
	seen := map[addr.ConfigResource]addr.ProviderConfig{}
	for a, r := range prior.Resources {
		c := a.Config()
		if c.Resource.Mode == addr.Action {
			continue // an invocation in doubt, and nothing that exists
		}
		if _, ok := b.s.ResourceVertex(c); !ok {
			seen[c] = r.Provider
		}
	}
	orphans := make([]addr.ConfigResource, 0, len(seen))
	for c := range seen {
		orphans = append(orphans, c)
	}
	sort.Slice(orphans, func(i, j int) bool { return orphans[i].Less(orphans[j]) })
	for _, c := range orphans {
		b.add(Node{Kind: OrphanNode, Module: c.Module, Named: c.Resource, Orphan: c, ProviderAddr: seen[c]})
	}
}

// containment makes everything in a module depend on the expansion of its call, and every resource's end on its
// beginning.
func (b *builder) containment() {
	g := b.s.Graph
	for i := range b.s.Nodes {
		n := &b.s.Nodes[i]
		if n.Tree != nil && !n.Module.IsRoot() {
			parent, name := n.Module.Parent()
			if c, ok := b.s.Find(CallNode, parent, addr.ModuleCall{Name: name}); ok {
				g.Edge(c, i)
			}
		}
		if n.Kind == ResourceDone {
			begin, _ := b.s.Find(ResourceNode, n.Module, n.Named)
			g.Edge(begin, i)
		}
		if n.Kind == TriggerNode {
			done, _ := b.s.Find(ResourceDone, n.Module, n.Named)
			g.Edge(done, i)
		}
	}
}

// providers makes each resource depend on its provider configuration.
func (b *builder) providers() {
	for i := range b.s.Nodes {
		n := &b.s.Nodes[i]
		if n.Kind != ResourceNode && n.Kind != OrphanNode {
			continue
		}
		if p, ok := b.s.Find(ProviderNode, n.ProviderAddr.Module, n.ProviderAddr); ok {
			b.s.Graph.Edge(p, i)
		}
	}
}

// references adds an edge for each reference. An orphan has none: the state determines its order.
func (b *builder) references() {
	for i := range b.s.Nodes {
		n := &b.s.Nodes[i]
		if n.Kind == ResourceDone || n.Kind == OrphanNode || n.Kind == CloseNode {
			continue
		}
		refs := b.refs.References(n)
		b.edgesOf(i, n.Module, refs)
		if n.Kind == ResourceNode {
			b.imports(i, n.Module, refs)
		}
		if n.Kind == VariableNode && n.Tree.Call != nil {
			b.edgesOf(i, n.Tree.Parent.Path, b.refs.ArgumentReferences(n.Tree, n.Variable.Name))
		}
	}
}

// imports makes a resource depend on the references of its import blocks. refs are the references of its own block.
func (b *builder) imports(i int, m addr.Module, refs []eval.Reference) {
	importing := b.refs.ImportReferences(&b.s.Nodes[i])
	if len(importing) == 0 {
		return
	}
	own := map[int]bool{}
	for _, r := range refs {
		for _, before := range b.s.Targets(m, r.Reference) {
			own[before] = true
		}
	}
	for _, r := range importing {
		b.edgesTo(i, addr.RootModule, r.Reference)
		for _, before := range b.s.Targets(addr.RootModule, r.Reference) {
			if !own[before] && b.s.Nodes[before].Kind != CallNode { // its module may depend on the call
				b.s.importing[edge{before, i}] = true
			}
		}
	}
}

// edgesOf makes vertex i depend on the targets of references in module m.
func (b *builder) edgesOf(i int, m addr.Module, refs []eval.Reference) {
	single := false
	for _, r := range refs {
		b.edgesTo(i, m, r.Reference)
		if _, ok := r.Subject.(addr.ResourceRef); ok {
			single = true
		}
	}
	if !single {
		return
	}
	whole := map[edge]bool{}
	for _, r := range refs {
		for _, before := range b.s.Targets(m, r.Reference) {
			e := edge{before, i}
			ref, ok := r.Subject.(addr.ResourceRef)
			if !ok {
				whole[e] = true
			}
			if whole[e] {
				delete(b.s.single, e)
				continue
			}
			b.s.single[e] = append(b.s.single[e], ref.Key)
		}
	}
}

// edgesTo makes vertex i depend on the targets of a reference in module m.
func (b *builder) edgesTo(i int, m addr.Module, r *addr.Reference) {
	switch s := r.Subject.(type) {
	case addr.ModuleCall:
		b.edgesToModule(i, m, s.Name)
	case addr.ModuleCallInstance:
		b.edgesToModule(i, m, s.Name)
	}
	for _, before := range b.s.Targets(m, r) {
		if b.isEndOf(before, i) {
			continue // a block that refers to itself has a diagnostic of its own, where that is a mistake
		}
		if before != i || b.s.Nodes[i].Kind == CallNode { // other self-references have diagnostics of their own
			b.s.Graph.Edge(before, i)
		}
	}
}

// edgesToModule makes vertex i depend on all resources in a module and below. As in OpenTofu, a reference to a module
// as a whole, such as module.m[each.key].x, waits for the whole module, and not only for the resources that its outputs
// use.
func (b *builder) edgesToModule(i int, m addr.Module, name string) {
	at := wholeModule{i, m.Child(name)}
	if b.whole[at] {
		return
	}
	b.whole[at] = true
	call, ok := b.s.Find(CallNode, m, addr.ModuleCall{Name: name})
	if !ok {
		return
	}
	for _, before := range b.within(nil, b.s.Nodes[call].Tree.Children[name]) {
		if b.s.Nodes[before].Kind == ResourceDone {
			b.s.Graph.Edge(before, i)
		}
	}
}

// isEndOf reports whether a vertex is the end of the resource whose beginning is vertex i.
func (b *builder) isEndOf(end, i int) bool {
	x, y := &b.s.Nodes[end], &b.s.Nodes[i]
	return x.Kind == ResourceDone && x.Resource == y.Resource && x.Module == y.Module
}

// namesResource reports whether a depends_on entry names a resource.
func namesResource(r *addr.Reference) bool {
	switch r.Subject.(type) {
	case addr.Resource, addr.ResourceRef:
		return true
	}
	return false
}

// dependsOn adds the edges of depends_on. A module call's depends_on applies to every resource and output in the
// module; they get it through one vertex, the call, so that the number of edges stays linear.
func (b *builder) dependsOn() {
	b.callDepends = map[addr.Module][]int{}
	for _, path := range sortedKeys(b.tree.Modules) {
		node := b.tree.Modules[path]
		if node.Call == nil {
			continue
		}
		own := append([]int(nil), b.callDepends[node.Parent.Path]...)
		call, _ := b.s.Find(CallNode, node.Parent.Path, addr.ModuleCall{Name: node.Call.Name})
		for _, r := range b.refs.CallDependsOn(node) {
			for _, before := range b.dependedOn(node.Parent.Path, r.Reference) {
				b.s.Graph.Edge(before, call)
				own = append(own, before)
			}
		}
		if len(own) > 0 {
			b.callDepends[path] = own
		}
	}
	for i := range b.s.Nodes {
		n := &b.s.Nodes[i]
		if n.Kind != ResourceNode && n.Kind != OutputNode {
			continue
		}
		n.DependsOn = slices.Clip(b.callDepends[n.Module]) // one list for all of the module, until one adds its own
		for _, r := range b.refs.DependsOn(n) {
			for _, before := range b.dependedOn(n.Module, r.Reference) {
				delete(b.s.importing, edge{before, i})
				switch {
				case b.isEndOf(before, i):
					continue // a block that depends on itself asks for nothing
				case namesResource(r.Reference):
					n.DependsOnResources = append(n.DependsOnResources, before)
					delete(b.s.single, edge{before, i})
				default:
					n.DependsOn = append(n.DependsOn, before)
				}
				b.s.Graph.Edge(before, i)
			}
		}
	}
}

// dependedOn returns the vertices that a depends_on entry names: for a module call, every resource and output in it and
// below. The data in check blocks are not among them: they contribute nothing to a module's values, and are read after
// all changes, so a change that waited for them would wait for itself.
func (b *builder) dependedOn(m addr.Module, r *addr.Reference) []int {
	var name string
	switch subject := r.Subject.(type) {
	case addr.ModuleCall:
		name = subject.Name
	case addr.ModuleCallInstance:
		name = subject.Name
	default: // an output of a module depends only on its own references
		return b.s.Targets(m, r)
	}
	call, ok := b.s.Find(CallNode, m, addr.ModuleCall{Name: name})
	if !ok {
		return nil
	}
	return b.within(nil, b.s.Nodes[call].Tree.Children[name])
}

// within appends the ends of the resources, and the outputs, of a module and of all modules below it.
func (b *builder) within(to []int, node *config.Node) []int {
	if node == nil {
		return to
	}
	for _, r := range sortedResources(node.Module.Resources) {
		if r.Mode == addr.Action {
			continue // it contributes nothing to a module's values
		}
		if i, ok := b.s.Find(ResourceDone, node.Path, r); ok && b.s.Nodes[i].Resource.Check == "" {
			to = append(to, i)
		}
	}
	for _, name := range sortedKeys(node.Module.Outputs) {
		if i, ok := b.s.Find(OutputNode, node.Path, addr.Output{Name: name}); ok {
			to = append(to, i)
		}
	}
	for _, name := range sortedKeys(node.Children) {
		to = b.within(to, node.Children[name])
	}
	return to
}

// ephemerals makes the closing of an ephemeral resource depend on everything that may use its values: all its
// descendants.
func (b *builder) ephemerals() {
	var closers []int
	for i := range b.s.Nodes {
		if b.s.Nodes[i].Kind == CloseNode {
			closers = append(closers, i)
		}
	}
	for _, c := range closers {
		n := &b.s.Nodes[c]
		done, _ := b.s.Find(ResourceDone, n.Module, n.Named)
		users := b.s.Graph.Descendants(done)
		for _, u := range users {
			if b.s.Nodes[u].Kind != CloseNode {
				b.s.Graph.Edge(u, c)
			}
		}
	}
}

func sortedKeys[K ~string, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Slice(keys, func(i, j int) bool { return keys[i] < keys[j] })
	return keys
}

func sortedResources(m map[addr.Resource]*config.Resource) []addr.Resource {
	keys := make([]addr.Resource, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Slice(keys, func(i, j int) bool { return keys[i].Less(keys[j]) })
	return keys
}
