package coordinator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/coordinator/hub"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/test/stage/numbers"
	"github.com/zclconf/go-cty/cty"

	statemem "github.com/millipede-iac/millipede/state/mem"
	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/mem"
)

// xor is an envelope with a trivial encryption, so that tests can recognise messages that are not encrypted.
type xor struct{}

func (xor) Wrap(_ context.Context, ref wire.TaskRef, data []byte) ([]byte, error) {
	return append([]byte("sealed:"), data...), nil
}

func (xor) Unwrap(_ context.Context, ref wire.TaskRef, data []byte, _ *wire.Reservation) ([]byte, error) {
	plain, ok := bytes.CutPrefix(data, []byte("sealed:"))
	if !ok {
		return nil, errors.New("not sealed")
	}
	return plain, nil
}

// safeWorker executes tasks of the safe lane. It finishes all tasks that it has claimed, even without the coordinator.
type safeWorker struct {
	conn    *mem.Conn
	latency time.Duration

	mu    sync.Mutex // guards the fields below
	began map[string]int
	times []time.Time // when each attempt began
	holds []wire.AttemptID
}

func serveTasks(t testing.TB, system *mem.System, pool string, slots int, latency time.Duration) (*safeWorker, func()) {
	w := &safeWorker{conn: system.Connect("safe-" + pool), latency: latency, began: map[string]int{}}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		nonces := 0
		for {
			ds, err := w.conn.FetchTasks(ctx, pool, slots)
			if err != nil {
				return
			}
			for _, d := range ds {
				nonces++
				nonce := fmt.Sprintf("n%d", nonces)
				group.Go(func() { w.attempt(t, d, nonce) })
			}
		}
	})
	group.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			w.mu.Lock()
			h := wire.Heartbeat{Worker: "w", Pools: []string{pool}, Slots: slots, Protocol: wire.ProtocolVersion,
				Attempts: slices.Clone(w.holds)}
			w.mu.Unlock()
			_ = w.conn.Beat(ctx, h)
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return w, func() {
		cancel()
		group.Wait()
		_ = w.conn.Close()
	}
}

func (w *safeWorker) attempt(t testing.TB, d wire.Delivery, nonce string) {
	ctx := context.Background()
	c, err := w.conn.Claim(ctx, d.Ref(), wire.Claim{Nonce: nonce, Worker: "w", At: time.Now()})
	if err != nil || c.Nonce != nonce {
		_ = d.Ack(ctx)
		return
	}
	_ = d.Ack(ctx)
	plain, err := xor{}.Unwrap(ctx, d.Ref(), d.Data(), nil)
	if err != nil {
		t.Errorf("a task was not encrypted")
		return
	}
	task, err := wire.DecodeTask(plain)
	if err != nil {
		t.Errorf("decoding a task: %v", err)
		return
	}
	w.mu.Lock()
	w.began[task.Function.Name]++
	w.times = append(w.times, time.Now())
	w.holds = append(w.holds, task.Attempt)
	w.mu.Unlock()
	started := time.Now()
	pause := time.NewTimer(w.latency)
	<-pause.C
	r := numbers.Compute(task)
	r.Nonce, r.Started, r.Pool = nonce, started, d.Ref().Pool
	data, _ := xor{}.Wrap(ctx, d.Ref(), wire.EncodeResult(r))
	if err := w.conn.PublishResult(ctx, d.Ref(), data); err != nil {
		t.Errorf("publishing a result: %v", err)
	}
	w.mu.Lock()
	w.holds = slices.DeleteFunc(w.holds, func(a wire.AttemptID) bool { return a == task.Attempt })
	w.mu.Unlock()
}

func (w *safeWorker) once(t *testing.T, want int) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, n := range w.began {
		if n != 1 {
			t.Errorf("the operation %s began %d times", name, n)
		}
	}
	if len(w.began) != want {
		t.Errorf("%d operations began, want %d", len(w.began), want)
	}
}

// framed is the program numbers with an output before and after the walk.
type framed struct{ *numbers.Program }

func (f framed) Begin() []state.Change {
	return []state.Change{state.SetOutput{Name: "begun", Output: &state.Output{Value: cty.True}}}
}

func (f framed) End() []state.Change {
	return []state.Change{state.SetOutput{Name: "ended", Output: &state.Output{Value: cty.True}}}
}

func applyOptions(conn *mem.Conn, store journal.Store, p program.Program, ids string) Options {
	var n atomic.Int64
	return Options{Program: p, Hub: hub.New(conn, "c1"), Store: store, Workspace: "default", RunID: "run1",
		Parallelism: 10,
		Envelope:    xor{}, Durations: store, Kind: "apply",
		NewID: func() string { return fmt.Sprintf("%s%d", ids, n.Add(1)) }}
}

