package backend

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"
)

// Close releases the resources of a backend: connections, and the checks of locks that it still holds. The locks
// are kept.
func Close(b Backend) error {
	if c, ok := b.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// LockChecks periodically checks whether locks are still held, for backends without notification. The zero value is
// ready for use. Safe for concurrent use.
type LockChecks struct {
	mu  sync.Mutex               // guards all
	all map[string]*runningCheck // by workspace
}

type runningCheck struct {
	id   string
	stop context.CancelCauseFunc
	done chan struct{} // closed when the checks have ended
}

// errReleased is the cause that ends checks that are no longer needed.
var errReleased = errors.New("the lock is not watched any more")

// Start checks the lock of a workspace that was just taken, until Stop or Close, and returns it. held reports whether
// it is still held; an error means that this is unknown, and the lock is assumed to be held. The checks continue after
// ctx has ended; they use only its values.
func (w *LockChecks) Start(ctx context.Context, every time.Duration, workspace, id string,
	held func(ctx context.Context) (bool, error),
) Lock {
	if every <= 0 {
		every = lockCheck
	}
	ctx, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	n := &runningCheck{id: id, stop: stop, done: make(chan struct{})}
	w.mu.Lock()
	former := w.all[workspace]
	if w.all == nil {
		w.all = map[string]*runningCheck{}
	}
	w.all[workspace] = n
	w.mu.Unlock()
	former.end()
	lost := make(chan struct{})
	go func() { // end waits for it
		defer close(n.done)
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			within, cancel := context.WithTimeout(ctx, every)
			is, err := held(within)
			cancel()
			if err == nil && !is && ctx.Err() == nil {
				close(lost)
				return
			}
		}
	}()
	return Lock{ID: id, Lost: lost, Held: held}
}

// lockCheck is the default interval of the checks.
const lockCheck = 20 * time.Second

// Stop ends the checks of a lock, before the lock is released. It reports whether there was one.
func (w *LockChecks) Stop(workspace, id string) bool {
	w.mu.Lock()
	n := w.all[workspace]
	if n == nil || n.id != id {
		w.mu.Unlock()
		return false
	}
	delete(w.all, workspace)
	w.mu.Unlock()
	n.end()
	return true
}

// Close ends all checks.
func (w *LockChecks) Close() {
	w.mu.Lock()
	all := w.all
	w.all = nil
	w.mu.Unlock()
	for _, n := range all {
		n.end()
	}
}

func (n *runningCheck) end() {
	if n == nil {
		return
	}
	n.stop(errReleased)
	<-n.done
}
