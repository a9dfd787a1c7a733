// Package dag answers questions about the order of vertices that wait for each other: which may come first,
// which wait in a circle, how long the longest way to the end is.
//
// Vertices are the integers 0, 1, 2, ...; only the caller knows their meaning. The package does not run vertices, nor
// record which ones have run (graph/sched does). It does not stop a caller from building a circle: [Graph.Cycles] finds
// it.
//
// Every operation takes time and memory proportional to the vertices and edges that it looks at. None of them recurses,
// so a chain of a million vertices is as safe as a flat graph.
package dag

import (
	"fmt"
	"iter"
	"math"
)

// Edge says that After waits for Before.
type Edge struct {
	Before, After int
}

// Graph is a directed graph that only grows. The zero Graph is empty and ready for use. A Graph is not safe for
// concurrent use, except that any number of goroutines may read one that nobody changes.
//
// Each vertex has two linked lists of edges, both threaded through one flat slice. So adding an edge never moves
// another one, and a graph costs 16 bytes for each vertex and each edge, in two allocations.
type Graph struct {
	vertices []vertex
	edges    []edge
}

type vertex struct {
	firstAfter, lastAfter   int32 // the edges to the vertices that wait for this one
	firstBefore, lastBefore int32 // the edges from the vertices that this one waits for
}

type edge struct {
	before, after         int32
	nextAfter, nextBefore int32 // the next edge in the lists of before and of after
}

// none ends a list of edges.
const none int32 = -1

// New returns a graph of n vertices, 0 to n-1, without edges.
func New(n int) *Graph {
	g := new(Graph)
	g.Grow(n)
	return g
}

// Len is the number of vertices.
func (g *Graph) Len() int { return len(g.vertices) }

// Size is the number of edges, parallel ones included.
func (g *Graph) Size() int { return len(g.edges) }

// Grow adds n vertices without edges and returns the first; the others follow it.
func (g *Graph) Grow(n int) (first int) {
	first = len(g.vertices)
	if n < 0 || n > math.MaxInt32-first {
		panic(fmt.Sprintf("dag: a graph of %d vertices cannot grow by %d", first, n))
	}
	if first == 0 {
		g.vertices = make([]vertex, 0, n)
	}
	for range n {
		g.vertices = append(g.vertices, vertex{none, none, none, none})
	}
	return first
}

// Edge makes after wait for before. Both must exist. An edge that is there already is added once more, which no
// answer depends on; [Graph.Dedupe] removes such edges where there may be many. An edge from a vertex to itself
// is a cycle.
func (g *Graph) Edge(before, after int) {
	if uint(before) >= uint(len(g.vertices)) || uint(after) >= uint(len(g.vertices)) {
		panic(fmt.Sprintf("dag: edge from %d to %d in a graph of %d vertices", before, after, len(g.vertices)))
	}
	if len(g.edges) == math.MaxInt32 {
		panic("dag: more than 2,147,483,647 edges")
	}
	g.link(int32(before), int32(after))
}

// link appends the edge to the lists of both its ends.
func (g *Graph) link(before, after int32) {
	e := int32(len(g.edges))
	g.edges = append(g.edges, edge{before, after, none, none})

	if b := &g.vertices[before]; b.lastAfter == none {
		b.firstAfter, b.lastAfter = e, e
	} else {
		g.edges[b.lastAfter].nextAfter, b.lastAfter = e, e
	}
	if a := &g.vertices[after]; a.lastBefore == none {
		a.firstBefore, a.lastBefore = e, e
	} else {
		g.edges[a.lastBefore].nextBefore, a.lastBefore = e, e
	}
}

// After yields the vertices that wait for v, in the order in which their edges were added. Edges that are added
// to v meanwhile are yielded too.
func (g *Graph) After(v int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for e := g.vertices[v].firstAfter; e != none; e = g.edges[e].nextAfter {
			if !yield(int(g.edges[e].after)) {
				return
			}
		}
	}
}

// Before yields the vertices that v waits for, in the order in which their edges were added. Edges that are added
// to v meanwhile are yielded too.
func (g *Graph) Before(v int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for e := g.vertices[v].firstBefore; e != none; e = g.edges[e].nextBefore {
			if !yield(int(g.edges[e].before)) {
				return
			}
		}
	}
}

// Edges yields all edges in the order in which they were added.
func (g *Graph) Edges() iter.Seq[Edge] {
	return func(yield func(Edge) bool) {
		for _, e := range g.edges {
			if !yield(Edge{int(e.before), int(e.after)}) {
				return
			}
		}
	}
}

// Dedupe removes every edge that repeats an earlier one and returns how many there were. The order of the edges
// that remain does not change.
func (g *Graph) Dedupe() (removed int) {
	repeated := make([]bool, len(g.edges))
	seenFrom := make([]int32, len(g.vertices)) // seenFrom[a] is 1 + the last vertex that was seen to lead to a
	for v := range g.vertices {
		for e := g.vertices[v].firstAfter; e != none; e = g.edges[e].nextAfter {
			a := g.edges[e].after
			if seenFrom[a] == int32(v)+1 {
				repeated[e] = true
				removed++
			}
			seenFrom[a] = int32(v) + 1
		}
	}
	if removed == 0 {
		return 0
	}
	old := g.edges
	g.edges = make([]edge, 0, len(old)-removed)
	for v := range g.vertices {
		g.vertices[v] = vertex{none, none, none, none}
	}
	for e, o := range old {
		if !repeated[e] {
			g.link(o.before, o.after)
		}
	}
	return removed
}
