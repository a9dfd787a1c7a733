package hub_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/coordinator/hub"
	"github.com/millipede-iac/millipede/internal/bug"
	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/mem"
)

// publish puts the result of an attempt into the stream.
func publish(t *testing.T, conn *mem.Conn, run, attempt string) {
	t.Helper()
	ref := wire.TaskRef{Pool: "eu", Coordinator: "c1", Run: run, Attempt: wire.AttemptID(attempt)}
	if err := conn.PublishResult(t.Context(), ref, []byte(attempt)); err != nil {
		t.Fatal(err)
	}
}

// taking receives the results of a run until end is called, which returns them.
func taking(h *hub.Hub, run string, ack bool) (end func() []string) {
	ctx, cancel := context.WithCancel(context.Background())
	var came []string
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = h.Results(ctx, run, func(d wire.Delivery) {
			came = append(came, string(d.Data()))
			if ack {
				_ = d.Ack(ctx)
			}
		})
	}()
	return func() []string {
		cancel()
		<-done
		return came
	}
}

func TestEachRunGetsItsOwnResultsAndTheStraysOfOneAreKeptUntilItComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		system := mem.New(mem.Options{})
		worker, conn := system.Connect("worker"), system.Connect("coordinator")
		defer worker.Close()
		h := hub.New(conn, "c1")
		defer h.Close()
		one, two := taking(h, "one", true), taking(h, "two", true)
		synctest.Wait()
		publish(t, worker, "one", "1a")
		publish(t, worker, "later", "3a")
		publish(t, worker, "two", "2a")
		synctest.Wait()
		began := time.Now()
		three := taking(h, "later", true)
		synctest.Wait()
		if got := three(); !slices.Equal(got, []string{"3a"}) || time.Since(began) > 0 {
			t.Errorf("the second run got %v after %s", got, time.Since(began))
		}
		if got := one(); !slices.Equal(got, []string{"1a"}) {
			t.Errorf("the first run got %v", got)
		}
		if got := two(); !slices.Equal(got, []string{"2a"}) {
			t.Errorf("the second run got %v", got)
		}
	})
}

// If a hub has fetched results of a run that another process resumes, that process must get them immediately.
func TestStraysAreGivenBackWithTheLastRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		system := mem.New(mem.Options{})
		worker, here, there := system.Connect("worker"), system.Connect("here"), system.Connect("there")
		defer worker.Close()
		h, other := hub.New(here, "c1"), hub.New(there, "c1")
		defer h.Close()
		defer other.Close()
		end := taking(h, "one", true)
		publish(t, worker, "resumed elsewhere", "a")
		synctest.Wait()
		end()
		resumed := taking(other, "resumed elsewhere", true)
		<-time.After(time.Second) // of the bubble: less than the term after which messages come again by themselves
		synctest.Wait()
		if got := resumed(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("the run that is resumed elsewhere got %v", got)
		}
	})
}

func TestAListenerThatPanicsEndsAloneWithItsTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		system := mem.New(mem.Options{})
		worker, conn := system.Connect("worker"), system.Connect("coordinator")
		defer worker.Close()
		h := hub.New(conn, "c1")
		defer h.Close()
		ctx, cancel := context.WithCancel(t.Context())
		heard := 0
		good, bad := make(chan error, 1), make(chan error, 1)
		go func() { good <- h.SubscribeHeartbeats(ctx, func(wire.Heartbeat) { heard++ }) }()
		go func() { bad <- h.SubscribeHeartbeats(ctx, func(wire.Heartbeat) { panic("planted") }) }()
		synctest.Wait()
		for range 3 {
			if err := worker.Beat(t.Context(), wire.Heartbeat{Worker: "w", Pools: []string{"eu"},
				Protocol: wire.ProtocolVersion}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		var b *bug.Error
		if err := <-bad; !errors.As(err, &b) || b.Value != "planted" {
			t.Errorf("the listener that panics ends with %v", err)
		}
		cancel()
		if err := <-good; err != nil || heard != 3 {
			t.Errorf("the other listener ends with %v, and got %d heartbeats", err, heard)
		}
	})
}

