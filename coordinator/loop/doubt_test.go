package loop

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/graph/dag"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/test/stage/numbers"
	"github.com/millipede-iac/millipede/wire"
)

// orphaned returns a world in which the worker that claims the task of vertex 0 is silent from then on; vertex 1
// depends on 0, vertex 2 on nothing.
func orphaned(t *testing.T) *world {
	w := safely(t, 3, dag.Edge{Before: 0, After: 1})
	w.work = func(w *world, id wire.AttemptID) bool {
		if !strings.HasPrefix(w.tasks[id].task.Function.Name, "0/") {
			return true
		}
		w.claims[id] = wire.Claim{Nonce: "n-dead", Worker: "dead"}
		return false
	}
	return w
}

// lateResult makes the late result of the worker that was considered dead.
func lateResult(w *world, change func(*wire.Result)) {
	for id, c := range w.claims {
		if c.Worker != "dead" {
			continue
		}
		r := numbers.Compute(w.tasks[id].task)
		r.Attempt, r.Nonce, r.Worker, r.Pool = id, c.Nonce, "dead", w.tasks[id].ref.Pool
		if change != nil {
			change(r)
		}
		w.report(w.tasks[id].ref, r)
	}
}

func TestTheAttemptOfADeadWorkerIsInDoubtAndNotRepeated(t *testing.T) {
	w := orphaned(t)
	w.boot()
	began := w.now
	w.finish()
	wantHeard(t, w, "in doubt 0: worker dead has not been heard of", "skipped 1 because of number.n0", "finished 2")
	if got := kinds(w, 0); !slices.Equal(got, []journal.Kind{journal.Want, journal.Dispatch, journal.Suspect}) {
		t.Errorf("%v", got)
	}
	if o := w.outputs["n0"]; o == nil || !strings.HasPrefix(o.Value.AsString(), "in doubt: a") {
		t.Errorf("the state has %v", o)
	}
	if len(w.held) != 1 || len(w.loop.Held()) != 1 {
		t.Errorf("%d permits are held", len(w.held))
	}
	if took := w.now.Sub(began); took < 30*time.Second || took > 60*time.Second {
		t.Errorf("the run waited %s for a late result", took)
	}
	out := w.loop.Outcome()
	if out.Status != "interrupted" || len(out.InDoubt) != 1 || out.InDoubt[0].Worker != "dead" {
		t.Errorf("%+v", out)
	}
}

func TestARunWhosePermitsAreAllHeldByDoubtsEnds(t *testing.T) {
	w := safely(t, 6)
	w.work = func(w *world, id wire.AttemptID) bool {
		w.claims[id] = wire.Claim{Nonce: "n-dead", Worker: "dead"}
		return false
	}
	w.boot()
	w.later(15*time.Second, func() { // the run waits for late results, and says why nothing goes on
		wantHeard(t, w, "waiting [{ default 2 number.n4 [number.n0 number.n1 number.n2 number.n3] 4 [] []}]")
	})
	w.finish()
	out := w.loop.Outcome()
	if out.Status != "interrupted" || len(out.InDoubt) != 4 || len(w.tasks) != 4 {
		t.Errorf("%d tasks were published; %+v", len(w.tasks), out)
	}
	for v := range 4 {
		if want := fmt.Sprintf("coordinator runs resolve 'number.n%d'", v); !strings.Contains(stuckOver(out), want) {
			t.Errorf("%q does not name %q", stuckOver(out), want)
		}
	}
	if len(w.held) != 4 {
		t.Errorf("%d permits are held", len(w.held))
	}
}

// stuckOver returns the message of a run that ended with vertices that wait for permits; empty if there is none.
func stuckOver(out Outcome) string {
	for _, d := range out.Diags {
		if d.Summary == "Nothing more can be started" {
			return d.Detail
		}
	}
	return ""
}

