package sched_test

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/millipede-iac/millipede/graph/dag"
	"github.com/millipede-iac/millipede/graph/sched"
)

// timeline has the running vertices, the first to end on top.
type timeline []running

type running struct {
	end    float64
	vertex int
}

func (l timeline) Len() int           { return len(l) }
func (l timeline) Less(i, j int) bool { return l[i].end < l[j].end }
func (l timeline) Swap(i, j int)      { l[i], l[j] = l[j], l[i] }
func (l *timeline) Push(x any)        { *l = append(*l, x.(running)) }
func (l *timeline) Pop() any {
	last := (*l)[len(*l)-1]
	*l = (*l)[:len(*l)-1]
	return last
}

// run executes all vertices of the scheduler with a simulated clock, at most parallelism at a time, and returns the
// makespan. expand, if it is not nil, is called when a vertex ends, before it counts as done.
func run(s *sched.Scheduler, parallelism int, latency func(v int) float64, expand func(v int)) (now float64) {
	var line timeline
	for {
		for len(line) < parallelism {
			v, ok := s.Pop()
			if !ok {
				break
			}
			heap.Push(&line, running{now + latency(v), v})
		}
		if len(line) == 0 {
			return now
		}
		next := heap.Pop(&line).(running)
		now = next.end
		if expand != nil {
			expand(next.vertex)
		}
		s.Done(next.vertex)
	}
}

// shapes are the graphs of test/bench, as edges and latencies.
var shapes = map[string]func(chance *rand.Rand) (*dag.Graph, []float64){
	"wide": func(chance *rand.Rand) (*dag.Graph, []float64) {
		return dag.New(2000), latencies(chance, 2000)
	},
	"layers with two references each": func(chance *rand.Rand) (*dag.Graph, []float64) {
		const n, width = 2000, 200
		g := dag.New(n)
		for v := width; v < n; v++ {
			layer := v/width*width - width
			g.Edge(layer+chance.IntN(width), v)
			g.Edge(layer+chance.IntN(width), v)
		}
		return g, latencies(chance, n)
	},
	"one long chain beside much small work": func(chance *rand.Rand) (*dag.Graph, []float64) {
		const n, chain = 2000, 150
		g := dag.New(n)
		for v := n - chain; v < n-1; v++ {
			g.Edge(v, v+1)
		}
		return g, latencies(chance, n)
	},
	"modules, each a small estate of its own": func(chance *rand.Rand) (*dag.Graph, []float64) {
		const modules, size = 50, 40
		g := dag.New(modules * size)
		for v := range modules * size {
			if in := v % size; in > 0 {
				g.Edge(v-in+chance.IntN(in), v)
			}
		}
		return g, latencies(chance, modules*size)
	},
	"any order": func(chance *rand.Rand) (*dag.Graph, []float64) {
		const n = 2000
		g := dag.New(n)
		for v := 1; v < n; v++ {
			for range chance.IntN(3) {
				g.Edge(chance.IntN(v), v)
			}
		}
		return g, latencies(chance, n)
	},
}

// latencies returns durations as in a cloud: most calls are short, some take 20 times as long.
func latencies(chance *rand.Rand, n int) []float64 {
	l := make([]float64, n)
	for v := range l {
		l[v] = 0.05 + chance.ExpFloat64()
		if chance.IntN(50) == 0 {
			l[v] += 20 * chance.Float64()
		}
	}
	return l
}

// bound returns a lower bound of the makespan of any schedule.
func bound(g *dag.Graph, latency []float64, parallelism int) float64 {
	var work float64
	for _, l := range latency {
		work += l
	}
	return max(slices.Max(g.CriticalPath(func(v int) float64 { return latency[v] })), work/float64(parallelism))
}

func TestTheMakespanIsWithinATenthOfWhatNoScheduleCanBeat(t *testing.T) {
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(5) {
				for _, parallelism := range []int{1, 10, 64} {
					g, latency := shape(rand.New(rand.NewPCG(seed, 3)))
					best := bound(g, latency, parallelism)
					known := func(v int) float64 { return latency[v] }
					s := sched.New(g, sched.Traits{Weight: known})
					if took := run(s, parallelism, known, nil); took > 1.10*best {
						t.Errorf("seed %d, parallelism %d: %.1f, which is %.2f times the bound", seed, parallelism,
							took, took/best)
					}
				}
			}
		})
	}
}

