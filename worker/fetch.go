package worker

import (
	"context"
	"time"

	"github.com/millipede-iac/millipede/internal/sleep"
	"github.com/millipede-iac/millipede/wire"
)

// take fetches the tasks of a pool, never more than there are free slots, until taking ends.
func (w *Worker) take(taking, working context.Context, pool string) {
	var retry backoff
	var aside asideTime
	for {
		if !w.awaitSpace(taking) || !aside.wait(taking) {
			return
		}
		free := aside.most(w.slots.free(taking))
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
		tasks = w.pass(working, pool, tasks, &aside)
		for _, d := range tasks {
			// Another pool, or the fast lane, may have taken the slot: then another worker gets the task.
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

// release releases a task. If that fails, it is delivered again later, which is just as good.
func (w *Worker) release(ctx context.Context, d wire.Delivery) {
	ctx, cancel := context.WithTimeout(ctx, bestEffortTimeout)
	defer cancel()
	if err := d.Release(ctx); err != nil {
		w.Log.Debug("releasing a task failed", "attempt", d.Ref().Attempt, "error", err)
	}
}

const (
	// bestEffortTimeout is the time limit of requests whose failure does no harm.
	bestEffortTimeout = 2 * time.Second
	// beforeRelease is how long the worker waits before it releases a task that it cannot execute.
	beforeRelease = 250 * time.Millisecond
)

// backoff spaces out retries after failures of the transport.
type backoff struct {
	delay time.Duration
	tries int
	// retriedSince is when the worker, asked to leave, began to retry; see again.
	retriedSince time.Time
}

// leavingTimeout is how long a worker that was asked to leave tries to reach a transport that does not answer. Its
// journal has everything, and its next start reports it.
const leavingTimeout = 10 * time.Second

// again waits before another try. It returns false if ctx ends, or if the worker has tried long enough since it was
// asked to leave.
func (w *Worker) again(ctx context.Context, b *backoff) bool {
	if w.draining.Load() {
		if b.retriedSince.IsZero() {
			b.retriedSince = w.Now()
		}
		if w.Now().Sub(b.retriedSince) >= leavingTimeout {
			return false
		}
	}
	return b.wait(ctx)
}

const (
	firstDelay = 50 * time.Millisecond
	// lastDelay is short because results wait for it when the transport is back.
	lastDelay = 500 * time.Millisecond
)

func (b *backoff) reset() { b.delay = 0 }

// news reports whether a failure is to be logged: the first ones are, then one in sixty-four.
func (b *backoff) news() bool { return b.tries < 4 || b.tries%64 == 0 }

// wait returns false when ctx has ended.
func (b *backoff) wait(ctx context.Context) bool {
	b.delay = min(max(2*b.delay, firstDelay), lastDelay)
	b.tries++
	return sleep.For(ctx, b.delay) == nil
}