// A plan waited without a message, and held the lock of the state, which the user needs in order to resolve the doubts.
func TestAPlanWhosePermitsAreAllHeldByDoubtsOfEarlierRunsSaysSoAndEnds(t *testing.T) {
	for _, doubts := range []int{0, 3, 4} {
		w := newWorld(t, 1, numbers.New(t, 6))
		w.slots["default"] = 4
		for i := range 4 {
			w.held[PermitKey{"default", fmt.Sprint("earlier-", i)}] = true
			if i < doubts {
				w.blockers = append(w.blockers, fmt.Sprintf("a.b[%d]", i))
			}
		}
		w.boot()
		w.later(time.Minute, func() {
			maps.DeleteFunc(w.held, func(k PermitKey, _ bool) bool { return k.Limit == "default" })
			w.admit("default")
		})
		began := w.now
		w.finish()
		out := w.loop.Outcome()
		if got := stuckOver(out); doubts < 4 {
			if got != "" || out.Status != "done" {
				t.Errorf("with %d doubts: %s, %q", doubts, out.Status, got)
			}
		} else if !strings.Contains(got, "coordinator runs resolve 'a.b[3]'") || !out.Interrupted ||
			w.now.Sub(began) > 10*time.Second {
			t.Errorf("%+v after %s", out, w.now.Sub(began))
		}
		if doubts > 0 {
			wantHeard(t, w, fmt.Sprintf("waiting [{ default 6 number.n4 %v 4 [] []}]", w.blockers))
		}
	}
}

func TestALateResultResolvesADoubt(t *testing.T) {
	w := orphaned(t)
	w.boot()
	w.later(25*time.Second, func() {
		wantHeard(t, w, "in doubt 0")
		lateResult(w, nil)
	})
	w.finish()
	w.stateAgrees()
	wantHeard(t, w, "finished 0", "finished 1")
	if len(w.loop.Held()) != 0 {
		t.Error("a permit is still held")
	}
}

func TestALateResultThatComesAfterTheRunResolvesTheDoubtOnResume(t *testing.T) {
	w := orphaned(t)
	w.boot()
	w.finish()
	w.crash()
	w.restore()
	lateResult(w, nil)
	w.boot()
	w.finish()
	w.stateAgrees()
	w.once()
	if got := kinds(w, 0); got[len(got)-1] != journal.Finish {
		t.Errorf("%v", got)
	}
}

func TestAWorkerThatSaysThatItDoesNotKnowFreesThePermit(t *testing.T) {
	w := orphaned(t)
	w.boot()
	began := w.now
	w.later(time.Second, func() {
		lateResult(w, func(r *wire.Result) {
			r.Doubt, r.Function = "the worker stopped",
				nil
		})
	})
	w.finish()
	wantHeard(t, w, "in doubt 0: the worker stopped", "skipped 1")
	if took := w.now.Sub(began); took > 3*time.Second {
		t.Errorf("the run waited %s although no result could arrive", took)
	}
	if len(w.loop.Held()) != 0 {
		t.Errorf("permits are still held: %v", w.loop.Held())
	}

	// A resumed run re-acquired the permits of operations that had ended long ago, and held them until the user resolved
	// the doubts. If there were as many as the limit has slots, not even a plan, which resolves doubts by reading, could
	// continue.
	w.crash()
	w.restore()
	w.boot()
	w.finish()
	if len(w.loop.Held()) != 0 || len(w.held) != 0 {
		t.Errorf("the permits were requested again: %v, %v", w.loop.Held(), w.held)
	}
}

func TestAnAttemptThatItsWorkerHasForgottenIsInDoubt(t *testing.T) {
	w := orphaned(t)
	w.boot()
	var say func()
	say = func() {
		w.send(Beat{wire.Heartbeat{Worker: "dead", Pools: []string{"default"}, Draining: true,
			Protocol: wire.ProtocolVersion}})
		w.later(time.Second, say)
	}
	say()
	w.later(8*time.Second, func() {
		if heard(w, "in doubt") {
			t.Error("the operation was in doubt too early")
		}
	})
	w.finish()
	wantHeard(t, w, "in doubt 0: worker dead does not hold it any more")
}

