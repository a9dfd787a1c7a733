package bolt

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/millipede-iac/millipede/internal/bug"
	"github.com/millipede-iac/millipede/state/journal"
)

// write commits an operation together with all others that are waiting: they share one transaction and its fsync. A
// failed operation has no effect, and does not affect the others. An operation may be called more than once, each
// time without its earlier effects.
func (s *Store) write(ctx context.Context, op func(*bbolt.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.commits.do(op)
}

// later adds an operation to the next transaction, or to the last one before the store closes, and does not wait for
// it. Its error is lost, and so is the operation if the process is killed before. It is for data that may be lost, and
// saves the two syncs of a transaction of its own.
func (s *Store) later(ctx context.Context, op func(*bbolt.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	_, err := s.commits.add(op, true)
	return err
}

// settled commits the operations that later has added, for callers that read their effects.
func (s *Store) settled(ctx context.Context) error {
	if s.commits.delayed.Load() == 0 {
		return ctx.Err()
	}
	return s.write(ctx, func(*bbolt.Tx) error { return nil })
}

// read calls f with a consistent view of the file.
func (s *Store) read(ctx context.Context, f func(*bbolt.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.view(f)
}

func (s *Store) view(f func(*bbolt.Tx) error) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.viewing(f)
}

// viewing is view for callers that hold the lock.
func (s *Store) viewing(f func(*bbolt.Tx) error) (err error) {
	defer recoverDamage(s.path, &err)()
	return closed(s.db.View(f))
}

func (s *Store) update(f func(*bbolt.Tx) error) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.updating(f)
}

// updating is update for callers that hold the lock.
func (s *Store) updating(f func(*bbolt.Tx) error) (err error) {
	defer recoverDamage(s.path, &err)()
	return closed(s.db.Update(f))
}

// closed translates bbolt's error for a closed store.
func closed(err error) error {
	if errors.Is(err, berrors.ErrDatabaseNotOpen) {
		return journal.ErrClosed
	}
	return err
}

// transact runs operations in one transaction. If one of them fails, it returns its index and nothing is changed. A
// panic becomes a *bug.Error of that operation, because its caller, and those that share the transaction, wait for
// a result.
func (s *Store) transact(ops []func(*bbolt.Tx) error) (failed int, err error) {
	err = bug.Catch(func() error {
		return s.update(func(tx *bbolt.Tx) error {
			for i, op := range ops {
				failed = i
				if err := op(tx); err != nil {
					return err
				}
			}
			failed = -1
			return nil
		})
	})
	if err != nil {
		s.names.forget() // the transaction's additions were rolled back
	}
	return failed, err
}

// groupCommit combines the operations of concurrent callers into transactions. If no write is in progress, a caller
// writes for all waiting callers, while the next ones gather. So there is no goroutine and no timer, and a single
// caller never waits.
type groupCommit struct {
	transact func([]func(*bbolt.Tx) error) (failed int, err error)
	writing  chan struct{} // contains a token during a write

	delayed atomic.Int64 // operations that nobody waits for, and that are not committed yet

	mu      sync.Mutex // guards the fields below
	waiting []*waiter
	closed  bool
}

type waiter struct {
	op      func(*bbolt.Tx) error
	delayed bool
	done    chan error // capacity 1
}

// end reports the result of the operation.
func (g *groupCommit) end(w *waiter, err error) {
	if w.delayed {
		g.delayed.Add(-1)
	}
	w.done <- err
}

func (g *groupCommit) init(transact func([]func(*bbolt.Tx) error) (int, error)) {
	g.transact = transact
	g.writing = make(chan struct{}, 1)
}

// do returns when the operation is durable, or has failed.
func (g *groupCommit) do(op func(*bbolt.Tx) error) error {
	w, err := g.add(op, false)
	if err != nil {
		return err
	}
	select {
	case err := <-w.done:
		return err
	case g.writing <- struct{}{}:
		g.drain()
		<-g.writing
		return <-w.done // another caller's drain may have completed it already
	}
}

// add adds an operation to those that the next writer writes. For a delayed one nobody waits.
func (g *groupCommit) add(op func(*bbolt.Tx) error, delayed bool) (*waiter, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, journal.ErrClosed
	}
	w := &waiter{op: op, delayed: delayed, done: make(chan error, 1)}
	if delayed {
		g.delayed.Add(1)
	}
	g.waiting = append(g.waiting, w)
	return w, nil
}

// between calls f while no transaction is being written, and returns its error.
func (g *groupCommit) between(f func() error) error {
	g.writing <- struct{}{}
	defer func() { <-g.writing }()
	return f()
}

// drain writes the operations of all waiting callers. The caller holds the token.
func (g *groupCommit) drain() {
	g.mu.Lock()
	batch := g.waiting
	g.waiting = nil
	g.mu.Unlock()

	for len(batch) > 0 {
		ops := make([]func(*bbolt.Tx) error, len(batch))
		for i, w := range batch {
			ops[i] = w.op
		}
		failed, err := g.transact(ops)
		if failed < 0 { // all done, or the transaction itself failed for all
			for _, w := range batch {
				g.end(w, err)
			}
			return
		}
		g.end(batch[failed], err)
		batch = append(batch[:failed], batch[failed+1:]...)
	}
}

// close waits for the writer, and rejects later operations.
func (g *groupCommit) close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.writing <- struct{}{}
	g.drain()
	<-g.writing
}
