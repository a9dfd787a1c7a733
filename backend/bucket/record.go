package bucket

import (
	"context"
	"errors"
	"fmt"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/state/journal"
)

// Record is where the holder of an object's lock is stored: a second object, or a row of a table. Safe for concurrent
// use.
type Record interface {
	// Create stores the holder; ErrExists if there is one.
	Create(ctx context.Context, object string, holder []byte) error
	// Read returns the holder; nil if there is none.
	Read(ctx context.Context, object string) ([]byte, error)
	// Remove removes the holder that was read; ErrChanged if the store compares, and has another one.
	Remove(ctx context.Context, object string, holder []byte) error
}

// ErrChanged means that a record was not removed because it has changed since it was read.
var ErrChanged = errors.New("the lock was changed in the meantime")

// Recorded are locks that consist of a record. The ID of a lock is the one in the lock information.
type Recorded struct {
	Record Record
	Bucket string
}

// lockPath returns the path in lock information, which is also the name of the object's row in a table.
func lockPath(bucket, object string) string { return bucket + "/" + object }

// Lock implements Locks.
func (r Recorded) Lock(ctx context.Context, object string, info journal.LockInfo) (string, error) {
	info.Path = lockPath(r.Bucket, object)
	err := r.Record.Create(ctx, object, backend.EncodeLock(info))
	if !errors.Is(err, ErrExists) {
		return info.ID, err
	}
	holder, _, err := r.read(ctx, object)
	switch {
	case err != nil:
		return "", Unknown(err)
	case holder == nil: // it was released in the meantime
		holder = &journal.LockInfo{Path: info.Path}
	case holder.ID == info.ID:
		return info.ID, nil // it was taken by an attempt whose response was lost
	}
	return "", &journal.Held{Holder: *holder}
}

// read returns the holder of a lock, and the text that says so; nil if there is none.
func (r Recorded) read(ctx context.Context, object string) (*journal.LockInfo, []byte, error) {
	text, err := r.Record.Read(ctx, object)
	if err != nil || text == nil {
		return nil, nil, err
	}
	holder, err := backend.DecodeLock(text)
	return &holder, text, err
}

// Holds implements Locks.
func (r Recorded) Holds(ctx context.Context, object, id string) (bool, error) {
	holder, _, err := r.read(ctx, object)
	return err == nil && holder != nil && holder.ID == id, err
}

// Unlock implements Locks.
func (r Recorded) Unlock(ctx context.Context, object, id string) error {
	holder, text, err := r.read(ctx, object)
	if err != nil {
		return err
	}
	if err := Match(holder, id); err != nil {
		return err
	}
	if err = r.Record.Remove(ctx, object, text); errors.Is(err, ErrChanged) {
		return fmt.Errorf("%w: %s; %w", backend.ErrNotLocked, id, err)
	}
	return err
}

// Match returns backend.ErrNotLocked unless the lock is held under this ID. A holder of nil means that nobody holds it.
func Match(holder *journal.LockInfo, id string) error {
	switch {
	case holder == nil:
		return fmt.Errorf("%w: %s; there is no lock", backend.ErrNotLocked, id)
	case holder.ID != id:
		return fmt.Errorf("%w: %s; the lock is %s of %s", backend.ErrNotLocked, id, holder.ID, holder.Who)
	}
	return nil
}

// Unknown returns the error about a lock that is taken, if reading its holder has failed with err.
func Unknown(err error) error {
	return fmt.Errorf("the state is locked, and the holder of the lock cannot be read: %w", err)
}

// Named returns the holder of a lock whose ID the store has assigned. If the information about it cannot be read, at
// least the ID is known, so that the lock can be broken.
func Named(id, path string, text []byte) journal.LockInfo {
	holder, err := backend.DecodeLock(text)
	if err != nil {
		holder = journal.LockInfo{Path: path, Who: "unknown", Info: "the lock object cannot be read: " + err.Error()}
	}
	holder.ID = id
	return holder
}
