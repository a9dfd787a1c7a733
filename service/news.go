package service

import (
	"context"

	"github.com/millipede-iac/millipede/service/record"
)

// spread tells those who wait that runs have changed. The caller holds q.mu.
func (q *queue) spread(changed ...string) {
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

// begun tells those who follow a run that the log of its phase is there.
func (q *queue) begun(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c := q.followed[id]; c != nil {
		close(c)
		delete(q.followed, id)
	}
}

// follow returns what is closed when the run changes next, or the log of its phase is begun; nil when the phase has
// ended, or never begins, so that nothing more is to be waited for. Call it before you look at what may be there.
func (q *queue) follow(run, phase string) <-chan struct{} {
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

// Changed returns when a run, whichever, has changed since the number of changes that it is given, or ctx ends. It
// returns the number of changes so far.
func (s *Service) Changed(ctx context.Context, since uint64) uint64 {
	for {
		s.queue.mu.Lock()
		news, count := s.queue.news, s.queue.changes
		s.queue.mu.Unlock()
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

// Seen notes that a client has looked at a run.
func (s *Service) Seen(id string) {
	q := s.queue
	q.mu.Lock()
	r := q.active[id]
	if r == nil {
		q.mu.Unlock()
		return
	}
	look := q.seen[id]
	look.last = s.now()
	if r.Status == record.Planned {
		look.reads++
	}
	q.seen[id] = look
	due := r.Status == record.Planned && r.AutoApply && look.reads >= holdReads
	q.mu.Unlock()
	if due {
		q.wake()
	}
}
