package loop

import (
	"maps"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/graph/dag"
	"github.com/millipede-iac/millipede/state/journal"
)

func TestATableCountsWhatIsUnderWay(t *testing.T) {
	tb := aTable(3, dag.Edge{Before: 0, After: 2})
	for _, step := range []struct {
		v     int
		to    phase
		under int // of all vertices
	}{{0, queued, 1}, {0, intending, 2}, {0, publishing, 2}, {0, running, 2}, {0, doubtful, 1}, {0, settled, 1},
		{1, concluding, 1}, {1, settled, 0}} {
		before := tb.vertices[step.v].phase
		n := tb.counts[step.to]
		tb.move(step.v, step.to)
		if tb.under != step.under || tb.counts[step.to] != n+1 || tb.vertices[step.v].phase != step.to {
			t.Errorf("from %s to %s: %d are under way, the counts are %v", before, step.to, tb.under, tb.counts)
		}
	}
	if got := recovered(func() { tb.move(2, running) }); !strings.Contains(got, "vertex 2 is idle") {
		t.Errorf("a vertex that waits runs: %s", got)
	}
	if tb.counts != [phases]int{idle: 1, settled: 2} {
		t.Errorf("the counts are %v", tb.counts)
	}
}

func TestAnEventIsThatOfItsVertexAndFollowsTheLastOne(t *testing.T) {
	tb := aTable(1)
	w := tb.vertices[0].work
	w.attempt, w.pool, w.worker = "a1", "eu", "w1"
	tb.event(0, journal.Want)
	e := tb.event(0, journal.Dispatch)
	if e.Address != "a" || e.Attempt != "a1" || e.Pool != "eu" || e.Worker != "w1" || !e.At.Equal(tb.now) {
		t.Errorf("%+v", e)
	}
	if tb.vertices[0].status != journal.Dispatched || !tb.openEnded() {
		t.Errorf("the journal says %s", tb.vertices[0].status)
	}
	if got := recovered(func() { tb.event(0, journal.Want) }); !strings.Contains(got, "vertex 0") {
		t.Errorf("a dispatched vertex is wanted again: %q", got)
	}
	tb.event(0, journal.Finish)
	if tb.openEnded() {
		t.Error("an operation that has ended has no outcome")
	}
}

func TestTasksThatNobodyHasClaimedAreCountedByPool(t *testing.T) {
	tb := aTable(4)
	for v, c := range []struct {
		pool, worker string
		to           []phase
	}{{"eu", "", []phase{intending, publishing, running}}, {"eu", "w1", []phase{intending, publishing, running}},
		{"eu", "", []phase{intending, publishing}}, {"us", "", []phase{intending, publishing, running}}} {
		for _, to := range c.to {
			tb.move(v, to)
		}
		tb.vertices[v].work.pool, tb.vertices[v].work.worker = c.pool, c.worker
		tb.out = append(tb.out, v)
	}
	if got := tb.unclaimed(); !maps.Equal(got, map[string]int{"eu": 1, "us": 1}) {
		t.Errorf("%v", got)
	}
}
