package worker

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/internal/sleep"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/worker/journal"
)

func TestATaskIsCarriedOutOnceAndItsResultConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.start()
		ds := b.applies(1)
		b.bus.put(ds...)
		synctest.Wait()
		r := b.one()
		if r.Apply == nil || r.Apply.Object == nil || len(r.Diagnostics) > 0 {
			t.Errorf("the result is %+v", r)
		}
		claim := b.bus.register["a0"]
		if r.Nonce != claim.Nonce || r.Nonce == "" || claim.Worker != "w1" || r.Worker != "w1" || r.Pool != "eu" ||
			r.Attempt != "a0" {
			t.Errorf("result %q of %q under claim %+v", r.Nonce, r.Worker, claim)
		}
		if !ds[0].acked || b.cloud.applied != 1 || b.cloud.released != 1 {
			t.Errorf("acked %t, applied %d times, %d leases released", ds[0].acked, b.cloud.applied, b.cloud.released)
		}
		if err := b.stop(); err != nil {
			t.Fatal(err)
		}
		if left := b.pending(); len(left) != 0 {
			t.Errorf("the journal still has the entries %v", left)
		}
	})
}

func TestNothingBeginsThatIsNotClaimedInTime(t *testing.T) {
	for claim, c := range map[string]struct {
		prepare    func(*bench, *delivery)
		notStarted string // part of the reason; empty when no result is published
		acked      bool
		released   bool
	}{
		"somebody else has the attempt": {
			prepare: func(b *bench, _ *delivery) { b.bus.register["a0"] = wire.Claim{Nonce: "other", Worker: "w2"} },
			acked:   true,
		},
		"a tombstone ended the attempt": {
			prepare: func(b *bench, _ *delivery) { b.bus.register["a0"] = wire.Claim{Nonce: "c", Tombstone: true} },
			acked:   true,
		},
		"claiming took too long": {
			prepare: func(b *bench, d *delivery) {
				b.bus.onClaim = func(wire.Claim) error {
					_ = sleep.For(context.Background(), trust+time.Second)
					return nil
				}
			},
			notStarted: "6s old", acked: true,
		},
		"the task was fetched too long ago, and is not claimed": {
			prepare:  func(b *bench, _ *delivery) { b.bus.onClaim = func(wire.Claim) error { return wire.ErrStale } },
			released: true,
		},
		"the task was fetched too long ago, and is claimed": {
			prepare: func(b *bench, d *delivery) {
				b.bus.onClaim = func(wire.Claim) error { return errors.Join(wire.ErrStale, errAfterWrite) }
			},
			notStarted: "too long ago", acked: true,
		},
		"the run was cancelled": {
			prepare: func(b *bench, d *delivery) {
				b.bus.onClaim = func(wire.Claim) error {
					b.bus.tell("cancel", "r")
					return nil
				}
			},
			notStarted: "cancelled", acked: true,
		},
		"the worker has no key of the run": {
			prepare:  func(b *bench, _ *delivery) { b.opts.Keys = keys{} },
			released: true,
		},
		"the task cannot be read": {
			prepare: func(b *bench, d *delivery) {
				d.data = b.seal(d.ref, []byte("rubbish"))
			},
			notStarted: "cannot read the task", acked: true,
		},
		"the task was made for another subject": {
			prepare: func(b *bench, d *delivery) {
				other := d.ref
				other.Attempt = "a9"
				d.data = b.seal(other, wire.EncodeTask(applyTask("x")))
			},
			notStarted: "not authentic", acked: true,
		},
	} {
		t.Run(claim, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				ds := b.applies(1)
				c.prepare(b, ds[0])
				b.start()
				synctest.Wait()
				b.bus.put(ds...)
				elapse(10 * time.Second)
				synctest.Wait()
				if b.cloud.applied != 0 {
					t.Error("the operation began")
				}
				if ds[0].acked != c.acked || ds[0].released != c.released {
					t.Errorf("acked %t, released %t; want %t, %t", ds[0].acked, ds[0].released, c.acked, c.released)
				}
				if c.notStarted == "" {
					if got := b.results(); len(got) != 0 {
						t.Errorf("%d results were published", len(got))
					}
				} else if r := b.one(); !r.NotStarted || !strings.Contains(r.Diagnostics[0].Detail, c.notStarted) {
					t.Errorf("not started %t, diagnostics %v", r.NotStarted, r.Diagnostics)
				}
				if err := b.stop(); err != nil {
					t.Fatal(err)
				}
				if left := b.pending(); len(left) != 0 {
					t.Errorf("the journal still has the entries %v", left)
				}
			})
		})
	}
}