func TestAllRunsAreProbedByOneQuestionAboutTheirOwnPools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		system := mem.New(mem.Options{Fault: func(op mem.Op) mem.Fault {
			if op.Name == "HighWater" {
				asked++
			}
			return mem.Fault{}
		}})
		h := hub.New(system.Connect("coordinator"), "c1")
		defer h.Close()
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex // guards answers
		answers := map[string][]string{}
		done := make(chan string, 2)
		for _, pool := range []string{"eu", "us"} {
			go func() {
				h.Probe(ctx, func() []string { return []string{pool} }, func(mark wire.HighWater, _ time.Duration, err error) bool {
					mu.Lock()
					defer mu.Unlock()
					for name := range mark.Claims {
						answers[pool] = append(answers[pool], name)
					}
					return err == nil
				})
				done <- pool
			}()
			synctest.Wait()
		}
		<-time.After(10 * time.Second) // of the bubble
		cancel()
		<-done
		<-done
		for pool, names := range answers {
			if len(names) < 10 || slices.ContainsFunc(names, func(n string) bool { return n != pool }) {
				t.Errorf("the run in the pool %s got heartbeats of %v", pool, names)
			}
		}
		if asked > 13 {
			t.Errorf("the transport was asked %d times in 10 s", asked)
		}
	})
}

// crammed is a transport whose pool eu has a full stream.
type crammed struct{ wire.Transport }

func (c crammed) HighWater(ctx context.Context, pools []string) (wire.HighWater, error) {
	mark, err := c.Transport.HighWater(ctx, pools)
	mark.Full = map[string]string{"eu": "stream RESULTS-eu is full"}
	return mark, err
}

// One request to the transport serves all runs of a process; a run that does not use a full pool must not be affected
// by it.
func TestThatAPoolIsFullIsToldToTheRunsThatUseIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hub.New(crammed{mem.New(mem.Options{}).Connect("coordinator")}, "c1")
		defer h.Close()
		told := map[string]error{}
		var mu sync.Mutex // guards told
		var group sync.WaitGroup
		for _, pools := range [][]string{{"eu"}, {"us"}, {"ap", "eu"}, nil} {
			group.Go(func() {
				n := 0
				h.Probe(t.Context(), func() []string { return pools }, func(_ wire.HighWater, _ time.Duration, err error) bool {
					mu.Lock()
					defer mu.Unlock()
					told[strings.Join(pools, " ")] = err
					n++
					return n < 3
				})
			})
		}
		group.Wait()
		for pools, err := range told {
			if want := strings.Contains(pools, "eu"); errors.Is(err, wire.ErrStore) != want {
				t.Errorf("a run with the pools %q gets the error %v", pools, err)
			}
		}
	})
}

func TestAPermitIsFreeWhenOneOfThoseWhoDecideSaysSo(t *testing.T) {
	system := mem.New(mem.Options{})
	conn := system.Connect("coordinator")
	o := &abandoning{Conn: conn}
	h := hub.New(o, "c1")
	defer h.Close()
	knows := func(run string) wire.AbandonedFunc {
		return func(_ context.Context, _ string, r wire.PermitRequest) bool { return r.Run == run }
	}
	h.Decide(knows("a"))
	remove := h.Decide(knows("b"))
	h.Decide(func(context.Context, string, wire.PermitRequest) bool { panic("planted") })
	for run, free := range map[string]bool{"a": true, "b": true, "c": false} {
		if got := o.fn(t.Context(), "default", wire.PermitRequest{Run: run}); got != free {
			t.Errorf("a permit of run %s is free: %v", run, got)
		}
	}
	remove()
	if o.fn(t.Context(), "default", wire.PermitRequest{Run: "b"}) {
		t.Error("a removed function was called")
	}
}

// abandoning is a transport that records the function that decides about abandoned permits.
type abandoning struct {
	*mem.Conn
	fn wire.AbandonedFunc
}

func (o *abandoning) OnAbandoned(fn wire.AbandonedFunc) { o.fn = fn }
