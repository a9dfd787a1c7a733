package sim

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/wire"
)

// layOut draws the pools of a seed. It has a separate random source, so that the other draws of a seed do not depend on
// it.
func (o *options) layOut(chance *rand.Rand) {
	o.pools = []string{honest}
	switch kind := chance.IntN(4); kind {
	case 0, 1: // only one pool
	default:
		o.pools = append(o.pools, "east", "west")[:2+chance.IntN(2)]
		o.fair = kind == 3
		o.byzantine = !o.fair && chance.IntN(2) == 0
	}
	if !o.fair {
		return
	}
	o.objects, o.goals, o.slots, o.sparse = 12+chance.IntN(20), 2, 2+chance.IntN(8), 15
	if chance.IntN(2) == 0 {
		o.narrow = 1 + chance.IntN(3)
	}
}

// team changes the options to those of a seed that simulates a team: there is one pool, and faults are injected.
func (o *options) team() {
	o.pools, o.fair, o.byzantine, o.narrow = []string{honest}, false, false, 0
	o.slots += 2
	o.sites = 1
}

// rules returns the rules that place each type of resource in its pool.
func (o *options) rules() *placement.Rules {
	if len(o.pools) == 1 {
		return nil
	}
	r := &placement.Rules{}
	var types []string
	for _, pool := range o.pools[1:] {
		types = append(types, typeIn(pool))
		all := placement.Matcher{ResourceTypes: []string{typeIn(pool)}}
		r.Pools = append(r.Pools, placement.Pool{Name: pool, Matcher: all})
	}
	if o.narrow > 0 {
		r.Limits = []placement.Limit{{Name: "narrow", Max: o.narrow, Matcher: placement.Matcher{ResourceTypes: types}}}
	}
	return r
}

// typeIn is the type of the resources that are placed in a pool.
func typeIn(pool string) string {
	if pool == honest {
		return "cloud_thing"
	}
	return "cloud_" + pool
}

// own returns the name of the object that a block makes.
func (b *block) own(site string, i int) string {
	kind := "r"
	if b.pool != honest {
		kind = b.pool
	}
	return fmt.Sprintf("%s-%s%d-%d", site, kind, i, b.gen)
}

// drawPool draws the pool of a site's block. Only the first site uses the pool of the byzantine worker.
func (w *world) drawPool(site string) string {
	if len(w.options.pools) == 1 {
		return honest
	}
	pool := w.options.pools[w.layout.IntN(len(w.options.pools))]
	if w.isByzantine(pool) && site != "s1" {
		return honest
	}
	return pool
}

// addHost adds a machine after a delay.
func (w *world) addHost(h *host, after time.Duration) {
	if after == 0 {
		w.hosts = append(w.hosts, h)
		h.start()
		return
	}
	w.after(after, func() { w.addHost(h, 0) })
}

// addPools adds the machines of the other pools, with few or many slots; if options.fair is set, some of them later.
func (w *world) addPools(dir string) {
	for _, pool := range w.options.pools[1:] {
		for i := range 1 + w.layout.IntN(2) {
			var after time.Duration
			if w.options.fair && i > 0 {
				after = time.Duration(w.layout.Int64N(int64(20*time.Second))) + 1
			}
			id := fmt.Sprintf("%s%d", pool, i+1)
			w.addHost(&host{w: w, id: id, dir: filepath.Join(dir, id), pool: pool, slots: 1 + w.layout.IntN(4)}, after)
		}
	}
}

const (
	// tick is how long a slot may be idle while an operation waits that could use it. Two coordinators may count the
	// slots of a pool differently for two seconds (ADR 0011).
	tick = 3 * time.Second
	// sample is how often idle slots are looked for, in addition to each start of an operation.
	sample = 100 * time.Millisecond
	// unbounded is a number of places that is never reached.
	unbounded = 1 << 15
)

// isPlaces reports whether a limit is that of the places in a pool.
func isPlaces(limit string) bool { return strings.HasPrefix(limit, wire.PoolLimit("")) }

