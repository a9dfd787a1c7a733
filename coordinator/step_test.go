package coordinator

import (
	"fmt"
	"testing"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/graph/dag"
	"github.com/millipede-iac/millipede/state/journal"
)

func TestASafeRunDoesEachOperationOnceAndStoresItsEffect(t *testing.T) {
	for seed := range uint64(20) {
		p := randomNumbers(t, 60, seed)
		p.lane, p.stored, p.ops = program.Safe, true, 1+int(seed%2)
		p.hidden = func(v int) bool { return v%4 == 1 }
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

func TestARunThatCrashesAtAnyStepIsResumedToTheSameEnd(t *testing.T) {
	for ops := 1; ops <= 2; ops++ {
		for at := 1; ; at++ {
			p := newNumbers(t, 6, dag.Edge{Before: 0, After: 1}, dag.Edge{Before: 1, After: 2}, dag.Edge{Before: 0, After: 3}, dag.Edge{Before: 3, After: 4})
			p.lane, p.stored, p.ops = program.Safe, true, ops
			p.hidden = func(v int) bool { return v == 3 }
			w := newWorld(t, uint64(at), p)
			w.boot()
			over := w.run(at)
			if !over {
				w.crash()
				w.restore()
				w.boot()
				w.finish()
			}
			w.stateAgrees()
			w.once()
			if t.Failed() {
				t.Fatalf("with %d operations each, a crash at step %d; the journal:\n%s", ops, at, dump(w.events))
			}
			if over {
				break
			}
		}
	}
}

func TestARunThatCrashesAgainAndAgainComesToItsEnd(t *testing.T) {
	for seed := range uint64(60) {
		p := randomNumbers(t, 40, seed)
		p.lane, p.stored, p.ops = program.Safe, true, 1+int(seed%2)
		p.hidden = func(v int) bool { return v%5 == 2 }
		w := newWorld(t, seed, p)
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
