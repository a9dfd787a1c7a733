package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/millipede-iac/millipede/backend/bucket"
	"github.com/millipede-iac/millipede/internal/cloud/call"
	"github.com/millipede-iac/millipede/state/journal"
)

// locks are the records of a lock, in the order in which they are taken: the lock file, the row, or both.
type locks []lock

type lock struct {
	bucket.Recorded
	name string // for errors
}

// Lock implements bucket.Locks: the locks before the one that cannot be taken are released.
func (l locks) Lock(ctx context.Context, key string, info journal.LockInfo) (string, error) {
	for i, one := range l {
		if _, err := one.Lock(ctx, key, info); err != nil {
			for _, taken := range l[:i] {
				err = errors.Join(err, taken.Unlock(context.WithoutCancel(ctx), key, info.ID))
			}
			return "", err
		}
	}
	return info.ID, nil
}

// Holds implements bucket.Locks: each is to be held.
func (l locks) Holds(ctx context.Context, key, id string) (bool, error) {
	for _, one := range l {
		if is, err := one.Holds(ctx, key, id); err != nil || !is {
			return false, err
		}
	}
	return true, nil
}

// Unlock implements bucket.Locks: it tries to release each, even if one fails.
func (l locks) Unlock(ctx context.Context, key, id string) error {
	var all error
	for _, one := range l {
		if err := one.Unlock(ctx, key, id); err != nil {
			all = errors.Join(all, fmt.Errorf("%s: %w", one.name, err))
		}
	}
	return all
}

// lockFile is the record of a lock in a second object.
type lockFile struct {
	*driver
	tags string
}

func lockKey(key string) string { return key + ".tflock" }

// Create implements bucket.Record.
func (f lockFile) Create(ctx context.Context, key string, holder []byte) error {
	err := f.put(ctx, lockKey(key), f.tags, map[string]string{"If-None-Match": "*"}, holder)
	switch {
	case call.IsCode(err, "PreconditionFailed", "ConditionalRequestConflict") ||
		call.IsStatus(err, http.StatusPreconditionFailed, http.StatusConflict):
		return bucket.ErrExists
	case err != nil:
		return fmt.Errorf("writing the lock file: %w", err)
	}
	return nil
}

// Read implements bucket.Record.
func (f lockFile) Read(ctx context.Context, key string) ([]byte, error) {
	return f.Get(ctx, lockKey(key))
}

// Remove implements bucket.Record.
func (f lockFile) Remove(ctx context.Context, key string, _ []byte) error {
	return f.Delete(ctx, lockKey(key))
}
