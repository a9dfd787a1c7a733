package wiretest

import (
	"context"
	"errors"

	"github.com/millipede-iac/millipede/wire"
)

var handTests = []test{
	{"a task that is handed over reaches the worker that it names, and can be claimed there",
		func(ctx context.Context, b *bench) {
			alice, worker, other := b.actor(), b.actor(), b.actor()
			type handed struct {
				after wire.AttemptID
				d     wire.Delivery
			}
			got := make(chan handed, 10)
			b.watch(ctx, func(ctx context.Context) error {
				return worker.TakeHanded(ctx, "eu west", "w 1", func(after wire.AttemptID, d wire.Delivery) bool {
					got <- handed{after, d}
					return true
				})
			})
			b.watch(ctx, func(ctx context.Context) error {
				return other.TakeHanded(ctx, "eu west", "w 2", func(wire.AttemptID, wire.Delivery) bool {
					b.Error("the task went to another worker")
					return true
				})
			})
			ref := wire.TaskRef{Pool: "eu west", Coordinator: "alice", Run: "run-1", Attempt: "a2"}
			b.until(ctx, "the worker takes a task", func() bool {
				err := alice.HandTask(ctx, "w 1", "a1", ref, []byte("task"))
				if err != nil && !errors.Is(err, wire.ErrNoWorker) {
					b.Fatal(err)
				}
				return err == nil
			})
			h := <-got
			if h.after != "a1" || h.d.Ref() != ref || string(h.d.Data()) != "task" {
				b.Fatalf("got %+v after %s: %q", h.d.Ref(), h.after, h.d.Data())
			}
			c, err := worker.Claim(ctx, h.d.Ref(), wire.Claim{Nonce: "n", Worker: "w 1"})
			b.no(err)
			if c.Nonce != "n" {
				b.Fatalf("the claim is %+v", c)
			}
			b.no(h.d.Ack(ctx))
		}},
	{"a task is not handed over to a worker that keeps no slot for it, or is not there",
		func(ctx context.Context, b *bench) {
			alice, worker := b.actor(), b.actor()
			ref := wire.TaskRef{Pool: "eu", Coordinator: "alice", Run: "run-1", Attempt: "a2"}
			b.is(alice.HandTask(ctx, "w1", "a1", ref, []byte("task")), wire.ErrNoWorker)
			asked := false
			b.watch(ctx, func(ctx context.Context) error {
				return worker.TakeHanded(ctx, "eu", "w1", func(wire.AttemptID, wire.Delivery) bool { return false })
			})
			b.until(ctx, "the worker is asked", func() bool {
				err := alice.HandTask(ctx, "w1", "a1", ref, []byte("task"))
				asked = errors.Is(err, wire.ErrNotTaken)
				if !asked && !errors.Is(err, wire.ErrNoWorker) {
					b.Fatalf("a task that was refused: %v", err)
				}
				return asked
			})
		}},
}
