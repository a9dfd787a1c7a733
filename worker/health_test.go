package worker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/worker/journal"
)

// heldPresence keeps the worker's heartbeats from being sent.
type heldPresence struct {
	Presence
	beat func(context.Context) error
}

func (p heldPresence) Beat(ctx context.Context, h wire.Heartbeat) error {
	if err := p.beat(ctx); err != nil {
		return err
	}
	return p.Presence.Beat(ctx, h)
}

func TestAWorkerThatCannotReachNATSIsAliveAndNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.opts.Presence = heldPresence{b.opts.Presence, func(context.Context) error { return wire.ErrDisconnected }}
		b.start()
		elapse(time.Hour)
		if err := b.worker.Alive(); err != nil {
			t.Errorf("it is not alive: %v", err)
		}
		if err := b.worker.Ready(); err == nil {
			t.Error("it is ready, although nobody has heard of it")
		}
		b.drain()
		<-b.done
	})
}

func TestAWorkerWhoseLoopStandsStillIsNotAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		held := make(chan struct{})
		b.opts.Presence = heldPresence{b.opts.Presence, func(context.Context) error { // deaf to its context
			<-held
			return nil
		}}
		b.start()
		elapse(mostSilence)
		if err := b.worker.Alive(); err != nil {
			t.Errorf("after %s: %v", mostSilence, err)
		}
		elapse(time.Second)
		if err := b.worker.Alive(); err == nil {
			t.Error("it is alive although its loop stands still")
		}
		close(held)
		elapse(2 * time.Second)
		if err := b.worker.Alive(); err != nil {
			t.Errorf("the loop goes round again: %v", err)
		}
		b.drain()
		<-b.done
	})
}

func TestAWorkerIsReadyFromItsFirstHeartbeatUntilItDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.start()
		elapse(time.Second)
		if err := errors.Join(b.worker.Ready(), b.worker.Alive()); err != nil {
			t.Error(err)
		}
		b.drain()
		if err := <-b.done; err != nil {
			t.Error(err)
		}
		if b.worker.Ready() == nil {
			t.Error("a worker that drains is ready")
		}
	})
}

func TestAFullDiskMakesAWorkerUnreadyAndABrokenJournalEndsItsLife(t *testing.T) {
	for _, c := range []struct {
		fails        error
		ready, alive bool
	}{{nil, true, true}, {journal.ErrFull, false, true}, {journal.ErrBroken, false, false}} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t)
			j, _, err := journal.Open(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := j.Close(); err != nil {
					t.Error(err)
				}
			}()
			b.opts.Journal = unwritable{j, c.fails}
			b.start()
			elapse(time.Second)
			if err := b.worker.Ready(); (err == nil) != c.ready {
				t.Errorf("%v: ready: %v", c.fails, err)
			}
			if err := b.worker.Alive(); (err == nil) != c.alive {
				t.Errorf("%v: alive: %v", c.fails, err)
			}
			b.drain()
			<-b.done
		})
	}
}

// unwritable says that the journal cannot be written.
type unwritable struct {
	Journal
	err error
}

func (u unwritable) CheckSpace() error { return u.err }
