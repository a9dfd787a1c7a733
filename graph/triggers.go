package graph

import (
	"github.com/millipede-iac/millipede/lang/addr"
)

// AncestorsWithTriggers returns the vertices and everything that they depend on, as Graph.Ancestors does, with the
// triggers of the resources among them and what these depend on.
func (s *Static) AncestorsWithTriggers(vertices ...int) []int {
	all := s.Graph.Ancestors(vertices...)
	if len(s.triggers) == 0 {
		return all
	}
	for {
		among := make(map[int]bool, len(all))
		for _, v := range all {
			among[v] = true
		}
		grown := all
		for _, t := range s.triggers {
			r, _ := s.Find(ResourceNode, s.Nodes[t].Module, s.Nodes[t].Named)
			if among[r] && !among[t] {
				grown = append(grown, t)
			}
		}
		if len(grown) == len(all) {
			return all
		}
		all = s.Graph.Ancestors(grown...)
	}
}

// HasActions reports whether the configuration declares actions.
func (s *Static) HasActions() bool {
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Kind == ResourceNode && n.Resource.Addr.Mode == addr.Action {
			return true
		}
	}
	return false
}
