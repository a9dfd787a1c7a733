package loop

import (
	"fmt"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/lang/diag"
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

// A worker of the version before speaks for itself alone: the loop compared versions for equality, so a pool whose
// workers were replaced one after the other had no worker that both programs knew.
func TestAPoolOfTwoVersionsIsUsedInTheOneThatMostSlotsSpeak(t *testing.T) {
	own := wire.Versions{Lowest: 6, Highest: 7}
	older := wire.Heartbeat{Worker: "older", Pools: []string{"eu"}, Slots: 2, Protocol: 6, Lowest: 5}
	newer := wire.Heartbeat{Worker: "newer", Pools: []string{"eu"}, Slots: 3, Protocol: 8, Lowest: 7}
	both := wire.Heartbeat{Worker: "both", Pools: []string{"eu"}, Slots: 4, Protocol: 7, Lowest: 6}
	stranger := wire.Heartbeat{Worker: "stranger", Pools: []string{"eu"}, Slots: 50, Protocol: 5}
	for name, c := range map[string]struct {
		workers              []wire.Heartbeat
		version, live, slots int
	}{
		"none":                           {nil, 0, 0, 0},
		"one of the version before":      {[]wire.Heartbeat{older}, 6, 1, 2},
		"one of both":                    {[]wire.Heartbeat{both}, 7, 1, 4},
		"one of each":                    {[]wire.Heartbeat{older, both}, 6, 2, 6},
		"one of the next, too":           {[]wire.Heartbeat{older, both, newer}, 7, 2, 7},
		"some that have none in common":  {[]wire.Heartbeat{older, newer}, 7, 1, 3},
		"one that nobody can talk to":    {[]wire.Heartbeat{stranger}, 0, 0, 0},
		"such a one, and one of version": {[]wire.Heartbeat{stranger, older}, 6, 1, 2},
	} {
		ps := newPermits(&common{}, &Settings{})
		ps.versions = own
		var all []*worker
		for _, h := range c.workers {
			w := &worker{Heartbeat: h}
			all = append(all, w)
			ps.staff(w, h.Unsuited(own) == "")
		}
		if p := ps.poolOf("eu"); p.version != c.version || p.live != c.live || p.slots != c.slots {
			t.Errorf("%s: version %d, %d workers, %d slots", name, p.version, p.live, p.slots)
		}
		for _, w := range all {
			ps.staff(w, false)
		}
		if p := ps.poolOf("eu"); p.version != 0 || p.live != 0 || p.slots != 0 {
			t.Errorf("%s: when they are gone: version %d, %d workers, %d slots", name, p.version, p.live, p.slots)
		}
		if v := ps.versionOf("eu"); v != own.Highest {
			t.Errorf("%s: a pool without a worker is spoken to in version %d", name, v)
		}
	}
}

func TestARunWhosePoolHasOnlyWorkersOfAnotherVersionSaysWhichAndWhatToDo(t *testing.T) {
	w := safely(t, 1)
	w.silent = true
	w.boot()
	w.send(Beat{wire.Heartbeat{Worker: "old", Pools: []string{"default"}, Protocol: 3, Version: "0.0.9"}})
	const why = "worker old is Millipede 0.0.9 and speaks version 3 of the protocol, this program version 6: replace " +
		"this worker by one of the version of this program"
	w.later(5*time.Second, func() {
		wantHeard(t, w, "warning: Worker of another version", "waiting [{default  1 number.n0 [] 0 [] ["+why)
		w.silent = false
	})
	w.finish()
	w.stateAgrees()
}

// A worker of version 5 claims a task that it cannot read, and reports that it has not begun. The vertex failed with
// that, although another worker of the pool could have done it.
func TestATaskThatAWorkerOfVersion5CouldNotReadGoesToAnother(t *testing.T) {
	for _, c := range []struct {
		times int
		fails bool
	}{{3, false}, {maxPassedOver + 1, true}} {
		w := safely(t, 1)
		tries := 0
		w.answer = func(task *wire.Task) *wire.Result {
			if tries++; tries <= c.times {
				w.began[task.Function.Name]--
				return &wire.Result{Protocol: 5, NotStarted: true,
					Diagnostics: wire.DiagsToWire(diag.Errors("Operation not started", "It cannot read the task.", nil))}
			}
			return numbers.Compute(task)
		}
		w.boot()
		w.finish()
		if c.fails {
			wantHeard(t, w, "failed 0", "error: Operation not started")
			continue
		}
		w.stateAgrees()
	}
}
