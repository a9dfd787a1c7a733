package graph

import (
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
)

// Needed returns for each static vertex whether the apply of a plan needs its value. It needs the outputs of the root
// module, the checks, the actions that it invokes, and the resources in which the plan makes an object; and the values
// to which any of these refer. There is one exception: root outputs and checks see the stored objects of a resource in
// which the plan makes none, so they do not need its dependencies. As in OpenTofu, the preconditions of outputs that
// are not needed are not evaluated again. Needed takes O(V+E).
func Needed(s *Static, p *plan.Plan) []bool {
	made := map[addr.ConfigResource]bool{}
	for _, c := range p.Changes {
		r := c.Addr.Config()
		if making, _ := makingOf(c); making && !made[r] {
			made[r] = c.Action != plan.NoOp || s.conditioned(r)
		}
	}
	for _, i := range p.Invocations {
		made[i.Addr.Config()] = true
	}
	needed := make([]bool, len(s.Nodes))
	order, _ := s.Graph.Order()
	for i := len(order) - 1; i >= 0; i-- {
		if v := order[i]; v < len(s.Nodes) {
			needed[v] = s.final(v) || s.Nodes[v].Kind == ResourceNode && made[s.Nodes[v].ConfigResource()] ||
				s.used(v, needed)
		}
	}
	return needed
}

// used reports whether something that is needed refers to a vertex. The vertices after it are already decided.
func (s *Static) used(v int, needed []bool) bool {
	kind := s.Nodes[v].Kind
	for after := range s.Graph.After(v) {
		if after < len(s.Nodes) && needed[after] && (kind != ResourceDone || !s.final(after)) {
			return true
		}
	}
	return false
}

// final reports whether a vertex is needed by itself, whatever the plan changes.
func (s *Static) final(v int) bool {
	n := &s.Nodes[v]
	return n.Kind == CheckNode || n.Kind == OutputNode && n.Module.IsRoot()
}

// conditioned reports whether a resource has conditions, which also apply to objects that do not change.
func (s *Static) conditioned(r addr.ConfigResource) bool {
	v, ok := s.ResourceVertex(r)
	return ok && len(s.Nodes[v].Resource.Preconditions)+len(s.Nodes[v].Resource.Postconditions) > 0
}
