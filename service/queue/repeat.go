package queue

import (
	"context"
	"errors"
	"time"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/work"
)

// A full disk, an unreachable NATS server, and the death of an engine do not end a run. A phase that fails for such a
// reason is repeated when the problem is over: planning changes nothing, and an apply is resumed as after a
// crash.

// mostAgain bounds the repetitions of a phase that may have failed for another reason.
const mostAgain = 10

// again reports whether a failed phase must be repeated, and waits until it can be. refused is the number of
// writes that a full disk had refused when the phase began. The text is for the log of the run.
func (q *Queue) again(stopping context.Context, r *record.Run, j *Job, failure error, refused int64) (yes bool,
	why string) {
	if errors.Is(failure, work.ErrLost) {
		q.mu.Lock()
		q.repeated[r.ID] += 0 // it is not in vain
		q.mu.Unlock()
		return true, "The engine that carried out this phase has ended unexpectedly. The run continues with another one."
	}
	full := store.NoRoom(q.store.Room())
	room := full || store.NoRoom(failure) || q.store.Refused() != refused
	if !room && !errors.Is(failure, work.ErrAgain) {
		return false, ""
	}
	q.mu.Lock()
	unsure := 1
	if full {
		unsure = 0
	}
	q.repeated[r.ID] += unsure
	most := q.repeated[r.ID]
	q.mu.Unlock()
	switch {
	case most > mostAgain:
		return false, ""
	case !room:
		return stopping.Err() == nil, "The NATS server was unreachable. The run continues."
	}
	return q.awaitRoom(stopping, r, j), "The disk of the service was full. The run continues."
}

// awaitRoom waits until there is space on the disk. It returns false if the phase is stopped before.
func (q *Queue) awaitRoom(stopping context.Context, r *record.Run, j *Job) bool {
	q.log.Warn("the disk is full: a run waits for space", "run", r.ID)
	q.WaitsFor(r.ID, "disk", "", "the disk of the service is full")
	defer q.WaitsFor(r.ID, "disk", "", "")
	q.mu.Lock()
	left := j.left
	q.mu.Unlock()
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for !left && stopping.Err() == nil {
		if q.store.Room() == nil {
			return true
		}
		select {
		case <-again.C:
		case <-stopping.Done():
		}
	}
	return false
}

// repeats reports whether this process is repeating the current phase of a run.
func (q *Queue) repeats(run string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, yes := q.repeated[run]
	return yes
}

// settle forgets the repetitions of a phase that has ended.
func (q *Queue) settle(run string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.repeated, run)
}
