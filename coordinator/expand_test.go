package coordinator

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

// slowEnvelope counts how many results of each pool are being unwrapped, until it is let go.
type slowEnvelope struct {
	Envelope
	mu    sync.Mutex
	now   map[string]int
	leave chan struct{}
}

func (e *slowEnvelope) Unwrap(_ context.Context, ref wire.TaskRef, _ []byte) ([]byte, error) {
	e.mu.Lock()
	e.now[ref.Pool]++
	e.mu.Unlock()
	<-e.leave
	return nil, errors.New("read")
}

// packed is a result that has arrived.
type packed struct {
	wire.Delivery
	ref  wire.TaskRef
	data []byte
}

func (p packed) Ref() wire.TaskRef { return p.ref }
func (p packed) Data() []byte      { return p.data }
func (p packed) Sequence() uint64  { return 1 }

// All results that were fetched at once, 64 and more, were unpacked at once, to as much as 512 MiB each.
func TestOfAPoolTwoResultsAreExpandedAtOnceAndPoolsDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		e := &slowEnvelope{now: map[string]int{}, leave: make(chan struct{})}
		x := newExecutor(Options{RunID: "r", Envelope: e, Now: time.Now}, newInbox())
		x.ctx = ctx
		var group sync.WaitGroup
		read := func(pool string, flags byte, n int) {
			id := wire.AttemptID(pool + "-attempt")
			x.attempts[id] = known{pool: pool}
			for i := range n {
				d := packed{ref: wire.TaskRef{Pool: pool, Run: "r", Attempt: id}, data: []byte{1, flags, 0}}
				group.Go(func() { x.read(i, d) })
			}
			synctest.Wait()
		}
		const sealed, compressed, spilled = 2, 1, 4
		read("eu", sealed|compressed, 10)
		read("us", sealed|spilled, 10)
		read("small", sealed, 10)
		for pool, want := range map[string]int{"eu": expandAtOnce, "us": expandAtOnce, "small": 10} {
			if e.now[pool] != want {
				t.Errorf("%d results of %s are unwrapped at once, not %d", e.now[pool], pool, want)
			}
		}
		for range 2 + 2 + 10 + 1 {
			e.leave <- struct{}{}
		}
		synctest.Wait()
		if all := e.now["eu"] + e.now["us"]; all <= 2*expandAtOnce {
			t.Errorf("when some were read, no other was: %d", all)
		}
		cancel() // those who wait for their turn hear it
		close(e.leave)
		group.Wait()
	})
}
