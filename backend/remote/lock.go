package remote

import (
	"context"
	"fmt"
	"strings"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/internal/cloud/tfc"
	"github.com/millipede-iac/millipede/state/journal"
)

// lockID returns the ID of the lock of a workspace: services have no other.
func (s *Store) lockID(name string) string { return s.organization + "/" + name }

// reason returns the text that the service stores with a lock: people read it, and it distinguishes a lock from the
// next one.
func reason(info journal.LockInfo) string {
	return fmt.Sprintf("%s by %s, version %s, lock %s", info.Operation, info.Who, info.Version, info.ID)
}

// holder decodes the reason of a lock. Other text becomes the lock information.
func holder(text string) journal.LockInfo {
	operation, rest, is := strings.Cut(text, " by ")
	who, rest, also := strings.Cut(rest, ", version ")
	version, _, too := strings.Cut(rest, ", lock ")
	if !is || !also || !too {
		return journal.LockInfo{Info: text}
	}
	return journal.LockInfo{Operation: operation, Who: who, Version: version}
}

// Lock implements backend.Backend.
func (s *Store) Lock(ctx context.Context, workspace string, info journal.LockInfo) (backend.Lock, error) {
	w, err := s.find(ctx, workspace, true)
	if err != nil {
		return backend.Lock{}, err
	}
	if err := s.fits(w); err != nil {
		return backend.Lock{}, err
	}
	lock := backend.Lock{ID: s.lockID(w.Name)}
	err = s.client.Lock(ctx, w.ID, reason(info))
	if tfc.Conflict(err) {
		now, readErr := s.client.WorkspaceByID(ctx, w.ID)
		if readErr != nil {
			return backend.Lock{}, readErr
		}
		if !now.Locked || !strings.Contains(now.LockedReason, info.ID) {
			h := holder(now.LockedReason)
			if h.Info == "" && h.Who == "" {
				h.Info = err.Error()
			}
			h.ID, h.Path = lock.ID, s.Describe(workspace).Where
			return backend.Lock{}, &journal.Held{Holder: h}
		}
		err = nil // an earlier response was lost: this process has the lock
	}
	if err != nil {
		return backend.Lock{}, err
	}
	s.mu.Lock()
	s.held[workspace] = info.ID
	s.mu.Unlock()
	lock = s.checks.Start(ctx, s.lockCheck, workspace, lock.ID, func(ctx context.Context) (bool, error) {
		now, err := s.client.WorkspaceByID(ctx, w.ID)
		if err != nil {
			return true, err
		}
		// A service that does not store reasons only says that the workspace is locked.
		return now.Locked && (now.LockedReason == "" || strings.Contains(now.LockedReason, info.ID)), nil
	})
	return lock, nil
}

// Unlock implements backend.Backend. Another process's lock is broken; that of a run is not.
func (s *Store) Unlock(ctx context.Context, workspace, lockID string) error {
	name, err := s.Remote(workspace)
	if err != nil {
		return err
	}
	if lockID != s.lockID(name) {
		return fmt.Errorf("%w: locks of this service have the name of the workspace as their ID, which is %s",
			backend.ErrNotLocked, s.lockID(name))
	}
	w, err := s.find(ctx, workspace, false)
	if err != nil {
		return err
	}
	s.mu.Lock()
	_, own := s.held[workspace]
	delete(s.held, workspace)
	s.mu.Unlock()
	s.checks.Stop(workspace, lockID)
	if own {
		err = s.client.Unlock(ctx, w.ID)
	} else {
		err = s.client.ForceUnlock(ctx, w.ID)
	}
	if !tfc.Conflict(err) {
		return err
	}
	now, readErr := s.client.WorkspaceByID(ctx, w.ID)
	switch {
	case readErr != nil:
		return readErr
	case !now.Locked && own: // an earlier response was lost, or the lock was broken
		return nil
	case !now.Locked:
		return fmt.Errorf("%w: %w", backend.ErrNotLocked, err)
	}
	return err
}
