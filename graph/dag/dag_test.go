package dag_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/millipede-iac/millipede/graph/dag"
)

// build returns a graph of n vertices with the edges, each written as {before, after}.
func build(n int, edges ...[2]int) *dag.Graph {
	g := dag.New(n)
	for _, e := range edges {
		g.Edge(e[0], e[1])
	}
	return g
}

// random returns a graph of n vertices with about n*degree edges, some of them parallel. If it must be acyclic, the
// edges follow a hidden random order of the vertices.
func random(seed uint64, n int, degree float64, acyclic bool) *dag.Graph {
	chance := rand.New(rand.NewPCG(seed, 1))
	hidden := chance.Perm(n)
	g := dag.New(n)
	for range int(float64(n) * degree) {
		a, b := chance.IntN(n), chance.IntN(n)
		if acyclic && a == b {
			continue
		}
		if acyclic && hidden[a] > hidden[b] {
			a, b = b, a
		}
		g.Edge(a, b)
	}
	return g
}

// reachable returns the transitive closure, computed directly from its definition: reachable[a][b] means that b waits
// for a, directly or indirectly.
func reachable(g *dag.Graph) [][]bool {
	n := g.Len()
	r := make([][]bool, n)
	for v := range r {
		r[v] = make([]bool, n)
		for a := range g.After(v) {
			r[v][a] = true
		}
	}
	for k := range n {
		for i := range n {
			if r[i][k] {
				for j := range n {
					r[i][j] = r[i][j] || r[k][j]
				}
			}
		}
	}
	return r
}

func TestEdgesAreSeenFromBothEndsInTheOrderOfTheirAddition(t *testing.T) {
	g := build(2, [2]int{0, 1})
	if first := g.Grow(2); first != 2 {
		t.Errorf("Grow returned %d, want 2", first)
	}
	g.Edge(3, 1)
	g.Edge(2, 1)
	g.Edge(0, 3)
	if got := slices.Collect(g.Before(1)); !slices.Equal(got, []int{0, 3, 2}) {
		t.Errorf("1 waits for %v", got)
	}
	if got := slices.Collect(g.After(0)); !slices.Equal(got, []int{1, 3}) {
		t.Errorf("%v wait for 0", got)
	}
	want := []dag.Edge{{0, 1}, {3, 1}, {2, 1}, {0, 3}}
	if got := slices.Collect(g.Edges()); !slices.Equal(got, want) {
		t.Errorf("edges %v, want %v", got, want)
	}
	if g.Len() != 4 || g.Size() != 4 {
		t.Errorf("%d vertices, %d edges", g.Len(), g.Size())
	}
}

func TestTheZeroGraphIsEmptyAndAcyclic(t *testing.T) {
	var g dag.Graph
	if order, acyclic := g.Order(); len(order) != 0 || !acyclic {
		t.Errorf("order %v, acyclic %v", order, acyclic)
	}
	if c := g.Cycles(); c != nil {
		t.Errorf("cycles %v", c)
	}
	g.Edge(g.Grow(1), g.Grow(1))
	if got := slices.Collect(g.After(0)); !slices.Equal(got, []int{1}) {
		t.Errorf("after 0: %v", got)
	}
}

func TestAnEdgeToAMissingVertexPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	dag.New(2).Edge(1, 2)
}

func TestDedupeKeepsTheFirstOfParallelEdgesInOrder(t *testing.T) {
	g := build(3, [2]int{0, 1}, [2]int{0, 2}, [2]int{0, 1}, [2]int{1, 2}, [2]int{0, 2}, [2]int{1, 0}, [2]int{0, 1})
	if n := g.Dedupe(); n != 3 {
		t.Errorf("removed %d, want 3", n)
	}
	want := []dag.Edge{{0, 1}, {0, 2}, {1, 2}, {1, 0}}
	if got := slices.Collect(g.Edges()); !slices.Equal(got, want) {
		t.Errorf("edges %v, want %v", got, want)
	}
	if got := slices.Collect(g.Before(2)); !slices.Equal(got, []int{0, 1}) {
		t.Errorf("2 waits for %v", got)
	}
	if n := g.Dedupe(); n != 0 {
		t.Errorf("removed %d more", n)
	}
}

