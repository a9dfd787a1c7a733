package coordinator

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/coordinator/hub"
	"github.com/millipede-iac/millipede/coordinator/loop"
	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/test/stage/numbers"
	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/mem"
)

// fastWorker executes the tasks of the fast lane of a pool until stop is called.
type fastWorker struct {
	conn    *mem.Conn
	calls   atomic.Int64
	running atomic.Int64
	most    atomic.Int64
}

func serveCalls(t testing.TB, system *mem.System, pool string, slots int, latency time.Duration,
	answer func(*wire.Task) *wire.Result) (*fastWorker, func()) {
	w := &fastWorker{conn: system.Connect("worker-" + pool)}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		packer := wire.Packer{Blobs: w.conn, Rand: rand.Reader}
		about := wire.CallSubject(pool, wire.ProtocolVersion)
		err := w.conn.Serve(ctx, pool, slots, func(ctx context.Context, data []byte) []byte {
			w.calls.Add(1)
			now := w.running.Add(1)
			defer w.running.Add(-1)
			for most := w.most.Load(); now > most && !w.most.CompareAndSwap(most, now); most = w.most.Load() {
			}
			if latency > 0 {
				pause := time.NewTimer(latency)
				<-pause.C
			}
			plain, err := packer.Unpack(ctx, about, data)
			if err != nil {
				t.Errorf("unpacking a call: %v", err)
				return nil
			}
			task, err := wire.DecodeTask(plain)
			if err != nil {
				t.Errorf("decoding a call: %v", err)
				return nil
			}
			out, err := packer.Pack(ctx, about, wire.EncodeResult(answer(task)))
			if err != nil {
				t.Errorf("packing an answer: %v", err)
			}
			return out
		})
		if err != nil && ctx.Err() == nil {
			t.Errorf("serving: %v", err)
		}
	})
	group.Go(func() {
		beatUntil(ctx, w.conn, wire.Heartbeat{Worker: "w-" + pool, Pools: []string{pool}, Slots: slots,
			Protocol: wire.ProtocolVersion})
	})
	return w, func() {
		cancel()
		group.Wait()
		_ = w.conn.Close()
	}
}

func beatUntil(ctx context.Context, conn *mem.Conn, h wire.Heartbeat) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		_ = conn.Beat(ctx, h)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// planRun runs a program without a store.
func planRun(t testing.TB, system *mem.System, p program.Program, parallelism int, change func(*Options)) loop.Outcome {
	conn := system.Connect("coordinator")
	defer func() { _ = conn.Close() }()
	var ids atomic.Int64
	o := Options{Program: p, Hub: hub.New(conn, "c1"), RunID: "r1", Parallelism: placement.Parallelism(parallelism),
		NewID: func() string { return fmt.Sprintf("id%d", ids.Add(1)) }}
	if change != nil {
		change(&o)
	}
	out, err := New(o).Run(context.Background())
	if err != nil {
		t.Fatalf("the run failed: %v", err)
	}
	return out
}

func TestAPlanningRunOfAThousandVerticesComputesTheRightNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		system := mem.New(mem.Options{})
		w, stop := serveCalls(t, system, "default", 100, 10*time.Millisecond, numbers.Compute)
		defer stop()
		p := numbers.Random(t, 1000, 1)
		p.Hidden = func(v int) bool { return v%3 == 0 }
		out := planRun(t, system, p, 10, nil)
		p.Check()
		if out.Status != "done" || w.calls.Load() != 666 || w.most.Load() > 10 {
			t.Errorf("%s, %d calls, at most %d at a time", out.Status, w.calls.Load(), w.most.Load())
		}
	})
}

func TestAnEmbeddedRunSetsTheSizeOfTheLimitAndAnotherOneFindsIt(t *testing.T) {
	for embedded, want := range map[bool]int64{true: 7, false: 3} {
		synctest.Test(t, func(t *testing.T) {
			system := mem.New(mem.Options{})
			w, stop := serveCalls(t, system, "default", 100, 10*time.Millisecond, numbers.Compute)
			defer stop()
			if _, err := w.conn.DeclareLimit(context.Background(), wire.Limit{Name: wire.DefaultLimit,
				Slots: 3}); err != nil {
				t.Fatal(err)
			}
			planRun(t, system, numbers.New(t, 100), 7, func(o *Options) { o.Embedded = embedded })
			if w.most.Load() != want {
				t.Errorf("embedded %v: %d calls at the same time, want %d", embedded, w.most.Load(), want)
			}
		})
	}
}
