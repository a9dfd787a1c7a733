package worker

import (
	"context"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

// keepFor is how long a slot is reserved for the next operation of a vertex. Its coordinator needs that time to record
// one operation and evaluate the next.
const keepFor = 5 * time.Second

// keptSlots are slots that are reserved for a vertex between two of its operations, so that the second one need not
// queue behind the first ones of other vertices.
type keptSlots struct {
	mu sync.Mutex // guards the fields below
	by map[wire.AttemptID]*keptSlot
}

// keptSlot is a reserved slot.
type keptSlot struct {
	after wire.AttemptID
	next  chan wire.Delivery // buffers one
	until time.Time          // by the wall clock: a machine that slept may have slept for longer than its timers say
}

// keep reserves the slot of an attempt, before anybody can know that the attempt is over.
func (k *keptSlots) keep(after wire.AttemptID, until time.Time) *keptSlot {
	s := &keptSlot{after: after, next: make(chan wire.Delivery, 1), until: until.Round(0)}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.by == nil {
		k.by = map[wire.AttemptID]*keptSlot{}
	}
	k.by[after] = s
	return s
}

// drop ends the reservation. It returns the task that was offered before, if there is one.
func (k *keptSlots) drop(s *keptSlot) wire.Delivery {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.by, s.after)
	select {
	case d := <-s.next:
		return d
	default:
		return nil
	}
}

// hand passes a task to the slot that was reserved since an attempt. It reports whether there was one.
func (k *keptSlots) hand(after wire.AttemptID, d wire.Delivery, now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.by[after]
	if s == nil || now.Round(0).After(s.until) {
		return false
	}
	delete(k.by, after)
	s.next <- d
	return true
}

// attempts executes a task, and the tasks that are offered for the same slot.
func (w *Worker) attempts(taking, working context.Context, d wire.Delivery) {
	for d != nil {
		s := w.attempt(working, d)
		if s == nil {
			return
		}
		d = w.following(taking, s)
	}
}

// following waits for the next operation of the vertex that a slot is reserved for; nil if none comes.
func (w *Worker) following(taking context.Context, s *keptSlot) wire.Delivery {
	timer := time.NewTimer(keepFor)
	defer timer.Stop()
	select {
	case d := <-s.next:
		return d
	case <-timer.C:
	case <-taking.Done():
	}
	return w.kept.drop(s)
}

// takeHanded accepts tasks that coordinators offer, until ctx ends.
func (w *Worker) takeHanded(ctx context.Context, pool string) {
	var retry backoff
	for {
		err := w.Queue.TakeHanded(ctx, pool, w.ID, func(after wire.AttemptID, d wire.Delivery) bool {
			return reads(d.Data()) && w.kept.hand(after, d, w.Now())
		})
		if ctx.Err() != nil {
			return
		}
		w.Log.Warn("taking tasks that are handed over ended", "pool", pool, "error", err)
		if !retry.wait(ctx) {
			return
		}
	}
}
