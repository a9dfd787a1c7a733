package planning

import (
	"iter"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
)

// storedGraph has the dependencies between the stored instances, as the state recorded them. A recorded dependency is
// on a resource, so it is one on all stored instances of the resource, except that instances in different instances
// of one module do not depend on each other.
type storedGraph struct {
	list []addr.Instance
	// groups has for each instance its groups: one for each set of dependencies that its objects recorded.
	groups [][]*storedGroup
	byKey  map[groupKey]*storedGroup
}

// storedGroup are the instances in one module instance that share a set of dependencies.
type storedGroup struct {
	groupKey
	static  addr.Module
	members []int
}

type groupKey struct {
	module addr.ModuleInstance
	on     *state.Dependencies
}

func newStoredGraph(st *state.State) *storedGraph {
	g := &storedGraph{list: st.Addrs(), byKey: map[groupKey]*storedGroup{}}
	g.groups = make([][]*storedGroup, len(g.list))
	for i, a := range g.list {
		stored := st.Instance(a)
		if stored.Current != nil {
			g.add(i, stored.Current.Dependencies)
		}
		for _, o := range stored.Deposed {
			g.add(i, o.Dependencies)
		}
	}
	return g
}

// add adds dependencies of an instance.
func (g *storedGraph) add(i int, on *state.Dependencies) {
	if on.Len() == 0 {
		return
	}
	key := groupKey{g.list[i].Module, on}
	group := g.byKey[key]
	if group == nil {
		group = &storedGroup{groupKey: key, static: key.module.Module()}
		g.byKey[key] = group
	}
	group.members = append(group.members, i)
	g.groups[i] = append(g.groups[i], group)
}

// alsoOn adds the dependencies that a function returns for each instance; nil for none.
func (g *storedGraph) alsoOn(more func(addr.Instance) *state.Dependencies) {
	for i, a := range g.list {
		g.add(i, more(a))
	}
}

// contained returns the instances that one of some targets contains.
func (g *storedGraph) contained(in []addr.Target) (out []int) {
	for i, a := range g.list {
		if containsAny(in, a) {
			out = append(out, i)
		}
	}
	return out
}

// link is the key of an edge in the graph: the resource that is depended on and, if it is in the module of the
// dependent instance, the instance of that module.
type link struct {
	on     state.Dependency
	within addr.ModuleInstance
	same   bool
}

// links returns the links from a group's instances to their dependencies.
func (g *storedGroup) links() iter.Seq[link] {
	return func(yield func(link) bool) {
		for n := range g.on.Numbers() {
			l := link{on: g.on.Universe().At(n)}
			if !g.module.IsRoot() && g.static == l.on.Value().Module {
				l.within, l.same = g.module, true
			}
			if !yield(l) {
				return
			}
		}
	}
}

// linksTo returns the links by which an instance is found.
func linksTo(a addr.Instance) [2]link {
	on := state.DependOn(a.Config())
	return [2]link{{on: on}, {on: on, within: a.Module, same: true}}
}

// dependents returns for each instance whether it is one of the given ones, or depends on one of them over any number
// of steps. Dependencies that outdated reports do not count; nil reports none.
func (g *storedGraph) dependents(of []int, outdated func(user, on addr.ConfigResource) bool) []bool {
	users := map[link][]*storedGroup{}
	for _, group := range g.byKey {
		for l := range group.links() {
			users[l] = append(users[l], group)
		}
	}
	return g.reach(of, func(i int, visit func(int)) {
		on := g.list[i].Config()
		for _, l := range linksTo(g.list[i]) {
			for _, group := range users[l] {
				for _, member := range group.members {
					if outdated == nil || !outdated(g.list[member].Config(), on) {
						visit(member)
					}
				}
			}
			delete(users, l) // the other instances of the resource lead to the same ones
		}
	})
}

// dependencies returns for each instance whether it is one of the given ones, or one of them depends on it over any
// number of steps.
func (g *storedGraph) dependencies(of []int) []bool {
	instances := map[link][]int{}
	for i, a := range g.list {
		for _, l := range linksTo(a) {
			instances[l] = append(instances[l], i)
		}
	}
	followed := map[*storedGroup]bool{}
	return g.reach(of, func(i int, visit func(int)) {
		for _, group := range g.groups[i] {
			if followed[group] {
				continue
			}
			followed[group] = true
			for l := range group.links() {
				for _, dependency := range instances[l] {
					visit(dependency)
				}
				delete(instances, l)
			}
		}
	})
}

// reach returns which instances are reached from the given ones; next visits those that are one step away.
func (g *storedGraph) reach(from []int, next func(i int, visit func(int))) []bool {
	reached := make([]bool, len(g.list))
	var open []int
	visit := func(i int) {
		if !reached[i] {
			reached[i] = true
			open = append(open, i)
		}
	}
	for _, i := range from {
		visit(i)
	}
	for len(open) > 0 {
		i := open[len(open)-1]
		open = open[:len(open)-1]
		next(i, visit)
	}
	return reached
}
