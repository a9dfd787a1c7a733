package worker

import (
	"sync"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

const (
	// courtesy is for how long a worker leaves a task to the one that the task names, since it first saw the task. Then
	// the other one is not there, or has no slot, and anybody of the pool is better than nobody.
	courtesy = 15 * time.Second
	// keyPatience is for how long a worker leaves a task alone whose run's key nobody gives it. A coordinator that is
	// there gives it within seconds.
	keyPatience = time.Minute
)

// sightings remembers since when tasks have been seen that are left to somebody else for a while.
type sightings struct {
	patience time.Duration

	mu    sync.Mutex // guards what follows
	seen  map[wire.AttemptID]time.Time
	swept time.Time // when forgotten ones were last looked for
}

// leave tells whether an attempt is to be given back once more, because the patience is not over yet.
func (s *sightings) leave(a wire.AttemptID, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.seen[a]
	if !ok {
		at = now
		s.note(a, now)
	}
	if now.Sub(at) < s.patience {
		return true
	}
	delete(s.seen, a)
	return false
}

// note remembers an attempt, and forgets those that somebody must have taken. s.mu is held.
func (s *sightings) note(a wire.AttemptID, now time.Time) {
	if s.seen == nil {
		s.seen = map[wire.AttemptID]time.Time{}
	}
	s.seen[a] = now
	if now.Sub(s.swept) < s.patience {
		return
	}
	s.swept = now
	for old, at := range s.seen {
		if now.Sub(at) > 4*s.patience {
			delete(s.seen, old)
		}
	}
}

// forOther tells whether a task is to be given back because it names another worker.
func (w *Worker) forOther(a wire.AttemptID, t *wire.Task) bool {
	return t != nil && t.Worker != "" && t.Worker != w.ID && w.left.leave(a, w.Now())
}
