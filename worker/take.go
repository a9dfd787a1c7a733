package worker

import (
	"context"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

// take fetches the tasks of a pool, never more than there are free slots, until taking ends.
func (w *Worker) take(taking, working context.Context, pool string) {
	var retry backoff
	for {
		if !w.awaitRoom(taking) {
			return
		}
		free := w.slots.free(taking)
		if free == 0 {
			return
		}
		tasks, err := w.Queue.FetchTasks(taking, pool, free)
		if err != nil && taking.Err() == nil {
			w.Log.Warn("fetching tasks failed", "pool", pool, "error", err)
			retry.wait(taking)
			continue
		}
		retry.reset()
		for _, d := range tasks {
			// Another pool, or the fast lane, may have been faster: then somebody else shall have it.
			if taking.Err() != nil || w.trouble.text() != "" || !w.slots.tryTake() {
				w.release(working, d)
				continue
			}
			w.held.Go(func() {
				defer w.slots.give()
				w.attempts(taking, working, d)
			})
		}
	}
}

// release gives a task back. If that fails it is delivered again later, which is as good.
func (w *Worker) release(ctx context.Context, d wire.Delivery) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := d.Release(ctx); err != nil {
		w.Log.Debug("releasing a task failed", "attempt", d.Ref().Attempt, "error", err)
	}
}

const (
	// patience is how long the worker waits for what it can do without.
	patience = 2 * time.Second
	// hesitation is how long it waits before it gives a task back that it can do nothing with.
	hesitation = 250 * time.Millisecond
)

// backoff spaces out the tries of something that fails because of the transport.
type backoff struct {
	delay time.Duration
	tries int
	// parting is since when the worker, told to leave, tries on; see again.
	parting time.Time
}

// partingTime is how long a worker that was told to leave tries to reach a transport that does not answer. What it
// holds is in its journal, and its next start says it.
const partingTime = 10 * time.Second

// again waits before another try. It returns false when ctx has ended, and when the worker has tried long enough since
// it was told to leave.
func (w *Worker) again(ctx context.Context, b *backoff) bool {
	if w.draining.Load() {
		if b.parting.IsZero() {
			b.parting = w.Now()
		}
		if w.Now().Sub(b.parting) >= partingTime {
			return false
		}
	}
	return b.wait(ctx)
}

const (
	firstDelay = 50 * time.Millisecond
	// lastDelay is short because whoever waits for a result waits for this, once the transport is there again.
	lastDelay = 500 * time.Millisecond
)

func (b *backoff) reset() { b.delay = 0 }

// news tells whether the failure is to be told: the first ones are, then one in sixty-four.
func (b *backoff) news() bool { return b.tries < 4 || b.tries%64 == 0 }

// wait returns false when ctx has ended.
func (b *backoff) wait(ctx context.Context) bool {
	b.delay = min(max(2*b.delay, firstDelay), lastDelay)
	b.tries++
	return pause(ctx, b.delay)
}

// pause returns false when ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