// If the task of a run was published after the run had ended and its key was removed, each worker fetched it and
// returned it for ever.
func TestATaskWhoseKeyNobodyGivesIsGivenUp(t *testing.T) {
	for claim, c := range map[string]struct {
		held    wire.Claim
		revokes bool
	}{
		"nobody has claimed it":     {revokes: true},
		"another worker holds it":   {held: wire.Claim{Nonce: "other", Worker: "w2"}},
		"a coordinator revoked it":  {held: wire.Claim{Nonce: "c", Tombstone: true}},
		"another worker revoked it": {held: wire.Claim{Nonce: "other", Worker: "w2", Tombstone: true}},
	} {
		t.Run(claim, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, func(o *Options) { o.Keys = keys{} })
				ds := b.applies(1)
				if c.held.Nonce != "" {
					b.bus.register["a0"] = c.held
				}
				b.start()
				for began := time.Now(); time.Since(began) < 2*keyTimeout && !ds[0].acked; {
					if time.Since(began) < keyTimeout && b.bus.register["a0"] != c.held {
						t.Fatalf("the task was discarded after %s", time.Since(began))
					}
					b.bus.put(ds...) // again, as the stream does with what is given back
					elapse(time.Second)
					synctest.Wait()
				}
				if got := b.bus.register["a0"]; !ds[0].acked || (got != c.held) != c.revokes ||
					!(got.Tombstone || c.held.Worker != "") {
					t.Errorf("acknowledged %t, and the register holds %+v", ds[0].acked, got)
				}
				if b.cloud.applied != 0 || len(b.results()) != 0 {
					t.Error("the operation began, or the worker has reported that")
				}
				if err := b.stop(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

func TestAClaimWhoseFateIsUnknownIsAskedForWithTheSameNonce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		var nonces []string
		b.bus.onClaim = func(c wire.Claim) error {
			nonces = append(nonces, c.Nonce)
			switch len(nonces) {
			case 1:
				return errAfterWrite
			case 2:
				return wire.ErrDisconnected
			}
			return nil
		}
		b.start()
		b.bus.put(b.applies(1)...)
		elapse(time.Second)
		synctest.Wait()
		if r := b.one(); r.Apply == nil || r.Nonce != nonces[0] {
			t.Errorf("the result is %+v", r)
		}
		if len(nonces) != 3 || nonces[0] != nonces[1] || nonces[1] != nonces[2] {
			t.Errorf("claimed with %v", nonces)
		}
	})
}

func TestAResultIsPublishedUntilItIsConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		tries := 0
		b.bus.onPublish = func() error {
			if tries++; tries < 200 {
				return wire.ErrDisconnected
			}
			return nil
		}
		b.start()
		b.bus.put(b.applies(1)...)
		elapse(time.Minute)
		synctest.Wait()
		if held := b.opts.Journal.Pending(); len(held) != 1 || held[0].Status != journal.Ended {
			t.Errorf("while publishing fails the journal has the entries %v", held)
		}
		elapse(time.Hour)
		synctest.Wait()
		if b.one().Apply == nil || b.cloud.applied != 1 || len(b.opts.Journal.Pending()) != 0 {
			t.Errorf("applied %d times, journal %v", b.cloud.applied, b.opts.Journal.Pending())
		}
	})
}

