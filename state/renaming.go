package state

import (
	"slices"

	"github.com/millipede-iac/millipede/lang/addr"
)

// Renaming renames recorded dependencies after instances have moved. A dependency is on all instances of a resource.
// If all of them have moved, it becomes one on the resources to which they have moved; if some remain, it is one on
// these resources, too.
type Renaming struct {
	to       map[Dependency][]Dependency
	universe *Universe
	// concerned says of each set whether it has a dependency that is renamed: objects share their sets.
	concerned map[*Dependencies]bool
	sets      map[renamedFor]*Dependencies
}

// renamedFor is a set of dependencies, and the resource of the object that has recorded it.
type renamedFor struct {
	set *Dependencies
	own Dependency
}

// NewRenaming returns the renaming for moves, each from an address before all moves to one after them. st is the state
// after the moves; instances in it may have remained.
func NewRenaming(moves map[addr.Instance]addr.Instance, st *State) *Renaming {
	r := &Renaming{to: map[Dependency][]Dependency{}, universe: NewUniverse(), concerned: map[*Dependencies]bool{},
		sets: map[renamedFor]*Dependencies{}}
	moved, arrived := map[addr.ConfigResource]bool{}, map[addr.Instance]bool{}
	for from, to := range moves {
		arrived[to] = true
		moved[from.Config()] = true
		before, after := DependOn(from.Config()), DependOn(to.Config())
		if !slices.Contains(r.to[before], after) {
			r.to[before] = append(r.to[before], after)
		}
	}
	for abs, of := range st.Resources {
		if !moved[abs.Config()] {
			continue
		}
		for k := range of.Instances {
			if before := DependOn(abs.Config()); !arrived[abs.Instance(k)] && !slices.Contains(r.to[before], before) {
				r.to[before] = append(r.to[before], before)
			}
		}
	}
	for before, after := range r.to {
		if len(after) == 1 && after[0] == before {
			delete(r.to, before) // only the keys have changed
		}
	}
	return r
}

// Changes returns the changes that rename the dependencies of the objects in a state.
func (r *Renaming) Changes(st *State) []Change {
	if len(r.to) == 0 {
		return nil
	}
	var out []Change
	for _, a := range st.Addrs() {
		i, provider := st.Instance(a), st.ProviderOf(a)
		if renamed := r.Object(a, i.Current); renamed != i.Current {
			out = append(out, SetObject{Addr: a, Provider: provider, Object: renamed})
		}
		for _, key := range i.DeposedKeys() {
			if renamed := r.Object(a, i.Deposed[key]); renamed != i.Deposed[key] {
				out = append(out, SetObject{Addr: a, Deposed: key, Provider: provider, Object: renamed})
			}
		}
	}
	return out
}

// Object returns the object of an instance with renamed dependencies; the same object if it has none of them, and nil
// for nil.
func (r *Renaming) Object(at addr.Instance, o *Object) *Object {
	if o == nil || !r.concerns(o.Dependencies) {
		return o
	}
	key := renamedFor{o.Dependencies, DependOn(at.Config())}
	set, known := r.sets[key]
	if !known {
		set = r.renamed(key)
		r.sets[key] = set
	}
	renamed := *o
	renamed.Dependencies = set
	return &renamed
}

// concerns reports whether a set has a dependency that is renamed.
func (r *Renaming) concerns(set *Dependencies) bool {
	concerned, known := r.concerned[set]
	if known {
		return concerned
	}
	for before := range r.to {
		if concerned = set.Has(before); concerned {
			break
		}
	}
	r.concerned[set] = concerned
	return concerned
}

// renamed returns a set with renamed dependencies, without the resource that has recorded it.
func (r *Renaming) renamed(of renamedFor) *Dependencies {
	return r.universe.Set(func(yield func(Dependency) bool) {
		for n := range of.set.Numbers() {
			before := of.set.Universe().At(n)
			after, renamed := r.to[before]
			if !renamed {
				after = []Dependency{before}
			}
			for _, d := range after {
				if d != of.own && !yield(d) {
					return
				}
			}
		}
	})
}
