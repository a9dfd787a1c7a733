package sched_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/millipede-iac/millipede/graph/dag"
	"github.com/millipede-iac/millipede/graph/sched"
)

// pairs are edges, each written as {before, after}.
type pairs [][2]int

func (p pairs) edges() (all []dag.Edge) {
	for _, e := range p {
		all = append(all, dag.Edge{Before: e[0], After: e[1]})
	}
	return all
}

// build returns a scheduler over n vertices with the edges.
func build(t testing.TB, tr sched.Traits, n int, p pairs) *sched.Scheduler {
	g := dag.New(n)
	for _, e := range p {
		g.Edge(e[0], e[1])
	}
	s := sched.New(g, tr)
	check(t, s)
	return s
}

func check(t testing.TB, s *sched.Scheduler) {
	t.Helper()
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
}

// pop pops a vertex, and fails the test if it is another one than expected.
func pop(t testing.TB, s *sched.Scheduler, want int) {
	t.Helper()
	if v, ok := s.Pop(); !ok || v != want {
		t.Fatalf("popped %d (%v), want %d", v, ok, want)
	}
	check(t, s)
}

func statuses(s *sched.Scheduler) []sched.Status {
	var all []sched.Status
	for v := range s.Len() {
		all = append(all, s.Status(v))
	}
	return all
}

func mustPanic(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if got := recover(); got != want {
			t.Errorf("panic %v, want %q", got, want)
		}
	}()
	f()
}

func TestTheHeaviestWayToTheEndIsPoppedFirstThenTheLowest(t *testing.T) {
	weights := []float64{1, 1, 1, 5, 1}
	s := build(t, sched.Traits{Weight: func(v int) float64 { return weights[v] }}, 5, pairs{{2, 3}})
	if p := s.Priority(2); p != 6 {
		t.Errorf("priority %v, want 6", p)
	}
	for _, want := range []int{2, 0, 1, 4} {
		pop(t, s, want)
	}
	if _, ok := s.Pop(); ok {
		t.Error("3 was popped before 2 was done")
	}
	if ready := s.Done(2); !slices.Equal(ready, []int{3}) {
		t.Errorf("ready: %v", ready)
	}
	pop(t, s, 3)
}

func TestAFailureSkipsAllThatDependsOnItAndNothingElse(t *testing.T) {
	//  0 -> 1 -> 3 -> 4
	//  2 ------> 3     5
	s := build(t, sched.Traits{}, 6, pairs{{0, 1}, {1, 3}, {2, 3}, {3, 4}, {0, 3}})
	pop(t, s, 0)
	skips := s.Fail(0)
	check(t, s)
	if want := []sched.Skip{{1, 0}, {3, 0}, {4, 0}}; !slices.Equal(skips, want) {
		t.Errorf("skipped %v, want %v", skips, want)
	}
	pop(t, s, 2)
	if ready := s.Done(2); ready != nil {
		t.Errorf("ready: %v", ready)
	}
	pop(t, s, 5)
	s.Done(5)
	check(t, s)
	if want := (sched.Counts{Done: 2, Failed: 1, Skipped: 3}); s.Counts() != want || !s.Finished() {
		t.Errorf("counts %+v", s.Counts())
	}
	if s.Because(4) != 0 || s.Because(5) != 5 {
		t.Errorf("because %d and %d", s.Because(4), s.Because(5))
	}
}

func TestTheFirstFailureIsTheReasonOfASkip(t *testing.T) {
	s := build(t, sched.Traits{}, 4, pairs{{0, 2}, {1, 2}, {2, 3}})
	pop(t, s, 0)
	pop(t, s, 1)
	s.Fail(1)
	if skips := s.Fail(0); skips != nil {
		t.Errorf("skipped %v again", skips)
	}
	check(t, s)
	if s.Because(3) != 1 {
		t.Errorf("because of %d", s.Because(3))
	}
}

