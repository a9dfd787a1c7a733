package loop

import (
	"strconv"
	"testing"
	"time"
)

// On a busy machine plans said that they wait for a permit of the limit "pool/default". Other programs show what a plan
// says. They waited a moment for permits of another limit, which nobody else used, and all slots of the pool were free.
func TestAWaitIsToldIfItLastsAndSaysWhatIsMissing(t *testing.T) {
	for _, c := range []struct {
		held time.Duration
		told bool
	}{{time.Second, false}, {5 * time.Second, true}} {
		w := safely(t, 2)
		w.change = func(s *Settings) { s.Sole = true }
		var others []PermitKey
		for i := range 4 {
			key := PermitKey{"default", "other-" + strconv.Itoa(i)}
			others = append(others, key)
			w.held[key] = true
		}
		w.boot()
		w.later(c.held, func() {
			for _, key := range others {
				delete(w.held, key)
			}
			w.admit("default")
		})
		w.finish()
		w.program.Check()
		if heard(w, "waiting [{ default 2 number.n0") != c.told || heard(w, "waiting [{ pool/default") {
			t.Errorf("permits were held for %s, and the observer got %q", c.held, w.seen)
		}
	}
}
