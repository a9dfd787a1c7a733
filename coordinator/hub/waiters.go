package hub

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/wire"
)

// waiters records which runs of this process wait for permits, so that background runs can give them priority.
type waiters struct {
	mu   sync.Mutex     // guards the fields below
	runs map[string]int // by limit
	// changed is closed when a run begins or stops waiting.
	changed chan struct{}
}

// enter records that a run waits for a permit of a limit, until leave is called.
func (w *waiters) enter(limit string) (leave func()) {
	w.add(limit, 1)
	return func() { w.add(limit, -1) }
}

func (w *waiters) add(limit string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.runs == nil {
		w.runs = map[string]int{}
	}
	if w.runs[limit] += n; w.runs[limit] == 0 {
		delete(w.runs, limit)
	}
	if w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
}

// check reports whether a run waits for a permit of a limit, and returns a channel that is closed when that may have
// changed.
func (w *waiters) check(limit string) (waits bool, changed <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.changed == nil {
		w.changed = make(chan struct{})
	}
	return w.runs[limit] > 0, w.changed
}

// errYielded is the cause of withdrawing a background run's request, which is repeated later.
var errYielded = errors.New("somebody else wants the permit")

// elsewhere is the interval at which a background run checks whether runs of other processes wait.
const elsewhere = 250 * time.Millisecond

// AcquireLast is Acquire for a background run. It requests a permit only while nobody else waits for the limit, and
// withdraws the request as soon as another run of this process calls Acquire.
func (h *Hub) AcquireLast(ctx context.Context, limit string, r wire.PermitRequest) (wire.Permit, error) {
	r.Coordinator = h.coordinator
	for {
		if err := h.quiet(ctx, limit, r.Run); err != nil {
			return nil, err
		}
		p, err := h.tryAcquire(ctx, limit, r)
		if err == nil || ctx.Err() != nil || !errors.Is(err, errYielded) {
			return p, err
		}
	}
}

// quiet waits until nobody else waits for a permit of a limit.
func (h *Hub) quiet(ctx context.Context, limit, run string) error {
	timer := time.NewTimer(elsewhere)
	defer timer.Stop()
	for {
		waits, changed := h.waiters.check(limit)
		if !waits {
			contended, err := h.transport.Contended(ctx, limit, run)
			if err != nil || !contended {
				return err
			}
		}
		timer.Reset(elsewhere)
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tryAcquire requests a permit. It returns errYielded if the request was withdrawn in favour of another run.
func (h *Hub) tryAcquire(ctx context.Context, limit string, r wire.PermitRequest) (wire.Permit, error) {
	asking, withdraw := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			waits, changed := h.waiters.check(limit)
			if waits {
				withdraw(errYielded)
				return
			}
			select {
			case <-changed:
			case <-asking.Done():
				return
			}
		}
	})
	p, err := h.transport.Acquire(asking, limit, r)
	made := errors.Is(context.Cause(asking), errYielded)
	withdraw(nil)
	watching.Wait()
	if err != nil && made {
		return nil, errYielded
	}
	return p, err
}