func beginRun(t *testing.T, store journal.Store, n int) {
	t.Helper()
	beginNamed(t, store, "run1", n)
}

func beginNamed(t *testing.T, store journal.Store, run string, n int) {
	t.Helper()
	if err := store.BeginRun(context.Background(), "", journal.Run{ID: run, Workspace: "default", Coordinator: "c1",
		Status: "running", Vertices: n}, nil); err != nil {
		t.Fatal(err)
	}
}

func storedNumbers(t *testing.T, store journal.Store, p *numbers.Program) {
	t.Helper()
	s, err := store.Load(context.Background(), "default")
	if err != nil {
		t.Fatal(err)
	}
	for v, n := range p.Results {
		if p.IsHidden(v) {
			continue
		}
		o := s.Outputs[numbers.OutputName(v)]
		if o == nil {
			t.Errorf("the number of vertex %d is not stored", v)
			continue
		}
		if got, _ := o.Value.AsBigFloat().Uint64(); got != n {
			t.Errorf("the number %d is stored for vertex %d, not %d", got, v, n)
		}
	}
}

func TestAnApplyingRunOfAThousandVerticesStoresTheRightNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		system, store := mem.New(mem.Options{}), statemem.New(statemem.Options{})
		w, stop := serveTasks(t, system, "default", 100, 20*time.Millisecond)
		defer stop()
		p := numbers.Random(t, 1000, 4)
		p.Lane, p.Stored = program.Safe, true
		p.Hidden = func(v int) bool { return v%3 == 0 }
		beginRun(t, store, 1000)
		conn := system.Connect("coordinator")
		defer func() { _ = conn.Close() }()
		out, err := New(applyOptions(conn, store, framed{p}, "a")).Run(context.Background())
		if err != nil || out.Status != "done" {
			t.Fatalf("%v, %s", err, out.Status)
		}
		p.Check()
		storedNumbers(t, store, p)
		w.once(t, 666)
		s, _ := store.Load(context.Background(), "default")
		if s.Outputs["begun"] == nil || s.Outputs["ended"] == nil || s.Serial != 1 {
			t.Errorf("serial %d, outputs before and after: %v, %v", s.Serial, s.Outputs["begun"], s.Outputs["ended"])
		}
		runs, _ := store.Runs(context.Background(), "default")
		if runs[0].Status != "done" || runs[0].Ended.IsZero() {
			t.Errorf("the run is recorded as %+v", runs[0])
		}
		limits, _ := conn.Limits(context.Background())
		for _, l := range limits {
			if len(l.Held)+len(l.Waiting) > 0 {
				t.Errorf("limit %s is held by %v, waited for by %v", l.Name, l.Held, l.Waiting)
			}
		}
		if known := loadDurations(context.Background(), store, "apply"); known["number create"] == 0 {
			t.Errorf("no durations were stored: %v", known)
		}
	})
}

func TestARunWhoseProcessEndsIsResumedByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		system, store := mem.New(mem.Options{}), statemem.New(statemem.Options{})
		w, stop := serveTasks(t, system, "default", 100, 500*time.Millisecond)
		defer stop()
		p := numbers.Random(t, 200, 5)
		p.Lane, p.Stored = program.Safe, true
		beginRun(t, store, 200)
		for life := 0; ; life++ {
			ctx, cancel := context.WithTimeout(context.Background(), 1700*time.Millisecond)
			conn := system.Connect(fmt.Sprintf("coordinator %d", life))
			o := applyOptions(conn, store, p, fmt.Sprintf("a%d-", life))
			r, err := Resume(ctx, o)
			if err != nil {
				t.Fatal(err)
			}
			out, err := r.Run(ctx)
			cancel()
			if err != nil {
				t.Fatal(err)
			}
			_ = conn.Close()
			if out.Status == "done" {
				break
			}
			if life > 50 {
				t.Fatalf("the run does not end: %+v", out)
			}
			s, _ := store.Load(context.Background(), "default")
			p = p.Again(func(v int) (n uint64) {
				if o := s.Outputs[numbers.OutputName(v)]; o != nil {
					n, _ = o.Value.AsBigFloat().Uint64()
				}
				return n
			})
		}
		p.Check()
		storedNumbers(t, store, p)
		w.once(t, 200)
	})
}

