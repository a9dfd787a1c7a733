package hub_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/millipede-iac/millipede/coordinator/hub"
	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/mem"
)

// The only way to drain a pool was to stop its workers.
func TestTheWorkersOfADrainedPoolTakeNothingNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		system := mem.New(mem.Options{})
		worker, conn := system.Connect("worker"), system.Connect("coordinator")
		defer worker.Close()
		h := hub.New(conn, "c1")
		defer h.Close()
		other := h.For("c2")
		ctx, cancel := context.WithCancel(t.Context())
		var beats []wire.Heartbeat
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = other.SubscribeHeartbeats(ctx, func(h wire.Heartbeat) { beats = append(beats, h) })
		}()
		synctest.Wait()
		beat := func() {
			if err := worker.Beat(ctx, wire.Heartbeat{Worker: "w", Pools: []string{"eu", "us"}}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if err := h.Drain(ctx, []string{"eu"}); err != nil {
			t.Fatal(err)
		}
		beat()
		if _, err := other.Dispatch(ctx, "eu", nil); !errors.Is(err, wire.ErrNoWorker) {
			t.Errorf("a call: %v", err)
		}
		if err := h.Drain(ctx, nil); err != nil {
			t.Fatal(err)
		}
		beat()
		cancel()
		<-done
		if len(beats) != 4 {
			t.Fatalf("%+v", beats)
		}
		for i, b := range beats {
			if b.Draining != (i < 2 && b.Pools[0] == "eu") {
				t.Errorf("heartbeat %d: %+v", i, b)
			}
		}
	})
}
