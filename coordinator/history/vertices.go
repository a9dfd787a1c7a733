package history

import (
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/coordinator/timeline"
	"github.com/millipede-iac/millipede/graph/plan"
)

// Vertices returns the vertices of a plan's graph to show to people: those that are operations. Edges through
// hidden vertices become edges between operations or, if these would be many, go through a Junction.
func Vertices(p *plan.Plan) []timeline.Vertex {
	g := &p.Graph
	n := len(g.Vertices)
	before, next := adjacent(g, 1, 0), adjacent(g, 0, 1)
	missing, ready, visible := make([]int, n), make([]int, 0, n), 0
	for v := range n {
		if missing[v] = len(before.of(v)); missing[v] == 0 {
			ready = append(ready, v)
		}
		if !p.Hidden(v) {
			visible++
		}
	}
	// through[v] are the dependencies of a vertex that depends on v: v itself, or its own dependencies.
	through := make([][]int, n)
	seen := make([]int, n) // the last vertex that has seen it, plus 1
	itself := make([]int, n)
	for v := range itself {
		itself[v] = v
	}
	out := make([]timeline.Vertex, 0, visible)
	for i := 0; i < len(ready); i++ {
		v := ready[i]
		var deps []int
		for _, b := range before.of(v) {
			for _, d := range through[b] {
				if seen[d] != v+1 {
					seen[d] = v + 1
					deps = append(deps, d)
				}
			}
		}
		slices.Sort(deps)
		hidden := p.Hidden(v)
		switch in, to := len(deps), len(next.of(v)); {
		case hidden && in*to <= 2*(in+to):
			through[v] = deps
		default:
			through[v] = itself[v : v+1]
			out = append(out, vertexOf(p, v, deps, hidden))
		}
		for _, a := range next.of(v) {
			if missing[a]--; missing[a] == 0 {
				ready = append(ready, int(a))
			}
		}
	}
	return withoutEnds(out, n)
}

// neighbours are the vertices beside each vertex, in one list.
type neighbours struct {
	from []int32 // by vertex: where its neighbours begin; and where the last ones end
	list []int32
}

func (a *neighbours) of(v int) []int32 { return a.list[a.from[v]:a.from[v+1]] }

// adjacent returns the vertices at the other end of the edges of each vertex, which stands at the index own.
func adjacent(g *plan.Graph, own, other int) neighbours {
	a := neighbours{from: make([]int32, len(g.Vertices)+1), list: make([]int32, len(g.Edges))}
	for _, e := range g.Edges {
		a.from[e[own]]++
	}
	end := int32(0)
	for v, count := range a.from {
		end += count
		a.from[v] = end
	}
	for i := len(g.Edges) - 1; i >= 0; i-- { // each list is filled from its end, so that from becomes its beginning
		e := g.Edges[i]
		a.from[e[own]]--
		a.list[a.from[e[own]]] = e[other]
	}
	return a
}

func vertexOf(p *plan.Plan, v int, deps []int, hidden bool) timeline.Vertex {
	out := timeline.Vertex{Number: v, After: deps, Status: timeline.Junction, Ready: timeline.None,
		Started: timeline.None, Ended: timeline.None}
	if hidden {
		return out
	}
	x := p.Graph.Vertices[v]
	if x.Kind == plan.InvokeAction {
		i := p.Invocations[x.Invocation()]
		out.Status, out.Address, out.Type, out.Action = timeline.Waiting, x.Address, i.Addr.Resource.Type, "invoke"
		out.Module = i.Addr.Module.String()
		return out
	}
	c := p.Changes[x.Change]
	out.Status, out.Address, out.Type = timeline.Waiting, x.Address, c.Addr.Resource.Type
	out.Module = c.Addr.Module.String()
	if !strings.HasPrefix(out.Address, out.Module+".") {
		out.Module = ""
	}
	switch x.Kind {
	case plan.DestroyObject:
		out.Action, out.Deposed = "delete", string(c.Deposed)
	case plan.ReadObject:
		out.Action = "read"
	default:
		out.Action = "create"
		if c.Action == plan.Update {
			out.Action = "update"
		}
	}
	return out
}

// withoutEnds removes junctions on which no visible vertex depends, and sorts by number.
func withoutEnds(vertices []timeline.Vertex, n int) []timeline.Vertex {
	used := make([]bool, n)
	for i := len(vertices) - 1; i >= 0; i-- { // vertices come after their dependencies
		v := &vertices[i]
		if v.Status == timeline.Junction && !used[v.Number] {
			continue
		}
		used[v.Number] = true
		for _, d := range v.After {
			used[d] = true
		}
	}
	vertices = slices.DeleteFunc(vertices, func(v timeline.Vertex) bool { return !used[v.Number] })
	slices.SortFunc(vertices, func(a, b timeline.Vertex) int { return a.Number - b.Number })
	return vertices
}

// moduleOf returns the module instance at the beginning of an address; empty for the root module.
func moduleOf(address string) string {
	end := 0
	for strings.HasPrefix(address[end:], "module.") {
		i, quoted := end+len("module."), false
		for ; i < len(address) && (quoted || address[i] != '.'); i++ {
			switch {
			case quoted && address[i] == '\\':
				i++
			case address[i] == '"':
				quoted = !quoted
			}
		}
		if i >= len(address) {
			break
		}
		end = i + 1
	}
	return strings.TrimSuffix(address[:end], ".")
}
