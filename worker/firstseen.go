package worker

import (
	"sync"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

const (
	// leaveToNamed is how long a worker leaves a task to the worker that the task names, since it first saw the task.
	// After that the named worker is gone or has no free slot, and any worker of the pool may execute it.
	leaveToNamed = 15 * time.Second
	// keyTimeout is how long a worker leaves a task alone if it does not get the key of the task's run. A live
	// coordinator shares it within seconds.
	keyTimeout = time.Minute
)

// firstSeen records when tasks were first seen that are left to others for a while.
type firstSeen struct {
	wait time.Duration

	mu    sync.Mutex // guards the fields below
	seen  map[wire.AttemptID]time.Time
	swept time.Time // when forgotten ones were last looked for
}

// leave reports whether an attempt is to be released once more, because its time is not over yet.
func (s *firstSeen) leave(a wire.AttemptID, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.seen[a]
	if !ok {
		at = now
		s.note(a, now)
	}
	if now.Sub(at) < s.wait {
		return true
	}
	delete(s.seen, a)
	return false
}

// note records an attempt, and removes those that must have been executed by now. s.mu is held.
func (s *firstSeen) note(a wire.AttemptID, now time.Time) {
	if s.seen == nil {
		s.seen = map[wire.AttemptID]time.Time{}
	}
	s.seen[a] = now
	if now.Sub(s.swept) < s.wait {
		return
	}
	s.swept = now
	for old, at := range s.seen {
		if now.Sub(at) > 4*s.wait {
			delete(s.seen, old)
		}
	}
}

// forOther reports whether a task is to be released because it names another worker.
func (w *Worker) forOther(a wire.AttemptID, t *wire.Task) bool {
	return t != nil && t.Worker != "" && t.Worker != w.ID && w.left.leave(a, w.Now())
}
