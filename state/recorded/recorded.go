// Package recorded writes to buckets of bbolt, recording the changes of a transaction so that they can be repeated on a
// copy.
//
// It knows nothing about the meaning of the buckets, and does not decide when a transaction commits. Stores whose
// commits may be entries of a log (package state/log) write through it alone: test/arch refuses others.
package recorded

import (
	"io"

	"go.etcd.io/bbolt"
)

// reserved is the name of the top-level bucket with the position of a copy in its log (see Own). It is not part of a
// store's content: Tx does not show it.
const reserved = "\x00log"

// Tx is a transaction on a store. It is valid until the function that received it returns.
type Tx struct {
	tx  *bbolt.Tx
	rec *recorder // nil: nothing is recorded
}

// View calls f with a transaction that only reads.
func View(db *bbolt.DB, f func(*Tx) error) error {
	return db.View(func(tx *bbolt.Tx) error { return f(&Tx{tx: tx}) })
}

// Update calls f with a transaction that writes, and commits if f returns nil. It records nothing.
func Update(db *bbolt.DB, f func(*Tx) error) error {
	return db.Update(func(tx *bbolt.Tx) error { return f(&Tx{tx: tx}) })
}

// Begin begins a transaction that only reads. The caller ends it with Rollback.
func Begin(db *bbolt.DB) (*Tx, error) {
	tx, err := db.Begin(false)
	if err != nil {
		return nil, err
	}
	return &Tx{tx: tx}, nil
}

// Rollback ends a transaction of Begin.
func (t *Tx) Rollback() error { return t.tx.Rollback() }

// Size returns the bytes that WriteTo writes.
func (t *Tx) Size() int64 { return t.tx.Size() }

// WriteTo writes the whole file as the transaction sees it.
func (t *Tx) WriteTo(w io.Writer) (int64, error) { return t.tx.WriteTo(w) }

// Check returns what is damaged in the file.
func (t *Tx) Check() (all []error) {
	for err := range t.tx.Check() {
		all = append(all, err)
	}
	return all
}

// Bucket returns a top-level bucket; nil if there is none.
func (t *Tx) Bucket(name []byte) *Bucket { return t.wrap(name, t.tx.Bucket(name)) }

func (t *Tx) wrap(name []byte, b *bbolt.Bucket) *Bucket {
	if b == nil {
		return nil
	}
	if t.rec == nil {
		return &Bucket{b: b}
	}
	return &Bucket{b: b, rec: t.rec, name: string(name)}
}

// CreateBucket creates a top-level bucket. The error wraps bbolt's if there is one already.
func (t *Tx) CreateBucket(name []byte) (*Bucket, error) {
	b, err := t.tx.CreateBucket(name)
	if err != nil {
		return nil, err
	}
	out := t.wrap(name, b)
	out.created()
	return out, nil
}

// CreateBucketIfNotExists returns a top-level bucket, which it creates if there is none.
func (t *Tx) CreateBucketIfNotExists(name []byte) (*Bucket, error) {
	if t.rec == nil {
		b, err := t.tx.CreateBucketIfNotExists(name)
		return t.wrap(name, b), err
	}
	if b := t.Bucket(name); b != nil {
		return b, nil
	}
	return t.CreateBucket(name)
}

// DeleteBucket deletes a top-level bucket with all that is in it.
func (t *Tx) DeleteBucket(name []byte) error {
	if err := t.tx.DeleteBucket(name); err != nil {
		return err
	}
	if t.rec != nil {
		t.rec.drop(0, name)
	}
	return nil
}

// ForEach calls f with each top-level bucket, in the order of their names.
func (t *Tx) ForEach(f func(name []byte, b *Bucket) error) error {
	return t.tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
		if string(name) == reserved {
			return nil
		}
		return f(name, t.wrap(name, b))
	})
}

// Bucket is a bucket within a transaction.
type Bucket struct {
	b      *bbolt.Bucket
	rec    *recorder // nil: nothing is recorded; the fields below are then not used
	parent *Bucket   // nil for a top-level bucket
	name   string
	// number is what the record calls the bucket, if era is the one of the recorder.
	number, era uint64
}

func (b *Bucket) child(name []byte, c *bbolt.Bucket) *Bucket {
	if c == nil {
		return nil
	}
	if b.rec == nil {
		return &Bucket{b: c}
	}
	return &Bucket{b: c, rec: b.rec, parent: b, name: string(name)}
}