// TestTheMakespanHoldsWhileTheGraphGrows expands resources into instances during the run: a vertex expands resource r,
// its instances come between it and the resource's closing vertex, for which the expansions of the resources that refer
// to it wait.
func TestTheMakespanHoldsWhileTheGraphGrows(t *testing.T) {
	for seed := range uint64(5) {
		chance := rand.New(rand.NewPCG(seed, 4))
		const resources = 100
		g := dag.New(2 * resources) // expand r is 2r, close r is 2r+1
		for r := range resources {
			g.Edge(2*r, 2*r+1)
			if r > 0 && r%20 > 0 {
				g.Edge(2*(r-1-chance.IntN(r%20))+1, 2*r)
			}
		}
		latency := make([]float64, 2*resources)
		weight := func(v int) float64 { return latency[v] }
		s := sched.New(g, sched.Traits{Weight: weight})
		expand := func(v int) {
			if v >= 2*resources || v%2 == 1 {
				return
			}
			n, first := chance.IntN(60), s.Len()
			latency = append(latency, latencies(chance, n)...)
			var edges []dag.Edge
			for i := first; i < first+n; i++ {
				edges = append(edges, dag.Edge{Before: v, After: i}, dag.Edge{Before: i, After: v + 1})
			}
			s.Append(n, edges)
			check(t, s)
		}
		took := run(s, 10, weight, expand)
		if best := bound(g, latency, 10); took > 1.10*best {
			t.Errorf("seed %d: %.1f, which is %.2f times the bound", seed, took, took/best)
		}
	}
}

func TestAnExpansionOfEachVertexInTurnStaysLinear(t *testing.T) {
	// A long chain waits, and single appends each make the path behind it one vertex longer: every append raises every
	// priority of the chain, and would visit all of it if the raises were not propagated in steps.
	const n = 20_000
	g := dag.New(n)
	for v := range n - 1 {
		g.Edge(v, v+1)
	}
	s := sched.New(g, sched.Traits{})
	for v := n - 1; v < 2*n-1; v++ {
		s.Append(1, pairs{{v, v + 1}}.edges())
	}
	if took := run(s, 10, func(int) float64 { return 1 }, nil); took != 2*n {
		t.Errorf("makespan %v, want %v", took, 2*n)
	}
	check(t, s)
}

func BenchmarkScheduler(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		for _, c := range []struct {
			name string
			do   func()
		}{
			{"wide", func() { drain(sched.New(dag.New(n), sched.Traits{})) }},
			{"layers", func() {
				g := dag.New(n)
				for v := 100; v < n; v++ {
					g.Edge(v-100, v)
					g.Edge(v-1-v%100-(v*31)%100, v)
				}
				drain(sched.New(g, sched.Traits{Weight: func(v int) float64 { return float64(v * 7 % 13) }}))
			}},
			{"expansion", func() {
				s := sched.New(dag.New(2), sched.Traits{})
				s.Take(0)
				edges := make([]dag.Edge, 0, 2*n)
				for v := 2; v < n+2; v++ {
					edges = append(edges, dag.Edge{Before: 0, After: v}, dag.Edge{Before: v, After: 1})
				}
				s.Append(n, edges)
				s.Done(0)
				drain(s)
			}},
			{"failure", func() {
				g := dag.New(n)
				for v := 1; v < n; v++ {
					g.Edge((v-1)/2, v)
				}
				s := sched.New(g, sched.Traits{})
				s.Take(0)
				s.Fail(0)
			}},
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

// drain executes all vertices, ten at a time.
func drain(s *sched.Scheduler) {
	var running []int
	for {
		for len(running) < 10 {
			v, ok := s.Pop()
			if !ok {
				break
			}
			running = append(running, v)
		}
		if len(running) == 0 {
			return
		}
		s.Done(running[0])
		running = running[1:]
	}
}
