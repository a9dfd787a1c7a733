package wiretest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

var queueTests = []test{
	{"a task reaches a worker of its pool, whole", func(ctx context.Context, b *bench) {
		alice, worker := b.actor(), b.actor()
		r := ref("attempt one/ü.*>")
		r.Pool, r.Run = "eu west.1", "run =1"
		b.publish(ctx, alice, r)
		d := b.tasks(ctx, worker, r.Pool, 1)[0]
		if d.Ref() != r || string(d.Data()) != string(r.Attempt) {
			b.Fatalf("got %+v with %q", d.Ref(), d.Data())
		}
		b.no(d.Ack(ctx))
	}},
	{"a task does not reach another pool", func(ctx context.Context, b *bench) {
		alice, worker := b.actor(), b.actor()
		b.publish(ctx, alice, ref("a1"))
		us := ref("a2")
		us.Pool = "us"
		b.publish(ctx, alice, us)
		if d := b.tasks(ctx, worker, "us", 1)[0]; d.Ref() != us {
			b.Fatalf("pool us got %+v", d.Ref())
		}
		b.noTask(ctx, worker, "us", b.AckWait/4)
	}},
	{"a fetch that waits gets what is published later", func(ctx context.Context, b *bench) {
		alice, worker := b.actor(), b.actor()
		got := begin(b, func() ([]wire.Delivery, error) { return worker.FetchTasks(ctx, "eu", 8) })
		b.publish(ctx, alice, ref("a1"))
		if list := got.get(); len(list) != 1 || list[0].Ref().Attempt != "a1" {
			b.Fatalf("got %d tasks", len(list))
		}
	}},
	{"a fetch returns at most as many as asked for, and the rest goes to others", func(ctx context.Context, b *bench) {
		alice, one, two := b.actor(), b.actor(), b.actor()
		for i := range 5 {
			b.publish(ctx, alice, ref(fmt.Sprint("a", i)))
		}
		seen := map[wire.AttemptID]bool{}
		for _, d := range append(b.tasks(ctx, one, "eu", 2), b.tasks(ctx, two, "eu", 3)...) {
			seen[d.Ref().Attempt] = true
			b.no(d.Ack(ctx))
		}
		if len(seen) != 5 {
			b.Fatalf("%d of 5 tasks were fetched", len(seen))
		}
	}},
	{"a fetch ends with its context", func(ctx context.Context, b *bench) {
		b.noTask(ctx, b.actor(), "eu", 20*time.Millisecond)
		stopped, cancel := context.WithCancel(ctx)
		worker := b.actor()
		got := begin(b, func() (int, error) {
			list, err := worker.FetchTasks(stopped, "eu", 1)
			b2 := context.Canceled
			if err == nil || !strings.Contains(err.Error(), b2.Error()) {
				return len(list), fmt.Errorf("got %w", err)
			}
			return len(list), nil
		})
		cancel()
		got.get()
	}},
	{"a task comes again until it is acknowledged", func(ctx context.Context, b *bench) {
		alice, one, two := b.actor(), b.actor(), b.actor()
		b.publish(ctx, alice, ref("a1"))
		b.tasks(ctx, one, "eu", 1) // and dies
		b.no(one.Close())
		d := b.tasks(ctx, two, "eu", 1)[0]
		if d.Ref().Attempt != "a1" {
			b.Fatalf("got %s", d.Ref().Attempt)
		}
		b.no(d.Ack(ctx))
		b.noTask(ctx, two, "eu", b.AckWait*3/2)
	}},
	{"a released task is offered again", func(ctx context.Context, b *bench) {
		alice, one, two := b.actor(), b.actor(), b.actor()
		b.publish(ctx, alice, ref("a1"))
		b.no(b.tasks(ctx, one, "eu", 1)[0].Release(ctx))
		if d := b.tasks(ctx, two, "eu", 1)[0]; d.Ref().Attempt != "a1" {
			b.Fatalf("got %s", d.Ref().Attempt)
		}
	}},
	{"publishing an attempt again is harmless", func(ctx context.Context, b *bench) {
		alice, worker := b.actor(), b.actor()
		b.publish(ctx, alice, ref("a1"))
		b.publish(ctx, alice, ref("a1"))
		d := b.tasks(ctx, worker, "eu", 1)[0]
		b.no(d.Ack(ctx))
		b.noTask(ctx, worker, "eu", b.AckWait/4)
	}},
	{"a result reaches its coordinator, and no other", func(ctx context.Context, b *bench) {
		worker, alice, bob := b.actor(), b.actor(), b.actor()
		forBob := ref("b1")
		forBob.Coordinator = "bob"
		b.no(worker.PublishResult(ctx, ref("a1"), []byte("for alice")))
		b.no(worker.PublishResult(ctx, forBob, []byte("for bob")))
		if d := b.results(ctx, bob, "bob", 1)[0]; d.Ref() != forBob || string(d.Data()) != "for bob" {
			b.Fatalf("bob got %+v", d.Ref())
		}
		if d := b.results(ctx, alice, "alice", 1)[0]; d.Ref() != ref("a1") || string(d.Data()) != "for alice" {
			b.Fatalf("alice got %+v", d.Ref())
		}
	}},
	{"a result waits for a coordinator that is away", func(ctx context.Context, b *bench) {
		worker := b.actor()
		b.no(worker.PublishResult(ctx, ref("a1"), []byte("x")))
		b.no(worker.Close())
		alice := b.actor()
		b.results(ctx, alice, "alice", 1) // and dies before it has recorded it
		b.no(alice.Close())
		again := b.actor()
		b.no(b.results(ctx, again, "alice", 1)[0].Ack(ctx))
	}},
	{"two results of one attempt both arrive", func(ctx context.Context, b *bench) {
		worker, alice := b.actor(), b.actor()
		b.no(worker.PublishResult(ctx, ref("a1"), []byte("in doubt")))
		b.no(worker.PublishResult(ctx, ref("a1"), []byte("it ended well")))
		if n := len(b.results(ctx, alice, "alice", 2)); n != 2 {
			b.Fatalf("%d arrived", n)
		}
	}},
	{"sequences grow, and the high water follows them", func(ctx context.Context, b *bench) {
		alice, worker := b.actor(), b.actor()
		before, err := alice.HighWater(ctx, []string{"eu"})
		b.no(err)
		b.publish(ctx, alice, ref("a1"))
		b.publish(ctx, alice, ref("a2"))
		b.no(worker.PublishResult(ctx, ref("a1"), nil))
		_, err = worker.Claim(ctx, ref("a1"), wire.Claim{Nonce: "n"})
		b.no(err)
		list := b.tasks(ctx, worker, "eu", 2)
		if list[1].Sequence() <= list[0].Sequence() {
			b.Fatalf("sequence %d came after %d", list[1].Sequence(), list[0].Sequence())
		}
		b.no(list[0].Ack(ctx))
		b.no(list[1].Ack(ctx))
		after, err := alice.HighWater(ctx, []string{"eu"})
		b.no(err)
		if tasks(after) < tasks(before)+2 || results(after) < results(before)+1 ||
			after.Claims["eu"].Last < before.Claims["eu"].Last+1 || before.Lost(after) {
			b.Fatalf("from %+v to %+v", before, after)
		}
		was, is := before.Claims["eu"].Incarnation, after.Claims["eu"].Incarnation
		if was == "" || is != was || after.Incarnation != before.Incarnation {
			b.Fatalf("the incarnation went from %q to %q", was, is)
		}
	}},
	{"what was acknowledged survives a restart of the server", func(ctx context.Context, b *bench) {
		alice, worker := b.actor(), b.actor()
		b.publish(ctx, alice, ref("a1"))
		b.publish(ctx, alice, ref("a2"))
		b.no(b.tasks(ctx, worker, "eu", 1)[0].Ack(ctx))
		b.no(worker.PublishResult(ctx, ref("a1"), []byte("done")))
		_, err := worker.Claim(ctx, ref("a1"), wire.Claim{Nonce: "n", Worker: "w"})
		b.no(err)
		before, err := alice.HighWater(ctx, []string{"eu"})
		b.no(err)
		b.no(alice.Close())
		b.no(worker.Close())

		b.Restart(b.T)
		alice, worker = b.actor(), b.actor()
		after, err := alice.HighWater(ctx, []string{"eu"})
		b.no(err)
		if !after.Equal(before) {
			b.Fatalf("the high water went from %+v to %+v", before, after)
		}
		if d := b.tasks(ctx, worker, "eu", 1)[0]; d.Ref().Attempt != "a2" {
			b.Fatalf("the acknowledged task %s came again", d.Ref().Attempt)
		}
		if d := b.results(ctx, alice, "alice", 1)[0]; string(d.Data()) != "done" {
			b.Fatalf("the result is %q", d.Data())
		}
		claim, err := alice.ReadClaim(ctx, ref("a1"))
		b.no(err)
		if claim.Nonce != "n" || claim.Worker != "w" {
			b.Fatalf("the register holds %+v", claim)
		}
	}},
	{"purging a run removes its tasks and results, and nothing of other runs", func(ctx context.Context, b *bench) {
		alice, worker := b.actor(), b.actor()
		other := ref("b1")
		other.Run = "run-2"
		for _, r := range []wire.TaskRef{ref("a1"), other} {
			b.publish(ctx, alice, r)
			b.no(worker.PublishResult(ctx, r, nil))
		}
		b.no(alice.PurgeRun(ctx, "run-1", nil))
		if d := b.tasks(ctx, worker, "eu", 1)[0]; d.Ref() != other {
			b.Fatalf("task %+v is left", d.Ref())
		}
		if d := b.results(ctx, alice, "alice", 1)[0]; d.Ref() != other {
			b.Fatalf("result %+v is left", d.Ref())
		}
	}},
	{"purging a run that left nothing is no error", func(ctx context.Context, b *bench) {
		alice := b.actor()
		b.no(alice.PurgeRun(ctx, "run-1", nil))
		b.no(alice.PurgeRun(ctx, "run-1", nil))
	}},
	{"a worker that slept through the end of a run cannot start its task", func(ctx context.Context, b *bench) {
		alice, sleeper, worker := b.actor(), b.actor(), b.actor()
		b.publish(ctx, alice, ref("a1"))
		b.tasks(ctx, sleeper, "eu", 1)
		d := b.tasks(ctx, worker, "eu", 1)[0] // delivered again
		_, err := worker.Claim(ctx, d.Ref(), wire.Claim{Nonce: "worker"})
		b.no(err)
		b.no(d.Ack(ctx))
		b.no(alice.PurgeRun(ctx, "run-1", nil))
		b.no(alice.PurgeRun(ctx, "run-2", nil))
		if got, err := sleeper.Claim(ctx, d.Ref(), wire.Claim{Nonce: "sleeper"}); err == nil && got.Nonce == "sleeper" {
			b.Fatal("it won the register")
		}
	}},
}

