package wiretest

import (
	"context"
	"errors"

	"github.com/millipede-iac/millipede/internal/trace"
	"github.com/millipede-iac/millipede/wire"
)

var traceTests = []test{
	{"tasks and calls tell the span that they were sent under, and nothing where there is none",
		func(ctx context.Context, b *bench) {
			for _, sent := range []trace.Context{
				{},
				{Trace: [16]byte{1, 2}, Span: [8]byte{3}, Sampled: true, State: "vendor=1"},
				{Trace: [16]byte{4}, Span: [8]byte{5, 6}},
			} {
				alice, worker := b.actor(), b.actor()
				under := trace.Under(ctx, sent)
				expect := func(how string, got trace.Context) {
					b.Helper()
					if got != sent {
						b.Errorf("%s under %+v tells %+v", how, sent, got)
					}
				}
				pool := "pool " + sent.Header()
				r := ref("a" + sent.Header())
				r.Pool = pool
				b.no(alice.PublishTask(under, r, []byte("task")))
				d := b.tasks(ctx, worker, pool, 1)[0]
				expect("a task", d.(wire.Traced).Trace())
				b.no(d.Ack(ctx))

				seen := make(chan trace.Context, 10)
				b.serve(ctx, worker, pool, 1, func(ctx context.Context, _ []byte) []byte {
					seen <- trace.Current(ctx)
					return nil
				})
				_, err := alice.Call(under, pool, nil)
				b.no(err)
				expect("a call", <-seen)

				b.watch(ctx, func(ctx context.Context) error {
					return worker.TakeHanded(ctx, pool, "w", func(_ wire.AttemptID, d wire.Delivery) bool {
						seen <- d.(wire.Traced).Trace()
						return true
					})
				})
				b.until(ctx, "the worker takes a task", func() bool {
					err := alice.HandTask(under, "w", "a0", r, nil)
					if err != nil && !errors.Is(err, wire.ErrNoWorker) {
						b.Fatal(err)
					}
					return err == nil
				})
				expect("a task that is handed over", <-seen)
			}
		}},
}
