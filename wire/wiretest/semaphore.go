package wiretest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

var semaphoreTests = []test{
	{"a limit that nobody declared is not found", func(ctx context.Context, b *bench) {
		_, err := b.actor().Acquire(ctx, "global", b.request("alice", 1))
		b.is(err, wire.ErrNotFound)
	}},
	{"a limit without slots is refused", func(ctx context.Context, b *bench) {
		alice := b.actor()
		if _, err := alice.DeclareLimit(ctx, wire.Limit{Name: "global"}); err == nil {
			b.Fatal("it was accepted")
		}
		b.declare(ctx, alice, "global", 1)
		if err := alice.ResizeLimit(ctx, wire.Limit{Name: "global", Slots: -1}); err == nil {
			b.Fatal("it was resized")
		}
	}},
	{"of two declarations the first one holds", func(ctx context.Context, b *bench) {
		alice, bob := b.actor(), b.actor()
		b.declare(ctx, alice, "global", 3)
		got, err := bob.DeclareLimit(ctx, wire.Limit{Name: "global", Slots: 9})
		b.no(err)
		if got.Slots != 3 {
			b.Fatalf("there are %d slots", got.Slots)
		}
	}},
	{"permits are given in the order of the requests, whoever asks", func(ctx context.Context, b *bench) {
		conns := map[string]wire.Transport{"alice": b.actor(), "bob": b.actor(), "carol": b.actor()}
		b.declare(ctx, conns["alice"], "global", 1)
		first := b.acquire(ctx, conns["alice"], "global", b.request("alice", 0))
		var mu sync.Mutex
		var got, want []string
		var all []*started[struct{}]
		for i := range 6 {
			who := []string{"alice", "bob", "carol"}[i%3]
			r := b.request(who, i+1)
			want = append(want, r.ID)
			all = append(all, begin(b, func() (struct{}, error) {
				p, err := conns[who].Acquire(ctx, "global", r)
				if err != nil {
					return struct{}{}, err
				}
				mu.Lock()
				got = append(got, r.ID)
				mu.Unlock()
				return struct{}{}, p.Release(ctx)
			}))
			b.waits(ctx, conns["alice"], "global", i+1)
		}
		b.no(first.Release(ctx))
		for _, s := range all {
			s.get()
		}
		if !slices.Equal(got, want) {
			b.Fatalf("got %v instead of %v", got, want)
		}
	}},
	{"a limit is never exceeded, however many ask", func(ctx context.Context, b *bench) {
		b.crowd(ctx, []string{"alice", "bob", "carol"}, 3, 6, 4)
	}},
	{"limits do not concern each other", func(ctx context.Context, b *bench) {
		alice := b.actor()
		b.declare(ctx, alice, "global", 1)
		b.declare(ctx, alice, "provider aws/eu.west", 1)
		b.acquire(ctx, alice, "global", b.request("alice", 1))
		b.acquire(ctx, alice, "provider aws/eu.west", b.request("alice", 1))
	}},
	{"a larger limit admits who waits", func(ctx context.Context, b *bench) {
		alice, bob := b.actor(), b.actor()
		b.declare(ctx, alice, "global", 1)
		b.acquire(ctx, alice, "global", b.request("alice", 1))
		second := begin(b, func() (wire.Permit, error) { return bob.Acquire(ctx, "global", b.request("bob", 1)) })
		b.waits(ctx, alice, "global", 1)
		b.no(alice.ResizeLimit(ctx, wire.Limit{Name: "global", Slots: 2}))
		second.get()
		if got := b.status(ctx, alice, "global"); got.Slots != 2 || len(got.Held) != 2 {
			b.Fatalf("the status is %+v", got)
		}
	}},
	{"a smaller limit waits until enough permits are released", func(ctx context.Context, b *bench) {
		alice, bob := b.actor(), b.actor()
		b.declare(ctx, alice, "global", 2)
		one := b.acquire(ctx, alice, "global", b.request("alice", 1))
		two := b.acquire(ctx, alice, "global", b.request("alice", 2))
		b.no(alice.ResizeLimit(ctx, wire.Limit{Name: "global", Slots: 1}))
		third := begin(b, func() (wire.Permit, error) { return bob.Acquire(ctx, "global", b.request("bob", 1)) })
		b.waits(ctx, alice, "global", 1)
		b.no(one.Release(ctx))
		b.stillWaits(third)
		b.no(two.Release(ctx))
		third.get()
	}},
	{"purging a run frees what processes that are gone asked for, or held, in its name",
		func(ctx context.Context, b *bench) {
			gone, bob := b.actor(), b.actor()
			b.declare(ctx, gone, "global", 1)
			b.acquire(ctx, gone, "global", b.request("alice", 1))
			abandoned, cancel := context.WithCancelCause(ctx)
			left := begin(b, func() (error, error) {
				_, err := gone.Acquire(abandoned, "global", b.request("alice", 2))
				return err, nil
			})
			b.waits(ctx, bob, "global", 1)
			cancel(wire.ErrLeft)
			b.is(left.get(), context.Canceled)
			b.no(gone.Close())
			waiting := begin(b, func() (wire.Permit, error) { return bob.Acquire(ctx, "global", b.request("bob", 1)) })
			b.waits(ctx, bob, "global", 2)
			b.no(bob.PurgeRun(ctx, "another run", nil))
			b.stillWaits(waiting)
			b.no(b.actor().PurgeRun(ctx, b.request("alice", 1).Run, nil))
			waiting.get()
			if got := b.status(ctx, bob, "global"); len(got.Held) != 1 || len(got.Waiting) != 0 {
				b.Fatalf("the status is %+v", got)
			}
		}},
	{"a request that is given up takes no slot", func(ctx context.Context, b *bench) {
		alice, bob := b.actor(), b.actor()
		b.declare(ctx, alice, "global", 1)
		held := b.acquire(ctx, alice, "global", b.request("alice", 1))
		short, cancel := context.WithCancel(ctx)
		given := begin(b, func() (error, error) {
			_, err := bob.Acquire(short, "global", b.request("bob", 1))
			return err, nil
		})
		b.waits(ctx, alice, "global", 1)
		cancel()
		b.is(given.get(), context.Canceled)
		if n := len(b.status(ctx, alice, "global").Waiting); n != 0 {
			b.Fatalf("%d requests wait", n)
		}
		b.no(held.Release(ctx))
		b.acquire(ctx, alice, "global", b.request("alice", 2))
	}},
	{"a request that is left keeps its place for another process", func(ctx context.Context, b *bench) {
		alice, bob := b.actor(), b.actor()
		b.declare(ctx, alice, "global", 1)
		held := b.acquire(ctx, alice, "global", b.request("alice", 1))
		short, leave := context.WithCancelCause(ctx)
		left := begin(b, func() (error, error) {
			_, err := bob.Acquire(short, "global", b.request("bob", 1))
			return err, nil
		})
		b.waits(ctx, alice, "global", 1)
		leave(fmt.Errorf("the run has ended: %w", wire.ErrLeft))
		b.is(left.get(), context.Canceled)
		if n := len(b.status(ctx, alice, "global").Waiting); n != 1 {
			b.Fatalf("%d requests wait", n)
		}
		b.no(bob.Close())
		b.no(held.Release(ctx))
		again := b.actor()
		b.acquire(ctx, again, "global", b.request("bob", 1))
	}},
	{"a request may be made again after it was given up", func(ctx context.Context, b *bench) {
		alice, bob := b.actor(), b.actor()
		b.declare(ctx, alice, "global", 1)
		held := b.acquire(ctx, alice, "global", b.request("alice", 1))
		short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		defer cancel()
		_, err := bob.Acquire(short, "global", b.request("bob", 1))
		b.is(err, context.DeadlineExceeded)
		b.no(held.Release(ctx))
		b.acquire(ctx, bob, "global", b.request("bob", 1))
	}},
	{"a request that is under way cannot be made twice", func(ctx context.Context, b *bench) {
		alice := b.actor()
		b.declare(ctx, alice, "global", 2)
		b.acquire(ctx, alice, "global", b.request("alice", 1))
		if _, err := alice.Acquire(ctx, "global", b.request("alice", 1)); err == nil {
			b.Fatal("it was granted twice")
		}
	}},
	{"contended tells of other runs that wait, and of no other", func(ctx context.Context, b *bench) {
		alice, bob := b.actor(), b.actor()
		b.declare(ctx, alice, "global", 1)
		contended := func(run string) bool {
			got, err := alice.Contended(ctx, "global", run)
			b.no(err)
			return got
		}
		p := b.acquire(ctx, alice, "global", b.request("alice", 1))
		if contended("run-of-alice") {
			b.Fatal("contended by nobody")
		}
		own := begin(b, func() (wire.Permit, error) { return alice.Acquire(ctx, "global", b.request("alice", 2)) })
		b.waits(ctx, alice, "global", 1)
		if contended("run-of-alice") {
			b.Fatal("contended by the run's own request")
		}
		other := begin(b, func() (wire.Permit, error) { return bob.Acquire(ctx, "global", b.request("bob", 1)) })
		b.until(ctx, "the limit is contended", func() bool { return contended("run-of-alice") })
		b.no(p.Release(ctx))
		b.no(own.get().Release(ctx))
		other.get()
		b.until(ctx, "the limit is not contended", func() bool { return !contended("run-of-alice") })
	}},
	{"the status shows who holds and who waits, in order", func(ctx context.Context, b *bench) {
		alice, bob := b.actor(), b.actor()
		b.declare(ctx, alice, "b", 1)
		b.declare(ctx, alice, "a", 1)
		r := b.request("alice", 1)
		r.At = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		b.acquire(ctx, alice, "b", r)
		short, cancel := context.WithCancel(ctx)
		defer cancel()
		for i := range 3 {
			begin(b, func() (wire.Permit, error) { return bob.Acquire(short, "b", b.request("bob", i)) })
			b.waits(ctx, alice, "b", i+1)
		}
		list, err := alice.Limits(ctx)
		b.no(err)
		if len(list) != 2 || list[0].Name != "a" || list[1].Name != "b" {
			b.Fatalf("the limits are %+v", list)
		}
		held, waiting := list[1].Held, list[1].Waiting
		if len(held) != 1 || held[0].ID != r.ID || held[0].Run != r.Run || !held[0].At.Equal(r.At) {
			b.Fatalf("held by %+v", held)
		}
		if len(waiting) != 3 || waiting[0].ID != "bob-0" || waiting[2].ID != "bob-2" {
			b.Fatalf("waiting: %+v", waiting)
		}
	}},
	{"the status says what a permit is held for, while its process says so", func(ctx context.Context, b *bench) {
		alice, bob := b.actor(), b.actor()
		b.declare(ctx, alice, "global", 1)
		b.acquire(ctx, alice, "global", b.request("alice", 1))
		said := wire.PermitUse{Limit: "global", ID: "alice-1", By: "ann", Pool: "eu", Address: "a.b", InDoubt: true,
			Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
		teller, ok := alice.(wire.PermitTeller)
		if !ok {
			b.Fatal("nobody can say what permits are held for")
		}
		remove := teller.OnPermitUses(func() []wire.PermitUse {
			return []wire.PermitUse{said, {Limit: "global", ID: "another"}, {Limit: "other", ID: "alice-1"}}
		})
		uses := func() map[string]wire.PermitUse {
			list, err := bob.Limits(ctx)
			b.no(err)
			return list[0].Uses
		}
		if got := uses(); len(got) != 1 || got["alice-1"] != said {
			b.Fatalf("the permits are held for %+v", got)
		}
		remove()
		if got := uses(); len(got) != 0 {
			b.Fatalf("nobody says so any more: %+v", got)
		}
	}},
	{"a held permit is confirmed, a released one is lost", func(ctx context.Context, b *bench) {
		alice := b.actor()
		b.declare(ctx, alice, "global", 1)
		p := b.acquire(ctx, alice, "global", b.request("alice", 1))
		b.no(p.Confirm(ctx))
		b.no(p.Release(ctx))
		b.is(p.Confirm(ctx), wire.ErrPermitLost)
		b.no(p.Release(ctx)) // again
	}},
	{"a permit outlives many ack waits while its process lives", func(ctx context.Context, b *bench) {
		alice, bob := b.actor(), b.actor()
		bob.OnAbandoned(func(context.Context, string, wire.PermitRequest) bool { return true })
		b.declare(ctx, alice, "global", 1)
		p := b.acquire(ctx, alice, "global", b.request("alice", 1))
		short, cancel := context.WithTimeout(ctx, 4*b.AckWait)
		defer cancel()
		_, err := bob.Acquire(short, "global", b.request("bob", 1))
		b.is(err, context.DeadlineExceeded)
		b.no(p.Confirm(ctx))
	}},
}

var abandonedTests = []test{
	{"a permit that its process has left is held, and comes back to the same request over the same connection",
		func(ctx context.Context, b *bench) {
			alice, bob := b.actor(), b.actor()
			bob.OnAbandoned(func(context.Context, string, wire.PermitRequest) bool { return false })
			b.declare(ctx, alice, "global", 1)
			p := b.acquire(ctx, alice, "global", b.request("alice", 1))
			waiting := begin(b, func() (wire.Permit, error) {
				return bob.Acquire(ctx, "global", b.request("bob", 1))
			})
			b.waits(ctx, alice, "global", 1)
			p.Leave()
			p.Leave() // again
			b.is(p.Confirm(ctx), wire.ErrPermitLost)
			b.stillWaits(waiting)
			p = b.acquire(ctx, alice, "global", b.request("alice", 1))
			b.stillWaits(waiting)
			b.no(p.Release(ctx))
			b.no(waiting.get().Release(ctx))
		}},
	{"a permit that its process has left is abandoned", func(ctx context.Context, b *bench) {
		alice, bob := b.actor(), b.actor()
		alice.OnAbandoned(func(_ context.Context, _ string, r wire.PermitRequest) bool { return r.ID == "alice-1" })
		bob.OnAbandoned(func(context.Context, string, wire.PermitRequest) bool { return false })
		b.declare(ctx, alice, "global", 1)
		b.acquire(ctx, alice, "global", b.request("alice", 1)).Leave()
		b.no(b.acquire(ctx, alice, "global", b.request("alice", 2)).Release(ctx))
	}},
	{"a permit whose coordinator died stays held", func(ctx context.Context, b *bench) {
		alice, bob := b.actor(), b.actor()
		b.declare(ctx, alice, "global", 1)
		b.acquire(ctx, alice, "global", b.request("alice", 1))
		b.no(alice.Close())
		asked := make(chan string, 100)
		bob.OnAbandoned(func(_ context.Context, limit string, r wire.PermitRequest) bool {
			asked <- limit + " " + r.ID + " " + r.Coordinator + " " + r.Run
			return false
		})
		short, cancel := context.WithTimeout(ctx, 4*b.AckWait)
		defer cancel()
		_, err := bob.Acquire(short, "global", b.request("bob", 1))
		b.is(err, context.DeadlineExceeded)
		if got := <-asked; got != "global alice-1 alice run-of-alice" {
			b.Fatalf("asked about %q", got)
		}
	}},
	{"a permit whose coordinator died comes back to the same request", func(ctx context.Context, b *bench) {
		alice := b.actor()
		b.declare(ctx, alice, "global", 2)
		b.acquire(ctx, alice, "global", b.request("alice", 1))
		b.acquire(ctx, alice, "global", b.request("alice", 2))
		b.no(alice.Close())
		again := b.actor()
		b.acquire(ctx, again, "global", b.request("alice", 2))
		b.acquire(ctx, again, "global", b.request("alice", 1))
		if got := b.status(ctx, again, "global"); len(got.Held) != 2 || len(got.Waiting) != 0 {
			b.Fatalf("the status is %+v", got)
		}
	}},
	{"a permit comes back to its request although others wait", func(ctx context.Context, b *bench) {
		alice, bob := b.actor(), b.actor()
		bob.OnAbandoned(func(context.Context, string, wire.PermitRequest) bool { return false })
		b.declare(ctx, alice, "global", 1)
		b.acquire(ctx, alice, "global", b.request("alice", 1))
		waiting := begin(b, func() (wire.Permit, error) { return bob.Acquire(ctx, "global", b.request("bob", 1)) })
		b.waits(ctx, alice, "global", 1)
		b.no(alice.Close())
		again := b.actor()
		p := b.acquire(ctx, again, "global", b.request("alice", 1))
		b.stillWaits(waiting)
		b.no(p.Release(ctx))
		waiting.get()
	}},
	{"an abandoned permit that is resolved frees its slot", func(ctx context.Context, b *bench) {
		alice, bob := b.actor(), b.actor()
		b.declare(ctx, alice, "global", 2)
		b.acquire(ctx, alice, "global", b.request("alice", 1))
		b.acquire(ctx, alice, "global", b.request("alice", 2))
		b.no(alice.Close())
		bob.OnAbandoned(func(_ context.Context, _ string, r wire.PermitRequest) bool { return r.ID == "alice-2" })
		b.acquire(ctx, bob, "global", b.request("bob", 1))
		if got := b.status(ctx, bob, "global"); len(got.Held) != 2 {
			b.Fatalf("the status is %+v", got)
		}
	}},
	{"a request that waited when its coordinator died takes its turn as an abandoned one",
		func(ctx context.Context, b *bench) {
			alice, bob := b.actor(), b.actor()
			b.declare(ctx, alice, "global", 1)
			bob.OnAbandoned(func(_ context.Context, _ string,
				r wire.PermitRequest) bool {
				return r.Coordinator == "alice"
			})
			b.acquire(ctx, alice, "global", b.request("alice", 1))
			begin(b, func() (wire.Permit, error) {
				p, err := alice.Acquire(ctx, "global", b.request("alice", 2))
				if err != nil {
					return p, nil // it died
				}
				return p, errors.New("it was granted")
			})
			b.waits(ctx, bob, "global", 1)
			b.no(alice.Close())
			b.acquire(ctx, bob, "global", b.request("bob", 1))
		}},
	{"a run's forgotten permits are asked about by its own coordinator too", func(ctx context.Context, b *bench) {
		alice := b.actor()
		b.declare(ctx, alice, "global", 1)
		b.acquire(ctx, alice, "global", b.request("alice", 1))
		b.no(alice.Close())
		again := b.actor()
		again.OnAbandoned(func(_ context.Context, _ string, r wire.PermitRequest) bool { return r.ID == "alice-1" })
		b.acquire(ctx, again, "global", b.request("alice", 2))
	}},
	{"a limit, its permits and its queue survive a restart of the server", func(ctx context.Context, b *bench) {
		alice := b.actor()
		b.declare(ctx, alice, "global", 1)
		b.no(alice.ResizeLimit(ctx, wire.Limit{Name: "global", Slots: 2}))
		b.acquire(ctx, alice, "global", b.request("alice", 1))
		b.acquire(ctx, alice, "global", b.request("alice", 2))
		b.no(alice.Close())
		b.Restart(b.T)

		alice, bob := b.actor(), b.actor()
		got, err := bob.DeclareLimit(ctx, wire.Limit{Name: "global", Slots: 5})
		b.no(err)
		if got.Slots != 2 {
			b.Fatalf("there are %d slots", got.Slots)
		}
		waiting := begin(b, func() (wire.Permit, error) { return bob.Acquire(ctx, "global", b.request("bob", 1)) })
		one := b.acquire(ctx, alice, "global", b.request("alice", 1))
		b.acquire(ctx, alice, "global", b.request("alice", 2))
		b.stillWaits(waiting)
		b.no(one.Release(ctx))
		waiting.get()
	}},
	{"a limit is not exceeded while coordinators die and their permits are resolved",
		func(ctx context.Context, b *bench) {
			const slots = 3
			use := &usage{slots: slots, in: map[string]bool{}}
			b.declare(ctx, b.actor(), "global", slots)
			var all []*started[struct{}]
			for i := range 3 {
				who := fmt.Sprint("mortal", i)
				c := b.actor()
				c.OnAbandoned(use.resolve)
				all = append(all, begin(b, func() (struct{}, error) {
					for n := range 4 {
						r := b.request(who, n)
						p, err := c.Acquire(ctx, "global", r)
						if err != nil {
							return struct{}{}, err
						}
						if err := use.enter(r); err != nil {
							return struct{}{}, err
						}
						if n == 3 {
							break // it dies with this permit
						}
						use.leave(r)
						if err := p.Release(ctx); err != nil {
							return struct{}{}, err
						}
					}
					return struct{}{}, c.Close()
				}))
			}
			for _, s := range all {
				s.get()
			}
			heir := b.actor()
			heir.OnAbandoned(use.resolve)
			for n := range slots {
				r := b.request("heir", n)
				b.acquire(ctx, heir, "global", r)
				b.no(use.enter(r))
			}
		}},
}

// stillWaits fails if an unexpected event happens. It waits briefly for it.
func (b *bench) stillWaits(s *started[wire.Permit]) {
	b.Helper()
	select {
	case <-s.done:
		b.Fatalf("it did not wait: %v", s.err)
	case <-time.After(20 * time.Millisecond):
	}
}

// usage is the tests' own record of the holders of a limit's slots.
type usage struct {
	slots int
	mu    sync.Mutex
	in    map[string]bool
	most  int
}

func (u *usage) enter(r wire.PermitRequest) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.in[r.ID] = true
	u.most = max(u.most, len(u.in))
	if len(u.in) > u.slots {
		return fmt.Errorf("%d hold a limit of %d", len(u.in), u.slots)
	}
	return nil
}

func (u *usage) leave(r wire.PermitRequest) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.in, r.ID)
}

// resolve releases every abandoned permit.
func (u *usage) resolve(_ context.Context, _ string, r wire.PermitRequest) bool {
	u.leave(r)
	return true
}

// crowd lets several coordinators request permits repeatedly, each from several goroutines, and counts.
func (b *bench) crowd(ctx context.Context, coordinators []string, slots, goroutines, rounds int) {
	b.Helper()
	use := &usage{slots: slots, in: map[string]bool{}}
	var all []*started[struct{}]
	for i, who := range coordinators {
		c := b.actor()
		if i == 0 {
			b.declare(ctx, c, "global", slots)
		}
		for g := range goroutines {
			all = append(all, begin(b, func() (struct{}, error) {
				for n := range rounds {
					r := b.request(who, g*1000+n)
					p, err := c.Acquire(ctx, "global", r)
					if err != nil {
						return struct{}{}, err
					}
					if err := use.enter(r); err != nil {
						return struct{}{}, err
					}
					use.leave(r)
					if err := p.Release(ctx); err != nil {
						return struct{}{}, err
					}
				}
				return struct{}{}, nil
			}))
		}
	}
	for _, s := range all {
		s.get()
	}
}
