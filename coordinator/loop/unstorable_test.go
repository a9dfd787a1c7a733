package loop

import (
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/graph/dag"
	"github.com/millipede-iac/millipede/test/stage/numbers"
)

// An answer that the program could not store made its vertex fail, and the message was acknowledged: the result was in
// no state and in no doubt, and the next run repeated the operation. A crash at any step must not lose it either.
func TestAnAnswerThatCannotBeKeptIsADoubtWithWhatIsKnownOfIt(t *testing.T) {
	for at := 1; ; at++ {
		p := numbers.New(t, 3, dag.Edge{Before: 0, After: 1})
		p.Lane, p.Stored = program.Safe, true
		p.Unkept = func(v int) bool { return v == 0 }
		w := newWorld(t, uint64(at), p)
		over := w.crashAt(at)
		w.once()
		if o := w.outputs["n0"]; o == nil || !strings.HasPrefix(o.Value.AsString(), "in doubt: a") ||
			!strings.HasSuffix(o.Value.AsString(), ", answered {}") {
			t.Errorf("for the vertex whose response cannot be stored, the state has %v", o)
		}
		if w.outputs["n1"] != nil || w.outputs["n2"] == nil {
			t.Errorf("the state has %v", w.outputs)
		}
		if len(w.held) > 0 {
			t.Errorf("%d permits are held, although all operations have ended", len(w.held))
		}
		out := w.loop.Outcome()
		if len(out.InDoubt) != 1 || out.InDoubt[0].Answer == nil && over || out.Status != "interrupted" {
			t.Errorf("the outcome is %+v", out)
		}
		if t.Failed() {
			t.Fatalf("with a crash at step %d; the journal:\n%s", at, dump(w.events))
		}
		if over {
			break
		}
	}
}
