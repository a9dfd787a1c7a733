package coordinator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/coordinator/loop"
	"github.com/millipede-iac/millipede/internal/failpoint"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

// ErrRecording means that a commit to the store has failed for good; the run stops then.
var ErrRecording = errors.New("recording what happened")

const (
	// commitBatch is the most records that one transaction has.
	commitBatch = 1024
	// readTimeout is the time limit for reading a claim. After that the result is delivered again.
	readTimeout = 5 * time.Second
	// partTime is the time limit for releasing permits at the end of a run.
	partTime = 5 * time.Second
)

// committer commits records in their order. Records that arrive while a transaction is written share the next one, so
// that on a slow disk one sync serves many vertices.
type committer struct {
	x    *executor
	wake chan struct{}

	mu      sync.Mutex // guards the records
	waiting []loop.Record
}

func newCommitter(x *executor) *committer {
	return &committer{x: x, wake: make(chan struct{}, 1)}
}

func (c *committer) add(list []loop.Record) {
	if len(list) == 0 {
		return
	}
	c.mu.Lock()
	c.waiting = append(c.waiting, list...)
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *committer) run() {
	for {
		select {
		case <-c.x.ctx.Done():
			return
		case <-c.wake:
		}
		for batch := c.next(); len(batch) > 0; {
			tx := journal.Commit{Workspace: c.x.Workspace, Fence: c.x.LockID}
			for _, r := range batch {
				tx.Changes = append(tx.Changes, r.Changes...)
				tx.Events = append(tx.Events, r.Events...)
			}
			if len(tx.Events) > 0 {
				tx.Run = c.x.RunID
			}
			hit(batch, before)
			if err := c.x.Store.Commit(c.x.ctx, tx); err != nil {
				c.x.inbox.put(loop.Failed{Err: fmt.Errorf("%w: %w", ErrRecording, err)})
				return
			}
			hit(batch, after)
			done := batch
			batch = c.next() // for messages that have arrived meanwhile; records that follow from this batch go into a later one
			c.x.inbox.put(loop.Committed{Records: done})
		}
	}
}

// commitPoints are the fail points before and after the commit of a record, by its kind.
type commitPoints struct{ before, after failpoint.Point }

func before(m commitPoints) failpoint.Point { return m.before }
func after(m commitPoints) failpoint.Point  { return m.after }

// hit lets a test kill the process before or after the commit of a batch.
func hit(batch []loop.Record, when func(commitPoints) failpoint.Point) {
	for _, r := range batch {
		m := commitPoints{failpoint.OutcomeUnsaved, failpoint.OutcomeSaved}
		switch r.Kind {
		case loop.Wanted:
			m = commitPoints{failpoint.WantUnsaved, failpoint.WantSaved}
		case loop.Intended:
			m = commitPoints{failpoint.IntentUnsaved, failpoint.IntentSaved}
		}
		failpoint.Hit(when(m))
	}
}

func (c *committer) next() []loop.Record {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(c.waiting), commitBatch)
	batch := c.waiting[:n:n]
	if c.waiting = c.waiting[n:]; len(c.waiting) == 0 {
		c.waiting = nil
	}
	return batch
}

// announceWorkers passes the workers that are alive already to the loop.
func (x *executor) announceWorkers() {
	workers, err := x.Hub.Workers(x.ctx)
	if err != nil {
		return // the heartbeats that follow have them, too
	}
	for _, w := range workers {
		if w.Since < wire.DeadAfter {
			x.inbox.put(loop.Beat{Heartbeat: w.Heartbeat})
		}
	}
	x.inbox.put(loop.Surveyed{})
}

// receiveHeartbeats passes heartbeats to the loop.
func (x *executor) receiveHeartbeats() {
	x.keepSubscribed(func() error {
		return x.Hub.SubscribeHeartbeats(x.ctx, func(h wire.Heartbeat) { x.inbox.put(loop.Beat{Heartbeat: h}) })
	})
}

// receiveControl passes requests of other processes to cancel the run to the loop.
func (x *executor) receiveControl() {
	x.keepSubscribed(func() error {
		return x.Hub.SubscribeControl(x.ctx, func(c wire.Control) {
			if c.Kind == "cancel" && (c.Run == x.RunID || c.Run == x.Hub.Coordinator()) {
				x.inbox.put(loop.Interrupted{Cancel: true})
			}
		})
	})
}

// keepSubscribed renews a subscription that fails, until the run ends.
func (x *executor) keepSubscribed(subscribe func() error) {
	for {
		err := subscribe()
		var b *Bug
		switch {
		case errors.As(err, &b):
			x.inbox.put(loop.Failed{Err: err})
			return
		case err == nil || !x.pause(retryEvery):
			return
		}
	}
}

