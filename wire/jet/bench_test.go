package jet_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/jet"
)

// pair returns a coordinator's and a worker's connection to an embedded server.
func pair(b *testing.B) (coordinator, worker *jet.Conn) {
	b.Helper()
	e, err := jet.Embed(b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	if coordinator, err = e.Connect(b.Context(), jet.Options{}); err != nil {
		b.Fatal(err)
	}
	if worker, err = e.Connect(b.Context(), jet.Options{}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		for _, c := range []interface{ Close() error }{coordinator, worker, e} {
			if err := c.Close(); err != nil {
				b.Error(err)
			}
		}
	})
	return coordinator, worker
}

// BenchmarkFastLane is one call and its response. The budget is 11 µs of CPU.
func BenchmarkFastLane(b *testing.B) {
	c, w := pair(b)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		done <- w.Serve(ctx, "p", 64, func(_ context.Context, d []byte) []byte { return d })
	}()
	data := make([]byte, 500)
	call := func(b *testing.B) {
		if _, err := c.Call(b.Context(), "p", data); err != nil {
			b.Fatal(err)
		}
	}
	for {
		if _, err := c.Call(b.Context(), "p", nil); err == nil {
			break
		}
	}
	b.Run("one after the other", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			call(b)
		}
	})
	b.Run("ten at a time", func(b *testing.B) {
		b.SetParallelism(5)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				call(b)
			}
		})
	})
	cancel()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
}

// BenchmarkSafeLane is the dispatch and return of a no-op: publish, fetch, claim, acknowledge, result and back. The
// budget is 1 ms for the median.
func BenchmarkSafeLane(b *testing.B) {
	for _, atOnce := range []int{1, 10} {
		b.Run(fmt.Sprint(atOnce, " at a time"), func(b *testing.B) {
			c, w := pair(b)
			ctx, cancel := context.WithCancel(context.Background())
			var worker sync.WaitGroup
			worker.Go(func() {
				var tasks sync.WaitGroup
				defer tasks.Wait()
				for {
					list, err := w.FetchTasks(ctx, "p", atOnce)
					if err != nil {
						return
					}
					for _, d := range list {
						tasks.Go(func() { carryOut(ctx, b, w, d) })
					}
				}
			})
			data := make([]byte, 500)
			results := make(chan struct{}, 1000)
			worker.Go(func() {
				for {
					list, err := c.FetchResults(ctx, "c", 100)
					if err != nil {
						return
					}
					for _, d := range list {
						results <- struct{}{}
						if err := d.Ack(context.Background()); err != nil {
							b.Error(err)
						}
					}
				}
			})
			n := 0
			publish := func() {
				n++
				ref := wire.TaskRef{Pool: "p", Coordinator: "c", Run: "r", Attempt: wire.AttemptID(fmt.Sprint(n))}
				if err := c.PublishTask(ctx, ref, data); err != nil {
					b.Fatal(err)
				}
			}
			publish()
			<-results // everything is set up
			for range atOnce - 1 {
				publish()
			}
			var times []time.Duration
			for b.Loop() {
				begun := time.Now()
				publish()
				<-results
				times = append(times, time.Since(begun))
			}
			for range atOnce - 1 {
				<-results
			}
			slices.Sort(times)
			b.ReportMetric(float64(times[len(times)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(times[len(times)*99/100].Microseconds()), "p99-µs")
			cancel()
			worker.Wait()
		})
	}
}

func carryOut(ctx context.Context, b *testing.B, w *jet.Conn, d wire.Delivery) {
	if _, err := w.Claim(ctx, d.Ref(), wire.Claim{Nonce: "n"}); err != nil {
		b.Error(err)
	}
	if err := d.Ack(ctx); err != nil {
		b.Error(err)
	}
	if err := w.PublishResult(ctx, d.Ref(), d.Data()); err != nil {
		b.Error(err)
	}
}

// BenchmarkPermit requests and releases a permit, without other requests.
func BenchmarkPermit(b *testing.B) {
	c, _ := pair(b)
	if _, err := c.DeclareLimit(b.Context(), wire.Limit{Name: "global", Slots: 10}); err != nil {
		b.Fatal(err)
	}
	n := 0
	for b.Loop() {
		n++
		p, err := c.Acquire(b.Context(), "global", wire.PermitRequest{ID: fmt.Sprint(n), Coordinator: "c", Run: "r"})
		if err != nil {
			b.Fatal(err)
		}
		if err := p.Release(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStart starts an embedded server in an empty directory, with a connection and the streams of the safe lane.
func BenchmarkStart(b *testing.B) {
	dir := b.TempDir()
	n := 0
	for b.Loop() {
		n++
		e, err := jet.Embed(fmt.Sprint(dir, "/", n), nil)
		if err != nil {
			b.Fatal(err)
		}
		c, err := e.Connect(b.Context(), jet.Options{})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := c.HighWater(b.Context(), []string{"default"}); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		for _, c := range []interface{ Close() error }{c, e} {
			if err := c.Close(); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
	}
}
