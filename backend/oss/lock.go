package oss

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/internal/cloud/call"
	"github.com/millipede-iac/millipede/state/journal"
)

// How long a state is read again until it matches its checksum.
const (
	consistentFor = 10 * time.Second
	consistentTry = 2 * time.Second
)

// The columns of rows, and the suffix of the name of a checksum's row.
const (
	infoColumn   = "Info"
	digestColumn = "Digest"
	digestSuffix = "-md5"
)

// lockID returns the name of a state's row in the table, which is also the path in lock information.
func (b *store) lockID(object string) string { return b.bucket + "/" + object }

// holder reads the holder of a row's lock; nil if there is none.
func (b *store) holder(ctx context.Context, row string) (*journal.LockInfo, error) {
	text, err := b.rows.get(ctx, row, infoColumn)
	if err != nil || text == "" {
		return nil, err
	}
	info, err := backend.DecodeLock([]byte(text))
	return &info, err
}

// Lock implements snapshot.Backend.
func (b *store) Lock(ctx context.Context, workspace string, info journal.LockInfo) (backend.Lock, error) {
	if b.rows == nil {
		return backend.Lock{ID: info.ID}, nil
	}
	row := b.lockID(b.object(workspace))
	info.Path = row
	err := b.rows.put(ctx, row, infoColumn, string(backend.EncodeLock(info)), expectNotExist)
	switch {
	case call.IsCode(err, conditionFailed):
		holder, err := b.holder(ctx, row)
		switch {
		case err != nil:
			return backend.Lock{}, fmt.Errorf("the state is locked, and who holds the lock cannot be read: %w", err)
		case holder == nil: // it was released in the meantime
			holder = &journal.LockInfo{Path: row}
		}
		if holder.ID != info.ID { // otherwise an earlier response was lost
			return backend.Lock{}, &journal.Held{Holder: *holder}
		}
	case err != nil:
		return backend.Lock{}, fmt.Errorf("writing the lock into the table %s: %w", b.table, err)
	}
	lock := b.watches.Start(ctx, b.watchEvery, workspace, info.ID, func(ctx context.Context) (bool, error) {
		holder, err := b.holder(ctx, row)
		return holder != nil && holder.ID == info.ID, err
	})
	return lock, nil
}

// Unlock implements snapshot.Backend.
func (b *store) Unlock(ctx context.Context, workspace, lockID string) error {
	if b.rows == nil {
		return nil
	}
	row := b.lockID(b.object(workspace))
	holder, err := b.holder(ctx, row)
	if err != nil {
		return err
	}
	b.watches.Stop(workspace, lockID)
	switch {
	case holder == nil:
		return fmt.Errorf("%w: %s; there is no lock", backend.ErrNotLocked, lockID)
	case holder.ID != lockID:
		return fmt.Errorf("%w: %s; the lock is %s of %s", backend.ErrNotLocked, lockID, holder.ID, holder.Who)
	}
	return b.rows.remove(ctx, row, ignore)
}

// digest returns the checksum of a state in the table: hexadecimal MD5 of the stored data.
func digest(data []byte) string {
	if len(data) == 0 {
		return ""
	}
	sum := md5.Sum(data) // OpenTofu's convention, not a protection
	return hex.EncodeToString(sum[:])
}

// consistent reads a state that matches the checksum in the table. A checksum that is missing, or cannot be read,
// is ignored, as in OpenTofu; one that differs for longer than consistentFor is an error.
func (b *store) consistent(ctx context.Context, object string) ([]byte, error) {
	for waited := time.Duration(0); ; waited += consistentTry {
		data, err := b.get(ctx, object)
		if err != nil || b.rows == nil {
			return data, err
		}
		row := b.lockID(object) + digestSuffix
		want, err := b.rows.get(ctx, row, digestColumn)
		if err != nil || want == "" || want == digest(data) {
			return data, nil //nolint:nilerr // the permission to read the state is sufficient
		}
		if waited >= consistentFor {
			return nil, fmt.Errorf("the state is not the one that the table %s has the check sum of: the "+
				"state's is %q, "+
				"the table's %q. Another program may be writing at this moment; if not, set the column %s of the "+
				"row %q to "+
				"the state's check sum", b.table, digest(data), want, digestColumn, row)
		}
		timer := time.NewTimer(consistentTry)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil, context.Cause(ctx)
		case <-timer.C:
		}
	}
}

// putDigest stores the checksum of a state that was written. If that fails it returns an error, because the next
// reader would reject the state.
func (b *store) putDigest(ctx context.Context, object string, data []byte) error {
	if b.rows == nil {
		return nil
	}
	if err := b.rows.put(ctx, b.lockID(object)+digestSuffix, digestColumn, digest(data), ignore); err != nil {
		return fmt.Errorf("the state was written, but not its check sum into the table %s: %w", b.table, err)
	}
	return nil
}

func (b *store) deleteDigest(ctx context.Context, object string) error {
	if b.rows == nil {
		return nil
	}
	return b.rows.remove(ctx, b.lockID(object)+digestSuffix, ignore)
}
