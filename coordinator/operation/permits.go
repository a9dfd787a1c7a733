package operation

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

// requestTimeout bounds the request for a permit that is to be released. At its end the request is withdrawn, which
// also frees the slot.
const requestTimeout = 100 * time.Millisecond

// releasePermits releases the permits that an interrupted run has left, and that no process will use again. They were
// held for operations in doubt that have been resolved. Other coordinators cannot know that, and would wait for
// them.
func (s *Session) releasePermits(ctx context.Context, r journal.Run) error {
	events, err := s.Store.Events(ctx, r.ID)
	if err != nil {
		return err
	}
	statuses, open, err := journal.Fold(r.Vertices, events)
	if err != nil {
		return err
	}
	left := map[string]bool{}
	for _, e := range events {
		if e.Kind != journal.Dispatch || statuses[e.Vertex] == journal.Dispatched &&
			open[e.Vertex].Attempt == e.Attempt {
			continue
		}
		for _, name := range e.Permits {
			left[name] = true
		}
	}
	for v, e := range open {
		if statuses[v] == journal.Dispatched {
			for _, name := range e.Permits {
				delete(left, name)
			}
		}
	}
	var group errgroup.Group
	for name := range left {
		limit, id, ok := journal.ParsePermit(name)
		if !ok {
			continue
		}
		request := wire.PermitRequest{ID: id, Run: r.ID, At: s.Now()}
		group.Go(func() error {
			short, cancel := context.WithTimeout(ctx, requestTimeout)
			defer cancel()
			if p, err := s.Hub.Acquire(short, limit, request); err == nil {
				_ = p.Release(ctx) // on failure, the permit stays held for a day
			}
			return nil
		})
	}
	return group.Wait()
}