func TestSilenceMeansNothingWhileTheCoordinatorIsCutOff(t *testing.T) {
	w := orphaned(t)
	w.boot()
	began := w.now
	w.connected = func() time.Duration { return max(0, w.now.Sub(began)-60*time.Second) }
	w.later(60*time.Second, func() {
		if heard(w, "in doubt") {
			t.Error("a worker was considered dead while the run was disconnected")
		}
	})
	w.later(63*time.Second, func() {
		if heard(w, "in doubt") {
			t.Error("a worker was considered dead before it could send a heartbeat")
		}
	})
	w.finish()
	wantHeard(t, w, "in doubt 0")
}

func TestAnInterruptStartsNothingMoreAndAwaitsWhatRuns(t *testing.T) {
	w := safely(t, 12, dag.Edge{Before: 0, After: 11})
	w.latency = func(string) time.Duration { return 5 * time.Second }
	w.boot()
	w.later(time.Second, func() {
		w.send(Interrupted{})
	})
	w.finish()
	out := w.loop.Outcome()
	if !out.Interrupted || out.Status != "interrupted" || len(w.began) != 4 || len(w.held) != 0 {
		t.Errorf("%+v, began %v, held %v", out, w.began, w.held)
	}
	w.crash()
	w.restore()
	w.boot()
	w.finish()
	w.stateAgrees()
	w.once()
}

// An interrupted run waited for results that could not arrive. If its NATS server did not return, it waited for ever.
func TestAnInterruptedRunWhoseTransportIsGoneEndsAndCanBeResumed(t *testing.T) {
	w := safely(t, 12, dag.Edge{Before: 0, After: 11})
	w.latency = func(string) time.Duration { return 10 * time.Minute }
	w.boot()
	began := w.now
	w.connected = func() time.Duration { return max(0, 10*time.Second-w.now.Sub(began)) }
	w.later(20*time.Second, func() { w.send(Interrupted{}) })
	w.finish()
	out := w.loop.Outcome()
	if out.Status != "interrupted" || len(out.Diags) == 0 || out.Diags[0].Summary != "The message server is gone" ||
		w.now.Sub(began) > 30*time.Second {
		t.Errorf("after %s: %+v", w.now.Sub(began), out)
	}
	w.connected = nil
	w.crash()
	w.restore()
	w.boot()
	w.finish()
	w.stateAgrees()
	w.once()
}

// A resumed run that was stopped before it had adopted its operations in progress ended without them, as cancelled, so
// that their results were discarded.
func TestARunThatIsResumedToBeCancelledHearsOfWhatIsUnderWay(t *testing.T) {
	w := safely(t, 12, dag.Edge{Before: 0, After: 11})
	w.latency = func(string) time.Duration { return 20 * time.Second }
	w.boot()
	for len(w.began) < 4 {
		w.run(1)
	}
	w.crash()
	w.restore()
	w.boot()
	w.send(Interrupted{Cancel: true})
	w.finish()
	out := w.loop.Outcome()
	if out.Status != "cancelled" || len(w.began) != 4 || len(w.outputs) != 4 {
		t.Errorf("%+v, began %v, the state has %d", out, w.began, len(w.outputs))
	}
	w.once()
}

// The requests for the permits of an earlier process wait until the permits are handed over; withdrawing a request
// frees its slot.
func TestAnInterruptLeavesThePermitsThatAreNotTakenOverYet(t *testing.T) {
	w := safely(t, 2)
	w.latency = func(string) time.Duration { return 5 * time.Second }
	w.boot()
	w.run(40)
	w.crash()
	held := w.heldOf("default") // places in the pool are not taken over
	w.restore()
	w.boot()
	w.send(Interrupted{})
	if held == 0 || len(w.loop.permits.reclaims) != held {
		t.Fatalf("%d permits were held, %d are requested again", held, len(w.loop.permits.reclaims))
	}
	w.finish()
	w.once()
}

