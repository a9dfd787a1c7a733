package worker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/worker/journal"
)

// A worker that received SIGTERM while NATS was gone, and had a result, tried to publish it for ever: it ran for
// another 50 minutes.
func TestAWorkerWhoseTransportIsGoneLeavesInTimeAndItsNextStartPublishesTheResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.bus.onPublish = func() error { return wire.ErrDisconnected }
		b.start()
		b.bus.put(b.applies(1)...)
		elapse(time.Minute)
		told := time.Now()
		b.drain()
		if err := <-b.done; err != nil {
			t.Error(err)
		}
		if took := time.Since(told); took < leavingTimeout || took > leavingTimeout+5*time.Second {
			t.Errorf("the worker ended after %s", took)
		}
		if held := b.opts.Journal.Pending(); len(held) != 1 || held[0].Status != journal.Ended {
			t.Errorf("the journal has the entries %v", held)
		}
	})
}
