package s3

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/internal/cloud/call"
	"github.com/millipede-iac/millipede/state/journal"
)

// How long a state is read again until it matches the digest.
const (
	consistentFor = 10 * time.Second
	consistentTry = 2 * time.Second
)

// item is a row of the table: values of DynamoDB's type S by attribute.
type item map[string]struct{ S string }

func row(values map[string]string) item {
	out := item{}
	for k, v := range values {
		out[k] = struct{ S string }{v}
	}
	return out
}

// dynamo calls an operation of DynamoDB on the table.
func (b *store) dynamo(ctx context.Context, operation string, in map[string]any, out any) error {
	in["TableName"] = b.table
	return b.session.Ask(ctx, "dynamodb", b.tableEndpoint, "DynamoDB_20120810."+operation, "1.0", in, out)
}

// find reads a row; nil if there is none.
func (b *store) find(ctx context.Context, id, columns string) (item, error) {
	var answer struct{ Item item }
	err := b.dynamo(ctx, "GetItem", map[string]any{
		"Key": row(map[string]string{"LockID": id}), "ProjectionExpression": columns, "ConsistentRead": true,
	}, &answer)
	return answer.Item, err
}

// lockID returns the name of a state's row in the table, which is also the path in lock information.
func (b *store) lockID(key string) string { return b.bucket + "/" + key }

// Lock implements snapshot.Backend: the lock file first, then the table; both, if both are configured.
func (b *store) Lock(ctx context.Context, workspace string, info journal.LockInfo) (backend.Lock, error) {
	key := b.object(workspace)
	info.Path = b.lockID(key)
	document := backend.EncodeLock(info)
	if b.lockFile {
		err := b.put(ctx, key+".tflock", b.lockTags, map[string]string{"If-None-Match": "*"}, document)
		if call.IsCode(err, "PreconditionFailed", "ConditionalRequestConflict") ||
			call.IsStatus(err, http.StatusPreconditionFailed, http.StatusConflict) {
			if err = b.heldByFile(ctx, key); isOwn(err, info.ID) {
				err = nil
			} else {
				return backend.Lock{}, err
			}
		}
		if err != nil {
			return backend.Lock{}, fmt.Errorf("writing the lock file: %w", err)
		}
	}
	if b.table != "" {
		err := b.dynamo(ctx, "PutItem", map[string]any{
			"Item":                row(map[string]string{"LockID": info.Path, "Info": string(document)}),
			"ConditionExpression": "attribute_not_exists(LockID)",
		}, nil)
		switch {
		case call.IsCode(err, "ConditionalCheckFailedException"):
			if err = b.heldByRow(ctx, key); isOwn(err, info.ID) {
				err = nil
			}
		case err != nil:
			err = fmt.Errorf("writing the lock into the table %s: %w", b.table, err)
		}
		if err != nil {
			if b.lockFile { // release the first lock
				err = errors.Join(err, b.unlockFile(context.WithoutCancel(ctx), key, info.ID))
			}
			return backend.Lock{}, err
		}
	}
	if !b.lockFile && b.table == "" {
		return backend.Lock{ID: info.ID}, nil
	}
	lock := b.watches.Start(ctx, b.watchEvery, workspace, info.ID, func(ctx context.Context) (bool, error) {
		return b.holds(ctx, key, info.ID)
	})
	return lock, nil
}

// holds reports whether a lock is still held, in all places where it was taken.
func (b *store) holds(ctx context.Context, key, id string) (bool, error) {
	if b.lockFile {
		if holder, err := b.holderOfFile(ctx, key); err != nil || holder == nil || holder.ID != id {
			return false, err
		}
	}
	if b.table != "" {
		if holder, err := b.holderOfRow(ctx, key); err != nil || holder == nil || holder.ID != id {
			return false, err
		}
	}
	return true, nil
}

// isOwn reports whether the conflicting lock is this process's own: an earlier response was lost.
func isOwn(err error, id string) bool {
	var held *journal.Held
	return errors.As(err, &held) && held.Holder.ID == id
}

// heldByFile returns the error about an existing lock file.
func (b *store) heldByFile(ctx context.Context, key string) error {
	holder, err := b.holderOfFile(ctx, key)
	switch {
	case err != nil:
		return fmt.Errorf("the state is locked, and who holds the lock cannot be read: %w", err)
	case holder == nil: // it was released in the meantime
		holder = &journal.LockInfo{Path: b.lockID(key)}
	}
	return &journal.Held{Holder: *holder}
}

func (b *store) heldByRow(ctx context.Context, key string) error {
	holder, err := b.holderOfRow(ctx, key)
	switch {
	case err != nil:
		return fmt.Errorf("the state is locked, and who holds the lock cannot be read: %w", err)
	case holder == nil:
		holder = &journal.LockInfo{Path: b.lockID(key)}
	}
	return &journal.Held{Holder: *holder}
}

// holderOfFile reads the lock file; nil if there is none.
func (b *store) holderOfFile(ctx context.Context, key string) (*journal.LockInfo, error) {
	data, err := b.get(ctx, key+".tflock")
	if err != nil || data == nil {
		return nil, err
	}
	info, err := backend.DecodeLock(data)
	return &info, err
}

