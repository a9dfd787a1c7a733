package loop

import (
	"testing"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

// The second operation of a vertex inherited what was known of the first one. The first was in doubt, and known to have
// ended; then its result came. When the second went into doubt too, it counted as ended: its permits were released
// although it could still be running, and nobody waited for its result.
func TestASecondOperationInDoubtIsNotTakenForTheFirst(t *testing.T) {
	w := orphaned(t)
	w.program.Ops = 2
	w.boot()
	w.later(time.Second, func() {
		lateResult(w, func(r *wire.Result) { r.Doubt, r.Function = "the worker stopped", nil })
	})
	w.finish()
	if len(w.loop.Held()) != 0 {
		t.Fatal("the permits of an operation that has ended are held")
	}
	w.crash()
	w.restore()
	lateResult(w, nil)
	w.boot()
	began := w.now
	w.finish()
	out := w.loop.Outcome()
	if len(out.InDoubt) != 1 || out.InDoubt[0].Attempt == "" {
		t.Fatalf("%+v", out)
	}
	if took := w.now.Sub(began); took < 30*time.Second {
		t.Errorf("the run waited only %s for a late result", took)
	}
	if len(w.loop.Held()) != 1 || len(w.held) != 1 {
		t.Errorf("%d permits are held by the run, %d in all: the operation may be running", len(w.loop.Held()), len(w.held))
	}
}

// A later operation of an adopted vertex was published although the run was told to stop while its intent was being
// recorded.
func TestALaterOperationOfAnAdoptedVertexIsRetractedByAStop(t *testing.T) {
	w := orphaned(t)
	w.program.Ops = 2
	w.boot()
	w.finish() // in doubt
	w.crash()
	w.restore()
	lateResult(w, nil)
	w.boot()
	stopped := false
	for !stopped && !w.run(1) {
		if w.loop.vertices[0].phase == intending {
			w.send(Interrupted{})
			stopped = true
		}
	}
	if !stopped {
		t.Fatal("no intent of a second operation was seen")
	}
	w.finish()
	for id, posted := range w.tasks {
		if name := posted.task.Function.Name; name == "0/2" {
			t.Errorf("%s was published as attempt %s after the stop", name, id)
		}
	}
}
