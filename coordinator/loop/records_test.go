package loop

import (
	"testing"
	"time"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/graph/dag"
	"github.com/millipede-iac/millipede/test/stage/numbers"
)

// commits follows the records of a world: how many transactions they took, and how long after its outcome a record was
// committed at most, by vertex.
type commits struct {
	transactions int
	late         map[int]time.Duration
}

func followCommits(w *world) *commits {
	c := &commits{late: map[int]time.Duration{}}
	ended := map[int]time.Time{}
	w.log = func(at time.Time, in Input, actions []Action) {
		if e, ok := in.(Completed); ok {
			ended[e.Vertex] = at
		}
		records := 0
		for _, a := range actions {
			if a, ok := a.(Commit); ok {
				records++
				c.late[a.Record.Vertex] = at.Sub(ended[a.Record.Vertex])
			}
		}
		if records > 0 {
			c.transactions++
		}
	}
	return c
}

func TestOutcomesThatNothingWaitsForShareTransactions(t *testing.T) {
	p := numbers.New(t, 400)
	p.Stored = true
	w := newWorld(t, 1, p)
	w.latency = func(string) time.Duration { return 4 * time.Millisecond }
	c := followCommits(w)
	w.boot()
	w.finish()
	w.stateAgrees()
	if len(c.late) != 400 || c.transactions > 400/gatherAtMost+4 {
		t.Errorf("%d records took %d transactions", len(c.late), c.transactions)
	}
}

func TestAnOutcomeIsCommittedAtOnceForTheVertexThatWaitsForIt(t *testing.T) {
	edges := []dag.Edge{{Before: 21, After: 22}, {Before: 20, After: 22}}
	for v := range 19 {
		edges = append(edges, dag.Edge{Before: v, After: v + 1})
	}
	p := numbers.New(t, 30, edges...)
	p.Stored = true
	w := newWorld(t, 1, p)
	w.latency = func(name string) time.Duration {
		if name == "29/1" {
			return 10 * time.Second // so that a call is under way all the time
		}
		return 20 * time.Millisecond
	}
	c := followCommits(w)
	w.boot()
	w.finish()
	w.stateAgrees()
	waited := 0
	for v, late := range c.late {
		switch {
		case late > TickEvery:
			t.Errorf("the outcome of %d was committed after %s", v, late)
		case late > 0:
			waited++
			if v < 19 {
				t.Errorf("the outcome of %d, which %d waits for, was committed after %s", v, v+1, late)
			}
		}
	}
	if last := max(c.late[20], c.late[21]); last > 0 && c.late[20] > 0 && c.late[21] > 0 {
		t.Errorf("the last of two outcomes that a vertex waits for was committed after %s", last)
	}
	if waited == 0 {
		t.Error("no outcome was gathered")
	}
}

func TestARunOfTheFastLaneThatCrashesAtAnyStepIsResumedToTheSameEnd(t *testing.T) {
	for at := 1; ; at++ {
		p := numbers.New(t, 14, dag.Edge{Before: 0, After: 12}, dag.Edge{Before: 1, After: 12},
			dag.Edge{Before: 12, After: 13})
		p.Lane, p.Stored = program.Fast, true
		w := newWorld(t, uint64(at), p)
		over := w.crashAt(at)
		w.stateAgrees()
		if t.Failed() {
			t.Fatalf("a crash at step %d; the journal:\n%s", at, dump(w.events))
		}
		if over {
			break
		}
	}
}

func TestAnInterruptedRunCommitsTheOutcomesThatItHasGathered(t *testing.T) {
	p := numbers.New(t, 40)
	p.Stored = true
	w := newWorld(t, 1, p)
	w.latency = func(name string) time.Duration {
		if name == "0/1" {
			return 10 * time.Second
		}
		return 20 * time.Millisecond
	}
	c := followCommits(w)
	w.boot()
	w.later(90*time.Millisecond, func() {
		gathered := len(w.loop.records.gathered)
		before := len(c.late)
		w.send(Abandoned{})
		if gathered == 0 || len(c.late) != before+gathered || len(w.loop.records.gathered) > 0 {
			t.Errorf("of %d gathered records, %d were committed", gathered, len(c.late)-before)
		}
	})
	w.finish()
}

func TestRecordsAreGatheredWhileMoreAreToCome(t *testing.T) {
	for name, c := range map[string]struct {
		records int
		mayWait bool
		change  func(rs *records)
		calls   int
		ticked  bool
		want    bool
	}{
		"one that may wait, while a call is under way": {1, true, nil, 1, false, false},
		"one that may not":               {1, false, nil, 1, false, true},
		"at the tick":                    {1, true, nil, 1, true, true},
		"when no call is under way":      {1, true, nil, 0, false, true},
		"when nothing more starts":       {1, true, func(rs *records) { rs.toStop() }, 1, false, true},
		"almost too many":                {gatherAtMost - 1, true, nil, 1, false, false},
		"as many as a transaction takes": {gatherAtMost, true, nil, 1, false, true},
	} {
		rs := records{common: at(0)}
		for v := range c.records {
			rs.add(Record{Vertex: v}, c.mayWait)
		}
		if c.change != nil {
			c.change(&rs)
		}
		rs.flush(c.calls, c.ticked)
		if (len(rs.acts) == c.records) != c.want || (len(rs.gathered) == 0) != c.want || rs.saving != c.records {
			t.Errorf("%s: %d of %d are committed", name, len(rs.acts), c.records)
		}
		for v, a := range rs.acts {
			if a.(Commit).Record.Vertex != v {
				t.Errorf("%s: %+v is the %d-th", name, a, v)
			}
		}
	}
}

func TestOneRecordThatMayNotWaitTakesTheOthersWithIt(t *testing.T) {
	rs := records{common: at(0)}
	rs.add(Record{Vertex: 0}, true)
	rs.add(Record{Vertex: 1}, false)
	rs.add(Record{Vertex: 2}, true)
	if rs.flush(1, false); len(rs.acts) != 3 {
		t.Errorf("%d of 3 are committed", len(rs.acts))
	}
	rs.add(Record{Vertex: 3}, true)
	if rs.flush(1, false); len(rs.acts) != 3 {
		t.Error("the next one does not wait")
	}
}
