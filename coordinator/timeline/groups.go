package timeline

import (
	"strconv"
	"strings"
)

// The constants of layout.js and run.js.
const (
	// maxDrawn is the number of places that a page draws at the beginning at most.
	maxDrawn = 300
	// wide is the number of instances of a block in a group; a block with more than twice as many has several.
	wide = 250
	// spread is the number of places before a junction from which on the junction is drawn.
	spread = 8
)

// order is the order of the statuses in which people want to see them.
const order = "furqwsd"

// group is a module instance, a block, or a range of a block's instances.
type group struct {
	id     string
	parent int // an index in groups.all
	label  string
	// module and block say where the group belongs when it is drawn folded, as if it were a vertex.
	module, block string
	// first and last are the keys of the first and the last vertex of a range.
	first, last string
	// children are indexes: of vertices, or, if negative, ^index of groups.
	children []int
	counts   [len(order)]int
	total    int
	open     bool
}

// groups is the tree of groups of a run, as the class Groups of layout.js makes it: a page draws an outline, and then
// the whole run, in the same places. all[0] is the root.
type groups struct {
	all []group
	ids map[string]int
}

func newGroups() *groups {
	return &groups{all: []group{{parent: -1, open: true}}, ids: map[string]int{}}
}

// put puts a vertex into its group.
func (g *groups) put(i int, v *outlined) {
	home := &g.all[g.home(v)]
	home.children = append(home.children, i)
	home.counts[strings.IndexByte(order, byte(v.status))]++
	home.total++
}

// home returns the innermost group of a vertex.
func (g *groups) home(v *outlined) int {
	in := v.in
	if v.key == "" {
		return g.module(in.module) // objects without a key have no group of their block
	}
	if in.home == 0 {
		in.home = g.child(g.module(in.module), group{id: "b:" + in.module + ":" + in.block, label: in.block,
			module: in.module, block: in.block})
	}
	if in.instances <= 2*wide {
		return in.home
	}
	of := &g.all[in.home]
	n := len(of.children)
	if n > 0 {
		if last := ^of.children[n-1]; g.all[last].total < wide {
			g.all[last].last = v.key
			return last
		}
	}
	return g.child(in.home, group{id: "r:" + of.id + ":" + strconv.Itoa(n), first: v.key, last: v.key,
		module: of.module, block: of.block})
}

// module returns the group of a module instance.
func (g *groups) module(path string) int {
	if at, ok := g.ids["m:"+path]; ok || path == "" {
		return at
	}
	at, outer := 0, ""
	for _, part := range modules(path) {
		inner := strings.TrimPrefix(outer+"."+part, ".")
		at = g.child(at, group{id: "m:" + inner, label: part, module: outer, block: part})
		outer = inner
	}
	return at
}

func (g *groups) child(parent int, c group) int {
	if at, ok := g.ids[c.id]; ok {
		return at
	}
	at := len(g.all)
	c.parent = parent
	g.all = append(g.all, c)
	g.ids[c.id] = at
	g.all[parent].children = append(g.all[parent].children, ^at)
	return at
}

// sum adds the counts of inner groups to those of outer ones. Groups come after those that they are in.
func (g *groups) sum() {
	for i := len(g.all) - 1; i > 0; i-- {
		in := &g.all[g.all[i].parent]
		in.total += g.all[i].total
		for k, n := range g.all[i].counts {
			in.counts[k] += n
		}
	}
}

// unfold opens groups as long as maxDrawn allows, outer ones first.
func (g *groups) unfold() {
	drawn := len(g.all[0].children)
	for level := g.all[0].children; len(level) > 0; {
		var next []int
		for _, c := range level {
			if c >= 0 {
				continue
			}
			of := &g.all[^c]
			if drawn+len(of.children)-1 > maxDrawn {
				continue
			}
			drawn += len(of.children) - 1
			of.open = true
			next = append(next, of.children...)
		}
		level = next
	}
}

// drawn returns the places that are drawn, in the order of the tree: vertices and folded groups, numbered like
// children. at has the place of each vertex, -1 for a junction.
func (g *groups) drawn(vertices int) (places, at []int) {
	at = make([]int, vertices)
	for i := range at {
		at[i] = -1
	}
	var within func(c, place int)
	within = func(c, place int) {
		if c >= 0 {
			at[c] = place
			return
		}
		for _, d := range g.all[^c].children {
			within(d, place)
		}
	}
	var walk func(children []int)
	walk = func(children []int) {
		for _, c := range children {
			if c < 0 && g.all[^c].open {
				walk(g.all[^c].children)
				continue
			}
			within(c, len(places))
			places = append(places, c)
		}
	}
	walk(g.all[0].children)
	return places, at
}

// name returns the name of the group.
func (g *group) name() string {
	if g.first == g.last {
		return g.label + g.first
	}
	return g.first + " … " + g.last
}

// worst returns the status that people want to see first.
func (g *group) worst() Status {
	for k, n := range g.counts {
		if n > 0 {
			return Status(order[k])
		}
	}
	return Waiting
}

// modules splits the path of a module instance: "module.a[0].module.b" has two parts.
func modules(path string) (parts []string) {
	begin, quoted := 0, false
	for i := 0; i <= len(path); i++ {
		switch {
		case i < len(path) && quoted:
			switch path[i] {
			case '\\':
				i++
			case '"':
				quoted = false
			}
		case i < len(path) && path[i] == '"':
			quoted = true
		case i > begin && (i == len(path) || path[i] == '.' && strings.HasPrefix(path[i+1:], "module.")):
			parts = append(parts, path[begin:i])
			begin = i + 1
		}
	}
	return parts
}
