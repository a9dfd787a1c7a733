package planning

import (
	"github.com/millipede-iac/millipede/graph"
	"github.com/millipede-iac/millipede/lang/addr"
)

// Scope is the part of the configuration that a plan covers: everything, what -target names with what that needs, or
// everything but what -exclude names and what needs that.
type Scope struct {
	targets, excludes []addr.Target
	// needed are the resources that targeted ones depend on: all their instances are covered. dropped are those that
	// depend on excluded ones.
	needed, dropped map[addr.ConfigResource]bool
}

// NewScope works out a scope. At most one of the lists is given.
func NewScope(s *graph.Static, targets, excludes []addr.Target) Scope {
	sc := Scope{targets: targets, excludes: excludes}
	if len(targets)+len(excludes) == 0 {
		return sc
	}
	var hit []int
	list := targets
	if len(excludes) > 0 {
		list = excludes
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Kind != graph.ResourceNode && n.Kind != graph.OrphanNode {
			continue
		}
		for _, t := range list {
			if t.TouchesResource(n.ConfigResource()) {
				hit = append(hit, i)
				break
			}
		}
	}
	if len(targets) > 0 {
		sc.needed = resourcesOf(s, s.Graph.Ancestors(hit...), hit)
	} else {
		sc.dropped = resourcesOf(s, s.Graph.Descendants(hit...), hit)
	}
	return sc
}

func resourcesOf(s *graph.Static, vertices, but []int) map[addr.ConfigResource]bool {
	skip := map[int]bool{}
	for _, v := range but {
		skip[v] = true
	}
	out := map[addr.ConfigResource]bool{}
	for _, v := range vertices {
		if n := &s.Nodes[v]; !skip[v] && (n.Kind == graph.ResourceNode || n.Kind == graph.OrphanNode) {
			out[n.ConfigResource()] = true
		}
	}
	return out
}

// Whole tells whether the plan covers everything.
func (s Scope) Whole() bool { return len(s.targets)+len(s.excludes) == 0 }

// Instance tells whether an instance is covered.
func (s Scope) Instance(a addr.Instance) bool {
	switch {
	case len(s.targets) > 0:
		if s.needed[a.Config()] {
			return true
		}
		return containsAny(s.targets, a)
	case len(s.excludes) > 0:
		return !s.dropped[a.Config()] && !containsAny(s.excludes, a)
	default:
		return true
	}
}

func containsAny(list []addr.Target, a addr.Instance) bool {
	for _, t := range list {
		if t.Contains(a) {
			return true
		}
	}
	return false
}
