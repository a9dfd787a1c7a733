package timeline

import (
	"io"
	"maps"
	"slices"
)

// large is the number of vertices from which on a run has an outline. The Outline of a smaller one is its Shape.
const large = 5000

// family has the common properties of the vertices of a block in a module instance.
type family struct {
	module, block string
	instances     int // the number of vertices with a key
	home          int // the group of the instances; 0: there is none yet
}

// outlined is the data of a vertex that an outline needs while it is made.
type outlined struct {
	number      int
	in          *family
	key         string
	typ, action string
	status      Status
	after       []int
}

// outline collects the Outline: the places that a page draws first, each as a vertex, and the dependencies between
// them.
type outline struct {
	all      []outlined
	families map[[2]string]*family
	last     *family     // that of the vertex that was added last: the next one is often of the same
	moved    map[int]int // the index in all of a vertex whose number is another one
	tree     *groups
}

func newOutline(n int) *outline {
	return &outline{all: make([]outlined, 0, n), families: map[[2]string]*family{}, last: new(family),
		moved: map[int]int{}, tree: newGroups()}
}

func (o *outline) add(v *Vertex) {
	block, key := local(v)
	if o.last.module != v.Module || o.last.block != block {
		of := [2]string{v.Module, block}
		if o.last = o.families[of]; o.last == nil {
			o.last = &family{module: v.Module, block: block}
			o.families[of] = o.last
		}
	}
	if key != "" && v.Status != Junction {
		o.last.instances++
	}
	if v.Number != len(o.all) {
		o.moved[v.Number] = len(o.all)
	}
	o.all = append(o.all, outlined{v.Number, o.last, key, v.Type, v.Action, v.Status, v.After})
}

// index returns the index of a vertex in all; false if there is no vertex with that number.
func (o *outline) index(number int) (int, bool) {
	if number >= 0 && number < len(o.all) && o.all[number].number == number {
		return number, true
	}
	i, ok := o.moved[number]
	return i, ok
}

func (o *outline) write(w io.Writer, top *form) error {
	for i := range o.all {
		if v := &o.all[i]; v.status != Junction {
			o.tree.put(i, v)
		}
	}
	o.tree.sum()
	o.tree.unfold()
	places, at := o.tree.drawn(len(o.all))
	edges := o.edges(at, len(places))
	number := func(place int) int { // of the vertex that a place is sent as
		if place < len(places) && places[place] >= 0 {
			return o.all[places[place]].number
		}
		return -1 - place
	}
	out := &shape{names: newNames(), more: map[int]more{}}
	for p, before := range edges {
		v := Vertex{Number: number(p), Status: Junction, Ready: None, Started: None, Ended: None}
		for _, b := range slices.Sorted(maps.Keys(before)) {
			v.After = append(v.After, number(b))
		}
		module, block, key := "", "", ""
		var rest more
		switch {
		case p >= len(places):
		case places[p] >= 0:
			of := &o.all[places[p]]
			module, block, key = of.in.module, of.in.block, of.key
			v.Status, v.Type, v.Action = of.status, of.typ, of.action
		default:
			of := &o.tree.all[^places[p]]
			module, block, v.Status = of.module, of.block, of.worst()
			if of.first != "" {
				key = of.name()
			}
			rest.Fold = of.fold()
		}
		out.put(&v, module, block, key, rest)
	}
	whole := *top
	whole.Outline = true
	return out.write(w, &whole)
}

// fold says that a vertex of an Outline is a folded group.
type fold struct {
	ID     string         `json:"id"` // as in layout.js
	Label  string         `json:"label"`
	Total  int            `json:"total"`
	Counts map[string]int `json:"counts"` // by status
}

func (g *group) fold() *fold {
	f := &fold{ID: g.id, Label: g.name(), Total: g.total, Counts: map[string]int{}}
	for k, n := range g.counts {
		if n > 0 {
			f.Counts[order[k:k+1]] = n
		}
	}
	return f
}

// edges returns for each place the places on which it depends. A junction behind more than a few places is a place of
// its own, after the others; other junctions are passed.
func (o *outline) edges(at []int, places int) []map[int]struct{} {
	edges := make([]map[int]struct{}, places)
	add := func(before, after int) {
		if before == after || before < 0 || after < 0 {
			return
		}
		if edges[after] == nil {
			edges[after] = map[int]struct{}{}
		}
		edges[after][before] = struct{}{}
	}
	known := map[int]map[int]struct{}{} // the places before a junction
	var before func(j int) map[int]struct{}
	before = func(j int) map[int]struct{} {
		if set, ok := known[j]; ok {
			return set
		}
		set := map[int]struct{}{}
		known[j] = set
		for _, n := range o.all[j].after {
			d, ok := o.index(n)
			switch {
			case !ok:
			case o.all[d].status == Junction:
				maps.Copy(set, before(d))
			case at[d] >= 0:
				set[at[d]] = struct{}{}
			}
		}
		if len(set) > spread {
			place := len(edges)
			edges = append(edges, set)
			set = map[int]struct{}{place: {}}
			known[j] = set
		}
		return set
	}
	for i := range o.all {
		if o.all[i].status == Junction {
			continue
		}
		last := -1
		for _, n := range o.all[i].after {
			d, ok := o.index(n)
			switch {
			case !ok:
			case o.all[d].status == Junction:
				for p := range before(d) {
					add(p, at[i])
				}
			case at[d] != last: // the dependencies of a vertex are often in the same place
				last = at[d]
				add(last, at[i])
			}
		}
	}
	return edges
}
