package graph

import (
	"slices"

	"github.com/millipede-iac/millipede/graph/dag"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
)

// recorded orders endings by the dependencies that only the state has recorded, and not the configuration: those of
// resources without a block, and of objects whose block has lost a reference that it had when they were made. If the
// object of x depends on resource d:
//
//   - x ends before d ends;
//   - d is made or changed after x has ended, unless one of them is created first;
//   - x is made or changed after d has ended, or before that, if d was created first. If a new object of x is created
//     first, it does not wait for d, because it would then wait for the end of the old x, too. (OpenTofu finds a circle
//     there.)
//
// Edges that follow from other edges are left out, because recorded dependencies are transitive, and there may be
// thousands for each object. So there is no edge between x and d if an e ends between them and depends on all resources
// that d represents (see top and bottom).
type recorded struct {
	m *mirror
	// resources are the resources that the plan changes, by number; sets are over these numbers.
	resources []resourceEndings
	numbers   map[addr.ConfigResource]int32
	lists     map[*state.Dependencies]bitset // objects share sets
	into      map[*state.Universe][]int32
	// configured has for each static vertex its dependencies in the configuration.
	configured []bitset
	// circles has for each resource the number of the circle of recorded dependencies that it is part of, and -1 for none.
	// It is nil unless the recorded dependencies alone order the endings.
	circles []int
	// byReach are the numbers of the resources, those with the most recorded dependencies first.
	byReach []int
}

// resourceEndings are the vertices of a resource's objects.
type resourceEndings struct {
	addr.ConfigResource
	plain, first []int32 // endings; first are those that wait until their dependents have changed
	makings      []int32 // without those that are created first, or do not change
	provider     addr.ProviderInstance
	// all has the dependencies that any of the ending objects recorded, common those that all objects in plain recorded.
	all, common bitset
	// before comes before all endings, beforeFirst before those in first; gone comes after all in plain, and free after
	// the endings that the makings wait for. Each is -1 while nothing needs it.
	before, beforeFirst, gone, free int32
}

// recorded adds the edges for dependencies that the state has recorded.
func (m *mirror) recorded() {
	if m.b.p.Prior == nil {
		return
	}
	r := &recorded{m: m, numbers: map[addr.ConfigResource]int32{},
		lists: map[*state.Dependencies]bitset{}, into: map[*state.Universe][]int32{}}
	r.collect()
	if !r.anything() {
		return
	}
	if m.b.recordedAlone {
		r.findCircles()
	}
	for i, c := range m.b.p.Changes {
		if missing := r.missing(c); missing != nil {
			r.order(i, c, missing)
		}
	}
	r.connect()
}

// collect numbers the resources that the plan changes, and finds their vertices.
func (r *recorded) collect() {
	b := r.m.b
	for _, c := range b.p.Changes {
		if !endsObject(c) && !r.m.changes(c) {
			continue
		}
		a := c.Addr.Config()
		if _, ok := r.numbers[a]; !ok {
			r.numbers[a] = int32(len(r.resources))
			r.resources = append(r.resources, resourceEndings{
				ConfigResource: a, provider: c.Provider, before: -1, beforeFirst: -1, gone: -1, free: -1,
			})
		}
	}
	for i := range r.resources {
		r.resources[i].all = newBitset(len(r.resources))
	}
	for _, c := range b.p.Changes {
		n, ok := r.numbers[c.Addr.Config()]
		if !ok {
			continue
		}
		d := &r.resources[n]
		if r.m.changes(c) && !c.CreateBeforeDestroy {
			d.makings = append(d.makings, b.makes[c.Addr])
		}
		v, ends := b.ends[changeKey{c.Addr, c.Deposed}]
		if !ends || forgetsAside(c) {
			continue
		}
		of := r.of(c)
		d.all.addAll(of)
		if r.m.first[c] {
			d.first = append(d.first, v)
			continue
		}
		d.plain = append(d.plain, v)
		if d.common == nil {
			d.common = slices.Clone(of)
		} else {
			d.common.keep(of)
		}
	}
	r.configured = r.configuration()
	r.byReach = make([]int, len(r.resources))
	reach := make([]int, len(r.resources))
	for i := range r.byReach {
		r.byReach[i], reach[i] = i, r.resources[i].all.len()
	}
	slices.SortStableFunc(r.byReach, func(x, y int) int { return reach[y] - reach[x] })
}

