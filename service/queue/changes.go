package queue

import (
	"context"
	"time"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/turn"
)

// notifyChanged wakes the goroutines that wait for changes of these runs. The caller holds q.mu.
func (q *Queue) notifyChanged(changed ...string) {
	q.changes, q.ordered = q.changes+1, nil
	close(q.news)
	q.news = make(chan struct{})
	for _, id := range changed {
		if c := q.followed[id]; c != nil {
			close(c)
			delete(q.followed, id)
		}
	}
}

// begun wakes the goroutines that follow a run when the log of its phase exists.
func (q *Queue) begun(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c := q.followed[id]; c != nil {
		close(c)
		delete(q.followed, id)
	}
}

// Follow returns a channel that is closed at the next change of the run, or when the log of its phase begins.
// It returns nil if the phase has ended or will never begin. Call it before checking whether the log exists, so
// that no change is missed.
func (q *Queue) Follow(run, phase string) <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.active[run]
	waits := r != nil && (r.Plan.ID == phase && r.Plan.Ended.IsZero() || r.Apply.ID == phase && r.Apply.Ended.IsZero())
	if !waits {
		return nil
	}
	c := q.followed[run]
	if c == nil {
		c = make(chan struct{})
		q.followed[run] = c
	}
	return c
}

// LastChange returns the number of the latest change.
func (q *Queue) LastChange() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.changes
}

// AwaitChange waits until any run has changed after the change with the number since, or ctx ends. It returns the
// number of the latest change.
func (q *Queue) AwaitChange(ctx context.Context, since uint64) uint64 {
	for {
		q.mu.Lock()
		news, count := q.news, q.changes
		q.mu.Unlock()
		if count > since {
			return count
		}
		select {
		case <-news:
		case <-ctx.Done():
			return count
		}
	}
}

// AwaitIdle returns when no phase of a run is in progress or due, patience is over, or ctx ends.
func (q *Queue) AwaitIdle(ctx context.Context, patience time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		q.mu.Lock()
		news, idle := q.news, true
		for _, r := range q.active {
			idle = idle && !r.Status.Computes() && r.Status != record.PlanQueued
		}
		q.mu.Unlock()
		if idle {
			return
		}
		select {
		case <-news:
		case <-ctx.Done():
			return
		}
	}
}

// NoteRead records that a client has looked at a run.
func (q *Queue) NoteRead(id string) {
	q.mu.Lock()
	r := q.active[id]
	if r == nil {
		q.mu.Unlock()
		return
	}
	look := q.seen[id]
	look.Last = q.now()
	if r.Status == record.Planned {
		look.Reads++
	}
	q.seen[id] = look
	due := r.Status == record.Planned && r.AutoApply && look.Reads >= turn.HoldReads
	q.mu.Unlock()
	if due {
		q.Wake()
	}
}

// Tally returns the number of unfinished runs by status.
func (q *Queue) Tally() map[record.RunStatus]int {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := map[record.RunStatus]int{}
	for _, r := range q.active {
		out[r.Status]++
	}
	return out
}

// PlansWait reports whether plans are waiting in the queue.
func (q *Queue) PlansWait() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, r := range q.active {
		if r.Status == record.PlanQueued {
			return true
		}
	}
	return false
}
