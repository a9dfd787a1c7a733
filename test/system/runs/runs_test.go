package runs

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/hub"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/state/journal"
	statemem "github.com/millipede-iac/millipede/state/mem"
	"github.com/millipede-iac/millipede/test/stage/numbers"
	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/jet"
	"github.com/millipede-iac/millipede/wire/mem"
)

// plain is an envelope that does not encrypt.
type plain struct{}

func (plain) Wrap(_ context.Context, _ wire.TaskRef, data []byte) ([]byte, error) { return data, nil }
func (plain) Unwrap(_ context.Context, _ wire.TaskRef, data []byte, _ *wire.Reservation) ([]byte, error) {
	return data, nil
}

// serve executes the tasks of the safe lane until ctx ends.
func serve(ctx context.Context, t *testing.T, conn wire.Transport, ended *sync.WaitGroup) {
	h := wire.Heartbeat{Worker: "w", Pools: []string{"default"}, Slots: 64, Protocol: wire.ProtocolVersion}
	ended.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			_ = conn.Beat(ctx, h)
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	var nonces atomic.Int64
	ended.Go(func() {
		for ctx.Err() == nil {
			list, err := conn.FetchTasks(ctx, "default", 16)
			if err != nil && ctx.Err() == nil {
				t.Errorf("fetching tasks: %v", err)
				return
			}
			for _, d := range list {
				ended.Go(func() {
					nonce := fmt.Sprintf("n%d", nonces.Add(1))
					c, err := conn.Claim(ctx, d.Ref(), wire.Claim{Nonce: nonce, Worker: "w", At: time.Now()})
					_ = d.Ack(ctx)
					if err != nil || c.Nonce != nonce {
						return
					}
					task, err := wire.DecodeTask(d.Data())
					if err != nil {
						t.Errorf("decoding a task: %v", err)
						return
					}
					r := numbers.Compute(task)
					r.Nonce, r.Pool = nonce, d.Ref().Pool
					if err := conn.PublishResult(ctx, d.Ref(), wire.EncodeResult(r)); err != nil {
						t.Errorf("publishing a result: %v", err)
					}
				})
			}
		}
	})
}

// apply executes a new run with five operations.
func apply(t *testing.T, h *hub.Hub, name string) {
	store := statemem.New(statemem.Options{})
	p := numbers.Random(t, 5, 3)
	p.Lane, p.Stored = program.Safe, true
	run := journal.Run{ID: name, Workspace: "default", Coordinator: h.Coordinator(),
		Status: journal.Running, Vertices: 5}
	if err := store.BeginRun(t.Context(), "", run, nil); err != nil {
		t.Error(err)
		return
	}
	var ids atomic.Int64
	out, err := coordinator.New(coordinator.Options{
		Program: p, Hub: h, Store: store, Workspace: "default", RunID: name, Envelope: plain{}, Parallelism: 100,
		NewID: func() string { return fmt.Sprintf("%s-%d", name, ids.Add(1)) },
	}).Run(t.Context())
	if err != nil || out.Status != "done" {
		t.Errorf("%s: %v, %s, %v", name, err, out.Status, out.Diags)
	}
	p.Check()
}

// goroutines waits for a while until at most want goroutines are left. It returns their number and, if there are still
// more, their stacks.
func goroutines(want int) (n int, stacks string) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 500 {
		if n = runtime.NumGoroutine(); n <= want {
			return n, ""
		}
		<-tick.C
	}
	buf := make([]byte, 1<<20)
	return n, string(buf[:runtime.Stack(buf, true)])
}

func TestRunsOverOneHubLeaveNoGoroutines(t *testing.T) {
	memory := mem.New(mem.Options{})
	for name, connect := range map[string]func(t *testing.T, who string) wire.Transport{
		"mem": func(_ *testing.T, who string) wire.Transport { return memory.Connect(who) },
		"jet": func(t *testing.T, who string) wire.Transport { return overJet(t, who) },
	} {
		t.Run(name, func(t *testing.T) {
			servers = nil
			worker := connect(t, "worker")
			ctx, cancel := context.WithCancel(context.Background())
			var ended sync.WaitGroup
			serve(ctx, t, worker, &ended)
			h := hub.New(connect(t, "coordinator"), "c1")
			apply(t, h, "first") // it starts the goroutines that the connections keep
			settled, _ := goroutines(0)
			for i := range 200 {
				apply(t, h, fmt.Sprintf("one-%d", i))
			}
			var together sync.WaitGroup
			for i := range 20 {
				together.Go(func() { apply(t, h, fmt.Sprintf("many-%d", i)) })
			}
			together.Wait()
			// The worker may still be sending claims and results.
			if n, stacks := goroutines(settled); n > settled {
				t.Errorf("%d goroutines are left; before the runs there were %d:\n%s", n, settled, stacks)
			}
			cancel()
			ended.Wait()
			for _, c := range []interface{ Close() error }{h, worker} {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// servers is the embedded server of the current test.
var servers *jet.Embedded

func overJet(t *testing.T, who string) wire.Transport {
	log := func(line string) {
		if !strings.Contains(line, "closed") {
			t.Log(line)
		}
	}
	if servers == nil {
		e, err := jet.Embed(filepath.Join(t.TempDir(), "nats"), log)
		if err != nil {
			t.Fatal(err)
		}
		servers = e
		t.Cleanup(func() {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	conn, err := servers.Connect(t.Context(), jet.Options{Name: who, Provision: true, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	return conn
}
