package jet_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/jet"
)

func TestSmoke(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	lap := time.Now()
	step := func(what string) { t.Logf("%-30s %v", what, time.Since(lap)); lap = time.Now() }
	e, err := jet.Embed(dir, func(l string) { t.Log(l) })
	if err != nil {
		t.Fatal(err)
	}
	step("embed")
	c, err := e.Connect(ctx, jet.Options{Name: "c", Log: func(l string) { t.Log(l) }})
	if err != nil {
		t.Fatal(err)
	}
	step("connect")
	if _, err := c.HighWater(ctx); err != nil {
		t.Fatal(err)
	}
	step("three streams")
	if _, err := c.DeclareLimit(ctx, wire.Limit{Name: "global", Slots: 2}); err != nil {
		t.Fatal(err)
	}
	step("declare limit")
	p, err := c.Acquire(ctx, "global", wire.PermitRequest{ID: "r1", Coordinator: "me", Run: "run"})
	if err != nil {
		t.Fatal(err)
	}
	step("acquire")
	for i := range 5 {
		p, err := c.Acquire(ctx, "global", wire.PermitRequest{ID: fmt.Sprint("r", i+2), Coordinator: "me", Run: "run"})
		if err != nil {
			t.Fatal(err)
		}
		step("acquire again")
		if err := p.Release(ctx); err != nil {
			t.Fatal(err)
		}
		step("release again")
	}
	st, err := c.Limits(ctx)
	t.Log(st, err)
	step("limits")
	if err := p.Release(ctx); err != nil {
		t.Fatal(err)
	}
	step("release")
	ref := wire.TaskRef{Pool: "eu", Coordinator: "me", Run: "run", Attempt: "a1"}
	if err := c.PublishTask(ctx, ref, []byte("x")); err != nil {
		t.Fatal(err)
	}
	step("publish first")
	for i := range 3 {
		ref.Attempt = wire.AttemptID(fmt.Sprint("b", i))
		if err := c.PublishTask(ctx, ref, []byte("x")); err != nil {
			t.Fatal(err)
		}
		step("publish")
	}
	list, err := c.FetchTasks(ctx, "eu", 10)
	t.Log(len(list), err)
	step("fetch")
	cl, err := c.Claim(ctx, list[0].Ref(), wire.Claim{Nonce: "n"})
	t.Log(cl, err)
	step("claim")
	if err := list[0].Ack(ctx); err != nil {
		t.Fatal(err)
	}
	step("ack")
	if err := c.PurgeRun(ctx, "run"); err != nil {
		t.Fatal(err)
	}
	step("purge")
	_, err = c.Call(ctx, "eu", []byte("x"))
	t.Log(err)
	step("no worker")
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	step("close")
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	step("close server")
	e, err = jet.Embed(dir, func(l string) { t.Log(l) })
	if err != nil {
		t.Fatal(err)
	}
	step("embed again")
	if _, err := jet.Embed(dir, nil); err == nil {
		t.Fatal("no lock")
	} else {
		t.Log(err)
	}
	step("locked")
	e.Close()
	step("close")
}

func BenchmarkCall(b *testing.B) {
	e, err := jet.Embed(b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	c, _ := e.Connect(b.Context(), jet.Options{})
	defer c.Close()
	w, _ := e.Connect(b.Context(), jet.Options{})
	defer w.Close()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		done <- w.Serve(ctx, "p", 64, func(_ context.Context, d []byte) []byte { return d })
	}()
	for {
		if _, err := c.Call(b.Context(), "p", []byte("x")); err == nil {
			break
		}
	}
	data := make([]byte, 500)
	b.Run("serial", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := c.Call(b.Context(), "p", data); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.SetParallelism(5)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := c.Call(b.Context(), "p", data); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
	cancel()
	<-done
}
