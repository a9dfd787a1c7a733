package coordinator

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/coordinator/loop"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/test/stage/numbers"

	statemem "github.com/millipede-iac/millipede/state/mem"
	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/mem"
)

// warned counts the warnings of one kind.
type warned struct {
	Silent
	summary string
	n       atomic.Int64
}

func (w *warned) Diagnostics(list diag.List) {
	for _, d := range list {
		if d.Summary == w.summary {
			w.n.Add(1)
		}
	}
}

// refusingRun applies 40 numbers over a transport with a fault, whose time counts from the start of the run. If the run
// fails, it is resumed without faults.
func refusingRun(t *testing.T, fault func(after time.Duration, op mem.Op) error) (out loop.Outcome, took time.Duration,
	warnings int64, err error) {
	t.Helper()
	return refusingRuns(t, fault, func(time.Duration, mem.Op) error { return nil })
}

// refusingRuns is refusingRun with another fault during the resumed run.
func refusingRuns(t *testing.T, fault, later func(after time.Duration, op mem.Op) error) (out loop.Outcome,
	took time.Duration, warnings int64, err error) {
	t.Helper()
	store := statemem.New(statemem.Options{})
	began, healthy := time.Now(), false
	var again time.Time
	system := mem.New(mem.Options{Fault: func(op mem.Op) mem.Fault {
		if healthy {
			return mem.Fault{Before: later(time.Since(again), op)}
		}
		return mem.Fault{Before: fault(time.Since(began), op)}
	}})
	w, stop := serveTasks(t, system, "default", 10, 2*time.Second)
	defer stop()
	p := numbers.Random(t, 40, 4)
	p.Lane, p.Stored = program.Safe, true
	beginRun(t, store, 40)
	view := &warned{summary: "NATS stores nothing"}
	run := func(ids string, make func(Options) *Runner) (loop.Outcome, error) {
		conn := system.Connect("coordinator")
		defer func() { _ = conn.Close() }()
		o := applyOptions(conn, store, p, ids)
		o.Observer = view
		return make(o).Run(context.Background())
	}
	out, err = run("a", New)
	took = time.Since(began)
	if err != nil {
		healthy, again = true, time.Now()
		resumed, again := run("b", func(o Options) *Runner {
			r, err := Resume(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			return r
		})
		if again != nil || resumed.Status != "done" {
			t.Errorf("the resumed run: %v, %s", again, resumed.Status)
		}
	}
	storedNumbers(t, store, p)
	for name, n := range w.began {
		if n > 1 {
			t.Errorf("%s began %d times", name, n)
		}
	}
	return out, took, view.n.Load(), err
}

// stores reports whether an operation stores something.
func stores(op mem.Op) bool {
	switch op.Name {
	case "PublishTask", "Claim", "Acquire", "HighWater":
		return op.Actor == "coordinator" // the workers of these tests have nothing against faults
	}
	return false
}

// A message store that was full for a moment, and took messages again, hung the run: nothing knew of it, and the
// message store's answer to "is it there?" was that it is.
func TestARunPausesWhileTheMessageStoreTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, took, warnings, err := refusingRun(t, func(after time.Duration, op mem.Op) error {
			if after > 3*time.Second && after < 20*time.Second && stores(op) {
				return wire.ErrStore
			}
			return nil
		})
		if err != nil || out.Status != "done" {
			t.Errorf("%v, %s", err, out.Status)
		}
		if warnings != 1 {
			t.Errorf("the message was shown %d times", warnings)
		}
		if took > time.Minute {
			t.Errorf("the run took %s", took)
		}
	})
}

func TestARunWhoseMessageStoreNeverRecoversEndsAndIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, took, _, err := refusingRun(t, func(after time.Duration, op mem.Op) error {
			if after > 3*time.Second && stores(op) {
				return wire.ErrStore
			}
			return nil
		})
		if !errors.Is(err, loop.ErrStore) || !errors.Is(err, wire.ErrStore) || out.Status != "interrupted" {
			t.Errorf("%v, %s", err, out.Status)
		}
		if took > loop.StoreTimeout+10*time.Second {
			t.Errorf("the run took %s", took)
		}
	})
}

// Actions that must succeed before the end of a run, such as the acknowledgement of a result, were repeated for ever
// after any error: a run without the permission to acknowledge never ended.
func TestWhatIsNotPermittedIsNotRepeatedForEver(t *testing.T) {
	for _, name := range []string{"Delivery.Ack", "DeclareLimit", "Acquire", "PublishTask"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				out, took, _, err := refusingRun(t, func(_ time.Duration, op mem.Op) error {
					if op.Name == name && op.Actor == "coordinator" {
						return wire.ErrDenied
					}
					return nil
				})
				if !errors.Is(err, wire.ErrDenied) || !strings.Contains(err.Error(), "30s") ||
					out.Status != "interrupted" {
					t.Errorf("%v, %s", err, out.Status)
				}
				if took > loop.StoreTimeout+20*time.Second {
					t.Errorf("the run took %s", took)
				}
			})
		})
	}
}

func TestAnOutageOfMinutesIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, _, _, err := refusingRun(t, func(after time.Duration, op mem.Op) error {
			switch {
			case op.Actor != "coordinator" || after < 3*time.Second || after > 2*time.Minute:
				return nil
			case op.Name == "Delivery.Ack" || op.Name == "HighWater":
				return wire.ErrUnanswered
			case op.Name == "PublishTask" || op.Name == "Acquire":
				return wire.ErrDisconnected
			}
			return nil
		})
		if err != nil || out.Status != "done" {
			t.Errorf("%v, %s", err, out.Status)
		}
	})
}

// A run that was resumed while the disk of the server was full failed at once, and left everything that it had begun:
// it checks whether the streams have lost anything, and the check was the only call that was not repeated.
func TestARunIsResumedWhileTheMessageStoreTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := 0
		out, _, _, err := refusingRuns(t, func(after time.Duration, op mem.Op) error {
			if after > 3*time.Second && stores(op) {
				return wire.ErrStore
			}
			return nil
		}, func(after time.Duration, op mem.Op) error {
			if after < 20*time.Second && op.Name == "HighWater" {
				refused++
				return wire.ErrStore
			}
			return nil
		})
		if !errors.Is(err, loop.ErrStore) || out.Status != "interrupted" || refused == 0 {
			t.Errorf("%v, %s, %d refusals", err, out.Status, refused)
		}
	})
}
