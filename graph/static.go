// Package graph builds the plan graph from a configuration and a state, and the apply graph from a finished plan, as
// plain data.
//
// The plan graph (Static) has a vertex for each block of the module tree; vertices for instances are appended while the
// plan is made. The apply graph has vertices for the instances that change, and never grows. The package executes
// nothing and evaluates nothing.
package graph

import (
	"github.com/millipede-iac/millipede/graph/dag"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/eval"
)

// NodeKind is the kind of a vertex of the plan graph.
type NodeKind byte

// The kinds of vertices of the plan graph.
const (
	// VariableNode is an input variable with its validations.
	VariableNode NodeKind = iota + 1
	// LocalNode is a local value, OutputNode an output value with its preconditions.
	LocalNode
	OutputNode
	// CallNode expands a module call to its instances.
	CallNode
	// ProviderNode evaluates a provider block (for_each included).
	ProviderNode
	// ResourceNode expands a resource block; ResourceDone is the end of all its instances.
	ResourceNode
	ResourceDone
	// OrphanNode is a resource of the state that has no block (any more), in all module instances.
	OrphanNode
	// CheckNode is a check block.
	CheckNode
	// CloseNode closes the instances of an ephemeral resource when everything that uses them is done.
	CloseNode
	// TriggerNode is a managed resource that triggers actions: it comes after the planning of all its instances, and
	// after what the actions refer to.
	TriggerNode
)

var kindNames = [...]string{
	VariableNode: "variable", LocalNode: "local", OutputNode: "output", CallNode: "call", ProviderNode: "provider",
	ResourceNode: "resource", ResourceDone: "instances", OrphanNode: "orphan", CheckNode: "check", CloseNode: "close",
	TriggerNode: "trigger",
}

// String returns the name of the kind in saved plans; see docs/format/plan.md.
func (k NodeKind) String() string { return kindNames[k] }

// Node is a vertex of the plan graph. Its kind determines which fields are set.
type Node struct {
	Kind   NodeKind
	Module addr.Module
	// Named is the object within Module that the vertex is for.
	Named addr.Named

	Tree     *config.Node // the module that holds the block
	Variable *config.Variable
	Local    *config.Local
	Output   *config.Output
	Call     *config.ModuleCall
	Provider *config.ProviderConfig
	Resource *config.Resource
	Check    *config.Check
	// Orphan is the address of a resource without a block.
	Orphan addr.ConfigResource

	// DependsOn are the vertices that the block's own depends_on names, resources aside, and those that the depends_on
	// of the module calls around it name.
	DependsOn []int
	// DependsOnResources are the ends of the resources that the block's own depends_on names.
	DependsOnResources []int
	// ProviderAddr is the provider configuration of a resource.
	ProviderAddr addr.ProviderConfig
}

// Address returns the address of the vertex for users.
func (n *Node) Address() string {
	name := ""
	switch {
	case n.Kind == OrphanNode:
		return n.Orphan.String()
	case n.Kind == ProviderNode:
		return n.Named.String()
	case n.Named != nil:
		name = n.Named.String()
	}
	if n.Module.IsRoot() {
		return name
	}
	return n.Module.String() + "." + name
}

// Name returns the name of the vertex in a plan.
func (n *Node) Name() plan.Node {
	return plan.Node{Kind: n.Kind.String(), Module: n.Module, Name: n.Named.String()}
}

// ConfigResource returns the address of the resource of a ResourceNode, ResourceDone, CloseNode, TriggerNode or
// OrphanNode.
func (n *Node) ConfigResource() addr.ConfigResource {
	if n.Kind == OrphanNode {
		return n.Orphan
	}
	return n.Resource.Addr.In(n.Module)
}

// Static is the plan graph. Vertex i of Graph is Nodes[i].
type Static struct {
	Nodes []Node
	Graph *dag.Graph
	index map[nodeKey]int
	// single are the edges from the end of a resource to a vertex whose block refers only to single instances of the
	// resource, by constant keys, with these keys.
	single map[edge][]addr.Key
	// triggers are the TriggerNodes.
	triggers []int
	// importing are the edges that exist only because import blocks refer to something: the objects do not depend on
	// it once they are imported.
	importing map[edge]bool
}

