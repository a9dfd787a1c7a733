package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	cryptorand "crypto/rand"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/mem"
	"github.com/millipede-iac/millipede/worker/journal"
)

// chance makes random decisions from one seed.
type chance struct {
	mu sync.Mutex
	r  *rand.Rand
}

func (c *chance) hit(p float64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.r.Float64() < p
}

// faults lose requests and answers, and deliver messages twice. The coordinator has no faults.
func (c *chance) faults(op mem.Op) mem.Fault {
	var f mem.Fault
	if op.Actor == "coordinator" {
		return f
	}
	switch {
	case op.Name == "Deliver":
		f.Twice = c.hit(0.2)
	case c.hit(0.15):
		f.Before = wire.ErrDisconnected
	case c.hit(0.15):
		f.After = wire.ErrDisconnected
	}
	return f
}

// dyingJournal fails at random, before or after a write. The worker then ends, as if it had crashed.
type dyingJournal struct {
	*journal.Journal
	chance *chance
}

var errCrash = errors.New("a crash")

func (j dyingJournal) step(write func() error) error {
	if j.chance.hit(0.02) {
		return errCrash
	}
	if err := write(); err != nil {
		return err
	}
	if j.chance.hit(0.02) {
		return errCrash
	}
	return nil
}

func (j dyingJournal) Intend(ref wire.TaskRef, nonce string, m []byte) error {
	return j.step(func() error { return j.Journal.Intend(ref, nonce, m) })
}

func (j dyingJournal) Start(ref wire.TaskRef, m []byte) error {
	return j.step(func() error { return j.Journal.Start(ref, m) })
}

func (j dyingJournal) End(ref wire.TaskRef, m []byte) error {
	return j.step(func() error { return j.Journal.End(ref, m) })
}

func (j dyingJournal) Done(ref wire.TaskRef) error {
	return j.step(func() error { return j.Journal.Done(ref) })
}

func TestNothingBeginsTwiceAndNothingIsLostWhateverFails(t *testing.T) {
	const tasks = 40
	for seed := range uint64(40) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				c := &chance{r: rand.New(rand.NewPCG(seed, 1))}
				system := mem.New(mem.Options{Fault: c.faults})
				sealer, err := wire.NewSealer(cryptorand.Reader)
				if err != nil {
					t.Fatal(err)
				}
				began := map[string]int{}
				var mu sync.Mutex
				clouds := &cloud{onApply: func(ctx context.Context, r provider.ApplyRequest) (provider.ApplyResponse,
					diag.List) {
					mu.Lock()
					began[r.Planned.GetAttr("name").AsString()]++
					mu.Unlock()
					return slowApply(100*time.Millisecond)(ctx, r)
				}}

				taking, stop := context.WithCancel(context.Background())
				var workers sync.WaitGroup
				for n := range 2 {
					workers.Go(func() { live(t, taking, system, c, clouds, sealer, fmt.Sprintf("w%d", n), dir) })
				}
				coordinator := system.Connect("coordinator")
				for i := range tasks {
					ref := wire.TaskRef{Pool: "eu", Coordinator: "c", Run: "r",
						Attempt: wire.AttemptID(fmt.Sprintf("a%d", i))}
					data, err := wire.Packer{Run: "r", Sealer: sealer}.Pack(t.Context(), wire.TaskSubject(ref),
						wire.EncodeTask(applyTask(string(ref.Attempt))))
					if err == nil {
						err = coordinator.PublishTask(t.Context(), ref, data)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				results := gather(t, coordinator, sealer, tasks)
				stop()
				workers.Wait()
				for attempt, r := range results {
					switch n := began[string(attempt)]; {
					case n > 1:
						t.Errorf("the operation of %s began %d times", attempt, n)
					case r.NotStarted && n != 0:
						t.Errorf("%s is reported as not started, but its operation began", attempt)
					case r.Apply != nil && n != 1:
						t.Errorf("%s has a result, but its operation never began", attempt)
					case !r.NotStarted && r.Apply == nil && r.Doubt == "":
						t.Errorf("%s ended with %v", attempt, r.Diagnostics)
					}
				}
				if err := coordinator.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// live runs a worker until taking ends; each time it dies it is started again with the same journal.
func live(t *testing.T, taking context.Context, system *mem.System, c *chance, clouds *cloud, sealer *wire.Sealer,
	id, dir string) {
	for life := 0; taking.Err() == nil; life++ {
		j, _, err := journal.Open(filepath.Join(dir, id))
		if err != nil {
			t.Error(err)
			return
		}
		conn := system.Connect(id)
		nonce := 0
		var mu sync.Mutex
		w := New(Options{
			ID: id, Pools: []string{"eu"}, Slots: 5, Queue: conn, Claims: conn, Caller: conn,
			Parts: conn, Presence: conn, Blobs: conn,
			Keys: keys{sealer}, Journal: dyingJournal{j, c}, Providers: leases{clouds}, Now: time.Now,
			Rand: cryptorand.Reader,
			Log:  slog.New(slog.NewTextHandler(io.Discard, nil)),
			Nonce: func() string {
				mu.Lock()
				defer mu.Unlock()
				nonce++
				return fmt.Sprintf("%s-%d-%d", id, life, nonce)
			},
		})
		err = w.Run(taking, context.WithoutCancel(taking))
		if err != nil && !errors.Is(err, errCrash) {
			t.Error(err)
		}
		if err := errors.Join(conn.Close(), j.Close()); err != nil {
			t.Error(err)
		}
	}
}

// gather collects a result for every attempt. A second result for an attempt must be the same, unless one of the two
// reports a doubt: one may come from the journal, and the other from the worker's memory.
func gather(t *testing.T, coordinator *mem.Conn, sealer *wire.Sealer, tasks int) map[wire.AttemptID]*wire.Result {
	out := map[wire.AttemptID]*wire.Result{}
	ctx, enough := context.WithTimeout(t.Context(), time.Hour)
	defer enough()
	for len(out) < tasks {
		ds, err := coordinator.FetchResults(ctx, "c", 10)
		if err != nil {
			t.Fatalf("%d of %d attempts were reported: %v", len(out), tasks, err)
		}
		for _, d := range ds {
			plain, err := wire.Packer{Run: "r", Sealer: sealer, Blobs: coordinator}.Unpack(ctx,
				wire.ResultSubject(d.Ref()), d.Data())
			if err != nil {
				t.Fatal(err)
			}
			r, err := wire.DecodeResult(plain)
			if err == nil {
				err = d.Ack(ctx)
			}
			if err != nil {
				t.Fatal(err)
			}
			if old := out[r.Attempt]; old == nil || old.Doubt != "" {
				out[r.Attempt] = r
			} else if old.Nonce != r.Nonce || old.NotStarted != r.NotStarted {
				t.Errorf("%s was reported under two claims: %+v, %+v", r.Attempt, old, r)
			}
		}
	}
	return out
}