func TestDedupeChangesNoReachability(t *testing.T) {
	for seed := range uint64(50) {
		g := random(seed, 20, 4, false)
		before := reachable(g)
		size := g.Size()
		if removed := g.Dedupe(); size-removed != g.Size() {
			t.Fatalf("seed %d: %d edges, %d removed, %d left", seed, size, removed, g.Size())
		}
		seen := map[dag.Edge]bool{}
		for e := range g.Edges() {
			if seen[e] {
				t.Fatalf("seed %d: %v is still there twice", seed, e)
			}
			seen[e] = true
		}
		if after := reachable(g); !slices.EqualFunc(before, after, slices.Equal) {
			t.Fatalf("seed %d: reachability changed", seed)
		}
	}
}

func TestOrderPutsEachVertexAfterAllThatItWaitsFor(t *testing.T) {
	for seed := range uint64(200) {
		g := random(seed, 1+int(seed), 3, true)
		order, acyclic := g.Order()
		if !acyclic || len(order) != g.Len() {
			t.Fatalf("seed %d: acyclic %v, %d of %d", seed, acyclic, len(order), g.Len())
		}
		place := make([]int, g.Len())
		for i, v := range order {
			place[v] = i
		}
		for e := range g.Edges() {
			if place[e.Before] >= place[e.After] {
				t.Fatalf("seed %d: %v is out of order", seed, e)
			}
		}
	}
}

func TestOrderLacksExactlyCyclesAndWhatWaitsForThem(t *testing.T) {
	for seed := range uint64(200) {
		g := random(seed, 25, 0.9, false)
		closure := reachable(g)
		order, acyclic := g.Order()
		slices.Sort(order)
		var want []int
		for v := range g.Len() {
			stuck := closure[v][v]
			for c := range g.Len() {
				stuck = stuck || closure[c][c] && closure[c][v]
			}
			if !stuck {
				want = append(want, v)
			}
		}
		if !slices.Equal(order, want) || acyclic != (len(want) == g.Len()) {
			t.Fatalf("seed %d: order has %v, want %v (acyclic %v)", seed, order, want, acyclic)
		}
	}
}

func TestCyclesAreTheStronglyConnectedComponents(t *testing.T) {
	for seed := range uint64(300) {
		g := random(seed, 2+int(seed%40), 0.5+float64(seed%5)/3, false)
		closure := reachable(g)
		var want [][]int
		for v := range g.Len() {
			var group []int
			for u := range g.Len() {
				if closure[v][u] && closure[u][v] {
					group = append(group, u)
				}
			}
			if len(group) > 0 && group[0] == v {
				want = append(want, group)
			}
		}
		var got [][]int
		for _, c := range g.Cycles() {
			got = append(got, c.Members)
		}
		if !slices.EqualFunc(got, want, slices.Equal) {
			t.Fatalf("seed %d: cycles %v, want %v", seed, got, want)
		}
	}
}

func TestLoopsWaitForTheNextAndAreTheShortest(t *testing.T) {
	for seed := range uint64(300) {
		g := random(seed, 2+int(seed%40), 0.8+float64(seed%5)/3, false)
		for _, c := range g.Cycles() {
			if c.Loop[0] != slices.Min(c.Loop) {
				t.Fatalf("seed %d: loop %v does not begin with its lowest vertex", seed, c.Loop)
			}
			for i, v := range c.Loop {
				next := c.Loop[(i+1)%len(c.Loop)]
				if !slices.Contains(slices.Collect(g.Before(v)), next) {
					t.Fatalf("seed %d: in loop %v, %d does not wait for %d", seed, c.Loop, v, next)
				}
				if !slices.Contains(c.Members, v) {
					t.Fatalf("seed %d: loop %v leaves its cycle %v", seed, c.Loop, c.Members)
				}
			}
			if want := girth(g, c.Members); len(c.Loop) != want {
				t.Fatalf("seed %d: loop %v, but there is one of length %d in %v", seed, c.Loop, want, c.Members)
			}
		}
	}
}

// girth returns the length of the shortest cycle through any of the vertices, by trying all walks of each length.
func girth(g *dag.Graph, members []int) int {
	for length := 1; ; length++ {
		for _, start := range members {
			at := map[int]bool{start: true}
			for range length {
				next := map[int]bool{}
				for v := range at {
					for a := range g.After(v) {
						next[a] = true
					}
				}
				at = next
			}
			if at[start] {
				return length
			}
		}
	}
}