// changes reports whether a change makes or changes the current object.
func (m *mirror) changes(c *plan.Change) bool {
	_, ok := m.b.makes[c.Addr]
	return ok && c.Action != plan.NoOp && c.Deposed == state.CurrentObject
}

// of returns the numbered resources that the object of a change depends on according to the state, without its own
// resource.
func (r *recorded) of(c *plan.Change) bitset {
	list := recordedIn(r.m.b.p, c)
	if list.Len() == 0 {
		return newBitset(len(r.resources))
	}
	set, ok := r.lists[list]
	if !ok {
		set = newBitset(len(r.resources))
		into := r.translation(list.Universe())
		for d := range list.Numbers() {
			if n := into[d]; n >= 0 {
				set.add(int(n))
			}
		}
		r.lists[list] = set
	}
	if own := int(r.numbers[c.Addr.Config()]); set.has(own) {
		set = slices.Clone(set)
		set.remove(own)
	}
	return set
}

// translation returns, by the number in a universe, the number here; -1 where it has none.
func (r *recorded) translation(u *state.Universe) []int32 {
	into, ok := r.into[u]
	if !ok {
		into = make([]int32, u.Len())
		for i := range into {
			into[i] = -1
			if n, ok := r.numbers[u.At(i).Value()]; ok {
				into[i] = n
			}
		}
		r.into[u] = into
	}
	return into
}

// configuration returns for each static vertex those of the numbered resources that it waits for.
func (r *recorded) configuration() []bitset {
	_, sets := r.m.b.s.reach(r.numbers, len(r.resources), nil)
	return sets
}

// missing returns the dependencies that the state recorded for the object of a change and that the configuration does
// not have; nil for none.
func (r *recorded) missing(c *plan.Change) bitset {
	if _, ok := r.numbers[c.Addr.Config()]; !ok {
		return nil
	}
	set := r.of(c)
	if node, ok := r.m.b.s.ResourceVertex(c.Addr.Config()); ok && r.configured[node] != nil && !r.m.b.recordedAlone {
		if set.within(r.configured[node]) {
			return nil
		}
		set = slices.Clone(set)
		set.removeAll(r.configured[node])
	}
	if set.empty() {
		return nil
	}
	return set
}

// findCircles finds the resources that depend on each other in a circle. Dependencies that were recorded for their
// objects at different times can have circles.
func (r *recorded) findCircles() {
	left := r.belowCircles()
	d := dag.New(len(r.resources))
	for i := range left.each() {
		for on := range r.resources[i].all.each() {
			d.Edge(on, i)
		}
	}
	r.circles = make([]int, len(r.resources))
	for i := range r.circles {
		r.circles[i] = -1
	}
	for n, c := range d.Cycles() {
		for _, i := range c.Members {
			r.circles[i] = n
		}
	}
}

// belowCircles returns the resources in circles, with all that they depend on; empty if there is no circle.
func (r *recorded) belowCircles() bitset {
	left := newBitset(len(r.resources))
	users := make([]int, len(r.resources))
	for i := range r.resources {
		left.add(i)
		for on := range r.resources[i].all.each() {
			users[on]++
		}
	}
	var open []int
	unused := func(i int) {
		if users[i] == 0 {
			open = append(open, i)
		}
	}
	for i := range r.resources {
		unused(i)
	}
	for len(open) > 0 {
		i := open[len(open)-1]
		open = open[:len(open)-1]
		left.remove(i)
		for on := range r.resources[i].all.each() {
			users[on]--
			unused(on)
		}
	}
	return left
}

// contradictory reports whether two resources depend on each other in a circle, and inCircle whether one does on any
// other.
func (r *recorded) contradictory(a, b int) bool { return r.inCircle(a) && r.circles[a] == r.circles[b] }
func (r *recorded) inCircle(n int) bool         { return r.circles != nil && r.circles[n] >= 0 }

// anything reports whether the state has dependencies that the configuration has not.
func (r *recorded) anything() bool {
	return slices.ContainsFunc(r.m.b.p.Changes, func(c *plan.Change) bool { return r.missing(c) != nil })
}

