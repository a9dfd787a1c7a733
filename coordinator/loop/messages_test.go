package loop

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/test/stage/numbers"
	"github.com/millipede-iac/millipede/wire"
)

const unknownAttempt = "for an attempt that is not"

// A worker of one pool could finish the operations of another pool: the loop did not compare the pool of a result's
// subject with that of its attempt, and if it did not find the claim, it accepted any nonce.
func TestAResultThatIsNotThatOfItsWorkerIsRefused(t *testing.T) {
	for name, forge := range map[string]func(w *world, ref *wire.TaskRef, r *wire.Result){
		"of another pool": func(_ *world, ref *wire.TaskRef, r *wire.Result) {
			ref.Pool,
				r.Pool = "eu", "eu"
		},
		"of a pool that says another": func(_ *world, ref *wire.TaskRef, _ *wire.Result) { ref.Pool = "eu" },
		"that says another pool":      func(_ *world, _ *wire.TaskRef, r *wire.Result) { r.Pool = "eu" },
		"that says another attempt":   func(_ *world, _ *wire.TaskRef, r *wire.Result) { r.Attempt = "a999" },
		unknownAttempt: func(_ *world, ref *wire.TaskRef, r *wire.Result) {
			ref.Attempt,
				r.Attempt = "a999", "a999"
		},
		"under another claim":           func(_ *world, _ *wire.TaskRef, r *wire.Result) { r.Nonce = "foreign" },
		"under no claim":                func(_ *world, _ *wire.TaskRef, r *wire.Result) { r.Nonce = "" },
		"in the name of another worker": func(_ *world, _ *wire.TaskRef, r *wire.Result) { r.Worker = "x" },
		"of doubt, of another pool": func(_ *world, ref *wire.TaskRef, r *wire.Result) {
			*r = wire.Result{Attempt: r.Attempt, Nonce: r.Nonce, Worker: r.Worker, Pool: "eu", Doubt: "who knows"}
			ref.Pool = "eu"
		},
		"of one that was not started, of another pool": func(_ *world, ref *wire.TaskRef, r *wire.Result) {
			*r = wire.Result{Attempt: r.Attempt, Nonce: r.Nonce, Worker: r.Worker, Pool: "eu", NotStarted: true}
			ref.Pool = "eu"
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := safely(t, 1)
			w.latency = func(string) time.Duration { return 5 * time.Second }
			w.boot()
			w.later(time.Second, func() {
				for id, task := range w.tasks {
					r, ref := numbers.Compute(task.task), task.ref
					r.Function.Value = []byte{1} // the number that the true worker does not compute
					r.Attempt, r.Nonce, r.Worker, r.Pool = id, w.claims[id].Nonce, w.claims[id].Worker, ref.Pool
					forge(w, &ref, r)
					w.report(ref, r)
				}
			})
			w.finish()
			w.stateAgrees()
			w.once()
			if heard := strings.Join(w.seen, "; "); !strings.Contains(heard, "violated") &&
				!strings.Contains(heard, "forged") {
				t.Errorf("the forged result is not reported: %s", heard)
			}
			if left := len(w.results); left > 0 && name != unknownAttempt {
				t.Errorf("%d messages are left in the stream", left)
			} else if left == 0 && name == unknownAttempt {
				// A process whose lock was broken discarded the results of the process that had resumed its run.
				t.Error("a result of an attempt that may be that of another process was discarded")
			}
			if out := len(w.loop.doubted) + len(w.loop.failed); out > 0 {
				t.Errorf("%d vertices failed or are in doubt", out)
			}
		})
	}
}

// A claim that was not found counted as an empty one, so the nonce of the result was not checked.
func TestAResultForAnAttemptThatNobodyHasClaimedIsRefused(t *testing.T) {
	w := safely(t, 1)
	w.latency = func(string) time.Duration { return 5 * time.Second }
	w.boot()
	w.later(time.Second, func() {
		for id, task := range w.tasks {
			r, claim := numbers.Compute(task.task), w.claims[id]
			r.Function.Value = []byte{1}
			r.Attempt, r.Nonce, r.Worker, r.Pool = id, claim.Nonce, claim.Worker, task.ref.Pool
			delete(w.claims, id) // as if it came before the claim
			w.report(task.ref, r)
			w.arrange(100*time.Millisecond, 0, func() { w.claims[id] = claim })
		}
	})
	w.finish()
	w.stateAgrees()
	wantHeard(t, w, "error: The protocol between coordinator and workers was violated", "finished 0")
}

