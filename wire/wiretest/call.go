package wiretest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

// server is a worker that handles calls.
type server struct {
	stop context.CancelFunc
	done *started[error]
}

// serve serves a pool, and returns when calls reach it.
func (b *bench) serve(ctx context.Context, c wire.Transport, pool string, slots int, handle func(ctx context.Context,
	data []byte) []byte) *server {
	b.Helper()
	ctx, stop := context.WithCancel(ctx)
	b.Cleanup(stop)
	s := &server{stop: stop}
	s.done = begin(b, func() (error, error) {
		return c.Serve(ctx, pool, slots, func(ctx context.Context, data []byte) []byte {
			if string(data) == "are you up?" {
				return []byte("yes")
			}
			return handle(ctx, data)
		}), nil
	})
	probe := b.actor()
	b.until(ctx, "the worker serves", func() bool {
		got, err := probe.Call(ctx, pool, []byte("are you up?"))
		if err != nil {
			b.is(err, wire.ErrNoWorker)
		}
		return string(got) == "yes"
	})
	return s
}

func echo(_ context.Context, data []byte) []byte { return append([]byte("echo "), data...) }

var callTests = []test{
	{"a call is answered", func(ctx context.Context, b *bench) {
		b.serve(ctx, b.actor(), "eu west", 1, echo)
		got, err := b.actor().Call(ctx, "eu west", []byte("hello"))
		b.no(err)
		if string(got) != "echo hello" {
			b.Fatalf("got %q", got)
		}
	}},
	{"an empty answer is an answer", func(ctx context.Context, b *bench) {
		b.serve(ctx, b.actor(), "eu", 1, func(context.Context, []byte) []byte { return nil })
		got, err := b.actor().Call(ctx, "eu", nil)
		b.no(err)
		if len(got) != 0 {
			b.Fatalf("got %q", got)
		}
	}},
	{"a call to a pool without workers fails at once", func(ctx context.Context, b *bench) {
		b.serve(ctx, b.actor(), "eu", 1, echo)
		begun := time.Now()
		_, err := b.actor().Call(ctx, "us", []byte("hello"))
		b.is(err, wire.ErrNoWorker)
		if took := time.Since(begun); took > 2*time.Second {
			b.Fatalf("it took %v", took)
		}
	}},
	{"large calls and answers pass", func(ctx context.Context, b *bench) {
		b.serve(ctx, b.actor(), "eu", 1, echo)
		data := noise(1, wire.SpillOver)
		got, err := b.actor().Call(ctx, "eu", data)
		b.no(err)
		if string(got) != "echo "+string(data) {
			b.Fatalf("%d bytes came back", len(got))
		}
	}},
	{"a thousand calls at once are all answered, each with its own answer", func(ctx context.Context, b *bench) {
		b.serve(ctx, b.actor(), "eu", 8, echo)
		b.serve(ctx, b.actor(), "eu", 8, echo) // perhaps not ready yet; then the first one handles more
		alice := b.actor()
		var all []*started[[]byte]
		for i := range 1000 {
			all = append(all, begin(b, func() ([]byte, error) { return alice.Call(ctx, "eu", fmt.Append(nil, i)) }))
		}
		for i, s := range all {
			if got := string(s.get()); got != fmt.Sprint("echo ", i) {
				b.Fatalf("call %d was answered with %q", i, got)
			}
		}
	}},
	{"a worker has no more calls in hand than slots, and a free worker takes the others",
		func(ctx context.Context, b *bench) {
			gate := make(chan struct{})
			var mu sync.Mutex
			running, most := map[string]int{}, map[string]int{}
			handler := func(name string) func(context.Context, []byte) []byte {
				return func(context.Context, []byte) []byte {
					mu.Lock()
					running[name]++
					most[name] = max(most[name], running[name])
					mu.Unlock()
					<-gate
					mu.Lock()
					running[name]--
					mu.Unlock()
					return nil
				}
			}
			b.serve(ctx, b.actor(), "eu", 2, handler("one"))
			b.serve(ctx, b.actor(), "eu", 3, handler("two"))
			alice := b.actor()
			var all []*started[[]byte]
			for range 12 {
				all = append(all, begin(b, func() ([]byte, error) { return alice.Call(ctx, "eu", nil) }))
			}
			b.until(ctx, "all slots are in use", func() bool {
				mu.Lock()
				defer mu.Unlock()
				return running["one"] == 2 && running["two"] == 3
			})
			close(gate)
			for _, s := range all {
				s.get()
			}
			if most["one"] != 2 || most["two"] != 3 {
				b.Fatalf("at one time there were %v", most)
			}
		}},
	{"a call waits for a busy worker no longer than its context", func(ctx context.Context, b *bench) {
		gate := make(chan struct{})
		b.serve(ctx, b.actor(), "eu", 1, func(context.Context, []byte) []byte { <-gate; return nil })
		alice := b.actor()
		first := begin(b, func() ([]byte, error) { return alice.Call(ctx, "eu", nil) })
		short, cancel := context.WithTimeout(ctx, 30*time.Millisecond)
		defer cancel()
		_, one := alice.Call(short, "eu", nil)
		b.is(one, context.DeadlineExceeded)
		close(gate)
		first.get()
	}},
	{"a worker that stops serving finishes the calls that it has, and takes no more",
		func(ctx context.Context, b *bench) {
			gate, begun := make(chan struct{}), make(chan struct{})
			s := b.serve(ctx, b.actor(), "eu", 4, func(ctx context.Context, data []byte) []byte {
				close(begun)
				<-gate
				if ctx.Err() != nil {
					return []byte("cut short")
				}
				return data
			})
			alice := b.actor()
			call := begin(b, func() ([]byte, error) { return alice.Call(ctx, "eu", []byte("x")) })
			<-begun
			s.stop()
			b.until(ctx, "it takes no more", func() bool {
				short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
				defer cancel()
				_, err := b.actor().Call(short, "eu", []byte("are you up?"))
				return err != nil
			})
			close(gate)
			if got := string(call.get()); got != "x" {
				b.Fatalf("the answer is %q", got)
			}
			b.no(s.done.get())
		}},
	{"a call whose worker dies is lost", func(ctx context.Context, b *bench) {
		gate, begun := make(chan struct{}), make(chan struct{})
		worker, alice := b.actor(), b.actor()
		b.serve(ctx, worker, "eu", 1, func(context.Context, []byte) []byte {
			close(begun)
			<-gate
			return nil
		})
		call := begin(b, func() (error, error) {
			_, err := alice.Call(ctx, "eu", nil)
			return err, nil
		})
		<-begun
		closed := begin(b, func() (struct{}, error) { return struct{}{}, worker.Close() })
		b.is(call.get(), wire.ErrLostCall)
		close(gate)
		closed.get()
	}},
}
