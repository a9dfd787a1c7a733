package bolt

import (
	"context"
	"errors"

	berrors "go.etcd.io/bbolt/errors"

	"github.com/millipede-iac/millipede/internal/bug"
	"github.com/millipede-iac/millipede/state/groupcommit"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/recorded"
)

// write commits an operation together with all others that are waiting: they share one transaction and its fsync. A
// failed operation has no effect, and does not affect the others. An operation may be called more than once, each
// time without its earlier effects.
func (s *Store) write(ctx context.Context, op func(*recorded.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return closed(s.commits.Do(op))
}

// later adds an operation to the next transaction, or to the last one before the store closes, and does not wait for
// it. Its error is lost, and so is the operation if the process is killed before. It is for data that may be lost, and
// saves the two syncs of a transaction of its own.
func (s *Store) later(ctx context.Context, op func(*recorded.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return closed(s.commits.Later(op))
}

// settled commits the operations that later has added, for callers that read their effects.
func (s *Store) settled(ctx context.Context) error {
	if !s.commits.Delayed() {
		return ctx.Err()
	}
	return s.write(ctx, func(*recorded.Tx) error { return nil })
}

// read calls f with a consistent view of the file.
func (s *Store) read(ctx context.Context, f func(*recorded.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.view(f)
}

func (s *Store) view(f func(*recorded.Tx) error) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.viewing(f)
}

// viewing is view for callers that hold the lock.
func (s *Store) viewing(f func(*recorded.Tx) error) (err error) {
	defer recoverDamage(s.path, &err)()
	return closed(recorded.View(s.db, f))
}

func (s *Store) update(f func(*recorded.Tx) error) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.updating(f)
}

// updating is update for callers that hold the lock.
func (s *Store) updating(f func(*recorded.Tx) error) (err error) {
	defer recoverDamage(s.path, &err)()
	var through recorded.Committer
	if s.log != nil {
		through = s.log
	}
	return closed(recorded.Through(s.db, through, f))
}

// closed translates the errors for a closed store.
func closed(err error) error {
	if errors.Is(err, berrors.ErrDatabaseNotOpen) || errors.Is(err, groupcommit.ErrClosed) {
		return journal.ErrClosed
	}
	return err
}

// transact runs operations in one transaction. If one of them fails, it returns its index and nothing is changed. A
// panic becomes a *bug.Error of that operation, because its caller, and those that share the transaction, wait for
// a result.
func (s *Store) transact(ops []groupcommit.Op) (failed int, err error) {
	failed = -1
	err = bug.Catch(func() error {
		return s.update(func(tx *recorded.Tx) error { return groupcommit.Run(tx, ops, &failed) })
	})
	if err != nil {
		s.names.forget() // the transaction's additions were rolled back
	}
	return failed, err
}
