package wiretest

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/millipede-iac/millipede/wire"
)

func beat(worker string, pools ...string) wire.Heartbeat {
	return wire.Heartbeat{Worker: worker, Pools: pools, Slots: 4, Running: 1, Version: "1.0",
		Protocol: wire.ProtocolVersion,
		Platform: "linux_amd64", PublicKey: "X", Attempts: []wire.AttemptID{"a1"}}
}

// watch runs a subscribing method concurrently with the test, until the returned function is called.
func (b *bench) watch(ctx context.Context, watch func(ctx context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	s := begin(b, func() (struct{}, error) { return struct{}{}, watch(ctx) })
	b.Cleanup(cancel)
	return func() { cancel(); s.get() }
}

// receive sends until something arrives: live messages are lost until the receiver is ready.
func receive[T any](ctx context.Context, b *bench, ch <-chan T, send func() error) T {
	b.Helper()
	var got T
	b.until(ctx, "a message arrives", func() bool {
		select {
		case got = <-ch:
			return true
		default:
			b.no(send())
			return false
		}
	})
	return got
}

var presenceTests = []test{
	{"a heartbeat is seen as it was sent, in the name of each pool", func(ctx context.Context, b *bench) {
		alice, worker := b.actor(), b.actor()
		ch := make(chan wire.Heartbeat, 10000)
		stop := b.watch(ctx, func(ctx context.Context) error {
			return alice.SubscribeHeartbeats(ctx, func(h wire.Heartbeat) { ch <- h })
		})
		sent, got := beat("w 1", "eu west", "us"), map[string]string{}
		for len(got) < 2 {
			h := receive(ctx, b, ch, func() error { return worker.Beat(ctx, sent) })
			got[h.Pools[0]] = fmt.Sprint(h)
		}
		for _, pool := range sent.Pools {
			if got[pool] != fmt.Sprint(sent.For(pool)) {
				b.Fatalf("for %s it got %s", pool, got[pool])
			}
		}
		stop()
	}},
	{"two pools may each have a worker of one name, and neither speaks for the other",
		func(ctx context.Context, b *bench) {
			alice, eu, us := b.actor(), b.actor(), b.actor()
			_, err := alice.Workers(ctx)
			b.no(err)
			pools := func() (pools []string) {
				list, err := alice.Workers(ctx)
				b.no(err)
				for _, w := range list {
					pools = append(pools, w.Pools...)
				}
				slices.Sort(pools)
				return pools
			}
			b.no(us.Beat(ctx, beat("w1", "us")))
			b.no(eu.Beat(ctx, beat("w1", "eu")))
			b.until(ctx, "both are listed", func() bool { return slices.Equal(pools(), []string{"eu", "us"}) })
			leaving := beat("w1", "eu")
			leaving.Leaving = true
			b.no(eu.Beat(ctx, leaving))
			b.until(ctx, "one is listed", func() bool { return slices.Equal(pools(), []string{"us"}) })
		}},
	{"workers that beat are listed, and one that leaves is not", func(ctx context.Context, b *bench) {
		alice, worker := b.actor(), b.actor()
		_, err := alice.Workers(ctx)
		b.no(err)
		names := func() []string {
			list, err := alice.Workers(ctx)
			b.no(err)
			var names []string
			for _, w := range list {
				if w.Since < 0 {
					b.Fatalf("%s was seen in the future", w.Worker)
				}
				names = append(names, w.Worker)
			}
			slices.Sort(names)
			return names
		}
		b.no(worker.Beat(ctx, beat("w1", "eu")))
		b.no(worker.Beat(ctx, beat("w2", "us")))
		b.until(ctx, "both are listed", func() bool { return slices.Equal(names(), []string{"w1", "w2"}) })
		leaving := beat("w1", "eu")
		leaving.Leaving = true
		b.no(worker.Beat(ctx, leaving))
		b.until(ctx, "one is listed", func() bool { return slices.Equal(names(), []string{"w2"}) })
	}},
	{"workers that are asked to announce themselves are listed at once", func(ctx context.Context, b *bench) {
		worker := b.actor()
		seen := make(chan wire.Control, 10000)
		b.watch(ctx, func(ctx context.Context) error {
			return worker.SubscribeControl(ctx, "eu", func(m wire.Control) {
				if m.Kind == "announce" {
					if err := worker.Beat(ctx, beat("w1", "eu")); err != nil && ctx.Err() == nil {
						b.Error(err)
					}
				}
				seen <- m
			})
		})
		probe := b.actor()
		receive(ctx, b, seen, func() error { return probe.Control(ctx, "", wire.Control{Kind: "hello"}) })
		// Of several calls at the same time only the first waited; the others returned workers that happened to be known,
		// so that a run shared its key with nobody, and its first tasks were put off by workers that could not read them.
		coordinator := b.actor()
		var calls sync.WaitGroup
		for range 4 {
			calls.Go(func() {
				list, err := coordinator.Workers(ctx)
				if err != nil || len(list) != 1 || list[0].Worker != "w1" {
					b.Errorf("the workers are %v (%v)", list, err)
				}
			})
		}
		calls.Wait()
	}},
	{"a control message reaches the workers of its pool, and one for all reaches all",
		func(ctx context.Context, b *bench) {
			alice, eu, us := b.actor(), b.actor(), b.actor()
			atEU, atUS := make(chan wire.Control, 10000), make(chan wire.Control, 10000)
			b.watch(ctx, func(ctx context.Context) error {
				return eu.SubscribeControl(ctx, "eu.west", func(m wire.Control) { atEU <- m })
			})
			b.watch(ctx, func(ctx context.Context) error {
				return us.SubscribeControl(ctx, "us", func(m wire.Control) { atUS <- m })
			})
			hello := func() error { return alice.Control(ctx, "", wire.Control{Kind: "hello"}) }
			receive(ctx, b, atEU, hello)
			receive(ctx, b, atUS, hello)
			b.no(alice.Control(ctx, "eu.west", wire.Control{Kind: "stop", Run: "run-1"}))
			b.no(alice.Control(ctx, "", wire.Control{Kind: "cancel", Run: "run-2"}))
			next := func(ch chan wire.Control) wire.Control {
				for {
					select {
					case m := <-ch:
						if m.Kind != "hello" {
							return m
						}
					case <-ctx.Done():
						b.Fatal("nothing came")
					}
				}
			}
			if m := next(atEU); !reflect.DeepEqual(m, wire.Control{Kind: "stop", Run: "run-1"}) && m.Kind != "cancel" {
				b.Fatalf("pool eu got %+v", m)
			}
			if m := next(atUS); !reflect.DeepEqual(m, wire.Control{Kind: "cancel", Run: "run-2"}) {
				b.Fatalf("pool us got %+v", m)
			}
		}},
	{"the events of a run reach who watches it, and nobody else", func(ctx context.Context, b *bench) {
		worker, alice := b.actor(), b.actor()
		ch := make(chan string, 10000)
		stop := b.watch(ctx, func(ctx context.Context) error {
			return alice.Events(ctx, "run 1", func(pool string, data []byte) { ch <- pool + ": " + string(data) })
		})
		receive(ctx, b, ch, func() error { return worker.Emit(ctx, "eu 1", "run 1", []byte("hello")) })
		b.no(worker.Emit(ctx, "eu 1", "run 2", []byte("foreign")))
		b.no(worker.Emit(ctx, "us", "run 1", []byte("last")))
		for got := ""; got != "us: last"; {
			select {
			case got = <-ch:
			case <-ctx.Done():
				b.Fatal("the last one is missing")
			}
			if got == "eu 1: foreign" {
				b.Fatal("an event of another run came")
			}
		}
		stop()
	}},
	{"a connection knows that it is up", func(ctx context.Context, b *bench) {
		c := b.actor()
		if c.Connected() <= 0 {
			b.Fatal("it says that it is down")
		}
	}},
}