// carryOut records that the execution of a plan begins or ends.
func (c *command) carryOut(yes bool) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.site.applying = yes && c.goal == c.at
}

// mustNotIdle checks repeatedly that no slot is idle for longer than a tick while an operation waits that could use it.
func (w *world) mustNotIdle() {
	for _, pool := range w.idling() {
		if since, ok := w.idle[pool]; ok && time.Since(since) > tick {
			w.violate("no idle slot", "a slot of the pool %s has been idle for %s, and no limit prevents it, but %s waits",
				pool, time.Since(since).Round(time.Millisecond), strings.Join(w.ready(pool), ", "))
		}
	}
	w.moved()
	w.after(sample, w.mustNotIdle)
}

// moved records which pools have idle slots, and since when.
func (w *world) moved() {
	if !w.options.fair {
		return
	}
	idling := w.idling()
	since := map[string]time.Time{}
	for _, pool := range idling {
		if since[pool] = w.idle[pool]; since[pool].IsZero() {
			since[pool] = time.Now()
		}
	}
	w.idle = since
}

// idling lists the pools with a slot that is idle although an operation could use it. Only executed operations occupy
// slots here, not permits.
func (w *world) idling() (pools []string) {
	all, narrow, in := 0, 0, map[string]int{}
	for e := range w.cloud.busy {
		all++
		pool := w.poolOf(e.name)
		if in[pool]++; pool != honest {
			narrow++
		}
	}
	if all >= w.options.slots {
		return nil
	}
	for _, pool := range w.options.pools {
		slots := 0
		for _, h := range w.hosts {
			if h.pool == pool && !h.p.dead {
				slots += h.slots
			}
		}
		full := in[pool] >= slots || pool != honest && w.options.narrow > 0 && narrow >= w.options.narrow
		if !full && len(w.ready(pool)) > 0 {
			pools = append(pools, pool)
		}
	}
	return pools
}

// poolOf returns the pool of an object by its name.
func (w *world) poolOf(name string) string {
	for _, pool := range w.options.pools[1:] {
		if strings.Contains(name, "-"+pool) {
			return pool
		}
	}
	return honest
}

// ready lists the objects that could be created in a pool now. The first plan of a site, which is being applied,
// creates them; none of them exists or is being created, and everything that they refer to is durable in its planned
// form.
func (w *world) ready(pool string) (names []string) {
	for _, s := range w.sites {
		if !s.applying || s.at > 0 { // later plans also delete; this function does not know the order of deletions
			continue
		}
		g := s.goals[s.at]
		list := s.records()
		done := func(name string) bool {
			return slices.ContainsFunc(list, func(r record) bool {
				return r.attrs.Name == name &&
					r.attrs.Size == g.sizes[name]
			})
		}
		for _, name := range g.names {
			if g.pools[name] != pool || done(name) || w.cloud.isUnderWay(name) || w.cloud.isAs(name, g.sizes[name]) {
				continue
			}
			block := name[:strings.LastIndex(name, "-")+1]
			replaces := slices.ContainsFunc(list, func(r record) bool {
				return r.attrs.Name != name && strings.HasPrefix(r.attrs.Name, block)
			})
			if !replaces && !slices.ContainsFunc(g.refs[name], func(ref string) bool { return !done(ref) }) {
				names = append(names, name)
			}
		}
	}
	return names
}

// isUnderWay reports whether an operation on an object is in progress.
func (c *cloud) isUnderWay(name string) bool {
	for e := range c.busy {
		if e.name == name {
			return true
		}
	}
	return false
}

// isAs reports whether an object with this size exists.
func (c *cloud) isAs(name string, size int) bool {
	t := c.named(name)
	if t == nil {
		return false
	}
	n, _ := t.value.GetAttr("size").AsBigFloat().Int64()
	return int(n) == size
}

// poolOfType returns the pool of the resources of a type.
func (w *world) poolOfType(name string) string {
	for _, pool := range w.options.pools[1:] {
		if typeIn(pool) == name {
			return pool
		}
	}
	return honest
}