func TestDrainingFinishesAndReportsWhatIsHeldAndTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.cloud.onApply = slowApply(30 * time.Minute)
		b.start()
		b.bus.put(b.applies(2)...)
		synctest.Wait()
		b.drain()
		later := b.task(9, applyTask("later"))
		b.bus.put(later)
		elapse(10 * time.Minute)
		synctest.Wait()
		if last := b.last(); !last.Draining || last.Leaving || len(last.Attempts) != 2 {
			t.Errorf("the heartbeat of a draining worker is %+v", last)
		}
		if err := b.stop(); err != nil {
			t.Fatal(err)
		}
		if got := b.results(); len(got) != 2 || got[0].Apply == nil || got[1].Apply == nil {
			t.Errorf("published %v", got)
		}
		if b.cloud.applied != 2 || later.acked {
			t.Errorf("%d operations began; the later task was acked: %t", b.cloud.applied, later.acked)
		}
		if last := b.last(); !last.Leaving || len(last.Attempts) != 0 {
			t.Errorf("the last heartbeat is %+v", last)
		}
	})
}

func TestChangesNeverExceedTheSlotsOverAllPools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(o *Options) { o.Pools = []string{"eu", "us"}; o.Slots = 3 })
		b.cloud.onApply = slowApply(time.Second)
		ds := b.applies(20)
		for _, d := range ds[:10] {
			d.ref.Pool = "us"
			d.data = b.seal(d.ref, wire.EncodeTask(applyTask("x")))
		}
		// A returned task is delivered again, as the real transport does.
		b.bus.onFetch = func() error {
			b.bus.mu.Lock()
			defer b.bus.mu.Unlock()
			for _, d := range ds {
				if d.released {
					d.released = false
					b.bus.tasks[d.ref.Pool] = append(b.bus.tasks[d.ref.Pool], d)
				}
			}
			return nil
		}
		b.bus.put(ds...)
		b.start()
		elapse(time.Minute)
		synctest.Wait()
		if got := len(b.results()); got != 20 || b.cloud.applied != 20 || b.cloud.mostAtOnce != 3 {
			t.Errorf("%d results, %d operations, %d at once", got, b.cloud.applied, b.cloud.mostAtOnce)
		}
	})
}

func TestAPanicIsReportedAndTheWorkerGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.cloud.onApply = func(context.Context, provider.ApplyRequest) (provider.ApplyResponse,
			diag.List) {
			panic("ouch")
		}
		b.start()
		b.bus.put(b.applies(1)...)
		synctest.Wait()
		r := b.one()
		if r.Doubt == "" || r.Diagnostics[0].Summary != "Bug in Millipede" ||
			!strings.Contains(r.Diagnostics[0].Detail, "ouch") {
			t.Errorf("published %+v", r)
		}
		b.cloud.onPlan = func(context.Context) { panic("ouch") }
		if r := <-b.bus.call("eu", planTask("x")); r.Doubt != "" || r.Diagnostics[0].Summary != "Bug in Millipede" {
			t.Errorf("the response is %+v", r)
		}
		b.cloud.onPlan = nil
		if r := <-b.bus.call("eu", planTask("x")); r.Plan == nil {
			t.Errorf("the response is %+v", r)
		}
		if b.cloud.released != 3 {
			t.Errorf("%d of 3 leases were released", b.cloud.released)
		}
	})
}

func TestAProviderThatCannotBeHadIsAnErrorAndNoDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.cloud.acquire = diag.Errors("Provider package not available", "", nil)
		b.start()
		b.bus.put(b.applies(1)...)
		synctest.Wait()
		if r := b.one(); r.Doubt != "" || r.Apply != nil ||
			r.Diagnostics[0].Summary != "Provider package not available" {
			t.Errorf("published %+v", r)
		}
	})
}

