package loop

import (
	"fmt"
	"hash/fnv"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/graph/dag"
	"github.com/millipede-iac/millipede/test/stage/numbers"
	"github.com/millipede-iac/millipede/wire"
)

// The remaining time was the sum of the expected durations, which are a second each in a first run, scaled by the
// durations of the operations that had already ended: the short ones. A first apply of 35 objects that take 2 to 6 s
// each showed "about 1s left" from beginning to end.
func TestTheEstimateComesTrue(t *testing.T) {
	spread := func(name string) time.Duration { // 2 to 6 s, by name
		h := fnv.New32a()
		_, _ = fmt.Fprint(h, name) // a hash takes everything
		return 2*time.Second + time.Duration(h.Sum32()%4000)*time.Millisecond
	}
	chain := func(n int) (edges []dag.Edge) {
		for v := 1; v < n; v++ {
			edges = append(edges, dag.Edge{Before: v - 1, After: v})
		}
		return edges
	}
	for name, c := range map[string]struct {
		n        int
		edges    []dag.Edge
		latency  func(string) time.Duration
		recorded float64
		slots    int
		limit    int // the permits of a limit; 0: there is none
		each     int // one vertex in so many needs it
	}{
		"35 objects of 2 to 6 s, ten at a time":           {n: 35, latency: spread, slots: 10},
		"200 objects of 2 to 6 s, twenty at a time":       {n: 200, latency: spread, slots: 20},
		"a chain of 20, of which one at a time can go on": {n: 20, edges: chain(20), latency: spread, slots: 10},
		"objects that take ten times as long as before":   {n: 60, latency: spread, recorded: 0.4, slots: 10},
		"objects that take a tenth of what they took":     {n: 60, latency: spread, recorded: 40, slots: 10},
		// The work behind a limit was divided by all operations that ran, and so seemed to take a tenth of its time.
		"a limit of one for all":                           {n: 30, latency: spread, slots: 10, limit: 1, each: 1},
		"a limit of one for one in ten":                    {n: 400, latency: spread, slots: 20, limit: 1, each: 10},
		"a limit of two for one in four":                   {n: 80, latency: spread, slots: 10, limit: 2, each: 4},
		"a limit of three for one in two":                  {n: 120, latency: spread, slots: 12, limit: 3, each: 2},
		"a chain beside many, which bounds the end of all": {n: 60, edges: chain(12), latency: spread, slots: 10},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 3, numbers.New(t, c.n, c.edges...))
			w.program.Lane, w.program.Stored = program.Safe, true
			w.latency, w.unchecked = c.latency, true
			answer := w.answer
			w.answer = func(task *wire.Task) *wire.Result {
				r := answer(task)
				r.Started, r.Ended = w.now.Add(-c.latency(task.Function.Name)), w.now
				return r
			}
			w.change = func(s *Settings) {
				s.Slots, s.Place = c.slots, (*placement.Rules)(nil).Placer(c.slots)
				w.program.Place = func(v int) program.Placement {
					if c.limit > 0 && v%c.each == 0 {
						return program.Placement{Address: "narrow"}
					}
					return program.Placement{}
				}
				if within := s.Place; c.limit > 0 {
					s.Place = func(p program.Placement, live func(string) bool) (string, []wire.Limit) {
						pool, limits := within(p, live)
						if p.Address == "narrow" {
							limits = append([]wire.Limit{{Name: "api", Slots: c.limit}}, limits...)
						}
						return pool, limits
					}
				}
				if c.recorded > 0 {
					s.Weight = func(program.Description) float64 { return c.recorded }
					s.Recorded = func(program.Description) bool { return true }
				}
			}
			type guess struct{ at, left time.Duration }
			var guesses []guess
			var began time.Time
			w.log = func(at time.Time, _ Input, actions []Action) {
				for _, a := range actions {
					if s, ok := a.(Shown); ok && s.Kind == ShownCounts {
						guesses = append(guesses, guess{at.Sub(began), s.Counts.Left})
					}
				}
			}
			w.boot()
			began = w.now
			w.finish()
			whole := guesses[len(guesses)-1].at
			// The error, as a fraction of the total time, in the first and in the last third.
			worst := [3]float64{}
			sums, ns := [3]float64{}, [3]int{}
			for _, g := range guesses {
				if g.left == 0 {
					continue // nothing is known yet, or nothing is left
				}
				third := min(2, int(3*g.at/whole))
				off := (g.left - (whole - g.at)).Abs().Seconds() / whole.Seconds()
				worst[third] = max(worst[third], off)
				sums[third] += off
				ns[third]++
			}
			t.Logf("%s: whole %s, worst %.2f, mean %.2f %.2f %.2f", name, whole, worst, sums[0]/float64(max(1, ns[0])),
				sums[1]/float64(max(1, ns[1])), sums[2]/float64(max(1, ns[2])))
			if ns[1] == 0 || ns[2] == 0 {
				t.Fatal("there is no estimate")
			}
			if worst[1] > 0.35 || worst[2] > 0.2 {
				t.Errorf("the error of the estimate is %.0f %% of the total time in the middle, and %.0f %% towards the end",
					100*worst[1], 100*worst[2])
			}
			if sums[2]/float64(ns[2]) > sums[1]/float64(ns[1])+0.02 {
				t.Error("the error of the estimate grows")
			}
		})
	}
}

func TestTheRemainingTimeIsTheLongestOfItsBounds(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(ta *tally, qs *queues, api *limit)
		running int
		want    time.Duration
	}{
		"nothing is known":        {func(*tally, *queues, *limit) {}, 1, 0},
		"an earlier run took 2 s": {func(ta *tally, _ *queues, _ *limit) { ta.kinds[0].recorded = 2 }, 1, 8 * time.Second},
		"two at a time":           {func(ta *tally, _ *queues, _ *limit) { ta.kinds[0].recorded = 2 }, 2, 4 * time.Second},
		"this run took 3 s for each": {func(ta *tally, _ *queues, _ *limit) {
			ta.kinds[0] = kind{recorded: 2, left: 4, ended: 2, took: 6}
		}, 2, 6 * time.Second},
		"one is under way for 10 s": {func(ta *tally, qs *queues, _ *limit) {
			ta.kinds[0].recorded = 2
			qs.vertices[0].work.called = qs.now.Add(-10 * time.Second)
			qs.out = []int{0}
		}, 1, 19 * time.Second}, // each takes (2+10)/2, and that one a tenth of its age more
		"a limit of one for all": {func(ta *tally, qs *queues, api *limit) {
			ta.kinds[0].recorded, api.slots = 2, 1
			aClass(qs, "eu", api).places = nil
			for v := range 4 {
				qs.vertices[v].class = firstClass
				ta.queuedIn(&qs.vertices[v], 0)
			}
		}, 4, 8 * time.Second},
		"a chain": {func(ta *tally, qs *queues, _ *limit) {
			*qs.table = *aTable(4, dag.Edge{Before: 0, After: 1}, dag.Edge{Before: 1, After: 2}, dag.Edge{Before: 2, After: 3})
			aClass(qs, "eu")
			qs.enter(0, "eu")
			ta.kinds[0].recorded = 2
		}, 4, 8 * time.Second},
	} {
		qs, api, ta := newQueues(aTable(4)), &limit{slots: 9}, tally{}
		for v := range 4 {
			ta.add(1)
			qs.vertices[v].kind = ta.kindOf("number create", 0)
		}
		c.change(&ta, &qs, api)
		if got := ta.estimate(&qs, []*limit{api}, c.running); got != c.want {
			t.Errorf("%s: %s are left, not %s", name, got, c.want)
		}
	}
}
