package worker

import (
	"sync"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

// courtesy is for how long a worker leaves a task to the one that the task names, since it first saw the task. Then the
// other one is not there, or has no slot, and anybody of the pool is better than nobody.
const courtesy = 15 * time.Second

// leftover remembers the tasks that are left to other workers.
type leftover struct {
	mu    sync.Mutex // guards what follows
	seen  map[wire.AttemptID]time.Time
	swept time.Time // when forgotten ones were last looked for
}

// forOther tells whether an attempt is to be given back, because another worker than self shall have it.
func (l *leftover) forOther(a wire.AttemptID, worker, self string, now time.Time) bool {
	if worker == "" || worker == self {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at, ok := l.seen[a]
	if !ok {
		at = now
		l.note(a, now)
	}
	if now.Sub(at) < courtesy {
		return true
	}
	delete(l.seen, a)
	return false
}

// note remembers an attempt, and forgets those that somebody must have taken. l.mu is held.
func (l *leftover) note(a wire.AttemptID, now time.Time) {
	if l.seen == nil {
		l.seen = map[wire.AttemptID]time.Time{}
	}
	l.seen[a] = now
	if now.Sub(l.swept) < courtesy {
		return
	}
	l.swept = now
	for old, at := range l.seen {
		if now.Sub(at) > 4*courtesy {
			delete(l.seen, old)
		}
	}
}