// Imports reports whether import blocks refer to something that the imported objects do not depend on otherwise.
func (s *Static) Imports() bool { return len(s.importing) > 0 }

// edge is an edge between two vertices of the plan graph.
type edge struct{ before, after int }

type nodeKey struct {
	module addr.Module
	named  addr.Named
	kind   NodeKind
}

// Find returns the vertex of a named object of a module.
func (s *Static) Find(kind NodeKind, m addr.Module, named addr.Named) (int, bool) {
	i, ok := s.index[nodeKey{m, named, kind}]
	return i, ok
}

// Used reports whether any vertex but an end depends on this one. A provider block that nothing uses is not evaluated,
// as in OpenTofu, because modules may contain such blocks.
func (s *Static) Used(i int) bool {
	for after := range s.Graph.After(i) {
		if s.Nodes[after].Kind != CloseNode {
			return true
		}
	}
	return false
}

// ByName returns all vertices by their names in plans.
func (s *Static) ByName() map[plan.Node]int {
	out := make(map[plan.Node]int, len(s.Nodes))
	for i := range s.Nodes {
		out[s.Nodes[i].Name()] = i
	}
	return out
}

// ResourceVertex returns the expand vertex of a resource block.
func (s *Static) ResourceVertex(r addr.ConfigResource) (int, bool) {
	return s.Find(ResourceNode, r.Module, r.Resource)
}

// ReferencesOf returns all references that a vertex's expressions hold: the body, the meta-arguments, conditions
// and provisioners. For a VariableNode of a called module it returns the references of its validations only; the
// argument's own come from ArgumentReferences.
type ReferencesOf interface {
	References(n *Node) []eval.Reference
	// ArgumentReferences returns the references (in the parent module) of the argument that a module call gives
	// to a variable.
	ArgumentReferences(call *config.Node, variable string) []eval.Reference
	// DependsOn returns the references of a depends_on list.
	DependsOn(n *Node) []eval.Reference
	// ImportReferences returns the references (in the root module) of the import blocks for a resource.
	ImportReferences(n *Node) []eval.Reference
	// CallDependsOn returns the references (in the parent module) of a module call's depends_on.
	CallDependsOn(call *config.Node) []eval.Reference
}

// Targets returns the vertices that must be done before a reference in module m has a value.
func (s *Static) Targets(m addr.Module, r *addr.Reference) []int {
	one := func(kind NodeKind, in addr.Module, named addr.Named) []int {
		if i, ok := s.Find(kind, in, named); ok {
			return []int{i}
		}
		return nil
	}
	switch subject := r.Subject.(type) {
	case addr.Variable:
		return one(VariableNode, m, subject)
	case addr.Local:
		return one(LocalNode, m, subject)
	case addr.Output:
		return one(OutputNode, m, subject)
	case addr.Check:
		return one(CheckNode, m, subject)
	case addr.Resource:
		return one(ResourceDone, m, subject)
	case addr.ResourceRef:
		return one(ResourceDone, m, subject.Resource)
	case addr.ModuleOutput:
		if out := one(OutputNode, m.Child(subject.Call.Name), addr.Output{Name: subject.Output}); out != nil {
			return out
		}
		return one(CallNode, m, addr.ModuleCall{Name: subject.Call.Name})
	case addr.ModuleCallInstance:
		return s.wholeCall(m, subject.Name)
	case addr.ModuleCall:
		return s.wholeCall(m, subject.Name)
	}
	return nil
}

// wholeCall returns a call's expansion and all the outputs of the called module.
func (s *Static) wholeCall(m addr.Module, name string) []int {
	call, ok := s.Find(CallNode, m, addr.ModuleCall{Name: name})
	if !ok {
		return nil
	}
	out := []int{call}
	child := s.Nodes[call].Tree.Children[name]
	if child == nil {
		return out
	}
	for _, o := range sortedKeys(child.Module.Outputs) {
		if i, ok := s.Find(OutputNode, child.Path, addr.Output{Name: o}); ok {
			out = append(out, i)
		}
	}
	return out
}
