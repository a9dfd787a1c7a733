package service

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
)

// A full disk ends no run, nor does a NATS server that is away. A phase that fails because of it is carried out again
// once it is over: planning changes nothing, and an apply is gone on with as after a crash.

// mostAgain is how often a phase of a run is carried out again when it may have failed for another reason.
const mostAgain = 10

// again tells whether a phase that has failed is to be carried out again, and waits until it can be. refused is how
// many changes had found no room on the disk when it began. The text is for the log.
func (q *queue) again(stopping context.Context, r *record.Run, j *job, failure error, refused int64) (yes bool,
	why string) {
	full := store.NoRoom(q.s.store.Room())
	room := full || store.NoRoom(failure) || q.s.store.Refused() != refused
	if !room && !errors.Is(failure, ErrAgain) {
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
		return stopping.Err() == nil, "The NATS server was away. The run goes on."
	}
	return q.awaitRoom(stopping, r, j), "The disk of the service was full. The run goes on now that there is room."
}

// awaitRoom returns when there is room on the disk, or false when the phase is stopped before.
func (q *queue) awaitRoom(stopping context.Context, r *record.Run, j *job) bool {
	q.s.log.Warn("the disk is full: a run waits for room", "run", r.ID)
	q.waitsFor(r.ID, "disk", "", "the disk of the service is full")
	defer q.waitsFor(r.ID, "disk", "", "")
	q.mu.Lock()
	left := j.left
	q.mu.Unlock()
	again := time.NewTicker(time.Second)
	defer again.Stop()
	for !left && stopping.Err() == nil {
		if q.s.store.Room() == nil {
			return true
		}
		select {
		case <-again.C:
		case <-stopping.Done():
		}
	}
	return false
}

// repeats tells whether this process carries out a phase of a run again.
func (q *queue) repeats(run string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, yes := q.repeated[run]
	return yes
}

// settle forgets that a phase was carried out again, which has ended.
func (q *queue) settle(run string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.repeated, run)
}

// maxPending bounds what is kept of a log that cannot be written, in bytes.
const maxPending = 1 << 20

// patient is a log whose writers do not notice a full disk: what finds no room is kept in memory, and written before
// what comes next. Safe for concurrent use.
type patient struct {
	log io.Writer

	mu      sync.Mutex // guards pending, and the order of what is written
	pending []byte
}

// Write implements io.Writer. The error is that of a disk that was full for too long, or has another problem.
func (l *patient) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.flush()
	n := 0
	if err == nil {
		n, err = l.log.Write(p)
	}
	if store.NoRoom(err) && len(l.pending)+len(p)-n <= maxPending {
		l.pending = append(l.pending, p[n:]...)
		return len(p), nil
	}
	return n, err
}

// Flush writes what was kept.
func (l *patient) Flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.flush()
}

func (l *patient) flush() error {
	if len(l.pending) == 0 {
		return nil
	}
	n, err := l.log.Write(l.pending)
	l.pending = l.pending[n:]
	return err
}
