package loop

import (
	"fmt"
	"testing"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/graph/dag"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/test/stage/numbers"
)

func TestASafeRunDoesEachOperationOnceAndStoresItsEffect(t *testing.T) {
	for seed := range uint64(20) {
		p := numbers.Random(t, 60, seed)
		p.Lane, p.Stored, p.Ops = program.Safe, true, 1+int(seed%2)
		p.Hidden = func(v int) bool { return v%4 == 1 }
		w := newWorld(t, seed, p)
		w.boot()
		w.finish()
		w.stateAgrees()
		w.once()
		if w.most > 4 {
			t.Errorf("%d operations at a time, the limit is 4", w.most)
		}
	}
}

// An operation of the fast lane left nothing in the journal. A run that was resumed while the provisioners of a
// terraform_data were in progress started with the creation again, took the result of the provisioners for that of the
// creation, and reported "the worker's answer holds nothing. This is a bug". Hence the fast operations here.
func TestARunThatCrashesAtAnyStepIsResumedToTheSameEnd(t *testing.T) {
	for kind := range 3 {
		ops, quick := min(kind+1, 2), kind == 2
		for at := 1; ; at++ {
			p := numbers.New(t, 6, dag.Edge{Before: 0, After: 1}, dag.Edge{Before: 1, After: 2},
				dag.Edge{Before: 0, After: 3}, dag.Edge{Before: 3, After: 4})
			p.Lane, p.Stored, p.Ops, p.Quick = program.Safe, true, ops, quick
			p.Hidden = func(v int) bool { return v == 3 }
			w := newWorld(t, uint64(at), p)
			over := w.crashAt(at)
			w.stateAgrees()
			w.once()
			if t.Failed() {
				t.Fatalf("with %d operations each, the first quick: %t; a crash at step %d; the journal:\n%s", ops,
					quick, at, dump(w.events))
			}
			if over {
				break
			}
		}
	}
}

func TestARunThatCrashesAgainAndAgainComesToItsEnd(t *testing.T) {
	for seed := range uint64(60) {
		p := numbers.Random(t, 40, seed)
		p.Lane, p.Stored, p.Ops = program.Safe, true, 1+int(seed%2)
		p.Hidden = func(v int) bool { return v%5 == 2 }
		w := newWorld(t, seed, p)
		w.change = func(s *Settings) { s.OwnSlots = seed%4 > 1 }
		w.boot()
		for !w.run(1 + w.chance.IntN(200)) {
			w.crash()
			w.restore()
			w.boot()
		}
		w.stateAgrees()
		w.once()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func dump(events []journal.Event) (text string) {
	for _, e := range events {
		text += fmt.Sprintf("%d of %d, attempt %s, phase %d\n", e.Kind, e.Vertex, e.Attempt, e.Phase)
	}
	return text
}
