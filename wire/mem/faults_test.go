package mem_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/mem"
)

var ref = wire.TaskRef{Pool: "eu", Coordinator: "alice", Run: "run-1", Attempt: "a1"}

// faulty returns a system in which the named operation has the fault, the first time.
func faulty(name string, f mem.Fault) *mem.System {
	done := false
	return mem.New(mem.Options{Fault: func(op mem.Op) mem.Fault {
		if op.Name != name || done {
			return mem.Fault{}
		}
		done = true
		return f
	}})
}

var errLost = errors.New("lost on the way")

// in runs a body in virtual time, with two connections.
func in(t *testing.T, s func() *mem.System, body func(ctx context.Context, t *testing.T, s *mem.System, alice,
	worker *mem.Conn)) {
	synctest.Test(t, func(t *testing.T) {
		sys := s()
		alice, worker := sys.Connect("alice"), sys.Connect("worker")
		body(t.Context(), t, sys, alice, worker)
		for _, c := range []*mem.Conn{alice, worker} {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

func no(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func fetch(ctx context.Context, t *testing.T, c *mem.Conn) wire.Delivery {
	t.Helper()
	list, err := c.FetchTasks(ctx, "eu", 1)
	no(t, err)
	return list[0]
}

func TestALostRequestDoesNothing(t *testing.T) {
	in(t, func() *mem.System { return faulty("PublishTask", mem.Fault{Before: errLost}) },
		func(ctx context.Context, t *testing.T, _ *mem.System, alice, _ *mem.Conn) {
			if err := alice.PublishTask(ctx, ref, nil); !errors.Is(err, errLost) {
				t.Fatal(err)
			}
			mark, err := alice.HighWater(ctx, nil)
			no(t, err)
			if mark.Tasks != 0 {
				t.Error("the task was stored")
			}
		})
}

func TestALostAnswerHidesWhatWasDone(t *testing.T) {
	in(t, func() *mem.System { return faulty("Claim", mem.Fault{After: errLost}) },
		func(ctx context.Context, t *testing.T, _ *mem.System, alice, worker *mem.Conn) {
			if _, err := worker.Claim(ctx, ref, wire.Claim{Nonce: "n"}); !errors.Is(err, errLost) {
				t.Fatal(err)
			}
			got, err := alice.ReadClaim(ctx, ref)
			no(t, err)
			if got.Nonce != "n" {
				t.Errorf("the register holds %+v", got)
			}
		})
}

func TestARequestForAPermitThatFailsLeavesItsSlotTaken(t *testing.T) {
	in(t, func() *mem.System { return faulty("Acquire", mem.Fault{After: errLost}) },
		func(ctx context.Context, t *testing.T, _ *mem.System, alice, bob *mem.Conn) {
			_, err := alice.DeclareLimit(ctx, wire.Limit{Name: "global", Slots: 1})
			no(t, err)
			request := wire.PermitRequest{ID: "a", Coordinator: "alice"}
			if _, err := alice.Acquire(ctx, "global", request); !errors.Is(err, errLost) {
				t.Fatal(err)
			}
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			if _, err := bob.Acquire(short, "global", wire.PermitRequest{ID: "b", Coordinator: "bob"}); !errors.Is(err,
				context.DeadlineExceeded) {
				t.Errorf("another coordinator got the slot: %v", err)
			}
			again, err := alice.Acquire(ctx, "global", request)
			no(t, err)
			no(t, again.Release(ctx))
		})
}

func TestADuplicatedDeliveryComesAgain(t *testing.T) {
	in(t, func() *mem.System { return faulty("Deliver", mem.Fault{Twice: true}) },
		func(ctx context.Context, t *testing.T, _ *mem.System, alice, worker *mem.Conn) {
			no(t, alice.PublishTask(ctx, ref, nil))
			begun := time.Now()
			fetch(ctx, t, worker)
			fetch(ctx, t, worker)
			if time.Since(begun) != 0 {
				t.Error("the second delivery came only after the ack wait")
			}
		})
}

func TestADelayedMessageIsOvertaken(t *testing.T) {
	in(t, func() *mem.System { return faulty("PublishTask", mem.Fault{Delay: time.Second}) },
		func(ctx context.Context, t *testing.T, _ *mem.System, alice, worker *mem.Conn) {
			no(t, alice.PublishTask(ctx, ref, nil))
			second := ref
			second.Attempt = "a2"
			no(t, alice.PublishTask(ctx, second, nil))
			if a := fetch(ctx, t, worker).Ref().Attempt; a != "a2" {
				t.Errorf("%s came first", a)
			}
			if a := fetch(ctx, t, worker).Ref().Attempt; a != "a1" {
				t.Errorf("%s came last", a)
			}
		})
}

func TestADroppedDeliveryComesAfterTheAckWait(t *testing.T) {
	in(t, func() *mem.System { return faulty("Deliver", mem.Fault{Before: errLost}) },
		func(ctx context.Context, t *testing.T, _ *mem.System, alice, worker *mem.Conn) {
			no(t, alice.PublishTask(ctx, ref, nil))
			begun := time.Now()
			fetch(ctx, t, worker)
			if time.Since(begun) != 5*time.Second {
				t.Errorf("the message came after %v", time.Since(begun))
			}
		})
}

func TestAConnectionThatIsCutOffDoesNothingUntilItHeals(t *testing.T) {
	in(t, func() *mem.System { return mem.New(mem.Options{}) }, func(ctx context.Context, t *testing.T, _ *mem.System,
		alice, worker *mem.Conn) {
		worker.Cut()
		if worker.Connected() != 0 {
			t.Error("a connection that was cut off reports that it is connected")
		}
		if err := worker.PublishResult(ctx, ref, nil); !errors.Is(err, wire.ErrDisconnected) {
			t.Errorf("a connection that was cut off has published: %v", err)
		}
		no(t, alice.PublishTask(ctx, ref, nil))
		time.AfterFunc(time.Minute, worker.Heal)
		begun := time.Now()
		fetch(ctx, t, worker)
		if time.Since(begun) != time.Minute {
			t.Errorf("the task came after %v", time.Since(begun))
		}
		if worker.Connected() > time.Second {
			t.Error("the duration of the connection includes the interruption")
		}
	})
}

func TestAServerThatRestartsDeliversAgainAtOnce(t *testing.T) {
	in(t, func() *mem.System { return mem.New(mem.Options{}) }, func(ctx context.Context, t *testing.T, s *mem.System,
		alice, worker *mem.Conn) {
		no(t, alice.PublishTask(ctx, ref, nil))
		fetch(ctx, t, worker)
		s.Restart()
		begun := time.Now()
		fetch(ctx, t, worker)
		if time.Since(begun) != 0 {
			t.Error("the message came only after the ack wait")
		}
	})
}

func TestALostTailShowsInTheHighWater(t *testing.T) {
	in(t, func() *mem.System { return mem.New(mem.Options{}) }, func(ctx context.Context, t *testing.T, s *mem.System,
		alice, worker *mem.Conn) {
		no(t, alice.PublishTask(ctx, ref, nil))
		no(t, worker.PublishResult(ctx, ref, nil))
		before, err := alice.HighWater(ctx, nil)
		no(t, err)
		s.LoseTail(1)
		after, err := alice.HighWater(ctx, nil)
		no(t, err)
		if after.Tasks >= before.Tasks || after.Results >= before.Results || after.Incarnation != before.Incarnation {
			t.Errorf("from %+v to %+v", before, after)
		}
		s.Recreate()
		anew, err := alice.HighWater(ctx, nil)
		no(t, err)
		if anew.Incarnation == before.Incarnation {
			t.Errorf("the incarnation has not changed: %s", anew.Incarnation)
		}
	})
}

func TestADamagedBlobIsRefused(t *testing.T) {
	in(t, func() *mem.System { return mem.New(mem.Options{}) }, func(ctx context.Context, t *testing.T, s *mem.System,
		alice, worker *mem.Conn) {
		const sum = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881" // of "x"
		no(t, alice.PutBlob(ctx, sum, []byte("x")))
		s.DamageBlob(sum)
		if _, err := worker.GetBlob(ctx, sum); err == nil {
			t.Error("a damaged blob was accepted")
		}
	})
}

func TestALostAnswerToACallIsALostCall(t *testing.T) {
	in(t, func() *mem.System { return faulty("Answer", mem.Fault{Before: errLost}) },
		func(ctx context.Context, t *testing.T, _ *mem.System, alice, worker *mem.Conn) {
			serving, stop := context.WithCancel(ctx)
			defer stop()
			go func() {
				if err := worker.Serve(serving, "eu", 1,
					func(_ context.Context, d []byte) []byte { return d }); err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
			begun := time.Now()
			if _, err := alice.Call(ctx, "eu", nil); !errors.Is(err, wire.ErrLostCall) {
				t.Fatal(err)
			}
			if time.Since(begun) != 4*time.Second {
				t.Errorf("the loss of the call was noticed after %v", time.Since(begun))
			}
			if got, err := alice.Call(ctx, "eu", []byte("again")); err != nil || string(got) != "again" {
				t.Errorf("the repeated call: %q, %v", got, err)
			}
			stop()
			synctest.Wait()
		})
}

func TestAPermitOfAConnectionThatIsCutOffIsFreedOnlyByDecisionAndConfirmTells(t *testing.T) {
	in(t, func() *mem.System { return mem.New(mem.Options{}) }, func(ctx context.Context, t *testing.T, _ *mem.System,
		alice, bob *mem.Conn) {
		_, err := alice.DeclareLimit(ctx, wire.Limit{Name: "global", Slots: 1})
		no(t, err)
		held, err := alice.Acquire(ctx, "global", wire.PermitRequest{ID: "a", Coordinator: "alice"})
		no(t, err)
		asked := 0
		bob.OnAbandoned(func(context.Context, string, wire.PermitRequest) bool { asked++; return asked == 3 })
		alice.Cut()
		no(t, held.Confirm(ctx)) // nobody else may have it yet
		begun := time.Now()
		_, err = bob.Acquire(ctx, "global", wire.PermitRequest{ID: "b", Coordinator: "bob"})
		no(t, err)
		if asked != 3 || time.Since(begun) != 15*time.Second {
			t.Errorf("the AbandonedFunc was called %d times in %v", asked, time.Since(begun))
		}
		if err := held.Confirm(ctx); !errors.Is(err, wire.ErrDisconnected) {
			t.Errorf("while cut off: %v", err)
		}
		alice.Heal()
		if err := held.Confirm(ctx); !errors.Is(err, wire.ErrPermitLost) {
			t.Errorf("after healing: %v", err)
		}
	})
}
