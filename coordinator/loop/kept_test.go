package loop

import (
	"testing"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

// An operation in doubt held a permit of the limit that all pools share for the rest of its run, and for a day after
// that: with enough of them in one region, no other region could work.
func TestAnOperationInDoubtKeepsPermitsThatPoolsShareForItsTermAlone(t *testing.T) {
	for name, c := range map[string]struct {
		ofOnePool, named bool
		held             int
	}{
		"of a limit that pools share":                         {false, false, 0},
		"of a limit of its own pool":                          {true, false, 1},
		"of a shared limit, while a worker names the attempt": {false, true, 1},
	} {
		w := orphaned(t)
		w.latency = func(string) time.Duration { return 2 * time.Minute } // vertex 2 keeps the run going
		w.change = func(s *Settings) {
			s.DoubtTerm, s.OfOnePool = 50*time.Second, func(string) bool { return c.ofOnePool }
		}
		w.boot()
		for at := 46 * time.Second; c.named && at < 2*time.Minute; at += 10 * time.Second {
			w.later(at, func() {
				for id, claim := range w.claims {
					if claim.Worker == "dead" {
						w.send(Beat{wire.Heartbeat{Worker: "back", Pools: []string{w.tasks[id].ref.Pool},
							Attempts: []wire.AttemptID{id}}})
					}
				}
			})
		}
		w.later(45*time.Second, func() {
			if len(w.loop.permits.kept) != 1 {
				t.Errorf("%s: before its term has passed, the run keeps permits of %d operations", name,
					len(w.loop.permits.kept))
			}
		})
		w.finish()
		if len(w.held) != c.held || len(w.loop.Held()) != c.held {
			t.Errorf("%s: after its term, the held permits are %v; the run keeps %v", name, w.held, w.loop.Held())
		}
		w.crash()
		w.restore()
		w.boot()
		if got := len(w.loop.permits.reclaims); got != c.held {
			t.Errorf("%s: a resumed run requests %d permits again", name, got)
		}
		w.finish()
		w.once()
	}
}
