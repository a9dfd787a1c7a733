package loop

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/graph/dag"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/test/stage/numbers"
	"github.com/millipede-iac/millipede/wire"
)

func heard(w *world, what string) bool {
	return slices.ContainsFunc(w.seen, func(s string) bool { return strings.HasPrefix(s, what) })
}

func wantHeard(t *testing.T, w *world, what ...string) {
	t.Helper()
	for _, s := range what {
		if !heard(w, s) {
			t.Errorf("the observer did not get %q, only:\n%s", s, strings.Join(w.seen, "\n"))
			return
		}
	}
}

// safely returns a world with one safe operation for each vertex.
func safely(t *testing.T, n int, edges ...dag.Edge) *world {
	p := numbers.New(t, n, edges...)
	p.Lane, p.Stored = program.Safe, true
	return newWorld(t, 1, p)
}

func kinds(w *world, vertex int) (list []journal.Kind) {
	for _, e := range w.events {
		if e.Vertex == vertex {
			list = append(list, e.Kind)
		}
	}
	return list
}

func TestAFailedVertexSkipsWhatDependsOnItAndNothingElse(t *testing.T) {
	w := safely(t, 5, dag.Edge{Before: 0, After: 1}, dag.Edge{Before: 1, After: 2}, dag.Edge{Before: 3, After: 4})
	w.program.Fails = func(v int) bool { return v == 0 }
	w.boot()
	w.finish()
	wantHeard(t, w, "error: Told to fail", "failed 0", "skipped 1 because of number.n0", "skipped 2 because of "+
		"number.n0", "finished 4")
	if got := kinds(w, 2); !slices.Equal(got, []journal.Kind{journal.Skip}) {
		t.Errorf("the journal has the events %v of a skipped vertex", got)
	}
	if got := w.events[len(w.events)-1]; got.Vertex != 4 || got.Kind != journal.Finish {
		t.Errorf("the last event is %v", got)
	}
	out := w.loop.Outcome()
	if out.Status != "failed" || len(out.Failed) != 1 || len(out.Skipped) != 2 || out.Counts.Done != 2 {
		t.Errorf("%+v", out)
	}
}

func TestALostCallIsRepeatedWithPausesThatGrow(t *testing.T) {
	w := newWorld(t, 1, numbers.New(t, 3))
	w.loseCall = func(name string, n int) error {
		if name == "1/1" && n <= 3 {
			return wire.ErrLostCall
		}
		return nil
	}
	w.boot()
	began := w.now
	w.finish()
	w.program.Check()
	if w.calls["1/1"] != 4 || w.calls["0/1"] != 1 || w.now.Sub(began) < 1500*time.Millisecond {
		t.Errorf("%v calls, after %s", w.calls, w.now.Sub(began))
	}
}

func TestATaskThatEndsEachWorkerFailsInTheEnd(t *testing.T) {
	w := newWorld(t, 1, numbers.New(t, 2))
	w.loseCall = func(name string, n int) error {
		if name == "1/1" {
			return wire.ErrLostCall
		}
		return nil
	}
	w.boot()
	w.finish()
	wantHeard(t, w, "error: Failed to reach a worker", "failed 1", "finished 0")
	if w.calls["1/1"] != maxLost+1 {
		t.Errorf("%d calls", w.calls["1/1"])
	}
}

func TestACallThatCannotBeMadeFailsAtOnce(t *testing.T) {
	w := newWorld(t, 1, numbers.New(t, 1))
	w.loseCall = func(string, int) error { return errors.New("the message is too large") }
	w.boot()
	w.finish()
	wantHeard(t, w, "failed 0")
}

func TestWithoutAConnectionACallIsRepeatedAsLongAsItTakes(t *testing.T) {
	w := newWorld(t, 1, numbers.New(t, 1))
	w.loseCall = func(_ string, n int) error {
		if n < 50 {
			return wire.ErrDisconnected
		}
		return nil
	}
	w.boot()
	w.finish()
	w.program.Check()
}

func TestAVertexWhosePoolHasNoWorkerWaitsVisiblyWhileOthersRun(t *testing.T) {
	for _, lane := range []program.Lane{program.Fast, program.Safe} {
		w := safely(t, 40)
		w.program.Lane = lane
		w.change = func(s *Settings) {
			s.Place = func(p program.Placement, _ func(string) bool) (string, []wire.Limit) {
				return p.Address, []wire.Limit{{Name: "default", Slots: 4}}
			}
		}
		w.program.Place = func(v int) program.Placement {
			if v < 39 {
				return program.Placement{Address: "eu"} // more than the loop prepares ahead
			}
			return program.Placement{Address: "default"}
		}
		eu := false
		w.loseCall = func(name string, _ int) error {
			if name != "39/1" && !eu {
				return wire.ErrNoWorker
			}
			return nil
		}
		w.boot()
		w.later(10*time.Second, func() {
			wantHeard(t, w, "waiting [{eu  39 number.n", "finished 39")
			if got := len(w.held); got > 0 {
				t.Errorf("%d permits are held while nothing can run", got)
			}
			eu = true
			w.send(Beat{wire.Heartbeat{Worker: "w2", Pools: []string{"eu"}, Protocol: wire.ProtocolVersion}})
		})
		w.finish()
		w.program.Check()
		if last := w.seen[len(w.seen)-1]; heard(w, "waiting []") == false {
			t.Errorf("the end of the wait was not reported; the last message is %s", last)
		}
	}
}