// order adds the edges of one change.
func (r *recorded) order(i int, c *plan.Change, missing bitset) {
	b := r.m.b
	own, set := int(r.numbers[c.Addr.Config()]), r.of(c)
	if v, ok := b.ends[changeKey{c.Addr, c.Deposed}]; ok && !forgetsAside(c) {
		first := r.m.first[c]
		top := r.top(set, own, func(d *resourceEndings) bool {
			return len(d.plain)+len(d.first) > 0 && (first || len(d.first) == 0) && !r.apart(c, d) &&
				!r.inCircle(int(r.numbers[d.ConfigResource]))
		})
		top.keep(missing)
		for n := range top.each() {
			d := &r.resources[n]
			if r.apart(c, d) || r.contradictory(own, n) {
				continue
			}
			if len(d.plain)+len(d.first) > 0 {
				b.edge(v, r.vertex(&d.before))
			}
			if !first && !b.bare && len(d.makings) > 0 {
				b.edge(v, r.vertex(&d.free))
			}
		}
	}
	if !r.m.changes(c) || b.endingsOnly {
		return
	}
	v := b.makes[c.Addr]
	if c.Action != plan.CreateThenDelete {
		for n := range r.bottom(set, missing).each() {
			if d := &r.resources[n]; !r.apart(c, d) {
				b.edge(r.vertex(&d.gone), v)
			}
		}
	}
	top := r.top(set, own, func(d *resourceEndings) bool { return len(d.first) > 0 && len(d.plain) == 0 })
	top.keep(missing)
	for n := range top.each() {
		if d := &r.resources[n]; len(d.first) > 0 && !r.apart(c, d) {
			b.edge(v, r.vertex(&d.beforeFirst))
		}
	}
}

// top returns set without those numbers that are reached through others in it: through a d that counts, with all that
// its objects recorded. Where resources depend on each other in a circle, all of them stay.
func (r *recorded) top(set bitset, own int, counts func(*resourceEndings) bool) bitset {
	top := slices.Clone(set)
	for _, n := range r.byReach {
		d := &r.resources[n]
		if top.has(n) && counts(d) && !d.all.has(own) && d.all.within(set) {
			top.removeAll(d.all)
		}
	}
	return top
}

// bottom returns the numbers in missing that have objects in plain, without those that end before another one in set
// does.
func (r *recorded) bottom(set, missing bitset) bitset {
	out := newBitset(len(r.resources))
	for n := range missing.each() {
		d := &r.resources[n]
		if len(d.plain) == 0 {
			continue
		}
		later := false
		for e := range d.common.each() {
			x := &r.resources[e]
			if set.has(e) && len(x.plain) > 0 && !x.all.has(n) && x.all.within(d.common) {
				later = true
				break
			}
		}
		if !later {
			out.add(n)
		}
	}
	return out
}

// apart reports whether there is no edge between a change and the objects of a resource, because it would close a
// circle through a provider whose configuration depends on the plan's new values.
func (r *recorded) apart(c *plan.Change, d *resourceEndings) bool {
	if r.m.b.withinProviders && c.Provider != d.provider {
		return true
	}
	return r.late(c.Provider, d.ConfigResource) || r.late(d.provider, c.Addr.Config())
}

// late reports whether a provider is late, and a resource among the dependencies of its configuration.
func (r *recorded) late(p addr.ProviderInstance, of addr.ConfigResource) bool {
	if len(r.m.late) == 0 {
		return false
	}
	config := p.Config()
	i, ok := r.m.b.s.Find(ProviderNode, config.Module, config)
	if !ok || !r.m.late[i] {
		return false
	}
	node, ok := r.m.b.s.ResourceVertex(of)
	return ok && r.m.holding[node]
}

// vertex makes a Sync vertex if there is none yet.
func (r *recorded) vertex(at *int32) int32 {
	if *at < 0 {
		*at = r.m.b.vertex(plan.Vertex{Kind: plan.Sync, Change: -1})
	}
	return *at
}

// connect puts the vertices of the resources between their objects.
func (r *recorded) connect() {
	b := r.m.b
	for i := range r.resources {
		d := &r.resources[i]
		for _, v := range d.plain {
			if d.before >= 0 {
				b.edge(d.before, v)
			}
			if d.gone >= 0 {
				b.edge(v, d.gone)
			}
		}
		for _, v := range d.first {
			if d.before >= 0 {
				b.edge(d.before, v)
			}
			if d.beforeFirst >= 0 {
				b.edge(d.beforeFirst, v)
			}
		}
		if d.free >= 0 {
			for _, v := range d.makings {
				b.edge(d.free, v)
			}
		}
	}
}
