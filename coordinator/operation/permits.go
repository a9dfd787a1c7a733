package operation

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

// requestTimeout bounds the request for a permit that is to be released. At its end the request is withdrawn, which
// also frees the slot.
const requestTimeout = 100 * time.Millisecond

// releaseTimeout is the time limit for releasing the permits of a request.
const releaseTimeout = 5 * time.Second

// request is call for a task that reaches a cloud. Meanwhile it holds a permit of each limit that the rules name for
// the object, and of the widest one, like a vertex of a run: a limit is never exceeded. Renewals hold none, because an
// object that waits for a permit may expire.
func (s *Session) request(ctx context.Context, pools []string, place program.Placement, task *wire.Task) (
	*wire.Result, diag.List) {
	return s.requestOf(ctx, place, task, s.first(pools))
}

// requestOf is request with the function that calls a worker.
func (s *Session) requestOf(ctx context.Context, place program.Placement, task *wire.Task,
	once func(context.Context, *wire.Task) (*wire.Result, error)) (*wire.Result, diag.List) {
	if diags := s.interrupted("The request about " + task.Address + " was not sent."); diags.HasErrors() {
		return nil, diags
	}
	ctx, forget := s.unlessStopped(ctx)
	defer forget()
	release, err := s.acquire(ctx, place)
	defer release()
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, diag.Errors("Operation interrupted", sentence(context.Cause(ctx)), nil)
	case err != nil:
		return nil, diag.Errors("Failed to acquire a permit", err.Error()+".", nil)
	}
	return s.callWith(ctx, ctx, task, once)
}

// acquire acquires the permits for a request, the narrowest first. release releases those that it has, also after an
// error.
func (s *Session) acquire(ctx context.Context, place program.Placement) (release func(), err error) {
	var held []wire.Permit
	release = func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
		defer cancel()
		for _, p := range slices.Backward(held) {
			_ = p.Release(ending) // on failure, another coordinator may release it when this process has ended
		}
	}
	workers, err := s.Hub.Workers(ctx)
	if err != nil {
		return release, err
	}
	live := func(pool string) bool {
		return slices.ContainsFunc(workers, func(w wire.Worker) bool {
			return slices.Contains(w.Pools, pool) && !w.Silent(s.Hub.Connected())
		})
	}
	_, limits := s.Rules.Placer(s.Rules.Slots(s.Parallelism))(place, live)
	who := coordinator.Reader(s.NewID())
	for _, l := range limits {
		if s.OwnSlots && l.Name == wire.DefaultLimit {
			continue // one request at a time is within the slots of this operation
		}
		if _, err := s.Hub.DeclareLimit(ctx, l); err != nil {
			return release, fmt.Errorf("declaring the limit %q: %w", l.Name, err)
		}
		p, err := s.Hub.Acquire(ctx, l.Name, wire.PermitRequest{ID: s.NewID(), Run: who, At: s.Now()})
		if err != nil {
			return release, fmt.Errorf("acquiring a permit of the limit %q: %w", l.Name, err)
		}
		held = append(held, p)
	}
	return release, nil
}

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