// A failed request was forgotten, and its name was free: the next vertex used the permit of an operation that was
// already in progress.
func TestAPermitThatCouldNotBeAskedForIsAskedForAgain(t *testing.T) {
	w := safely(t, 12)
	w.latency = func(string) time.Duration { return 5 * time.Second }
	w.boot()
	for len(w.began) < 4 {
		w.run(1)
	}
	w.crash()
	w.restore()
	failures := map[PermitKey]int{}
	w.refuse = func(key PermitKey) error {
		if failures[key]++; failures[key] <= 2 {
			return wire.ErrDisconnected
		}
		return nil
	}
	w.boot()
	if got := len(w.loop.permits.reclaims); got != 4 {
		t.Fatalf("%d permits are requested again", got)
	}
	w.finish()
	w.stateAgrees()
	w.once()
}

// If a doubt was given up before the permit of the earlier process was granted again, that permit was released,
// although the operation could still be in progress.
func TestAPermitThatIsTakenOverAfterItsDoubtWasGivenUpIsKept(t *testing.T) {
	w := orphaned(t)
	w.latency = func(string) time.Duration { return 2 * time.Minute } // vertex 2 keeps the run going
	w.boot()
	for !heard(w, "in doubt") {
		w.run(1)
	}
	w.crash()
	w.restore()
	w.refuse = func(PermitKey) error { return wire.ErrDisconnected }
	w.boot()
	if got := len(w.loop.permits.reclaims); got != 2 {
		t.Fatalf("%d permits are requested again", got)
	}
	w.later(45*time.Second, func() {
		if len(w.loop.doubted) != 1 {
			t.Error("the vertex is not in doubt yet")
		}
		w.refuse = nil
	})
	w.finish()
	if len(w.held) != 1 || len(w.loop.Held()) != 1 || len(w.loop.permits.reclaims) != 0 {
		t.Errorf("the held permits are %v; the run keeps %v, and requests %v", w.held, w.loop.Held(), w.loop.permits.reclaims)
	}
}

// If the result of an operation arrived before its permit was granted again, the permit stayed held for a day after the
// run had ended: the request for it was left as if the operation was still in progress.
func TestAPermitThatIsNotTakenOverBeforeItsOperationHasEndedIsNotLeft(t *testing.T) {
	w := safely(t, 1)
	w.latency = func(string) time.Duration { return 5 * time.Second }
	w.boot()
	for len(w.began) < 1 {
		w.run(1)
	}
	w.crash()
	w.restore()
	w.refuse = func(PermitKey) error { return wire.ErrDisconnected }
	w.boot()
	if got := len(w.loop.permits.reclaims); got != 1 {
		t.Fatalf("%d permits are requested again", got)
	}
	w.finish()
	w.stateAgrees()
	if len(w.loop.Held()) != 0 || len(w.held) != 0 {
		t.Errorf("the run leaves %v; the held permits are %v", w.loop.Held(), w.held)
	}
}

// A worker's report about a doubt that had been given up was acknowledged, and changed nothing: the permit stayed held,
// also in each run that was resumed later.
func TestAWorkerThatSaysLateThatNothingGoesOnFreesThePermit(t *testing.T) {
	w := orphaned(t)
	w.boot()
	w.latency = func(string) time.Duration { return 2 * time.Minute } // vertex 2 keeps the run going
	w.later(time.Minute, func() {
		if len(w.loop.doubted) != 1 || len(w.loop.permits.kept) != 1 {
			t.Error("the vertex is not in doubt yet")
		}
		lateResult(w, func(r *wire.Result) { r.Doubt, r.Function = "the worker stopped", nil })
	})
	w.finish()
	// copies of results that were processed already
	maps.DeleteFunc(w.results, func(_ int, r *resultInStream) bool { return r.result.Doubt == "" })
	if len(w.loop.Held()) != 0 || len(w.held) != 0 || len(w.results) != 0 {
		t.Errorf("the held permits are %v; the run keeps %v; the results in the stream are %v",
			w.held, w.loop.Held(), w.results)
	}
	w.crash()
	w.restore()
	w.boot()
	if len(w.loop.permits.reclaims) != 0 {
		t.Errorf("permits are requested again: %v", w.loop.permits.reclaims)
	}
	w.finish()
	w.once()
}