func TestAStoreThatFailsEndsTheRunWithItsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		commits := 0
		full := errors.New("no space left")
		store := statemem.New(statemem.Options{Hooks: statemem.Hooks{Before: func(method, _ string) error {
			if method == "Commit" {
				if commits++; commits > 5 {
					return full
				}
			}
			return nil
		}}})
		system := mem.New(mem.Options{})
		_, stop := serveTasks(t, system, "default", 100, 20*time.Millisecond)
		defer stop()
		p := numbers.Random(t, 50, 4)
		p.Lane, p.Stored = program.Safe, true
		beginRun(t, store, 50)
		conn := system.Connect("coordinator")
		defer func() { _ = conn.Close() }()
		out, err := New(applyOptions(conn, store, p, "a")).Run(context.Background())
		if !errors.Is(err, full) || out.Status != "interrupted" {
			t.Errorf("%v, %s", err, out.Status)
		}
	})
}

func TestASecondInterruptLeavesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		system, store := mem.New(mem.Options{}), statemem.New(statemem.Options{})
		_, stop := serveTasks(t, system, "default", 100, time.Hour)
		defer stop()
		p := numbers.New(t, 3)
		p.Lane, p.Stored = program.Safe, true
		beginRun(t, store, 3)
		conn := system.Connect("coordinator")
		defer func() { _ = conn.Close() }()
		r := New(applyOptions(conn, store, p, "a"))
		time.AfterFunc(time.Second, r.Interrupt)
		time.AfterFunc(2*time.Second, r.Interrupt)
		began := time.Now()
		out, err := r.Run(context.Background())
		if err != nil || out.Status != "interrupted" || !out.Interrupted {
			t.Errorf("%v, %+v", err, out)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("the run ended after %s", took)
		}
		limits, _ := conn.Limits(context.Background())
		if len(limits[0].Held) != 3 {
			t.Errorf("%d permits are held for the three operations in progress", len(limits[0].Held))
		}
	})
}

func TestStreamsThatWereMadeAnewFreezeTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		system, store := mem.New(mem.Options{}), statemem.New(statemem.Options{})
		_, stop := serveTasks(t, system, "default", 100, 10*time.Second)
		defer stop()
		p := numbers.New(t, 30)
		p.Lane, p.Stored = program.Safe, true
		beginRun(t, store, 30)
		conn := system.Connect("coordinator")
		defer func() { _ = conn.Close() }()
		time.AfterFunc(3*time.Second, system.Recreate)
		out, err := New(applyOptions(conn, store, p, "a")).Run(context.Background())
		if err != nil || out.Status != "interrupted" || len(out.InDoubt) != 10 || !out.Diags.HasErrors() {
			t.Errorf("%v, %+v", err, out)
		}
		if len(p.Doubts) != 10 {
			t.Errorf("%d objects are in doubt in the state", len(p.Doubts))
		}
	})
}

func TestTheCoordinatorOutlivesARestartOfTheTransport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		system, store := mem.New(mem.Options{}), statemem.New(statemem.Options{})
		w, stop := serveTasks(t, system, "default", 100, 300*time.Millisecond)
		defer stop()
		p := numbers.Random(t, 100, 6)
		p.Lane, p.Stored = program.Safe, true
		beginRun(t, store, 100)
		conn := system.Connect("coordinator")
		defer func() { _ = conn.Close() }()
		for i := range 3 {
			time.AfterFunc(time.Duration(i+1)*time.Second, system.Restart)
			time.AfterFunc(time.Duration(i)*time.Second+500*time.Millisecond, conn.Cut)
			time.AfterFunc(time.Duration(i)*time.Second+900*time.Millisecond, conn.Heal)
		}
		out, err := New(applyOptions(conn, store, p, "a")).Run(context.Background())
		if err != nil || out.Status != "done" {
			t.Fatalf("%v, %+v", err, out)
		}
		p.Check()
		storedNumbers(t, store, p)
		w.once(t, 100)
	})
}

func TestARunIsCancelledFromAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		system, store := mem.New(mem.Options{}), statemem.New(statemem.Options{})
		w, stop := serveTasks(t, system, "default", 100, 3*time.Second)
		defer stop()
		p := numbers.New(t, 50)
		p.Lane, p.Stored = program.Safe, true
		beginRun(t, store, 50)
		conn, other := system.Connect("coordinator"), system.Connect("other")
		defer func() { _, _ = conn.Close(), other.Close() }()
		time.AfterFunc(time.Second, func() {
			if err := other.Control(context.Background(), "", wire.Control{Kind: "cancel", Run: "run1"}); err != nil {
				t.Error(err)
			}
		})
		out, err := New(applyOptions(conn, store, p, "a")).Run(context.Background())
		if err != nil || out.Status != "cancelled" || !out.Cancelled {
			t.Errorf("%v, %+v", err, out)
		}
		w.once(t, 10)
	})
}
