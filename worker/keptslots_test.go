package worker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/internal/sleep"
	"github.com/millipede-iac/millipede/wire"
)

// follow hands the worker the provisioning task that follows an attempt, and reports whether the worker accepted it.
func (b *bench) follow(after wire.AttemptID, i int) bool {
	d := b.task(i, &wire.Task{Protocol: wire.ProtocolVersion, Run: "r", Address: "a.b",
		Provision: &wire.ProvisionTask{}})
	d.bus = b.bus
	return b.bus.hand["eu"](after, d)
}

// announced is a creation whose task announces another operation of the same vertex.
func announced() *wire.Task {
	t := applyTask("x")
	t.More = true
	return t
}

// A worker freed its slot between an object's creation and its provisioning. So it took more creations, and the
// provisioning of its first objects had to wait for them, while other workers were idle.
func TestASlotStaysWithItsVertexUntilTheLastOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(o *Options) { o.Slots = 1 })
		b.start()
		first, other := b.task(0, announced()), b.task(5, applyTask("y"))
		b.bus.put(first, other)
		elapse(time.Second)
		if got := len(b.results()); got != 1 {
			t.Fatalf("%d operations have ended; the other one had to wait for the slot", got)
		}
		if !b.follow("a0", 1) {
			t.Fatal("the worker does not accept the operation for which it has reserved its slot")
		}
		synctest.Wait()
		rs := b.results()
		if len(rs) != 3 || rs[1].Attempt != "a1" || rs[2].Attempt != "a5" {
			t.Errorf("the results are of %+v", rs)
		}
		if b.follow("a0", 2) || b.follow("a1", 3) {
			t.Error("a slot is reserved although no operation was announced")
		}
		if err := b.stop(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestASlotIsNotKeptForWhatDoesNotCome(t *testing.T) {
	for claim, wait := range map[string]time.Duration{"the coordinator is gone": keepFor,
		"the operation has failed": 0} {
		t.Run(claim, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, func(o *Options) { o.Slots = 1 })
				if wait == 0 {
					b.bus.onClaim = func(c wire.Claim) error {
						b.bus.onClaim = nil
						_ = sleep.For(context.Background(), trust+time.Second) // too late to begin
						return nil
					}
				}
				b.start()
				b.bus.put(b.task(0, announced()), b.task(5, applyTask("y")))
				elapse(wait + trust + 2*time.Second)
				if got := len(b.results()); got != 2 {
					t.Errorf("%d operations have ended", got)
				}
				if b.follow("a0", 1) {
					t.Error("the worker accepts the operation after the reservation has ended")
				}
				if err := b.stop(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

func TestAWorkerThatDrainsKeepsNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(o *Options) { o.Slots = 1 })
		b.start()
		b.bus.put(b.task(0, announced()))
		elapse(time.Second)
		began := time.Now()
		if err := b.stop(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("the worker took %s to end", took)
		}
	})
}

// Each worker fetched and started a provider at its first operation: with eight workers, that was two of seven seconds.
func TestAProviderIsStartedBeforeItsFirstOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.start()
		synctest.Wait()
		b.bus.control["eu"](wire.Control{Kind: "warm", Providers: []wire.Provider{{Address: "p", Digest: "configured",
			Config: []byte{1}}}})
		synctest.Wait()
		if b.cloud.released != 1 || b.cloud.applied != 0 {
			t.Errorf("%d providers were started, %d changes made", b.cloud.released, b.cloud.applied)
		}
		if err := b.stop(); err != nil {
			t.Fatal(err)
		}
	})
}