// created records that the bucket was created.
func (b *Bucket) created() {
	if b.rec == nil {
		return
	}
	parent := uint64(0)
	if b.parent != nil {
		parent = b.rec.numberOf(b.parent)
	}
	b.number, b.era = b.rec.enter(opCreate, parent, b.name), b.rec.era
}

// Get returns the value of a key; nil if there is none. It is valid until the transaction ends.
func (b *Bucket) Get(key []byte) []byte { return b.b.Get(key) }

// Put sets the value of a key.
func (b *Bucket) Put(key, value []byte) error {
	if err := b.b.Put(key, value); err != nil {
		return err
	}
	if b.rec != nil {
		b.rec.put(b.rec.numberOf(b), key, value)
	}
	return nil
}

// Delete removes a key. It is no error if there is none.
func (b *Bucket) Delete(key []byte) error {
	if err := b.b.Delete(key); err != nil {
		return err
	}
	if b.rec != nil {
		b.rec.delete(b.rec.numberOf(b), key)
	}
	return nil
}

// Bucket returns a bucket in this one; nil if there is none.
func (b *Bucket) Bucket(name []byte) *Bucket { return b.child(name, b.b.Bucket(name)) }

// CreateBucket creates a bucket in this one. The error wraps bbolt's if there is one already.
func (b *Bucket) CreateBucket(name []byte) (*Bucket, error) {
	c, err := b.b.CreateBucket(name)
	if err != nil {
		return nil, err
	}
	out := b.child(name, c)
	out.created()
	return out, nil
}

// CreateBucketIfNotExists returns a bucket in this one, which it creates if there is none.
func (b *Bucket) CreateBucketIfNotExists(name []byte) (*Bucket, error) {
	if b.rec == nil {
		c, err := b.b.CreateBucketIfNotExists(name)
		return b.child(name, c), err
	}
	if c := b.Bucket(name); c != nil {
		return c, nil
	}
	return b.CreateBucket(name)
}

// DeleteBucket deletes a bucket in this one, with all that is in it.
func (b *Bucket) DeleteBucket(name []byte) error {
	if err := b.b.DeleteBucket(name); err != nil {
		return err
	}
	if b.rec != nil {
		b.rec.drop(b.rec.numberOf(b), name)
	}
	return nil
}

// ForEach calls f with each key, in their order; the value of a bucket is nil.
func (b *Bucket) ForEach(f func(key, value []byte) error) error { return b.b.ForEach(f) }

// ForEachBucket calls f with the name of each bucket in this one.
func (b *Bucket) ForEachBucket(f func(name []byte) error) error { return b.b.ForEachBucket(f) }

// Sequence returns the number that the bucket counts, without a change.
func (b *Bucket) Sequence() uint64 { return b.b.Sequence() }

// SetSequence sets the number that the bucket counts.
func (b *Bucket) SetSequence(n uint64) error {
	if err := b.b.SetSequence(n); err != nil {
		return err
	}
	b.counted(n)
	return nil
}

// NextSequence increases the number that the bucket counts, and returns it.
func (b *Bucket) NextSequence() (uint64, error) {
	n, err := b.b.NextSequence()
	if err == nil {
		b.counted(n)
	}
	return n, err
}

func (b *Bucket) counted(n uint64) {
	if b.rec != nil {
		b.rec.sequence(b.rec.numberOf(b), n)
	}
}

// GrowsAtItsEnd says that the keys to come are the last ones, so that pages are filled as they come. It changes how
// much room the bucket takes, and not its content.
func (b *Bucket) GrowsAtItsEnd() { b.b.FillPercent = 1 }

// Cursor goes through the keys of a bucket. It only reads.
type Cursor struct{ c *bbolt.Cursor }

// Cursor returns a cursor of the bucket.
func (b *Bucket) Cursor() Cursor { return Cursor{b.b.Cursor()} }

// First goes to the first key, and returns it with its value; nil if there is none. The value of a bucket is nil.
func (c Cursor) First() (key, value []byte) { return c.c.First() }

// Last goes to the last key.
func (c Cursor) Last() (key, value []byte) { return c.c.Last() }

// Next goes to the next key.
func (c Cursor) Next() (key, value []byte) { return c.c.Next() }

// Prev goes to the key before.
func (c Cursor) Prev() (key, value []byte) { return c.c.Prev() }

// Seek goes to the first key from key on.
func (c Cursor) Seek(key []byte) (found, value []byte) { return c.c.Seek(key) }
