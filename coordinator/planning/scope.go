package planning

import (
	"slices"

	"github.com/millipede-iac/millipede/graph"
	"github.com/millipede-iac/millipede/lang/addr"
)

// Scope is the part of the configuration that a plan covers: everything; the targets and their dependencies; or
// everything except the excluded objects and their dependents.
type Scope struct {
	targets, excludes []addr.Target
	// needed are the resources on which targets depend: all their instances are covered. dropped are those that
	// depend on excluded ones.
	needed, dropped map[addr.ConfigResource]bool
	// reads are the only managed instances that are covered by a plan that only reads them; nil otherwise.
	reads map[addr.Instance]bool
	// nodes are the covered static vertices; nil for all.
	nodes []bool
}

// NewReading returns the scope of a plan that only reads some managed instances. Their other dependencies are
// evaluated; for other managed objects, the stored values are used.
func NewReading(s *graph.Static, reads map[addr.Instance]bool) Scope {
	sc := Scope{reads: reads, nodes: make([]bool, len(s.Nodes))}
	of := map[addr.ConfigResource]bool{}
	for a := range reads {
		of[a.Config()] = true
	}
	var hit []int
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if (n.Kind == graph.ResourceNode || n.Kind == graph.OrphanNode) && of[n.ConfigResource()] {
			hit = append(hit, i)
		}
	}
	for _, v := range s.Graph.Ancestors(hit...) {
		sc.nodes[v] = true
	}
	return sc
}

// NewScope computes a scope. At most one of the lists is given. In a destroy plan the directions are reversed:
// dependents of a target are destroyed with it, dependencies of an excluded object are kept.
func NewScope(s *graph.Static, targets, excludes []addr.Target, destroy bool) Scope {
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
	if destroy {
		sc.destroying(s, hit)
		return sc
	}
	sc.nodes = make([]bool, len(s.Nodes))
	if len(targets) > 0 {
		ancestors := s.Graph.Ancestors(hit...)
		for _, v := range ancestors {
			sc.nodes[v] = true
		}
		sc.needed = resourcesOf(s, ancestors, hit)
		sc.results(s)
		return sc
	}
	excluded, whole := without(s, hit, excludes)
	left := make([]bool, len(s.Nodes))
	vertices := s.Graph.Descendants(excluded...)
	for _, v := range vertices {
		left[v] = true
	}
	sc.dropped = resourcesOf(s, vertices, whole)
	var kept []int // as if these were the targets
	for i := range s.Nodes {
		if kind := s.Nodes[i].Kind; !left[i] && (kind == graph.ResourceNode || kind == graph.OrphanNode) {
			kept = append(kept, i)
		}
	}
	for _, v := range s.Graph.Ancestors(kept...) {
		sc.nodes[v] = true
	}
	sc.results(s)
	return sc
}

// without returns the resources that are left out because of the hit ones: resources with all instances excluded,
// and all resources that depend on a hit one, even if only on an instance that is kept, as in OpenTofu. whole are
// the former.
func without(s *graph.Static, hit []int, excludes []addr.Target) (excluded, whole []int) {
	var behind []int
	for _, v := range hit {
		if slices.ContainsFunc(excludes,
			func(t addr.Target) bool { return t.CoversResource(s.Nodes[v].ConfigResource()) }) {
			whole = append(whole, v)
		}
		for after := range s.Graph.After(v) {
			behind = append(behind, after)
		}
	}
	excluded = slices.Clone(whole)
	for _, v := range s.Graph.Descendants(behind...) {
		if kind := s.Nodes[v].Kind; kind == graph.ResourceNode || kind == graph.OrphanNode {
			excluded = append(excluded, v)
		}
	}
	return excluded, whole
}

// destroying computes the scope of a destroy plan. Everything is evaluated, for provider configurations; outputs
// are kept.
func (s *Scope) destroying(g *graph.Static, hit []int) {
	s.nodes = make([]bool, len(g.Nodes))
	var done []int
	for i := range g.Nodes {
		s.nodes[i] = g.Nodes[i].Kind != graph.OutputNode || !g.Nodes[i].Module.IsRoot()
	}
	for _, v := range hit {
		if n := &g.Nodes[v]; n.Kind == graph.ResourceNode {
			d, _ := g.Find(graph.ResourceDone, n.Module, n.Named)
			done = append(done, d)
		}
	}
	if len(s.targets) > 0 {
		s.needed = resourcesOf(g, g.Graph.Descendants(done...), hit)
	} else {
		s.dropped = resourcesOf(g, g.Graph.Ancestors(hit...), hit)
	}
}

// results covers the ends of covered resources, and the root outputs and variables with validations that depend on
// resources, all of which are covered. As in OpenTofu, those that depend on no resource, outputs of other modules and
// checks are covered only if something else that is covered depends on them. Ephemeral objects that are opened are also
// closed.
func (s *Scope) results(g *graph.Static) {
	closure := graph.NewClosure(g)
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if n.Kind == graph.ResourceDone && s.nodes[i-1] {
			s.nodes[i] = true
		}
	}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		shown := n.Kind == graph.OutputNode && n.Module.IsRoot() ||
			n.Kind == graph.VariableNode && len(n.Variable.Validations) > 0
		if s.nodes[i] || !shown {
			continue
		}
		resources := closure.Resources(i)
		covered := resources.Len() > 0
		for r := range resources.All() {
			if v, ok := g.ResourceVertex(r.Value()); !ok || !s.nodes[v] {
				covered = false
			}
		}
		if covered {
			for _, v := range g.Graph.Ancestors(i) {
				s.nodes[v] = true
			}
		}
	}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if n.Kind == graph.CloseNode {
			opened, ok := g.Find(graph.ResourceNode, n.Module, n.Named)
			s.nodes[i] = ok && s.nodes[opened]
		}
	}
}

// Node reports whether a static vertex is covered.
func (s Scope) Node(i int) bool { return s.nodes == nil || s.nodes[i] }

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

// Whole reports whether the plan covers everything.
func (s Scope) Whole() bool { return len(s.targets)+len(s.excludes) == 0 && s.reads == nil }

// Instance reports whether an instance is covered.
func (s Scope) Instance(a addr.Instance) bool {
	switch {
	case s.reads != nil:
		return a.Resource.Mode != addr.Managed || s.reads[a]
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

// Named reports whether an instance is covered itself, not only as a dependency of a target.
func (s Scope) Named(a addr.Instance) bool {
	return len(s.targets) == 0 && s.Instance(a) || containsAny(s.targets, a)
}

func containsAny(list []addr.Target, a addr.Instance) bool {
	for _, t := range list {
		if t.Contains(a) {
			return true
		}
	}
	return false
}
