package sched_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/millipede-iac/millipede/graph/dag"
	"github.com/millipede-iac/millipede/graph/sched"
)

// model is a scheduler that is simple enough to be obviously right: after each event it visits all vertices and edges
// until nothing changes any more.
type model struct {
	edges  []dag.Edge
	status []sched.Status
	anyway func(v int) bool
}

func (m *model) append(n int, edges []dag.Edge) {
	m.status = append(m.status, make([]sched.Status, n)...)
	m.edges = append(m.edges, edges...)
	m.settle()
}

func (m *model) set(v int, to sched.Status) {
	m.status[v] = to
	m.settle()
}

func (m *model) settle() {
	for changed := true; changed; {
		changed = false
		for v, st := range m.status {
			if st != sched.Waiting && st != sched.Ready {
				continue
			}
			to := sched.Ready
			for _, e := range m.edges {
				if e.After != v {
					continue
				}
				before := m.status[e.Before]
				if (before == sched.Failed || before == sched.Skipped) && !m.anyway(v) {
					to = sched.Skipped
					break
				}
				if !before.Settled() {
					to = sched.Waiting
				}
			}
			if to != st {
				m.status[v] = to
				changed = true
			}
		}
	}
}

func (m *model) with(st ...sched.Status) (all []int) {
	for v, s := range m.status {
		if slices.Contains(st, s) {
			all = append(all, v)
		}
	}
	return all
}

func TestTheSchedulerDoesWhatANaiveOneDoes(t *testing.T) {
	for seed := range uint64(400) {
		simulate(t, seed)
	}
}

// simulate drives scheduler and model with the same random events until all is settled.
func simulate(t *testing.T, seed uint64) {
	chance := rand.New(rand.NewPCG(seed, 2))
	var place []float64 // a hidden order that keeps the graph acyclic, by vertex
	class := func(v int) int { return (v*v + int(seed)) % 4 }
	anyway := func(v int) bool { return v%7 == 3 }

	m := &model{anyway: anyway}
	var s *sched.Scheduler
	grow := func(n int) {
		first := len(place)
		for range n {
			place = append(place, chance.Float64())
		}
		var edges []dag.Edge
		for range 2 * n {
			a, b := chance.IntN(len(place)), chance.IntN(len(place))
			if place[a] > place[b] {
				a, b = b, a
			}
			started := b < first && (m.status[b] == sched.Running || m.status[b] == sched.Done ||
				m.status[b] == sched.Failed)
			if a != b && !started {
				edges = append(edges, dag.Edge{Before: a, After: b})
			}
		}
		old := slices.Clone(m.status)
		m.append(n, edges)
		if s == nil {
			g := dag.New(n)
			for _, e := range edges {
				g.Edge(e.Before, e.After)
			}
			s = sched.New(g, sched.Traits{Class: class, Anyway: anyway,
				Weight: func(v int) float64 { return float64(v*v%5) + 0.3 }})
			return
		}
		skips := s.Append(n, edges)
		compareSkips(t, seed, append(old, make([]sched.Status, n)...), m, skips, -1)
	}
	grow(5 + chance.IntN(20))

	for step := 0; !s.Finished(); step++ {
		if err := s.Check(); err != nil {
			t.Fatalf("seed %d, step %d: %v", seed, step, err)
		}
		for v, want := range m.status {
			if got := s.Status(v); got != want {
				t.Fatalf("seed %d, step %d: %d is %s, want %s", seed, step, v, got, want)
			}
		}
		running := m.with(sched.Running)
		pick := func(of []int) int { return of[chance.IntN(len(of))] }
		old := slices.Clone(m.status)
		switch what := chance.IntN(20); {
		case what < 1 && len(place) < 60:
			grow(chance.IntN(6))
		case what < 2:
			v := pick(m.with(sched.Waiting, sched.Ready, sched.Running))
			m.set(v, sched.Skipped)
			compareSkips(t, seed, old, m, s.Skip(v), v)
		case what < 11:
			admitted := chance.IntN(16)
			v, ok := s.PopWhere(func(c int) bool { return admitted>>c&1 == 1 })
			comparePop(t, seed, s, m, func(u int) bool { return admitted>>class(u)&1 == 1 }, v, ok)
			if ok {
				m.set(v, sched.Running)
			}
		case len(running) == 0:
		case what < 12:
			v := pick(running)
			s.Requeue(v)
			m.set(v, sched.Ready)
		case what < 13:
			v := pick(running)
			m.set(v, sched.Failed)
			compareSkips(t, seed, old, m, s.Fail(v), v)
		default:
			v := pick(running)
			m.set(v, sched.Done)
			ready := s.Done(v)
			slices.Sort(ready)
			var want []int
			for u, st := range m.status {
				if st == sched.Ready && old[u] == sched.Waiting {
					want = append(want, u)
				}
			}
			if !slices.Equal(ready, want) {
				t.Fatalf("seed %d, step %d: ready by %d: %v, want %v", seed, step, v, ready, want)
			}
		}
	}
	if err := s.Check(); err != nil {
		t.Fatalf("seed %d, at the end: %v", seed, err)
	}
}

// comparePop checks that v is the ready vertex of an admitted class that comes first.
func comparePop(t *testing.T, seed uint64, s *sched.Scheduler, m *model, admitted func(v int) bool, v int, ok bool) {
	t.Helper()
	best := -1
	for _, u := range m.with(sched.Ready) {
		if admitted(u) && (best < 0 || s.Priority(u) > s.Priority(best)) {
			best = u
		}
	}
	if ok != (best >= 0) || ok && v != best {
		t.Fatalf("seed %d: popped %d (%v), want %d", seed, v, ok, best)
	}
}

// compareSkips checks that the list has the vertices that the model skipped in addition to v, each once.
func compareSkips(t *testing.T, seed uint64, old []sched.Status, m *model, skips []sched.Skip, v int) {
	t.Helper()
	var got, want []int
	for _, sk := range skips {
		got = append(got, sk.Vertex)
		if v >= 0 && sk.Because != v {
			t.Fatalf("seed %d: %d was skipped because of %d, want %d", seed, sk.Vertex, sk.Because, v)
		}
	}
	for u, st := range m.status {
		if st == sched.Skipped && old[u] != sched.Skipped && u != v {
			want = append(want, u)
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Fatalf("seed %d: skipped %v, want %v", seed, got, want)
	}
}
