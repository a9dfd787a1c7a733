// Package wiretest is the test suite for implementations of the interfaces of package wire.
//
// Each test's name is a claim about an interface. The suite depends only on the interfaces; specifics of NATS, or
// of the implementation in memory, are tested there.
package wiretest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

// System is one transport with several actors.
type System struct {
	// Connect returns a connection of a separate process. The suite closes it.
	Connect func(t *testing.T) wire.Transport
	// Restart stops the server, and starts it with its stored data. Earlier connections cannot be used afterwards.
	Restart func(t *testing.T)
	// AckWait is the time after which unacknowledged messages are redelivered. The tests wait for it, so it should
	// be short.
	AckWait time.Duration
}

// In runs the body of one test, in virtual time (synctest.Test) if the implementation supports it, or in real time
// (Plainly).
type In func(t *testing.T, body func(t *testing.T))

// Plainly runs a test's body in real time.
func Plainly(t *testing.T, body func(t *testing.T)) { body(t) }

// Run runs the suite. start creates a new, empty system for each test.
func Run(t *testing.T, in In, start func(t *testing.T) *System) {
	for _, group := range [][]test{queueTests, handTests, claimTests, semaphoreTests, abandonedTests, keepTests, callTests,
		partTests, presenceTests, traceTests} {
		for _, tt := range group {
			t.Run(tt.claim, func(t *testing.T) {
				in(t, func(t *testing.T) {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					tt.prove(ctx, &bench{T: t, System: start(t)})
				})
			})
		}
	}
}

type test struct {
	claim string
	prove func(ctx context.Context, b *bench)
}

// bench is the environment of one test.
type bench struct {
	*testing.T
	*System
}

// actor connects a new process; it is closed at the end of the test at the latest.
func (b *bench) actor() wire.Transport {
	b.Helper()
	c := b.Connect(b.T)
	b.Cleanup(func() { b.no(c.Close()) })
	return c
}

// no fails the test on an error.
func (b *bench) no(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// is fails the test unless the error wraps the given one.
func (b *bench) is(err, want error) {
	b.Helper()
	if !errors.Is(err, want) {
		b.Fatalf("got error %v instead of %v", err, want)
	}
}

func ref(attempt string) wire.TaskRef {
	return wire.TaskRef{Pool: "eu", Coordinator: "alice", Run: "run-1", Attempt: wire.AttemptID(attempt)}
}

// publish publishes a task whose data is its attempt.
func (b *bench) publish(ctx context.Context, c wire.Transport, r wire.TaskRef) {
	b.Helper()
	b.no(c.PublishTask(ctx, r, []byte(r.Attempt)))
}

// tasks fetches exactly n tasks.
func (b *bench) tasks(ctx context.Context, c wire.Transport, pool string, n int) []wire.Delivery {
	b.Helper()
	return b.gather(n, func(most int) ([]wire.Delivery, error) { return c.FetchTasks(ctx, pool, most) })
}

// results fetches exactly n results.
func (b *bench) results(ctx context.Context, c wire.Transport, coordinator string, n int) []wire.Delivery {
	b.Helper()
	return b.gather(n, func(most int) ([]wire.Delivery, error) { return c.FetchResults(ctx, coordinator, most) })
}

func (b *bench) gather(n int, fetch func(most int) ([]wire.Delivery, error)) []wire.Delivery {
	b.Helper()
	var all []wire.Delivery
	for len(all) < n {
		list, err := fetch(n - len(all))
		b.no(err)
		if len(list) == 0 || len(list) > n-len(all) {
			b.Fatalf("a fetch of at most %d returned %d", n-len(all), len(list))
		}
		all = append(all, list...)
	}
	return all
}

// noTask fails if a task of the pool arrives within the time.
func (b *bench) noTask(ctx context.Context, c wire.Transport, pool string, within time.Duration) {
	b.Helper()
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	list, err := c.FetchTasks(ctx, pool, 1)
	if len(list) > 0 {
		b.Fatalf("task %s arrived", list[0].Ref().Attempt)
	}
	b.is(err, context.DeadlineExceeded)
}

func (b *bench) request(coordinator string, n int) wire.PermitRequest {
	return wire.PermitRequest{ID: fmt.Sprintf("%s-%d", coordinator, n), Coordinator: coordinator,
		Run: "run-of-" + coordinator}
}

func (b *bench) declare(ctx context.Context, c wire.Transport, name string, slots int) {
	b.Helper()
	got, err := c.DeclareLimit(ctx, wire.Limit{Name: name, Slots: slots})
	b.no(err)
	if got.Name != name || got.Slots != slots {
		b.Fatalf("declared %s with %d slots, got %+v", name, slots, got)
	}
}

func (b *bench) acquire(ctx context.Context, c wire.Transport, limit string, r wire.PermitRequest) wire.Permit {
	b.Helper()
	p, err := c.Acquire(ctx, limit, r)
	b.no(err)
	if p.Limit() != limit || p.Request().ID != r.ID {
		b.Fatalf("asked for request %s of limit %s, got %s of %s", r.ID, limit, p.Request().ID, p.Limit())
	}
	return p
}

// started is the result of a function that runs concurrently with the test.
type started[T any] struct {
	b    *bench
	done chan struct{}
	v    T
	err  error
}

// begin runs fn concurrently with the test, which waits for it with get, or at its end.
func begin[T any](b *bench, fn func() (T, error)) *started[T] {
	s := &started[T]{b: b, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		s.v, s.err = fn()
	}()
	b.Cleanup(func() { <-s.done })
	return s
}

func (s *started[T]) get() T {
	s.b.Helper()
	<-s.done
	s.b.no(s.err)
	return s.v
}

// until repeats try, with short pauses, until it returns true or ctx ends.
func (b *bench) until(ctx context.Context, what string, try func() bool) {
	b.Helper()
	for !try() {
		select {
		case <-time.After(2 * time.Millisecond):
		case <-ctx.Done():
			b.Fatalf("waited in vain until %s", what)
		}
	}
}

// waits waits until n requests of a limit wait.
func (b *bench) waits(ctx context.Context, c wire.Transport, limit string, n int) {
	b.Helper()
	b.until(ctx, fmt.Sprintf("%d requests wait for limit %s", n, limit), func() bool {
		return len(b.status(ctx, c, limit).Waiting) == n
	})
}

func (b *bench) status(ctx context.Context, c wire.Transport, limit string) wire.LimitStatus {
	b.Helper()
	list, err := c.Limits(ctx)
	b.no(err)
	for _, s := range list {
		if s.Name == limit {
			return s
		}
	}
	b.Fatalf("limit %s is not among %v", limit, list)
	return wire.LimitStatus{}
}
