package gcs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/backend/bucket"
	"github.com/millipede-iac/millipede/internal/cloud/call"
	"github.com/millipede-iac/millipede/state/journal"
)

// maxRaces bounds how often in a row a lock may be held when it is taken and released when its holder is read.
const maxRaces = 16

// Lock implements bucket.Locks. The lock's ID is the generation of the lock object. The UUID in it is used only
// to recognize a lock that this process has created without receiving the response.
func (d *driver) Lock(ctx context.Context, state string, info journal.LockInfo) (string, error) {
	object := lockObject(state)
	info.Path = d.Where(object)
	document := backend.EncodeLock(info)
	for range maxRaces {
		id, err := d.put(ctx, object, url.Values{"ifGenerationMatch": {"0"}}, nil, document)
		if err == nil {
			return id, nil
		}
		var refused *call.Error
		if !errors.As(err, &refused) || refused.Status != http.StatusPreconditionFailed {
			return "", fmt.Errorf("writing the lock object: %w", err)
		}
		id, there, err := d.lockThere(ctx, object)
		switch {
		case err != nil:
			return "", bucket.Unknown(err)
		case there == nil: // released in the meantime
			continue
		case refused.Attempt > 1 && bytes.Equal(there, document):
			return id, nil // an earlier attempt of this process created it
		}
		return "", &journal.Held{Holder: bucket.Named(id, info.Path, there)}
	}
	return "", fmt.Errorf("the lock %s was refused %d times, and was free each time when its holder was "+
		"asked for",
		info.Path, maxRaces)
}

// Holds implements bucket.Locks.
func (d *driver) Holds(ctx context.Context, state, id string) (bool, error) {
	now, err := d.lockGeneration(ctx, lockObject(state))
	return err == nil && now == id, err
}

// lockGeneration returns the generation of a lock object; empty if there is none.
func (d *driver) lockGeneration(ctx context.Context, object string) (string, error) {
	answer, err := d.ask(ctx, http.MethodGet, object, url.Values{"fields": {"generation"}}, nil)
	switch {
	case missing(err):
		return "", nil
	case err != nil:
		return "", err
	}
	return generation(answer)
}

// lockThere reads the lock object and its generation; nil if there is none.
func (d *driver) lockThere(ctx context.Context, object string) (id string, document []byte, err error) {
	if id, err = d.lockGeneration(ctx, object); err != nil || id == "" {
		return "", nil, err
	}
	document, err = d.get(ctx, object, id, nil)
	return id, document, err
}

// Unlock implements bucket.Locks. The service compares the generation.
func (d *driver) Unlock(ctx context.Context, state, lockID string) error {
	n, err := strconv.ParseInt(lockID, 10, 64)
	if err != nil || n <= 0 {
		return fmt.Errorf("%w: %q is no ID of a lock here: it is the generation of the lock object, a number",
			backend.ErrNotLocked, lockID)
	}
	object := lockObject(state)
	query := url.Values{"ifGenerationMatch": {strconv.FormatInt(n, 10)}}
	_, err = d.ask(ctx, http.MethodDelete, object, query, nil)
	var refused *call.Error
	switch {
	case !errors.As(err, &refused):
		return err
	case refused.Status == http.StatusNotFound && refused.Attempt > 1:
		return nil // an earlier attempt deleted it
	case refused.Status == http.StatusNotFound:
		return bucket.Match(nil, lockID)
	case refused.Status == http.StatusPreconditionFailed:
		return fmt.Errorf("%w: %s; the lock object %s has another generation", backend.ErrNotLocked, lockID,
			d.Where(object))
	}
	return err
}