func TestTheWorkerSaysOnceASecondThatItLivesAndWhatItHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.cloud.onApply = slowApply(time.Hour)
		b.start()
		b.bus.put(b.applies(2)...)
		elapse(10*time.Second + 1)
		synctest.Wait()
		if n := len(b.bus.said()); n != 11 {
			t.Errorf("%d heartbeats in 10 s", n)
		}
		got := b.bus.said()[10]
		if got.Worker != "w1" || got.Slots != 4 || got.Running != 2 || got.Protocol != wire.ProtocolVersion ||
			got.PublicKey != "XPUBLIC" ||
			len(got.Attempts) != 2 || got.Attempts[0] != "a0" || got.Draining || got.Platform != "plan9_mips" {
			t.Errorf("the heartbeat is %+v", got)
		}
		b.bus.tell("announce", "")
		synctest.Wait()
		if n := len(b.bus.said()); n != 12 {
			t.Errorf("after a request for a heartbeat there was no immediate one: %d heartbeats", n)
		}
		b.kill()
	})
}

func TestStopReachesTheOperationsOfItsRunAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Value
		b := newBench(t, func(o *Options) {
			o.Provisioners = provisioners(func(ctx context.Context, emit func(wire.Event)) diag.List {
				emit(wire.Event{Kind: "output", Text: "working"})
				<-ctx.Done()
				ended.Store(context.Cause(ctx))
				return diag.Errors("local-exec provisioner error", "", nil)
			})
		})
		b.cloud.onApply = slowApply(time.Hour)
		b.start()
		b.bus.put(b.applies(1)[0],
			b.task(1, &wire.Task{Run: "r", Address: "test_thing.a", Provision: &wire.ProvisionTask{}}))
		synctest.Wait()
		b.bus.tell("stop", "another")
		synctest.Wait()
		if b.cloud.stopped != 0 || ended.Load() != nil {
			t.Error("the operations of this run were stopped by a request for another run")
		}
		b.bus.tell("stop", "r")
		synctest.Wait()
		if b.cloud.stopped != 1 || ended.Load() != errAskedToStop { //nolint:errorlint // the very error
			t.Errorf("stopped %d providers; the provisioner ended because of %v", b.cloud.stopped, ended.Load())
		}
		if len(b.bus.events) != 1 || b.bus.events[0].Attempt != "a1" || b.bus.events[0].Worker != "w1" {
			t.Errorf("the events are %+v", b.bus.events)
		}
		b.kill()
	})
}

func TestNoSecretReachesTheJournalInTheClear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.bus.onPublish = func() error { return wire.ErrDisconnected }
		b.start()
		b.bus.put(b.task(0, applyTask("hunter2")))
		synctest.Wait()
		data, err := os.ReadFile(filepath.Join(b.dir, "worker.journal"))
		if err != nil {
			t.Fatal(err)
		}
		if len(b.opts.Journal.Pending()) != 1 || bytes.Contains(data, []byte("hunter2")) {
			t.Errorf("the journal holds %d entries, and the secret: %t", len(b.opts.Journal.Pending()),
				bytes.Contains(data, []byte("hunter2")))
		}
		b.kill()
	})
}

func TestALargeResultTravelsAsABlobAndIsJournalledWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		large := make([]byte, 3*wire.SpillOver)
		if _, err := b.opts.Rand.Read(large); err != nil {
			t.Fatal(err)
		}
		b.cloud.onApply = func(_ context.Context, r provider.ApplyRequest) (provider.ApplyResponse, diag.List) {
			return provider.ApplyResponse{Object: made(r.Planned), Private: large}, nil
		}
		var refused atomic.Bool
		refused.Store(true)
		b.bus.onPublish = func() error {
			if refused.Load() {
				return wire.ErrDisconnected
			}
			return nil
		}
		b.start()
		b.bus.put(b.applies(1)...)
		synctest.Wait()
		if held := b.opts.Journal.Pending(); len(held) != 1 || len(held[0].Message) < len(large) {
			t.Errorf("the journal holds %d entries", len(held))
		}
		refused.Store(false)
		elapse(time.Minute)
		synctest.Wait()
		if r := b.one(); !bytes.Equal(r.Apply.Private, large) {
			t.Error("the private data is not that of the provider")
		}
		if n := len(b.bus.results[0].data); n > wire.SpillOver {
			t.Errorf("the message has %d bytes", n)
		}
	})
}