// holderOfRow reads the lock in the table; nil if there is none.
func (b *store) holderOfRow(ctx context.Context, key string) (*journal.LockInfo, error) {
	found, err := b.find(ctx, b.lockID(key), "LockID, Info")
	if err != nil || found["Info"].S == "" {
		return nil, err
	}
	info, err := backend.DecodeLock([]byte(found["Info"].S))
	return &info, err
}

// Unlock implements snapshot.Backend: it tries to release both locks, even if one fails.
func (b *store) Unlock(ctx context.Context, workspace, lockID string) error {
	key := b.object(workspace)
	b.watches.Stop(workspace, lockID)
	var file, table error
	if b.lockFile {
		if file = b.unlockFile(ctx, key, lockID); file != nil {
			file = fmt.Errorf("the lock file: %w", file)
		}
	}
	if b.table != "" {
		if table = b.unlockRow(ctx, key, lockID); table != nil {
			table = fmt.Errorf("the lock in the table %s: %w", b.table, table)
		}
	}
	return errors.Join(file, table)
}

// compared returns ErrNotLocked unless the existing lock is the one to release.
func compared(holder *journal.LockInfo, lockID string) error {
	switch {
	case holder == nil:
		return fmt.Errorf("%w: %s; there is no lock", backend.ErrNotLocked, lockID)
	case holder.ID != lockID:
		return fmt.Errorf("%w: %s; the lock is %s of %s", backend.ErrNotLocked, lockID, holder.ID, holder.Who)
	}
	return nil
}

func (b *store) unlockFile(ctx context.Context, key, lockID string) error {
	holder, err := b.holderOfFile(ctx, key)
	if err == nil {
		err = compared(holder, lockID)
	}
	if err != nil {
		return err
	}
	_, err = b.ask(ctx, http.MethodDelete, key+".tflock", nil, nil, nil)
	return err
}

// unlockRow deletes the lock's row if it has not changed since it was read: the condition compares the texts.
func (b *store) unlockRow(ctx context.Context, key, lockID string) error {
	found, err := b.find(ctx, b.lockID(key), "LockID, Info")
	if err != nil {
		return err
	}
	var holder *journal.LockInfo
	if text := found["Info"].S; text != "" {
		info, err := backend.DecodeLock([]byte(text))
		if err != nil {
			return err
		}
		holder = &info
	}
	if err := compared(holder, lockID); err != nil {
		return err
	}
	err = b.dynamo(ctx, "DeleteItem", map[string]any{
		"Key": row(map[string]string{"LockID": b.lockID(key)}), "ConditionExpression": "Info = :info",
		"ExpressionAttributeValues": row(map[string]string{":info": found["Info"].S}),
	}, nil)
	if call.IsCode(err, "ConditionalCheckFailedException") {
		if left, err := b.find(ctx, b.lockID(key), "LockID, Info"); err == nil && left == nil {
			return nil // it was deleted by an attempt whose response was lost
		}
		return fmt.Errorf("%w: %s; the lock was changed in the meantime", backend.ErrNotLocked, lockID)
	}
	return err
}

// digest returns the checksum of a state in the table: hexadecimal MD5 of the stored data.
func digest(data []byte) string {
	if len(data) == 0 {
		return ""
	}
	sum := md5.Sum(data) //nolint:gosec // OpenTofu's convention, not a protection
	return hex.EncodeToString(sum[:])
}

// consistent reads a state that matches the digest in the table. A digest that is missing, or cannot be read, is
// ignored, as in OpenTofu; one that differs for longer than consistentFor is an error.
func (b *store) consistent(ctx context.Context, key string) ([]byte, error) {
	for waited := time.Duration(0); ; waited += consistentTry {
		data, err := b.get(ctx, key)
		if err != nil || b.table == "" {
			return data, err
		}
		found, err := b.find(ctx, b.lockID(key)+"-md5", "LockID, Digest")
		want := found["Digest"].S
		if err != nil || want == "" || want == digest(data) {
			return data, nil //nolint:nilerr // the permission to read the state is sufficient
		}
		if waited >= consistentFor {
			return nil, fmt.Errorf("the state is not the one that the table %s has the digest of: the state's is %q, "+
				"the table's %q. "+
				"Another program may be writing at this moment; if not, set the attribute Digest of the item %q to "+
				"the state's digest",
				b.table, digest(data), want, b.lockID(key)+"-md5")
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

// putDigest stores the digest of a state that was written. If that fails it returns an error, because the next
// reader would reject the state.
func (b *store) putDigest(ctx context.Context, key string, data []byte) error {
	if b.table == "" {
		return nil
	}
	err := b.dynamo(ctx, "PutItem", map[string]any{
		"Item": row(map[string]string{"LockID": b.lockID(key) + "-md5", "Digest": digest(data)}),
	}, nil)
	if err != nil {
		return fmt.Errorf("the state was written, but not its digest into the table %s: %w", b.table, err)
	}
	return nil
}

func (b *store) deleteDigest(ctx context.Context, key string) error {
	if b.table == "" {
		return nil
	}
	return b.dynamo(ctx, "DeleteItem", map[string]any{"Key": row(map[string]string{"LockID": b.lockID(key) + "-md5"})},
		nil)
}
