package wiretest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

var partTests = []test{
	{"the parts of an answer arrive in their order, each before it is confirmed", func(ctx context.Context, b *bench) {
		var got []string
		alice, worker := b.actor(), b.actor()
		stop, err := alice.TakeParts(ctx, "eu west", "list.1", func(data []byte) { got = append(got, string(data)) })
		b.no(err)
		for i := range 100 {
			b.no(worker.SendPart(ctx, "eu west", "list.1", fmt.Append(nil, i)))
			if len(got) <= i {
				b.Fatalf("part %d was confirmed, and not taken", i)
			}
		}
		stop()
		if got = slices.Compact(got); len(got) != 100 || got[99] != "99" {
			b.Fatalf("got %d parts: %v", len(got), got)
		}
	}},
	{"a part is not confirmed before it was taken", func(ctx context.Context, b *bench) {
		gate := make(chan struct{})
		alice, worker := b.actor(), b.actor()
		stop, err := alice.TakeParts(ctx, "eu", "a", func([]byte) { <-gate })
		b.no(err)
		sent := begin(b, func() (struct{}, error) { return struct{}{}, worker.SendPart(ctx, "eu", "a", []byte("x")) })
		select {
		case <-sent.done:
			b.Fatal("it was confirmed at once")
		case <-time.After(50 * time.Millisecond):
		}
		close(gate)
		sent.get()
		stop()
	}},
	{"a part reaches only those who take parts of its pool at its address", func(ctx context.Context, b *bench) {
		alice, worker := b.actor(), b.actor()
		wrong := func([]byte) { b.Error("it went elsewhere") }
		for _, at := range [][2]string{{"us", "a"}, {"eu", "b"}} {
			stop, err := alice.TakeParts(ctx, at[0], at[1], wrong)
			b.no(err)
			defer stop()
		}
		taken := false
		stop, err := alice.TakeParts(ctx, "eu", "a", func([]byte) { taken = true })
		b.no(err)
		b.no(worker.SendPart(ctx, "eu", "a", []byte("x")))
		if stop(); !taken {
			b.Fatal("it did not arrive")
		}
	}},
	{"a part that nobody takes any more ends the sending", func(ctx context.Context, b *bench) {
		alice, worker := b.actor(), b.actor()
		stop, err := alice.TakeParts(ctx, "eu", "a", func([]byte) {})
		b.no(err)
		b.no(worker.SendPart(ctx, "eu", "a", []byte("x")))
		stop()
		b.is(worker.SendPart(ctx, "eu", "a", []byte("y")), wire.ErrNotFound)
	}},
}