// The loop believed everything that heartbeats said about pools and attempts.
func TestAWorkerSpeaksForItsPoolAlone(t *testing.T) {
	w := safely(t, 1)
	w.latency = func(string) time.Duration { return 20 * time.Second }
	w.boot()
	lie := func(h wire.Heartbeat) {
		h.Pools, h.Protocol, h.Slots = []string{"eu"}, wire.ProtocolVersion, 5
		for id := range w.tasks {
			h.Attempts = append(h.Attempts, id)
		}
		w.send(Beat{h})
	}
	var again func()
	again = func() {
		lie(wire.Heartbeat{Worker: "w", Leaving: true})
		lie(wire.Heartbeat{Worker: "x"})
		w.later(time.Second, again)
	}
	w.later(2*time.Second, again)
	w.later(5*time.Second, func() {
		if live := w.loop.permits.poolOf("default").live; live != 1 {
			t.Errorf("%d workers of the pool are alive", live)
		}
		for v := range w.loop.vertices {
			if x := w.loop.vertices[v].work; x != nil && x.worker != "w" && x.worker != "" {
				t.Errorf("worker %s is believed to hold vertex %d", x.worker, v)
			}
		}
	})
	w.finish()
	w.stateAgrees()
	if len(w.loop.doubted) > 0 {
		t.Errorf("the vertices in doubt are %v", w.loop.doubted)
	}
}

// With six heartbeats the coordinator used half a gigabyte of memory, and every forged message was reported.
func TestNeitherNamesNorAlarmsGrowWithoutBound(t *testing.T) {
	w := safely(t, 1)
	w.latency = func(string) time.Duration { return time.Minute }
	w.boot()
	w.later(time.Second, func() {
		for i := range 3 * maxMembers {
			w.send(Beat{wire.Heartbeat{Worker: fmt.Sprint("w", i), Pools: []string{"eu"},
				Protocol: wire.ProtocolVersion}})
		}
		for i := range 10 * maxAlarms {
			w.report(wire.TaskRef{Pool: "eu", Run: "run", Attempt: wire.AttemptID(fmt.Sprint("x", i))}, &wire.Result{})
		}
	})
	w.finish()
	w.stateAgrees()
	if n := len(w.loop.workers.all); n > maxMembers+10 {
		t.Errorf("%d workers are remembered", n)
	}
	if n := len(w.loop.problems); n > maxAlarms+1 {
		t.Errorf("%d forged messages were reported", n)
	}
}

func TestWhatIsForgedIsFoundOut(t *testing.T) {
	made := &attempt{vertex: 1, pool: "eu"}
	for name, c := range map[string]struct {
		of     *attempt
		change func(e *Arrived)
		want   string // part of what is said
	}{
		"a result of its worker":      {made, func(*Arrived) {}, ""},
		"an unknown attempt":          {nil, func(*Arrived) {}, "which this process never made"},
		"the subject of another pool": {made, func(e *Arrived) { e.Ref.Pool = "us" }, `which is one of pool "eu"`},
		"another pool in the result":  {made, func(e *Arrived) { e.Result.Pool = "us" }, `of pool "us"`},
		"another attempt in it":       {made, func(e *Arrived) { e.Result.Attempt = "a2" }, "for the attempt a2"},
		"no claim":                    {made, func(e *Arrived) { e.Claim = wire.Claim{} }, "nobody has claimed"},
		"a tombstone": {made, func(e *Arrived) { e.Claim.Tombstone = true },
			"a coordinator that cancelled it"},
		"another claim":              {made, func(e *Arrived) { e.Result.Nonce = "n2" }, "bears another claim"},
		"the name of another worker": {made, func(e *Arrived) { e.Result.Worker = "x" }, "says that worker x made it"},
	} {
		e := Arrived{Ref: wire.TaskRef{Pool: "eu", Attempt: "a1"}, Claim: wire.Claim{Nonce: "n1", Worker: "w"},
			Result: &wire.Result{Attempt: "a1", Pool: "eu", Nonce: "n1", Worker: "w"}}
		c.change(&e)
		if got := forged(c.of, e); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestAMessageIsLeftOnceAndNoMoreThanTheStreamAllows(t *testing.T) {
	ms := newMessages(at(0))
	for sequence := range uint64(maxLeft) {
		if first, again := ms.leave(sequence), ms.leave(sequence); !first || !again {
			t.Fatalf("message %d is not left", sequence)
		}
	}
	if ms.leave(maxLeft) || !ms.leave(0) || len(ms.left) != maxLeft {
		t.Errorf("%d messages are left", len(ms.left))
	}
}

func TestAViolationIsToldOnceAndNotWithoutEnd(t *testing.T) {
	ms := newMessages(at(0))
	for i := range 3 * maxAlarms {
		ms.warn(fmt.Sprint(i / 2))
		ms.reportViolation(0, fmt.Sprint(i/2))
	}
	if len(ms.problems) != maxAlarms+1 || ms.problems[maxAlarms].list[0].Summary != "More violations of the protocol" {
		t.Errorf("%d are told", len(ms.problems))
	}
}
