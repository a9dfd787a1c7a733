package loop

import (
	"fmt"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/test/stage/numbers"
	"github.com/millipede-iac/millipede/wire"
)

// In a pool with a worker of another version, whoever took the call decided: the older worker answered that it could
// not read it, and the vertex failed.
func TestACallThatAWorkerOfAnotherVersionTookIsMadeAgain(t *testing.T) {
	for _, c := range []struct {
		passes int // how many calls the worker of another version takes
		fails  bool
	}{{3, false}, {maxPassedOver, false}, {maxPassedOver + 1, true}} {
		w := newWorld(t, 1, numbers.New(t, 3))
		w.loseCall = func(name string, n int) error {
			if name == "1/1" && n <= c.passes {
				return fmt.Errorf("asking a worker: %w", &wire.VersionError{})
			}
			return nil
		}
		w.boot()
		began := w.now
		w.finish()
		if !c.fails {
			w.program.Check()
			if took := w.now.Sub(began); w.calls["1/1"] != c.passes+1 || took < time.Duration(c.passes)*TickEvery {
				t.Errorf("%d passes: %v calls, after %s", c.passes, w.calls, took)
			}
			continue
		}
		wantHeard(t, w, "error: Failed to reach a worker", "failed 1", "finished 0", "finished 2")
	}
}