var claimTests = []test{
	{"an empty register is not found", func(ctx context.Context, b *bench) {
		alice := b.actor()
		_, err := alice.HighWater(ctx, []string{"eu"})
		b.no(err)
		_, err = alice.ReadClaim(ctx, ref("a1"))
		b.is(err, wire.ErrNotFound)
	}},
	{"a claim is read as it was written", func(ctx context.Context, b *bench) {
		worker, alice := b.actor(), b.actor()
		at := time.Date(2026, 3, 1, 12, 0, 0, 5000, time.UTC)
		want := wire.Claim{Nonce: "n", Worker: "w", At: at, Reason: "because"}
		_, err := worker.Claim(ctx, ref("a1"), want)
		b.no(err)
		got, err := alice.ReadClaim(ctx, ref("a1"))
		b.no(err)
		if !got.At.Equal(at) {
			b.Fatalf("the time is %v", got.At)
		}
		got.At = want.At
		if got != want {
			b.Fatalf("got %+v", got)
		}
	}},
	{"of many racers for a register exactly one wins, and all see who", func(ctx context.Context, b *bench) {
		conns := []wire.Transport{b.actor(), b.actor(), b.actor()}
		_, err := conns[0].HighWater(ctx, []string{"eu"})
		b.no(err)
		var racers []*started[wire.Claim]
		for i := range 24 {
			racers = append(racers, begin(b, func() (wire.Claim, error) {
				return conns[i%len(conns)].Claim(ctx, ref("a1"), wire.Claim{Nonce: fmt.Sprint("n", i),
					Tombstone: i%5 == 0})
			}))
		}
		winner := racers[0].get().Nonce
		won := 0
		for i, r := range racers {
			got := r.get()
			if got.Nonce != winner {
				b.Fatalf("one saw %s win, and another %s", winner, got.Nonce)
			}
			if got.Nonce == fmt.Sprint("n", i) {
				won++
			}
		}
		if won != 1 {
			b.Fatalf("%d won", won)
		}
	}},
	{"a tombstone blocks a claim", func(ctx context.Context, b *bench) {
		alice, worker := b.actor(), b.actor()
		_, err := alice.Claim(ctx, ref("a1"), wire.Claim{Nonce: "t", Tombstone: true, Reason: "cancelled"})
		b.no(err)
		got, err := worker.Claim(ctx, ref("a1"), wire.Claim{Nonce: "w"})
		b.no(err)
		if !got.Tombstone || got.Nonce != "t" || got.Reason != "cancelled" {
			b.Fatalf("the register holds %+v", got)
		}
	}},
	{"a claim blocks a tombstone", func(ctx context.Context, b *bench) {
		alice, worker := b.actor(), b.actor()
		_, err := worker.Claim(ctx, ref("a1"), wire.Claim{Nonce: "w"})
		b.no(err)
		got, err := alice.Claim(ctx, ref("a1"), wire.Claim{Nonce: "t", Tombstone: true})
		b.no(err)
		if got.Tombstone || got.Nonce != "w" {
			b.Fatalf("the register holds %+v", got)
		}
	}},
	{"registers of different attempts are independent", func(ctx context.Context, b *bench) {
		worker := b.actor()
		for i := range 5 {
			nonce := fmt.Sprint("n", i)
			got, err := worker.Claim(ctx, ref(fmt.Sprint("a", i)), wire.Claim{Nonce: nonce})
			b.no(err)
			if got.Nonce != nonce {
				b.Fatalf("attempt %d is held by %s", i, got.Nonce)
			}
		}
	}},
}

// tasks returns the position of the tasks in a mark; they are in one stream, or in one for each pool.
func tasks(h wire.HighWater) uint64 { return h.Tasks + h.Queues["eu"].Last }

// results returns the position of the results in a mark; they are in one stream, or in one for each pool.
func results(h wire.HighWater) uint64 { return h.Results + h.Outcomes["eu"].Last }
