package operation

import (
	"fmt"
	"maps"
	"slices"
	"sort"

	"github.com/millipede-iac/millipede/coordinator/planning"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
)

// checkStatements reports import and removed blocks that contradict the configuration. Ordinary plans check them. So
// does a destroy that refreshes the existing objects, because OpenTofu refreshes them by an ordinary plan.
func checkStatements(tree *config.Tree, o plan.Options, empty bool) diag.List {
	if o.Mode == plan.RefreshOnly || o.Mode == plan.Destroy && (empty || o.SkipRefresh) {
		return nil
	}
	var diags diag.List
	for _, b := range tree.Root.Module.Imports {
		n := tree.Modules[b.StaticTo.Module]
		if n == nil || n.Module.Resources[b.StaticTo.Resource] == nil {
			diags = diags.Append(diag.New(diag.Error, "Configuration for import target does not exist",
				fmt.Sprintf("The configuration for the import target %s does not exist. An object can only be "+
					"imported into a resource block; add one for it.", b.StaticTo), b.Range.Ptr()))
		}
	}
	for _, path := range slices.Sorted(maps.Keys(tree.Modules)) {
		for _, b := range tree.Modules[path].Module.Removed {
			diags = diags.Append(stillThere(tree, path, b))
		}
	}
	return diags
}

// checkLifecycles reports lifecycle arguments that must be constants and are not.
func checkLifecycles(tree *config.Tree) diag.List {
	var diags diag.List
	for _, path := range slices.Sorted(maps.Keys(tree.Modules)) {
		resources := tree.Modules[path].Module.Resources
		list := slices.Collect(maps.Keys(resources))
		sort.Slice(list, func(i, j int) bool { return list[i].Less(list[j]) })
		for _, r := range list {
			_, more := resources[r].Destroys()
			diags = diags.Append(more)
		}
	}
	return diags
}

// unknownProviders reports calls of functions whose provider the module does not require. As in OpenTofu, this is
// reported before anything is evaluated, and alone, because other errors in the expressions may follow from it.
func unknownProviders(s *graph.Static, code *values.Code) diag.List {
	var diags diag.List
	report := func(n *config.Node, calls []eval.Call) {
		for _, c := range calls {
			if unknown := values.UnknownProvider(n.Module, c.Function, c.Range); unknown != nil {
				diags = append(diags, unknown)
			}
		}
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		node := n.Tree
		if node == nil {
			continue
		}
		report(node, code.Calls(n))
		if n.Kind == graph.VariableNode && node.Parent != nil {
			report(node.Parent, code.ArgumentCalls(node, n.Variable.Name))
		}
	}
	return diags
}

// selfReferences reports resource blocks whose arguments refer to the resource itself.
func selfReferences(s *graph.Static, code *values.Code) diag.List {
	var diags diag.List
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Kind == graph.ResourceNode {
			diags = diags.Append(code.Resource(n.Resource).SelfReferences(n.ConfigResource()))
		}
	}
	return diags
}

// misplaced reports import and moved blocks that name instances which they must not name. Instances are known when
// everything is expanded, so only resources that the plan covers are checked.
func misplaced(p *planning.Planner, tree *config.Tree) diag.List {
	diags := p.MissedImports()
	if diags.HasErrors() || p.Mode == plan.Destroy && (p.SkipRefresh || p.Prior.IsEmpty()) {
		return diags
	}
	for _, path := range slices.Sorted(maps.Keys(tree.Modules)) {
		for _, b := range tree.Modules[path].Module.Moved {
			if !covers(p, path, b) {
				continue
			}
			more := stillHere(tree, path, b)
			if len(more) == 0 {
				more = stillInstances(p.Store, path, b)
			}
			diags = diags.Append(more)
		}
	}
	return diags
}

// movedBlocks reports all moved blocks whose from is a resource that still has a block.
func movedBlocks(tree *config.Tree) (diags diag.List) {
	for _, path := range slices.Sorted(maps.Keys(tree.Modules)) {
		for _, b := range tree.Modules[path].Module.Moved {
			diags = diags.Append(stillHere(tree, path, b))
		}
	}
	return diags
}

// covers reports whether the plan expands the source of a moved block in a module.
func covers(p *planning.Planner, in addr.Module, b *config.Moved) bool {
	kind, path, named := graph.ResourceNode, in, addr.Named(b.From.Resource)
	for _, s := range b.From.Steps {
		path = path.Child(s.Name)
	}
	if b.From.IsModule {
		parent, last := path.Parent()
		kind, path, named = graph.CallNode, parent, addr.ModuleCall{Name: last}
	}
	i, found := p.Static.Find(kind, path, named)
	return found && p.Scope.Node(i)
}

// stillHere reports a moved block whose from is a resource that still has a block: it cannot be in two places.
func stillHere(tree *config.Tree, in addr.Module, b *config.Moved) diag.List {
	if b.From.IsModule || b.From.Key != addr.NoKey || b.From.Resource == b.To.Resource {
		return nil
	}
	path := in
	for _, s := range b.From.Steps {
		path = path.Child(s.Name)
	}
	n := tree.Modules[path]
	if n == nil || n.Module.Resources[b.From.Resource] == nil {
		return nil
	}
	return diag.Errors("Moved object still exists",
		fmt.Sprintf("This statement says that %s has moved, but its block is still there, at %s. Take that block "+
			"out, or the statement.", b.From.Resource.In(path), n.Module.Resources[b.From.Resource].Range),
		b.Range.Ptr())
}

// stillInstances reports a moved block whose from is a single instance, of a resource or of a module, or a module
// call that is still declared.
func stillInstances(store *values.Store, in addr.Module, b *config.Moved) diag.List {
	var diags diag.List
	for _, m := range store.Instances(in) {
		if at := stillDeclared(store, m.Addr, b); at != "" {
			diags = diags.Append(diag.New(diag.Error, "Moved object still exists",
				fmt.Sprintf("This statement says that %s has moved, but it is still declared. Take it out of "+
					"the configuration, or the statement.", at), b.Range.Ptr()))
		}
	}
	return diags
}

// stillDeclared returns the object that a moved block in a module instance moves, if it is still declared; else the
// empty string.
func stillDeclared(store *values.Store, in addr.ModuleInstance, b *config.Moved) string {
	if !b.From.IsModule && b.From.Key == addr.NoKey && b.To.Key == addr.NoKey {
		return "" // a whole resource; see stillHere
	}
	at := in
	for _, s := range b.From.Steps {
		at = at.Child(s.Name, s.Key)
	}
	if b.From.IsModule {
		parent, last := at.Parent()
		m := store.Module(parent)
		switch {
		case m == nil || m.Node.Children[last.Name] == nil:
			return ""
		case wholeCall(b), store.Module(at) != nil:
			return at.String()
		}
		return ""
	}
	m := store.Module(at)
	if m == nil || m.ResourceBlock(b.From.Resource) == nil {
		return ""
	}
	r := m.ResourceBlock(b.From.Resource)
	if e, _ := r.Expansion(); e.Unknown || !e.Has(b.From.Key) {
		return ""
	}
	return r.Addr().Instance(b.From.Key).String()
}

// wholeCall reports whether a moved block is about all instances of a module call.
func wholeCall(b *config.Moved) bool {
	last := func(e *addr.MoveEndpoint) addr.Key { return e.Steps[len(e.Steps)-1].Key }
	return last(b.From) == addr.NoKey && last(b.To) == addr.NoKey
}
