package bucket

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/millipede-iac/millipede/internal/sleep"
)

// Rows are the rows of a table beside a bucket. The key of a row is its attribute LockID; it has one other column. Safe
// for concurrent use.
type Rows interface {
	// Get reads a column of a row; empty if there is none.
	Get(ctx context.Context, key, column string) (string, error)
	// Put stores a row.
	Put(ctx context.Context, key, column, value string) error
	// Create stores a row; ErrExists if there is one.
	Create(ctx context.Context, key, column, value string) error
	// Delete deletes a row. If there is none, that is not an error.
	Delete(ctx context.Context, key string) error
	// DeleteValue deletes a row with a value that was read; ErrChanged if the table compares, and the value has changed.
	DeleteValue(ctx context.Context, key, column, value string) error
}

// Table is a table beside a bucket, in the form of OpenTofu's backends. It has a row for the lock of an object, and one
// for the digest of its content, by which a reader notices that it does not read the last state yet.
type Table struct {
	Rows         Rows
	Name, Bucket string
}

// The columns of rows.
const (
	holderColumn = "Info"
	digestColumn = "Digest"
)

// How long a state is read again until it matches its digest.
const (
	matchFor = 10 * time.Second
	matchTry = 2 * time.Second
)

// Create implements Record.
func (t *Table) Create(ctx context.Context, object string, holder []byte) error {
	err := t.Rows.Create(ctx, lockPath(t.Bucket, object), holderColumn, string(holder))
	if err != nil && !errors.Is(err, ErrExists) {
		return fmt.Errorf("writing the lock into the table %s: %w", t.Name, err)
	}
	return err
}

// Read implements Record.
func (t *Table) Read(ctx context.Context, object string) ([]byte, error) {
	text, err := t.Rows.Get(ctx, lockPath(t.Bucket, object), holderColumn)
	if err != nil || text == "" {
		return nil, err
	}
	return []byte(text), nil
}

// Remove implements Record.
func (t *Table) Remove(ctx context.Context, object string, holder []byte) error {
	return t.Rows.DeleteValue(ctx, lockPath(t.Bucket, object), holderColumn, string(holder))
}

// digestRow returns the key of the row with the digest of an object.
func (t *Table) digestRow(object string) string { return lockPath(t.Bucket, object) + "-md5" }

// digest returns the digest of the content of an object: hexadecimal MD5.
func digest(data []byte) string {
	if len(data) == 0 {
		return ""
	}
	sum := md5.Sum(data) // OpenTofu's convention, not a protection
	return hex.EncodeToString(sum[:])
}

// matching reads a state that matches its digest. A digest that is missing, or cannot be read, is ignored, as in
// OpenTofu; one that differs for longer than matchFor is an error.
func (t *Table) matching(ctx context.Context, d Driver, object string) ([]byte, error) {
	for waited := time.Duration(0); ; waited += matchTry {
		data, err := d.Get(ctx, object)
		if err != nil {
			return nil, err
		}
		want, err := t.Rows.Get(ctx, t.digestRow(object), digestColumn)
		if err != nil || want == "" || want == digest(data) {
			return data, nil //nolint:nilerr // the permission to read the state is sufficient
		}
		if waited >= matchFor {
			return nil, fmt.Errorf("the state is not the one that the table %s has the digest of: the state's is %q, "+
				"the table's %q. Another program may be writing at this moment; if not, set the attribute %s of the "+
				"item %q to the state's digest", t.Name, digest(data), want, digestColumn, t.digestRow(object))
		}
		if err := sleep.For(ctx, matchTry); err != nil {
			return nil, err
		}
	}
}

// putDigest stores the digest of a state that was written. If that fails it returns an error, because the next
// reader would reject the state.
func (t *Table) putDigest(ctx context.Context, object string, data []byte) error {
	if err := t.Rows.Put(ctx, t.digestRow(object), digestColumn, digest(data)); err != nil {
		return fmt.Errorf("the state was written, but not its digest into the table %s: %w", t.Name, err)
	}
	return nil
}

func (t *Table) deleteDigest(ctx context.Context, object string) error {
	return t.Rows.Delete(ctx, t.digestRow(object))
}
