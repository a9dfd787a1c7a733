package mem

import (
	"context"
	"fmt"

	"github.com/millipede-iac/millipede/state/journal"
)

// Lock locks a workspace.
func (s *Store) Lock(ctx context.Context, name string, info journal.LockInfo) error {
	return s.change(ctx, "Lock", name, func() error {
		if _, err := s.workspace(name); err != nil {
			return err
		}
		if held, ok := s.locks[name]; ok {
			return &journal.Held{Holder: held}
		}
		s.locks[name] = info
		return nil
	})
}

// Unlock gives up a lock.
func (s *Store) Unlock(ctx context.Context, name, lockID string) error {
	return s.change(ctx, "Unlock", name, func() error {
		if _, err := s.workspace(name); err != nil {
			return err
		}
		if held, ok := s.locks[name]; !ok || held.ID != lockID {
			return fmt.Errorf("%w: %s", journal.ErrLockID, lockID)
		}
		delete(s.locks, name)
		return nil
	})
}

// Locked returns the lock that is held, or nil.
func (s *Store) Locked(ctx context.Context, name string) (info *journal.LockInfo, err error) {
	err = s.look(ctx, func() error {
		if _, err := s.workspace(name); err != nil {
			return err
		}
		if held, ok := s.locks[name]; ok {
			info = &held
		}
		return nil
	})
	return info, err
}

// fence refuses a change by who does not hold the lock, and one without a lock where one is held.
func (s *Store) fence(name, lockID string) error {
	held, ok := s.locks[name]
	switch {
	case ok && held.ID != lockID:
		return fmt.Errorf("%w: it is held by %s (%s, lock %s)", journal.ErrFenced, held.Who, held.Operation, held.ID)
	case !ok && lockID != "":
		return fmt.Errorf("%w: lock %s is not held any more", journal.ErrFenced, lockID)
	}
	return nil
}
