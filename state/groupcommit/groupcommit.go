// Package groupcommit combines the operations of concurrent callers into transactions.
//
// It does not know how a transaction is made durable.
package groupcommit

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/millipede-iac/millipede/state/recorded"
)

// Op is an operation within a transaction. It may be called more than once, each time without its earlier effects.
type Op func(*recorded.Tx) error

// ErrClosed means that the queue takes no more operations.
var ErrClosed = errors.New("the queue of commits is closed")

// Queue gathers operations. If no write is in progress, a caller writes for all waiting callers, while the next ones
// gather. So there is no goroutine and no timer, and a single caller never waits. A failed operation has no effect, and
// does not affect the others. Safe for concurrent use.
type Queue struct {
	transact func([]Op) (failed int, err error)
	writing  chan struct{} // contains a token during a write

	delayed atomic.Int64 // operations that nobody waits for, and that are not committed yet

	mu      sync.Mutex // guards the fields below
	waiting []*waiter
	closed  bool
}

type waiter struct {
	op      Op
	delayed bool
	done    chan error // capacity 1
}

// New returns a queue. transact runs operations in one transaction. If one of them fails, it returns its index, and
// nothing is changed; a negative one means that the error, or nil, is that of the transaction.
func New(transact func([]Op) (failed int, err error)) *Queue {
	return &Queue{transact: transact, writing: make(chan struct{}, 1)}
}

// end reports the result of the operation.
func (q *Queue) end(w *waiter, err error) {
	if w.delayed {
		q.delayed.Add(-1)
	}
	w.done <- err
}

// Do returns when the operation is durable, or has failed.
func (q *Queue) Do(op Op) error {
	w, err := q.add(op, false)
	if err != nil {
		return err
	}
	select {
	case err := <-w.done:
		return err
	case q.writing <- struct{}{}:
		q.drain()
		<-q.writing
		return <-w.done // another caller's drain may have completed it already
	}
}

// Later adds an operation to those that the next writer writes, or to the last transaction before Close. Nobody waits
// for it, and its error is lost.
func (q *Queue) Later(op Op) error {
	_, err := q.add(op, true)
	return err
}

// Delayed reports whether operations of Later are not committed yet.
func (q *Queue) Delayed() bool { return q.delayed.Load() > 0 }

func (q *Queue) add(op Op, delayed bool) (*waiter, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, ErrClosed
	}
	w := &waiter{op: op, delayed: delayed, done: make(chan error, 1)}
	if delayed {
		q.delayed.Add(1)
	}
	q.waiting = append(q.waiting, w)
	return w, nil
}

// Between calls f while no transaction is being written, and returns its error.
func (q *Queue) Between(f func() error) error {
	q.writing <- struct{}{}
	defer func() { <-q.writing }()
	return f()
}

// drain writes the operations of all waiting callers. The caller holds the token.
func (q *Queue) drain() {
	q.mu.Lock()
	batch := q.waiting
	q.waiting = nil
	q.mu.Unlock()

	for len(batch) > 0 {
		ops := make([]Op, len(batch))
		for i, w := range batch {
			ops[i] = w.op
		}
		failed, err := q.transact(ops)
		if failed < 0 { // all done, or the transaction itself failed for all
			for _, w := range batch {
				q.end(w, err)
			}
			return
		}
		q.end(batch[failed], err)
		batch = append(batch[:failed], batch[failed+1:]...)
	}
}

// Close waits for the writer, writes what Later has added, and rejects later operations.
func (q *Queue) Close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.writing <- struct{}{}
	q.drain()
	<-q.writing
}

// Run calls the operations in a transaction, in order, until one fails. at is the index of the one that is being
// called, and -1 after the last; a panic leaves it, too.
func Run(tx *recorded.Tx, ops []Op, at *int) error {
	for i, op := range ops {
		*at = i
		if err := op(tx); err != nil {
			return err
		}
	}
	*at = -1
	return nil
}
