package coordinator

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/coordinator/hub"
	"github.com/millipede-iac/millipede/coordinator/loop"
	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/mem"
)

// opened is an envelope that does not encrypt.
type opened struct{ Envelope }

func (opened) Unwrap(ctx context.Context, ref wire.TaskRef, data []byte, held *wire.Reservation) ([]byte, error) {
	return wire.Packer{Held: held}.Unpack(ctx, wire.ResultSubject(ref), data)
}

// slowClaims counts for how many results of each pool the claims are being read, until it is let go.
type slowClaims struct {
	wire.Claims
	mu    sync.Mutex
	now   map[string]int
	leave chan struct{}
}

func (s *slowClaims) ReadClaim(_ context.Context, ref wire.TaskRef) (wire.Claim, error) {
	s.mu.Lock()
	s.now[ref.Pool]++
	s.mu.Unlock()
	<-s.leave
	return wire.Claim{Worker: "w1"}, nil
}

// packed returns a result as it arrives.
type packed struct {
	wire.Delivery
	ref  wire.TaskRef
	data []byte
}

func (p packed) Ref() wire.TaskRef { return p.ref }
func (p packed) Data() []byte      { return p.data }
func (p packed) Sequence() uint64  { return 1 }

// All results that had been fetched together, 64 and more, were decompressed at the same time, each to as much as 512
// MiB. Later it was two for each pool, for any number of pools.
func TestLargeResultsOfAllRunsWaitForRoomAndPoolsDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		system := mem.New(mem.Options{})
		shared := hub.New(system.Connect("coordinator"), "c1")
		defer func() { _ = shared.Close() }()
		slow := &slowClaims{now: map[string]int{}, leave: make(chan struct{})}
		shared.Claims, shared.Budget = slow, wire.NewMemoryBudget(8<<20)
		large, err := wire.Packer{}.Pack(ctx, "s",
			wire.EncodeResult(&wire.Result{Doubt: strings.Repeat("x", 3<<20)}))
		if err != nil {
			t.Fatal(err)
		}
		small, _ := wire.Packer{}.Pack(ctx, "s", wire.EncodeResult(&wire.Result{Doubt: "x"}))
		var group sync.WaitGroup
		for _, run := range []string{"r1", "r2"} { // they share the room
			x := newExecutor(Options{RunID: run, Envelope: opened{}, Now: time.Now, Hub: shared}, newInbox())
			x.ctx = ctx
			for pool, data := range map[string][]byte{"eu": large, "us": large, "small": small} {
				id := wire.AttemptID(pool + "-attempt")
				x.remember(id, known{pool: pool}) // under its lock: results of another pool are read already
				for i := range 5 {
					d := packed{ref: wire.TaskRef{Pool: pool, Run: run, Attempt: id}, data: data}
					group.Go(func() { x.read(i, d) })
				}
			}
		}
		synctest.Wait()
		want := map[string]int{"eu": 1, "us": 1, "small": 10}
		for pool, n := range want {
			if slow.now[pool] != n {
				t.Errorf("%d results of %s are in memory, not %d", slow.now[pool], pool, n)
			}
		}
		for range 12 + 2 {
			slow.leave <- struct{}{}
		}
		synctest.Wait()
		if all := slow.now["eu"] + slow.now["us"]; all <= 2 {
			t.Errorf("after some results were processed, no others were decompressed: %d", all)
		}
		cancel() // those who wait for room hear it
		close(slow.leave)
		group.Wait()
	})
}

// The message about a result that was too large had only its size, not its vertex or worker.
func TestAResultThatIsTooLargeIsToldWithItsWorkerSubjectAndSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		system := mem.New(mem.Options{})
		shared := hub.New(system.Connect("coordinator"), "c1")
		defer func() { _ = shared.Close() }()
		ref := wire.TaskRef{Pool: "eu", Coordinator: "c1", Run: "r", Attempt: "a1"}
		if _, err := shared.Claim(t.Context(), ref, wire.Claim{Nonce: "n", Worker: "w1"}); err != nil {
			t.Fatal(err)
		}
		in := newInbox()
		x := newExecutor(Options{RunID: "r", Envelope: opened{}, Now: time.Now, Hub: shared}, in)
		x.ctx = t.Context()
		x.remember("a1", known{pool: "eu"})
		frame := []byte{1, 1, 0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0x80, 0, 0, 0, 0} // zstd: it has 2 GiB
		x.read(1, packed{ref: ref, data: frame})
		var told string
		for _, i := range in.take() {
			if u, ok := i.(loop.Unreadable); ok {
				told = u.Err.Error()
			}
		}
		for _, part := range []string{"worker w1 of pool eu", wire.ResultSubject(ref), "2147483648 bytes"} {
			if !strings.Contains(told, part) {
				t.Errorf("%q does not name %s", told, part)
			}
		}
	})
}