// fetch receives the results of the run. Each is decoded, and its claim is read, on a goroutine of its own.
func (x *executor) fetch() {
	err := x.Hub.Results(x.ctx, x.RunID, func(d wire.Delivery) {
		x.mu.Lock()
		x.last++
		n := x.last
		x.deliveries[n] = d
		x.mu.Unlock()
		x.spawn(func() { x.read(n, d) })
	})
	if err != nil {
		x.inbox.put(loop.Failed{Err: fmt.Errorf("taking the results of run %s: %w", x.RunID, err)})
	}
}

// read decodes a result and checks it against its claim.
func (x *executor) read(n int, d wire.Delivery) {
	failpoint.Hit(failpoint.ResultFetched)
	ref, data := d.Ref(), d.Data()
	if _, ours := x.attempt(ref.Attempt, ref.Pool); !ours {
		x.inbox.put(loop.MisplacedResult{Delivery: n, Ref: ref, Sequence: d.Sequence()})
		return
	}
	var err error
	if x.Envelope != nil {
		held := x.Hub.Budget.For(ref.Pool)
		defer held.Release()
		data, err = x.Envelope.Unwrap(x.ctx, ref, data, held)
	}
	var result *wire.Result
	if err == nil {
		result, err = wire.DecodeResult(data)
	}
	if x.ctx.Err() != nil {
		return
	}
	if tooLarge := (*wire.TooLargeError)(nil); errors.As(err, &tooLarge) {
		if c, claimErr := x.Hub.ReadClaim(x.ctx, ref); claimErr == nil && c.Worker != "" {
			err = fmt.Errorf("worker %s of pool %s has sent too much: %w", c.Worker, ref.Pool, err)
		}
	}
	if err != nil {
		x.inbox.put(loop.Unreadable{Delivery: n, Ref: ref, Sequence: d.Sequence(), Err: err})
		return
	}
	// A result is valid only if it is of the worker that has claimed the attempt. If the claim cannot be read, that is
	// unknown, and the message is delivered again.
	c, err := x.Hub.ReadClaim(x.ctx, ref)
	for until := x.Now().Add(readTimeout); err != nil && !errors.Is(err, wire.ErrNotFound); {
		if x.Now().After(until) || !x.pause(retryEvery) {
			return
		}
		c, err = x.Hub.ReadClaim(x.ctx, ref)
	}
	x.inbox.put(loop.Arrived{Delivery: n, Ref: ref, Sequence: d.Sequence(), Result: result, Claim: c})
}

// probe regularly passes to the loop whether the transport is connected, and whether it has lost data.
func (x *executor) probe() {
	mark, err := loadMark(x.ctx, x.Store, x.RunID)
	known := err == nil && mark != nil
	failed := false
	var loss suspicion
	x.Hub.Probe(x.ctx, x.used, func(now wire.HighWater, age time.Duration, err error) bool {
		if err == nil && known {
			lost, suspected := loss.judge(*mark, now, x.Now())
			switch {
			case lost:
				x.inbox.put(loop.LostData{Detail: mark.Difference(now)})
				return false
			case suspected:
				err = fmt.Errorf("%w: %s", wire.ErrUnconfirmed, mark.Difference(now))
			}
		}
		if err != nil || failed || len(now.Stores) > 0 {
			x.inbox.put(loop.Probed{Err: err, Stores: now.Stores, Asked: x.Now().Add(-age)})
		}
		failed = err != nil // also if it is not connected
		if err == nil && known {
			now = now.Since(*mark)
		}
		if err == nil && (!known || !mark.Equal(now)) {
			mark, known = &now, true
			if err := saveMark(x.ctx, x.Store, x.RunID, now); err != nil && x.ctx.Err() == nil {
				x.inbox.put(loop.Failed{Err: fmt.Errorf("recording what the streams hold: %w", err)})
				return false
			}
		}
		return true
	})
}

// all returns the permits under which operations may run: none in a run without a store, which changes nothing.
func (x *executor) all() []loop.PermitKey {
	if x.Store == nil {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Concat(slices.Collect(maps.Keys(x.permits)), slices.Collect(maps.Keys(x.requests)))
}

// finish releases the permits and deliveries that the run holds, except the permits in held, under which operations may
// still run. Those are left as they would be if the process ended: the connection stays open, and the run may be
// resumed over it.
func (x *executor) finish(held []loop.PermitKey) {
	keep := map[loop.PermitKey]bool{}
	for _, k := range held {
		keep[k] = true
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x.ctx), partTime)
	defer cancel()
	var group sync.WaitGroup
	x.mu.Lock()
	for k, stop := range x.requests {
		if !keep[k] {
			stop(nil)
		}
	}
	for k, p := range x.permits {
		if keep[k] {
			p.Leave()
			continue
		}
		group.Go(func() {
			_ = p.Release(ctx) // if it fails, another coordinator decides about the permit
			failpoint.Hit(failpoint.PermitReleased)
		})
	}
	for _, d := range x.deliveries {
		group.Go(func() { _ = d.Release(ctx) }) // if it fails, the message is delivered again later
	}
	x.mu.Unlock()
	group.Wait()
}
