package planning

import (
	"slices"

	"github.com/millipede-iac/millipede/graph"
	"github.com/millipede-iac/millipede/lang/addr"
)

// orderedPending reports whether a pending change is in the depends_on of an output whose value a block uses.
func (p *Planner) orderedPending(node int, in addr.ModuleInstance) bool {
	for _, i := range p.orderedOutputs(node) {
		n := &p.Static.Nodes[i]
		for _, d := range n.DependsOnResources {
			if p.willChange(p.Static.Nodes[d].ConfigResource(), in) {
				return true
			}
		}
		for _, d := range n.DependsOn {
			if p.anyPending(p.closure.Resources(d), in) {
				return true
			}
		}
	}
	return false
}

// orderedOutputs returns the outputs with depends_on whose values a block uses, directly or through locals, variables
// and other outputs. It searches once for each block, and not at all if no output has a depends_on.
func (p *Planner) orderedOutputs(node int) []int {
	p.orderedMu.Lock()
	defer p.orderedMu.Unlock()
	if p.ordered == nil {
		p.ordered = map[int][]int{}
		for i := range p.Static.Nodes {
			p.anyOrdered = p.anyOrdered || ordered(&p.Static.Nodes[i])
		}
	}
	if !p.anyOrdered {
		return nil
	}
	if found, done := p.ordered[node]; done {
		return found
	}
	var found []int
	seen := map[int]bool{}
	open := slices.Collect(p.Static.Graph.Before(node))
	for len(open) > 0 {
		i := open[len(open)-1]
		open = open[:len(open)-1]
		n := &p.Static.Nodes[i]
		switch n.Kind {
		case graph.LocalNode, graph.VariableNode, graph.OutputNode, graph.CallNode:
		default:
			continue
		}
		if seen[i] {
			continue
		}
		seen[i] = true
		if ordered(n) {
			found = append(found, i)
		}
		open = slices.AppendSeq(open, p.Static.Graph.Before(i))
	}
	p.ordered[node] = found
	return found
}

// ordered reports whether a vertex is an output of a called module with a depends_on of its own.
func ordered(n *graph.Node) bool {
	return n.Kind == graph.OutputNode && !n.Module.IsRoot() && len(n.Output.DependsOn) > 0
}