func TestAHugeCycleIsFoundAndGetsALoop(t *testing.T) {
	const n = 200_000
	g := dag.New(n)
	chance := rand.New(rand.NewPCG(1, 1))
	for v := range n {
		g.Edge(v, (v+1)%n)
		g.Edge(v, chance.IntN(n))
	}
	cycles := g.Cycles()
	if len(cycles) != 1 || len(cycles[0].Members) != n {
		t.Fatalf("%d cycles", len(cycles))
	}
	if l := len(cycles[0].Loop); l > 20 {
		t.Errorf("loop of %d vertices is not readable", l)
	}
}

func TestCriticalPathIsTheHeaviestWayToTheEnd(t *testing.T) {
	for seed := range uint64(100) {
		g := random(seed, 1+int(seed%60), 2, true)
		weight := func(v int) float64 { return float64((v*7 + int(seed)) % 11) }
		memo := map[int]float64{}
		var longest func(v int) float64
		longest = func(v int) float64 {
			if p, ok := memo[v]; ok {
				return p
			}
			var rest float64
			for a := range g.After(v) {
				rest = max(rest, longest(a))
			}
			memo[v] = weight(v) + rest
			return memo[v]
		}
		for v, got := range g.CriticalPath(weight) {
			if want := longest(v); got != want {
				t.Fatalf("seed %d: path of %d weighs %v, want %v", seed, v, got, want)
			}
		}
	}
}

func TestDescendantsAndAncestorsAreTheClosureOfASet(t *testing.T) {
	for seed := range uint64(100) {
		g := random(seed, 30, 1.2, seed%2 == 0)
		closure := reachable(g)
		of := []int{int(seed) % 30, int(seed*7) % 30}
		var down, up []int
		for v := range g.Len() {
			in := v == of[0] || v == of[1]
			if in || closure[of[0]][v] || closure[of[1]][v] {
				down = append(down, v)
			}
			if in || closure[v][of[0]] || closure[v][of[1]] {
				up = append(up, v)
			}
		}
		if got := g.Descendants(of...); !slices.Equal(got, down) {
			t.Fatalf("seed %d: descendants of %v: %v, want %v", seed, of, got, down)
		}
		if got := g.Ancestors(of...); !slices.Equal(got, up) {
			t.Fatalf("seed %d: ancestors of %v: %v, want %v", seed, of, got, up)
		}
	}
}

func TestAChainOfAMillionVerticesIsNoDeeperThanAnother(t *testing.T) {
	const n = 1_000_000
	g := dag.New(n)
	for v := range n - 1 {
		g.Edge(v, v+1)
	}
	if _, acyclic := g.Order(); !acyclic {
		t.Error("the chain is said to be cyclic")
	}
	if p := g.CriticalPath(func(int) float64 { return 1 }); p[0] != n {
		t.Errorf("critical path %v", p[0])
	}
	if d := g.Descendants(0); len(d) != n {
		t.Errorf("%d descendants", len(d))
	}
	g.Edge(n-1, 0)
	c := g.Cycles()
	if len(c) != 1 || len(c[0].Members) != n || len(c[0].Loop) != n || c[0].Loop[1] != n-1 {
		t.Errorf("%d cycles", len(c))
	}
}

// layers is a graph of n vertices in layers of a hundred, each vertex waiting for two of the layer before.
func layers(n int) *dag.Graph {
	g := dag.New(n)
	for v := 100; v < n; v++ {
		g.Edge(v-100, v)
		g.Edge(v-1-v%100-(v*31)%100, v)
	}
	return g
}

func BenchmarkGraph(b *testing.B) {
	one := func(int) float64 { return 1 }
	for _, n := range []int{1_000, 10_000, 100_000} {
		g := layers(n)
		cyclic := layers(n)
		cyclic.Edge(n-1, 99)
		for _, c := range []struct {
			name string
			do   func()
		}{
			{"build", func() { layers(n) }},
			{"order", func() { g.Order() }},
			{"cycles", func() { cyclic.Cycles() }},
			{"path", func() { g.CriticalPath(one) }},
			{"descendants", func() { g.Descendants(0, 1, 2, 3, 4) }},
			{"dedupe", func() { g.Dedupe() }},
		} {
			b.Run(fmt.Sprintf("%s/%d", c.name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					c.do()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/vertex")
			})
		}
	}
}
