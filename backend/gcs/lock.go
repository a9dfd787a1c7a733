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
	"github.com/millipede-iac/millipede/internal/cloud/call"
	"github.com/millipede-iac/millipede/state/journal"
)

// maxRaces bounds how often in a row a lock may be held when it is taken and released when its holder is read.
const maxRaces = 16

// Lock implements snapshot.Backend. The lock's ID is the generation of the lock object. The UUID in it is used only
// to recognize a lock that this process has created without receiving the response.
func (b *store) Lock(ctx context.Context, workspace string, info journal.LockInfo) (backend.Lock, error) {
	object := b.lockObject(workspace)
	info.Path = b.where(object)
	document := backend.EncodeLock(info)
	for range maxRaces {
		id, err := b.put(ctx, object, url.Values{"ifGenerationMatch": {"0"}}, nil, document)
		if err == nil {
			return b.held(ctx, workspace, id), nil
		}
		var refused *call.Error
		if !errors.As(err, &refused) || refused.Status != http.StatusPreconditionFailed {
			return backend.Lock{}, fmt.Errorf("writing the lock object: %w", err)
		}
		id, there, err := b.lockThere(ctx, object)
		switch {
		case err != nil:
			return backend.Lock{}, fmt.Errorf("the state is locked, and who holds the lock cannot be read: %w", err)
		case there == nil: // released in the meantime
			continue
		case refused.Attempt > 1 && bytes.Equal(there, document):
			return b.held(ctx, workspace, id), nil // an earlier attempt of this process created it
		}
		return backend.Lock{}, &journal.Held{Holder: holder(id, info.Path, there)}
	}
	return backend.Lock{}, fmt.Errorf("the lock %s was refused %d times, and was free each time when its holder was "+
		"asked for",
		info.Path, maxRaces)
}

// held returns a lock that was taken, and starts watching it.
func (b *store) held(ctx context.Context, workspace, id string) backend.Lock {
	lock := b.watches.Start(ctx, b.watchEvery, workspace, id, func(ctx context.Context) (bool, error) {
		query := url.Values{"fields": {"generation"}}
		answer, err := b.ask(ctx, http.MethodGet, b.lockObject(workspace), query, nil)
		if missing(err) {
			return false, nil
		}
		if err != nil {
			return true, err
		}
		now, err := generation(answer)
		return now == id, err
	})
	return lock
}

// lockThere reads the lock object and its generation; nil if there is none.
func (b *store) lockThere(ctx context.Context, object string) (id string, document []byte, err error) {
	answer, err := b.ask(ctx, http.MethodGet, object, url.Values{"fields": {"generation"}}, nil)
	if missing(err) {
		return "", nil, nil
	}
	if err == nil {
		id, err = generation(answer)
	}
	if err != nil {
		return "", nil, err
	}
	document, err = b.get(ctx, object, id, nil)
	return id, document, err
}

// holder returns the holder in a lock object. If the object cannot be decoded, at least the ID is known.
func holder(id, path string, document []byte) journal.LockInfo {
	info, err := backend.DecodeLock(document)
	if err != nil {
		info = journal.LockInfo{Path: path, Who: "unknown", Info: "the lock object cannot be read: " + err.Error()}
	}
	info.ID = id
	return info
}

// Unlock implements snapshot.Backend. The service compares the generation.
func (b *store) Unlock(ctx context.Context, workspace, lockID string) error {
	n, err := strconv.ParseInt(lockID, 10, 64)
	if err != nil || n <= 0 {
		return fmt.Errorf("%w: %q is no ID of a lock here: it is the generation of the lock object, a number",
			backend.ErrNotLocked, lockID)
	}
	b.watches.Stop(workspace, lockID)
	object := b.lockObject(workspace)
	query := url.Values{"ifGenerationMatch": {strconv.FormatInt(n, 10)}}
	_, err = b.ask(ctx, http.MethodDelete, object, query, nil)
	var refused *call.Error
	switch {
	case !errors.As(err, &refused):
		return err
	case refused.Status == http.StatusNotFound && refused.Attempt > 1:
		return nil // an earlier attempt deleted it
	case refused.Status == http.StatusNotFound:
		return fmt.Errorf("%w: %s; there is no lock", backend.ErrNotLocked, lockID)
	case refused.Status == http.StatusPreconditionFailed:
		return fmt.Errorf("%w: %s; the lock object %s has another generation", backend.ErrNotLocked, lockID,
			b.where(object))
	}
	return err
}
