package mem

import (
	"context"
	"fmt"

	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/locks"
)

// Lock locks a workspace.
func (s *Store) Lock(ctx context.Context, name string, info journal.LockInfo) error {
	return s.change(ctx, "Lock", name, func() error {
		if _, err := s.workspace(name); err != nil {
			return err
		}
		if held := s.held(name); held != nil {
			return &journal.Held{Holder: *held}
		}
		s.locks[name] = info
		return nil
	})
}

// Unlock releases a lock.
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

// Locked returns the lock, or nil.
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

// held returns the holder that prevents locking the workspace as a whole; nil if there is none.
func (s *Store) held(name string) *journal.LockInfo {
	if held, ok := s.locks[name]; ok {
		return &held
	}
	if all := s.disk.requests.Requests(name); len(all) > 0 {
		r := all[0]
		return &journal.LockInfo{ID: r.ID, Operation: r.Operation, Who: r.Who, Created: r.At, Path: name}
	}
	return nil
}

// fence rejects changes by callers that do not hold the lock, and those without a lock if there is one. It returns
// the request for locks of objects with the ID; nil if the lock is that of the workspace.
func (s *Store) fence(name, lockID string) (*locks.Request, error) {
	request, err := s.entitled(name, lockID)
	return request, s.refused(err)
}

// refused calls the hook with a refusal.
func (s *Store) refused(err error) error {
	if h := s.opts.Hooks.Fence; h != nil && err != nil {
		return h(err)
	}
	return err
}

func (s *Store) entitled(name, lockID string) (*locks.Request, error) {
	request, granted, is := s.disk.requests.Get(name, lockID)
	held, ok := s.locks[name]
	switch {
	case is && granted:
		return &request, nil
	case is:
		return nil, fmt.Errorf("%w: %s waits for its locks", journal.ErrFenced, lockID)
	case len(s.disk.requests.Requests(name)) > 0:
		return nil, fmt.Errorf("%w: %q has no locks, and others have", journal.ErrFenced, lockID)
	case ok && held.ID != lockID:
		return nil, fmt.Errorf("%w: it is held by %s (%s, lock %s)", journal.ErrFenced, held.Who, held.Operation, held.ID)
	case !ok && lockID != "":
		return nil, fmt.Errorf("%w: lock %s is not held any more", journal.ErrFenced, lockID)
	}
	return nil, nil
}