func TestAnInterruptBuriesWhatNobodyHasClaimed(t *testing.T) {
	w := safely(t, 2)
	w.boot()
	w.silent = true // tasks stay where they are
	w.later(time.Second, func() { w.send(Interrupted{}) })
	w.finish()
	if len(w.tasks) != 2 {
		t.Errorf("%d tasks were published", len(w.tasks))
	}
	for id := range w.tasks {
		if c := w.claims[id]; !c.Tombstone {
			t.Errorf("the attempt %s may still be started: %+v", id, c)
		}
	}
	w.silent = false
	w.crash()
	w.restore()
	w.boot()
	w.finish()
	w.stateAgrees()
	w.once()
}

func TestLeavingPutsInDoubtWhatEndsWithTheProcess(t *testing.T) {
	for _, embedded := range []bool{true, false} {
		w := safely(t, 2)
		w.change = func(s *Settings) { s.Embedded = embedded }
		w.latency = func(string) time.Duration { return time.Hour }
		w.boot()
		w.later(time.Second, func() { w.send(Interrupted{}) })
		w.later(2*time.Second, func() { w.send(Interrupted{}) })
		w.finish()
		if got := slices.Contains(kinds(w, 0), journal.Suspect); got != embedded {
			t.Errorf("embedded %v: the vertices in doubt are %v", embedded, got)
		}
		if got := len(w.loop.Held()); embedded == (got > 0) {
			t.Errorf("embedded %v: %d permits stay held", embedded, got)
		}
	}
}

func TestAStoreThatLostDataFreezesDispatchAndPutsAttemptsInDoubt(t *testing.T) {
	w := safely(t, 12)
	w.latency = func(string) time.Duration { return 5 * time.Second }
	w.boot()
	w.later(time.Second, func() { w.send(LostData{}) })
	w.finish()
	wantHeard(t, w, "error: The message store lost data", "in doubt 0: the message store lost acknowledged data")
	if len(w.began) != 4 {
		t.Errorf("%d operations began", len(w.began))
	}
	w.crash()
	w.restore()
	w.boot()
	w.finish()
	w.stateAgrees() // the results were only late
	w.once()
}

func TestARunThatIsResumedOverLostDataStartsNothing(t *testing.T) {
	w := safely(t, 3)
	w.latency = func(string) time.Duration { return 5 * time.Second }
	w.boot()
	w.run(40)
	w.crash()
	began := len(w.began)
	w.restore()
	w.boot()
	w.send(LostData{})
	w.finish()
	for v := range 3 {
		if ks := kinds(w, v); slices.Contains(ks, journal.Dispatch) && ks[len(ks)-1] != journal.Suspect {
			t.Errorf("vertex %d: %v", v, ks)
		}
	}
	if len(w.began) != began {
		t.Errorf("%d operations began; before there were %d", len(w.began), began)
	}
}

func TestWhatClosesRunsWhateverHappened(t *testing.T) {
	w := newWorld(t, 1, numbers.New(t, 3, dag.Edge{Before: 0, After: 1}, dag.Edge{Before: 1, After: 2}))
	w.program.Fails = func(v int) bool { return v == 0 }
	w.program.Hidden = func(v int) bool { return v == 2 }
	closer := &closing{Program: w.program, at: 2}
	w.change = func(s *Settings) { s.Program = closer }
	w.boot()
	w.finish()
	if w.program.Accepted[2] != 1 {
		t.Error("the operation did not run")
	}
}

type closing struct {
	*numbers.Program
	at int
}

func (c *closing) Anyway(v int) bool { return v == c.at }

func (c *closing) Prepare(ctx context.Context, v int) program.Step {
	if v == c.at {
		return program.Step{}
	}
	return c.Program.Prepare(ctx, v)
}

func (c *closing) Accept(v int, s *program.Step) { c.Accepted[v]++ }