func TestAWorkerOfAnotherVersionIsGivenNothing(t *testing.T) {
	w := safely(t, 1)
	w.silent = true
	w.boot()
	w.send(Beat{wire.Heartbeat{Worker: "old", Pools: []string{"default"}, Protocol: wire.ProtocolVersion + 1}})
	w.later(5*time.Second, func() {
		wantHeard(t, w, "warning: Worker of another version", "waiting [{default  1 number.n0")
		w.silent = false
	})
	w.finish()
	w.stateAgrees()
}

func TestAnAttemptThatWasNotStartedIsFollowedByAnother(t *testing.T) {
	w := safely(t, 1)
	tries := 0
	w.answer = func(task *wire.Task) *wire.Result {
		if tries++; tries < 3 {
			w.began[task.Function.Name]--
			return &wire.Result{NotStarted: true}
		}
		return numbers.Compute(task)
	}
	w.boot()
	w.finish()
	w.stateAgrees()
	want := []journal.Kind{journal.Want, journal.Dispatch, journal.Retract, journal.Dispatch, journal.Retract,
		journal.Dispatch, journal.Finish}
	if got := kinds(w, 0); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

func TestAnAttemptThatNoWorkerCanStartFails(t *testing.T) {
	w := safely(t, 1)
	w.answer = func(*wire.Task) *wire.Result {
		return &wire.Result{NotStarted: true, Diagnostics: wire.DiagsToWire(diag.Errors("Unreadable task", "", nil))}
	}
	w.boot()
	w.finish()
	wantHeard(t, w, "error: Unreadable task", "failed 0")
	if got := kinds(w, 0); got[len(got)-1] != journal.Fail {
		t.Errorf("%v", got)
	}
}

func TestATaskThatAWorkerGivesUpIsFollowedByAnotherOrFailsInTheEnd(t *testing.T) {
	for _, times := range []int{1, maxLost + 1} {
		w := safely(t, 1)
		given := 0
		w.work = func(w *world, id wire.AttemptID) bool {
			if given == times {
				return true
			}
			given++
			w.claims[id] = wire.Claim{Nonce: "t", Worker: "keyless", Tombstone: true, Reason: "worker keyless has " +
				"not been given the key of the run for 1m0s"}
			return false
		}
		w.boot()
		w.finish()
		wantHeard(t, w, "warning: Operation not started")
		out := w.loop.Outcome()
		if want := map[bool]string{true: "failed", false: "done"}[times > maxLost]; out.Status != want ||
			len(w.held) != 0 {
			t.Errorf("after a worker without the key has refused the task %d times the run is %s, and %d permits are held",
				given, out.Status, len(w.held))
		}
		w.once()
	}
}

func TestATaskThatNobodyClaimsIsPublishedAgain(t *testing.T) {
	w := safely(t, 1)
	published := 0
	w.boot()
	lose := w.loop.Attempt
	w.loop.Settings.Attempt = func() wire.AttemptID {
		id := lose()
		w.tasks[id] = &taskInStream{} // the stream says that it has it, but nobody gets it
		published++
		w.later(15*time.Second, func() { wantHeard(t, w, "started 0") })
		w.later(9*time.Second, func() { delete(w.tasks, id) })
		return id
	}
	w.finish()
	w.stateAgrees()
	w.once()
	if published != 1 {
		t.Errorf("%d attempts were made", published)
	}
}

func TestASecondResultUnderAnotherClaimRaisesAnAlarmToo(t *testing.T) {
	w := safely(t, 2, dag.Edge{Before: 0, After: 1})
	w.boot()
	w.later(500*time.Millisecond, func() {})
	first := true
	w.answer = func(task *wire.Task) *wire.Result {
		if first {
			first = false
			again := numbers.Compute(task)
			again.Attempt, again.Nonce, again.Worker, again.Pool = task.Attempt, "second", "x", "default"
			w.arrange(time.Second, 0, func() {
				// the register was lost and written again
				w.claims[task.Attempt] = wire.Claim{Nonce: "second", Worker: "x"}
				w.report(w.tasks[task.Attempt].ref, again)
			})
		}
		return numbers.Compute(task)
	}
	w.latency = func(string) time.Duration { return 2 * time.Second }
	w.finish()
	w.stateAgrees()
	wantHeard(t, w, "error: The protocol between coordinator and workers was violated")
}

func TestProgressIsToldEveryTenSeconds(t *testing.T) {
	w := safely(t, 1)
	w.latency = func(string) time.Duration { return 35 * time.Second }
	w.boot()
	w.finish()
	wantHeard(t, w, "still 0 10s", "still 0 20s", "still 0 30s", "finished 0")
	if heard(w, "still 0 40s") {
		t.Error("a vertex that took 35 s is shown as running after 40 s")
	}
}
