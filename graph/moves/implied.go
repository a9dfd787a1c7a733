package moves

import (
	"github.com/hashicorp/hcl/v2"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/state"
)

// implied returns the moves that follow from adding or removing count: between the instance without a key and the
// first one, for resources and for module calls. It does not move objects to or from an address in an explicit
// statement.
func implied(tree *config.Tree, prior *state.State, explicit []statement) []statement {
	var out []statement
	seen := map[string]bool{}
	for _, abs := range prior.SortedResources() {
		out = append(out, impliedCalls(tree, abs.Module, explicit, seen)...)
		node := tree.Modules[abs.Module.Module()]
		if node == nil {
			continue
		}
		block := node.Module.Resources[abs.Resource]
		if block == nil {
			continue
		}
		instances := prior.Resources[abs].Instances
		from, to, ok := rekeyed(block.Count, block.ForEach, func(k addr.Key) bool { return instances[k] != nil })
		if !ok || named(explicit, abs) {
			continue
		}
		out = append(out, statement{
			move: addr.ImpliedMove(abs.Instance(from), abs.Instance(to), block.Range), implied: true,
		})
	}
	return out
}

// rekeyed returns the keys between which the one instance moves if count was added or removed.
func rekeyed(count, forEach hcl.Expression, exists func(addr.Key) bool) (from, to addr.Key, ok bool) {
	zero := addr.IntKey(0)
	switch {
	case count != nil:
		return addr.NoKey, zero, exists(addr.NoKey)
	case forEach == nil:
		return zero, addr.NoKey, exists(zero)
	default:
		return addr.NoKey, addr.NoKey, false
	}
}

// named reports whether an explicit statement names the resource.
func named(explicit []statement, abs addr.AbsResource) bool {
	for _, s := range explicit {
		if s.move.SelectsResource(s.move.From, abs) || s.move.SelectsResource(s.move.To, abs) {
			return true
		}
	}
	return false
}

// impliedCalls returns the moves of the module instances on the path to m.
func impliedCalls(tree *config.Tree, m addr.ModuleInstance, explicit []statement, seen map[string]bool) []statement {
	var out []statement
	steps := m.Steps()
	at := addr.RootInstance
	for _, step := range steps {
		child := at.Child(step.Name, step.Key)
		node := tree.Modules[child.Module()]
		if node == nil || node.Call == nil {
			return out
		}
		from, to, ok := rekeyed(node.Call.Count, node.Call.ForEach, func(k addr.Key) bool { return k == step.Key })
		if ok && !seen[child.String()] && !callNamed(explicit, child) {
			seen[child.String()] = true
			move, valid := addr.NewMove(node.Parent.Path, callEnd(step.Name, from, node.Call.Range),
				callEnd(step.Name, to, node.Call.Range))
			if valid {
				out = append(out, statement{move: move, implied: true})
			}
		}
		at = child
	}
	return out
}

func callEnd(name string, key addr.Key, rng hcl.Range) *addr.MoveEndpoint {
	return &addr.MoveEndpoint{
		Steps: []addr.Step{{Name: name, Key: key}}, IsModule: true, Range: rng,
	}
}

func callNamed(explicit []statement, m addr.ModuleInstance) bool {
	for _, s := range explicit {
		if s.move.IsModule() && (s.move.SelectsModule(s.move.From, m) || s.move.SelectsModule(s.move.To, m)) {
			return true
		}
	}
	return false
}
