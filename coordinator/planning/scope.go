package planning

import (
	"slices"
	"sync"

	"github.com/millipede-iac/millipede/graph"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
)

// Scope is the part of the configuration that a plan covers: everything; the targets and their dependencies; or
// everything except the excluded objects and their dependents.
type Scope struct {
	targets, excludes []addr.Target
	// needed are the resources on which targets depend: all their instances are covered. dropped are those that
	// depend on excluded ones.
	needed, dropped map[addr.ConfigResource]bool
	// destroys has for each stored managed instance whether a destroy plan of a part covers it; nil for other plans.
	destroys map[addr.Instance]bool
	// uses finds the instances that remain, because something else uses them; nil where everything is covered.
	uses *uses
	// reads are the only managed instances that are covered by a plan that only reads them; nil otherwise.
	reads map[addr.Instance]bool
	// after is the round before this one, whose deferred instances are the only managed ones that are covered; nil for a
	// first round.
	after *plan.Round
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

// NewScope computes the scope of a plan. prior is the stored state after moves. In a destroy plan the directions are
// reversed: dependents of a target are destroyed with it, dependencies of an excluded object are kept.
func NewScope(s *graph.Static, o plan.Options, prior *state.State) Scope {
	targets, excludes := o.Targets, o.Excludes
	sc := Scope{targets: targets, excludes: excludes}
	if len(targets)+len(excludes)+len(o.Invoke) == 0 {
		return sc
	}
	invoked := invokedNodes(s, o.Invoke)
	if len(targets)+len(excludes) == 0 {
		return newInvoking(s, invoked)
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
	if o.Mode == plan.Destroy {
		sc.destroying(s, hit, prior, o.SkipRefresh)
		return sc
	}
	if o.Mode == plan.Normal {
		sc.uses = &uses{static: s, prior: prior}
	}
	sc.nodes = make([]bool, len(s.Nodes))
	if len(targets) > 0 {
		ancestors := s.AncestorsWithTriggers(hit...)
		for _, v := range ancestors {
			sc.nodes[v] = true
		}
		sc.needed = resourcesOf(s, ancestors, hit)
		for _, v := range s.Graph.Ancestors(invoked...) {
			sc.nodes[v] = true // what invoked actions refer to is evaluated, and not changed
		}
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
	for _, v := range s.AncestorsWithTriggers(kept...) {
		sc.nodes[v] = true
	}
	sc.results(s)
	return sc
}

// without returns the resources that are left out because of the hit ones: resources with all instances excluded,
// and all resources that depend on a hit one, even if only on an instance that is kept, as in OpenTofu. whole has only
// the resources with all instances excluded.
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

// destroying computes the scope of a destroy plan. Everything is evaluated, for provider configurations; outputs are
// kept.
//
// The state determines the managed objects that are covered: a target without stored objects covers nothing, and
// dependencies are the recorded ones. Where the plan refreshes, the blocks count as well, because OpenTofu then records
// the dependencies again. So with exclusions, the objects that the block of a kept object refers to are kept as well;
// and with targets, an object that depends on a target is not destroyed if the block of the target now depends on that
// object. Data and ephemeral objects have no records, so the configuration decides.
func (s *Scope) destroying(g *graph.Static, hit []int, prior *state.State, skipRefresh bool) {
	s.nodes = make([]bool, len(g.Nodes))
	for i := range g.Nodes {
		s.nodes[i] = g.Nodes[i].Kind != graph.OutputNode || !g.Nodes[i].Module.IsRoot()
	}
	stored := newStoredGraph(prior)
	named := storedIn(stored, slices.Concat(s.targets, s.excludes))
	hit = slices.DeleteFunc(hit, func(v int) bool {
		r := g.Nodes[v].ConfigResource()
		return r.Resource.Mode == addr.Managed && !named[r]
	})
	var done []int
	for _, v := range hit {
		if n := &g.Nodes[v]; n.Kind == graph.ResourceNode {
			d, _ := g.Find(graph.ResourceDone, n.Module, n.Named)
			done = append(done, d)
		}
	}
	if len(s.targets) > 0 {
		s.needed = resourcesOf(g, g.Graph.Descendants(done...), hit)
		var outdated func(user, on addr.ConfigResource) bool
		if !skipRefresh {
			outdated = reversed(g)
		}
		s.destroysOf(stored, stored.dependents(stored.contained(s.targets), outdated))
		return
	}
	s.dropped = resourcesOf(g, g.Graph.Ancestors(hit...), hit)
	if !skipRefresh {
		stored.alsoOn(refreshed(g, hit))
	}
	kept := stored.dependencies(stored.contained(s.excludes))
	for i := range kept {
		kept[i] = !kept[i]
	}
	s.destroysOf(stored, kept)
}

// refreshed returns a function that returns the dependencies of an instance's block. It returns nil for blocks among
// the given vertices, and for blocks that depend on one of them.
func refreshed(g *graph.Static, but []int) func(addr.Instance) *state.Dependencies {
	closure := graph.NewClosure(g)
	left := make([]bool, len(g.Nodes))
	for _, v := range g.Graph.Descendants(but...) {
		left[v] = true
	}
	return func(a addr.Instance) *state.Dependencies {
		v, ok := g.ResourceVertex(a.Config())
		if !ok || left[v] {
			return nil
		}
		return closure.Resources(v)
	}
}

// reversed returns a function that reports whether a dependency of user on another resource, which the state recorded,
// was turned round since: the block of that resource now depends on user.
func reversed(g *graph.Static) func(user, on addr.ConfigResource) bool {
	closure := graph.NewClosure(g)
	blocks := map[addr.ConfigResource]*state.Dependencies{}
	return func(user, on addr.ConfigResource) bool {
		now, known := blocks[on]
		if !known {
			if v, ok := g.ResourceVertex(on); ok {
				now = closure.Resources(v)
			}
			blocks[on] = now
		}
		return user != on && now.Has(state.DependOn(user))
	}
}

// storedIn returns the resources that have a stored instance which a target or an exclusion contains.
func storedIn(g *storedGraph, list []addr.Target) map[addr.ConfigResource]bool {
	out := map[addr.ConfigResource]bool{}
	for _, i := range g.contained(list) {
		out[g.list[i].Config()] = true
	}
	return out
}

// destroysOf limits the scope of a destroy plan to the covered ones of the stored instances.
func (s *Scope) destroysOf(g *storedGraph, covered []bool) {
	s.destroys = map[addr.Instance]bool{}
	for i, a := range g.list {
		if a.Resource.Mode == addr.Managed {
			s.destroys[a] = covered[i]
		}
	}
}

// results covers the ends of covered resources. It also covers root outputs, and variables with validations, that
// depend on resources, if all these resources are covered. As in OpenTofu, the following are covered only if another
// covered vertex depends on them: root outputs and variables that depend on no resource, outputs of other modules, and
// checks. Ephemeral objects that are opened are also closed.
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

// Next returns the scope of the round after another one, which has planned all but what it has deferred.
func (s Scope) Next(after *plan.Round) Scope {
	s.after = after
	return s
}

// Instance reports whether an instance is covered.
func (s Scope) Instance(a addr.Instance) bool {
	if s.after != nil && a.Resource.Mode == addr.Managed && !s.after.Covers(a) {
		return false
	}
	if covered, stored := s.destroys[a]; stored {
		return covered
	}
	switch {
	case s.reads != nil:
		return a.Resource.Mode != addr.Managed || s.reads[a]
	case len(s.targets) > 0:
		return s.named(a) || s.needs(a)
	case len(s.excludes) > 0:
		return !s.drops(a) && !containsAny(s.excludes, a)
	default:
		return true
	}
}

// named reports whether a target contains an instance.
func (s Scope) named(a addr.Instance) bool { return containsAny(s.targets, a) }

// needs reports whether targets depend on an instance. In a destroy plan, it is the dependents of targets that are
// covered; for managed instances the state decides that: see destroys.
func (s Scope) needs(a addr.Instance) bool {
	return s.needed[a.Config()] && (s.destroys == nil || a.Resource.Mode != addr.Managed)
}

// drops reports whether an instance is left out because of an excluded one.
func (s Scope) drops(a addr.Instance) bool {
	return s.dropped[a.Config()] && (s.destroys == nil || a.Resource.Mode != addr.Managed)
}

// Leftover reports whether the plan may destroy the object of a covered instance that is not in the configuration any
// more: if a target names the instance, or if no object that the plan leaves alone uses it. It may not if the plan
// covers the resource only because something depends on another of its instances.
func (s Scope) Leftover(a addr.Instance) bool {
	return s.Instance(a) && (s.named(a) || !s.uses.remains(s, a))
}

// Deposed reports whether the plan may end the deposed objects of an instance: they have to be covered themselves, not
// only as dependencies of a target.
func (s Scope) Deposed(a addr.Instance) bool {
	if len(s.targets) > 0 && s.destroys == nil {
		return s.named(a)
	}
	return s.Leftover(a)
}

func containsAny(list []addr.Target, a addr.Instance) bool {
	for _, t := range list {
		if t.Contains(a) {
			return true
		}
	}
	return false
}

// uses are the stored instances on which an object depends that the plan leaves alone. They are computed at the first
// use: only plans that would destroy a leftover object need them.
type uses struct {
	static *graph.Static
	prior  *state.State
	once   sync.Once
	found  map[addr.Instance]bool
}

// leaves reports whether a plan leaves a stored instance alone: it does not cover the instance, or not its resource.
func (u *uses) leaves(s Scope, a addr.Instance) bool {
	r := a.Config()
	v, ok := u.static.ResourceVertex(r)
	if !ok {
		v, ok = u.static.Find(graph.OrphanNode, r.Module, r.Resource)
	}
	return !s.Instance(a) || ok && !s.Node(v)
}

// remains reports whether an instance has to remain, because something that the plan leaves alone uses it.
func (u *uses) remains(s Scope, a addr.Instance) bool {
	if u == nil {
		return false
	}
	u.once.Do(func() {
		g := newStoredGraph(u.prior)
		var alone []int
		for i, a := range g.list {
			if a.Resource.Mode == addr.Managed && u.leaves(s, a) {
				alone = append(alone, i)
			}
		}
		u.found = map[addr.Instance]bool{}
		for i, used := range g.dependencies(alone) {
			if used {
				u.found[g.list[i]] = true
			}
		}
	})
	return u.found[a]
}