func TestAVertexCanBeSkippedWhileWaitingReadyOrRunning(t *testing.T) {
	s := build(t, sched.Traits{}, 5, pairs{{0, 1}, {1, 2}})
	if skips := s.Skip(1); !slices.Equal(skips, []sched.Skip{{2, 1}}) {
		t.Errorf("skipped %v", skips)
	}
	s.Skip(3)
	pop(t, s, 0)
	s.Skip(0)
	check(t, s)
	want := []sched.Status{sched.Skipped, sched.Skipped, sched.Skipped, sched.Skipped, sched.Ready}
	if got := statuses(s); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestAVertexThatRunsAnywayWaitsForOutcomesOfEveryKind(t *testing.T) {
	const open, use, other, close, after = 0, 1, 2, 3, 4
	s := build(t, sched.Traits{Anyway: func(v int) bool { return v == close }}, 5, pairs{{open, use}, {open, close},
		{use, close}, {use, close},
		{other, close}, {close, after}})
	pop(t, s, open)
	if skips := s.Fail(open); !slices.Equal(skips, []sched.Skip{{use, open}}) {
		t.Errorf("skipped %v", skips)
	}
	check(t, s)
	pop(t, s, other)
	if _, ok := s.Pop(); ok {
		t.Error("popped while another one that it waits for was running")
	}
	s.Fail(other)
	pop(t, s, close)
	s.Done(close)
	pop(t, s, after)
}

func TestClassesDoNotBlockEachOther(t *testing.T) {
	class := []int{7, 7, 2, 2}
	weight := []float64{4, 3, 2, 1}
	s := build(t, sched.Traits{
		Class:  func(v int) int { return class[v] },
		Weight: func(v int) float64 { return weight[v] },
	}, 4, nil)
	if got := s.ReadyClasses(); !slices.Equal(got, []int{7, 2}) {
		t.Errorf("classes %v", got)
	}
	if v, ok := s.PopClass(2); v != 2 || !ok {
		t.Errorf("popped %d (%v) of class 2", v, ok)
	}
	if v, ok := s.PopWhere(func(c int) bool { return c != 7 }); v != 3 || !ok {
		t.Errorf("popped %d (%v) outside class 7", v, ok)
	}
	if _, ok := s.PopClass(2); ok || s.ReadyIn(2) != 0 || s.ReadyIn(7) != 2 {
		t.Errorf("%d and %d ready", s.ReadyIn(2), s.ReadyIn(7))
	}
	for _, none := range []int{-1, 0, 99} {
		if _, ok := s.PopClass(none); ok {
			t.Errorf("popped from class %d", none)
		}
	}
	check(t, s)
	class[2] = 9
	s.Requeue(2)
	check(t, s)
	if got := s.ReadyClasses(); !slices.Equal(got, []int{7, 9}) {
		t.Errorf("classes %v after the class of 2 became known", got)
	}
	pop(t, s, 0)
}

func TestAnExpansionGetsBetweenAVertexAndWhatWaitsForIt(t *testing.T) {
	const expand, dependent = 0, 1
	s := build(t, sched.Traits{}, 2, pairs{{expand, dependent}})
	pop(t, s, expand)
	if skips := s.Append(2, pairs{{expand, 2}, {expand, 3}, {2, dependent}, {3, dependent}}.edges()); skips != nil {
		t.Errorf("skipped %v", skips)
	}
	check(t, s)
	if ready := s.Done(expand); !slices.Equal(ready, []int{2, 3}) {
		t.Errorf("ready: %v", ready)
	}
	pop(t, s, 2)
	pop(t, s, 3)
	s.Done(3)
	if s.Status(dependent) != sched.Waiting {
		t.Errorf("the dependent is %s with an instance running", s.Status(dependent))
	}
	s.Done(2)
	pop(t, s, dependent)
}

func TestAnEdgeFromADoneVertexIsSatisfiedAndOneIntoAReadyVertexTakesItBack(t *testing.T) {
	s := build(t, sched.Traits{}, 2, nil)
	pop(t, s, 0)
	s.Done(0)
	s.Append(2, pairs{{0, 2}, {0, 3}, {3, 1}}.edges())
	check(t, s)
	want := []sched.Status{sched.Done, sched.Waiting, sched.Ready, sched.Ready}
	if got := statuses(s); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	pop(t, s, 3) // the heaviest way: 3, then 1
	pop(t, s, 2)
	s.Done(3)
	pop(t, s, 1)
}

func TestWhatIsAppendedAfterAFailureIsSkippedAtOnce(t *testing.T) {
	s := build(t, sched.Traits{Anyway: func(v int) bool { return v == 6 }}, 3, pairs{{0, 1}})
	pop(t, s, 0)
	s.Fail(0)
	// 2 is ready, and now depends on 4, which depends on 1, which was skipped because of 0.
	skips := s.Append(4, pairs{{1, 4}, {4, 2}, {2, 5}, {1, 5}, {4, 6}, {1, 6}, {3, 6}}.edges())
	check(t, s)
	if want := []sched.Skip{{4, 0}, {2, 0}, {5, 0}}; !slices.Equal(skips, want) {
		t.Errorf("skipped %v, want %v", skips, want)
	}
	pop(t, s, 3)
	s.Done(3)
	pop(t, s, 6)
}

func TestAnAppendedTailRaisesWhatLeadsToIt(t *testing.T) {
	const n = 500
	g := dag.New(n + 1) // a chain of n, and one heavier vertex beside it
	for v := range n - 1 {
		g.Edge(v, v+1)
	}
	weight := func(v int) float64 {
		switch {
		case v == n:
			return n + 1
		case v > n:
			return 1000
		}
		return 1
	}
	s := sched.New(g, sched.Traits{Weight: weight})
	s.Append(1, pairs{{n - 1, n + 1}}.edges())
	check(t, s)
	for steps := 0; s.Priority(0) != n+1000; steps++ {
		if steps > n {
			t.Fatalf("after %d steps the priority of the first is %v", steps, s.Priority(0))
		}
		s.PopClass(99) // nothing is there, but it is a step
		check(t, s)
	}
	pop(t, s, 0)
}

func TestReplayTakesReadyVerticesByName(t *testing.T) {
	s := build(t, sched.Traits{}, 5, pairs{{0, 4}})
	s.Take(3)
	s.Take(0)
	check(t, s)
	s.Done(0)
	s.Take(4)
	check(t, s)
	pop(t, s, 1)
}

func TestCallsThatTheStatusForbidsPanicAndNameBoth(t *testing.T) {
	s := build(t, sched.Traits{}, 3, pairs{{0, 1}})
	pop(t, s, 0)
	mustPanic(t, "sched: vertex 1 is waiting, so it cannot become done", func() { s.Done(1) })
	mustPanic(t, "sched: vertex 1 is waiting, so it cannot become running", func() { s.Take(1) })
	mustPanic(t, "sched: vertex 2 is ready, so it cannot become failed", func() { s.Fail(2) })
	mustPanic(t, "sched: vertex 1 is waiting, so it cannot be queued again", func() { s.Requeue(1) })
	mustPanic(t, "sched: vertex 0 is running, so it cannot be made to wait for vertex 2",
		func() { s.Append(0, pairs{{2, 0}}.edges()) })
	s.Done(0)
	mustPanic(t, "sched: vertex 0 is done, so it cannot become done", func() { s.Done(0) })
	mustPanic(t, "sched: the weight of vertex 0 is -1", func() {
		sched.New(dag.New(1), sched.Traits{Weight: func(int) float64 { return -1 }})
	})
	check(t, s)
}

func TestAnAppendedCircleIsAStallThatCheckReports(t *testing.T) {
	s := build(t, sched.Traits{}, 1, nil)
	pop(t, s, 0)
	s.Append(2, pairs{{1, 2}, {2, 1}}.edges())
	s.Done(0)
	if !s.Stalled() || s.Finished() || s.Check() == nil {
		t.Errorf("stalled %v, finished %v, check %v", s.Stalled(), s.Finished(), s.Check())
	}
}

// TestAGraphThatComputesANumber runs graphs in which each vertex computes a number from the numbers of the vertices
// that it waits for, with completions in random order. In any order, the last number must be the one that a plain walk
// computes.
func TestAGraphThatComputesANumber(t *testing.T) {
	for seed := range uint64(20) {
		chance := rand.New(rand.NewPCG(seed, 0))
		const n = 2_000
		g := dag.New(n)
		for v := 1; v < n; v++ {
			for range chance.IntN(4) {
				g.Edge(chance.IntN(v), v)
			}
		}
		compute := func(v int, numbers []uint64) uint64 {
			sum := uint64(v) + 1
			for b := range g.Before(v) {
				if numbers[b] == 0 {
					t.Fatalf("seed %d: %d ran before %d", seed, v, b)
				}
				sum = sum*31 + numbers[b]
			}
			return sum | 1
		}
		want := make([]uint64, n)
		for v := range n { // edges lead upwards only
			want[v] = compute(v, want)
		}
		got := make([]uint64, n)
		s := sched.New(g, sched.Traits{Class: func(v int) int { return v % 3 }})
		var running []int
		for !s.Finished() {
			if v, ok := s.Pop(); ok && len(running) < 50 {
				running = append(running, v)
				continue
			} else if ok {
				s.Requeue(v)
			}
			i := chance.IntN(len(running))
			v := running[i]
			running[i] = running[len(running)-1]
			running = running[:len(running)-1]
			got[v] = compute(v, got)
			s.Done(v)
		}
		check(t, s)
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: the numbers differ", seed)
		}
	}
}
