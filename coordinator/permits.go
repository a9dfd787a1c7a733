package coordinator

import (
	"context"
	"fmt"

	"github.com/millipede-iac/millipede/coordinator/loop"
	"github.com/millipede-iac/millipede/internal/failpoint"
	"github.com/millipede-iac/millipede/wire"
)

// confirm checks that permits are still held, before an operation starts under them.
func (x *executor) confirm(keys []loop.PermitKey) error {
	for _, k := range keys {
		x.mu.Lock()
		p := x.permits[k]
		x.mu.Unlock()
		if err := p.Confirm(x.ctx); err != nil {
			return err
		}
	}
	return nil
}

// declare creates a limit. A limit that exists, and that several coordinators share, keeps its size until somebody
// changes it on purpose.
func (x *executor) declare(a loop.Declare) {
	x.persist(fmt.Sprintf("declaring the limit %q", a.Limit.Name), func() error {
		l, err := x.Hub.DeclareLimit(x.ctx, a.Limit)
		if err == nil && (x.Sole || x.Embedded) && a.Exact && l.Slots != a.Limit.Slots {
			// Nobody else uses the transport: the limit has the size that an earlier run was given.
			l, err = a.Limit, x.Hub.ResizeLimit(x.ctx, a.Limit)
		}
		if err == nil {
			x.inbox.put(loop.Declared{Limit: l.Name, Slots: l.Slots})
		}
		return err
	})
}

// resize gives the limit of a pool as many slots as the pool's live workers have. Every coordinator that uses the pool
// does this, by the same heartbeats.
func (x *executor) resize(a loop.Resize) {
	x.persist(fmt.Sprintf("resizing the limit %q", a.Limit.Name), func() error {
		l, err := x.Hub.DeclareLimit(x.ctx, a.Limit)
		if err == nil && (l.Slots < a.Limit.Slots || a.Shrink && l.Slots > a.Limit.Slots) {
			l, err = a.Limit, x.Hub.ResizeLimit(x.ctx, a.Limit)
		}
		if err == nil {
			x.inbox.put(loop.Declared{Limit: l.Name, Slots: l.Slots})
		}
		return err
	})
}

// asker returns the name under which the run requests permits. It tells others whether the run changes anything: if it
// does not, they may release its permits when its process is gone.
func (x *executor) asker() string {
	if x.Store == nil {
		return Reader(x.RunID)
	}
	return x.RunID
}

func (x *executor) acquire(a loop.Acquire) {
	ctx, cancel := context.WithCancelCause(x.ctx)
	key := a.PermitKey
	x.mu.Lock()
	x.requests[key] = cancel
	x.mu.Unlock()
	x.spawn(func() {
		defer cancel(nil)
		acquire := x.Hub.Acquire
		if x.Background {
			acquire = x.Hub.AcquireLast
		}
		p, err := acquire(ctx, a.Limit, wire.PermitRequest{ID: a.ID, Run: x.asker(), At: x.Now()})
		if err != nil && ctx.Err() == nil {
			x.pause(retryEvery)
		}
		x.mu.Lock()
		delete(x.requests, key)
		if err == nil {
			x.permits[key] = p
		}
		x.mu.Unlock()
		if err != nil {
			x.inbox.put(loop.Refused{PermitKey: a.PermitKey, Err: err})
			return
		}
		x.inbox.put(loop.Granted(a))
	})
}

func (x *executor) withdraw(a loop.Withdraw) {
	x.mu.Lock()
	cancel := x.requests[a.PermitKey]
	x.mu.Unlock()
	if cancel != nil {
		cancel(nil)
	}
}

func (x *executor) release(a loop.Release) {
	key := a.PermitKey
	x.mu.Lock()
	p := x.permits[key]
	delete(x.permits, key)
	delete(x.uses, key)
	x.mu.Unlock() // so that the end of the run does not release it a second time
	x.spawn(func() {
		if x.persist("releasing a permit", func() error {
			// The end of the run waits for this, and does not cancel it.
			ctx, cancel := context.WithTimeout(context.WithoutCancel(x.ctx), partTime)
			defer cancel()
			return p.Release(ctx)
		}) {
			failpoint.Hit(failpoint.PermitReleased)
			x.inbox.put(loop.Released(a))
		}
	})
}
