package dag

// Order returns the vertices so that each comes after all that it waits for. Where that leaves a choice, the
// vertices come layer by layer; within the first layer by index. The answer depends only on the graph.
//
// If the graph is cyclic, acyclic is false and order lacks the vertices on cycles and those that wait for them.
func (g *Graph) Order() (order []int, acyclic bool) {
	waits := g.waits()
	order = make([]int, 0, len(g.vertices))
	for v, n := range waits {
		if n == 0 {
			order = append(order, v)
		}
	}
	for next := 0; next < len(order); next++ {
		for e := g.vertices[order[next]].firstAfter; e != none; e = g.edges[e].nextAfter {
			a := g.edges[e].after
			if waits[a]--; waits[a] == 0 {
				order = append(order, int(a))
			}
		}
	}
	return order, len(order) == len(g.vertices)
}

// waits returns the number of edges into each vertex.
func (g *Graph) waits() []int32 {
	waits := make([]int32, len(g.vertices))
	for i := range g.edges {
		waits[g.edges[i].after]++
	}
	return waits
}

// CriticalPath returns for each vertex the weight of the heaviest path that starts with it, its own weight
// included: how long the rest takes from its start, if nothing but the order holds it up. Weights must not be
// negative; weight is called once for each vertex.
//
// The graph must be acyclic (see [Graph.Cycles]): CriticalPath panics otherwise.
func (g *Graph) CriticalPath(weight func(v int) float64) []float64 {
	order, acyclic := g.Order()
	if !acyclic {
		panic("dag: critical path of a cyclic graph")
	}
	path := make([]float64, len(g.vertices))
	for i := len(order) - 1; i >= 0; i-- {
		v := order[i]
		var rest float64
		for e := g.vertices[v].firstAfter; e != none; e = g.edges[e].nextAfter {
			rest = max(rest, path[g.edges[e].after])
		}
		path[v] = weight(v) + rest
	}
	return path
}

// Descendants returns the given vertices and all that wait for one of them, directly or through others, in
// ascending order.
func (g *Graph) Descendants(of ...int) []int {
	return g.reach(of, func(v int32) int32 { return g.vertices[v].firstAfter },
		func(e int32) (to, next int32) { return g.edges[e].after, g.edges[e].nextAfter })
}

// Ancestors returns the given vertices and all that one of them waits for, directly or through others, in
// ascending order.
func (g *Graph) Ancestors(of ...int) []int {
	return g.reach(of, func(v int32) int32 { return g.vertices[v].firstBefore },
		func(e int32) (to, next int32) { return g.edges[e].before, g.edges[e].nextBefore })
}

// reach returns the vertices that can be reached from the given ones over the lists of edges that first and follow
// describe.
func (g *Graph) reach(of []int, first func(v int32) int32, follow func(e int32) (to, next int32)) []int {
	reached := make([]bool, len(g.vertices))
	var open []int32
	count := 0
	visit := func(v int32) {
		if !reached[v] {
			reached[v] = true
			count++
			open = append(open, v)
		}
	}
	for _, v := range of {
		visit(int32(v))
	}
	for len(open) > 0 {
		v := open[len(open)-1]
		open = open[:len(open)-1]
		for e := first(v); e != none; {
			var to int32
			to, e = follow(e)
			visit(to)
		}
	}
	all := make([]int, 0, count)
	for v, in := range reached {
		if in {
			all = append(all, v)
		}
	}
	return all
}
