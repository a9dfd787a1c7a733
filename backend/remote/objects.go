package remote

import (
	"context"
	"errors"
	"time"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/internal/cloud/tfc"
)

var _ backend.ObjectChanger = (*Store)(nil)

// LocksObjects implements backend.ObjectChanger. While no run is in progress, the workspace is locked as a whole.
func (s *Store) LocksObjects(ctx context.Context, workspace string) (bool, error) {
	w, err := s.find(ctx, workspace, false)
	if errors.Is(err, ErrNoSuchWorkspace) {
		return false, nil
	}
	if err == nil {
		w, err = s.client.WorkspaceByID(ctx, w.ID) // the known one may be outdated
	}
	if err != nil || !w.ObjectLocks || !w.LockedByRun {
		return false, err
	}
	return true, s.fits(w)
}

// longestWait is the longest time that one request waits for locks: a connection without traffic may be cut off.
const longestWait = 20 * time.Second

// ChangeObjects implements backend.ObjectChanger.
func (s *Store) ChangeObjects(ctx context.Context, workspace string, c backend.ObjectChange,
	wait time.Duration) error {
	w, err := s.find(ctx, workspace, false)
	if err != nil {
		return err
	}
	for end := time.Now().Add(wait); ; {
		began := time.Now()
		short := max(0, min(longestWait, end.Sub(began)))
		err := s.client.ChangeObjects(ctx, w.ID, tfc.ObjectChange{Operation: c.Operation, Lineage: c.Lineage,
			Serial: c.Serial, Removed: c.Removed, State: c.State, Wait: short.Seconds()})
		switch {
		case !tfc.Conflict(err):
			return err
		case short < longestWait || time.Since(began) < short: // waiting longer does not help
			return &backend.Refused{Reason: err.Error()}
		}
	}
}
