package recorded

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// The changes of a transaction, in order. docs/format/log.md describes the coding. A bucket has a number from its
// first mention on (opEnter, opCreate), counted from 1, until the next opDrop, after which all numbers begin again;
// 0 is the root of the file.
const (
	opEnter    = 1 // parent, name: a bucket that is there
	opCreate   = 2 // parent, name
	opDrop     = 3 // parent, name
	opPut      = 4 // bucket, key, value
	opDelete   = 5 // bucket, key
	opSequence = 6 // bucket, number
)

// ErrChanges means that recorded changes cannot be read, or do not fit the copy to which they are to be applied.
var ErrChanges = errors.New("recorded changes do not fit")

// recorder collects the changes of a transaction.
type recorder struct {
	out     []byte
	numbers map[mention]uint64
	last    uint64 // the last number given
	era     uint64 // grows whenever the numbers begin again
}

// mention is a bucket by the number of its parent and its name.
type mention struct {
	parent uint64
	name   string
}

func (r *recorder) op(op byte, number uint64) {
	r.out = append(r.out, op)
	r.out = binary.AppendUvarint(r.out, number)
}

func (r *recorder) text(b []byte) {
	r.out = binary.AppendUvarint(r.out, uint64(len(b)))
	r.out = append(r.out, b...)
}

// enter mentions a bucket, and returns its number.
func (r *recorder) enter(op byte, parent uint64, name string) uint64 {
	r.op(op, parent)
	r.text([]byte(name))
	if r.numbers == nil {
		r.numbers = map[mention]uint64{}
	}
	r.last++
	r.numbers[mention{parent, name}] = r.last
	return r.last
}

// numberOf returns the number of a bucket, which it mentions if it has none yet.
func (r *recorder) numberOf(b *Bucket) uint64 {
	if b.number > 0 && b.era == r.era {
		return b.number
	}
	parent := uint64(0)
	if b.parent != nil {
		parent = r.numberOf(b.parent)
	}
	n, known := r.numbers[mention{parent, b.name}]
	if !known {
		n = r.enter(opEnter, parent, b.name)
	}
	b.number, b.era = n, r.era
	return n
}

func (r *recorder) put(bucket uint64, key, value []byte) {
	r.op(opPut, bucket)
	r.text(key)
	r.text(value)
}

func (r *recorder) delete(bucket uint64, key []byte) {
	r.op(opDelete, bucket)
	r.text(key)
}

func (r *recorder) sequence(bucket, n uint64) {
	r.op(opSequence, bucket)
	r.out = binary.AppendUvarint(r.out, n)
}

func (r *recorder) drop(parent uint64, name []byte) {
	r.op(opDrop, parent)
	r.text(name)
	r.numbers, r.last = nil, 0
	r.era++
}

// Attempt is a transaction that writes and whose changes are recorded. Only one can be open at a time for a file.
// End it with Commit or Rollback.
type Attempt struct {
	Tx  *Tx
	tx  *bbolt.Tx
	rec recorder
}

// Try begins an Attempt.
func Try(db *bbolt.DB) (*Attempt, error) {
	tx, err := db.Begin(true)
	if err != nil {
		return nil, err
	}
	a := &Attempt{tx: tx}
	a.Tx = &Tx{tx: tx, rec: &a.rec}
	return a, nil
}

// Changes returns the changes so far; empty if there are none. It is valid until the next change.
func (a *Attempt) Changes() []byte { return a.rec.out }

// Size returns the bytes of the file.
func (a *Attempt) Size() int64 { return a.tx.Size() }

// DB returns the file of the attempt.
func (a *Attempt) DB() *bbolt.DB { return a.tx.DB() }

// SetOwn sets a value of the copy's own; see Own.
func (a *Attempt) SetOwn(key string, value []byte) error { return setOwn(a.tx, key, value) }

// Commit commits the transaction.
func (a *Attempt) Commit() error { return a.tx.Commit() }

// Rollback gives the changes up. After Commit it does nothing.
func (a *Attempt) Rollback() error {
	err := a.tx.Rollback()
	if errors.Is(err, berrors.ErrTxClosed) {
		return nil
	}
	return err
}

// Committer commits what a function has changed, or rolls it back and returns an error. *log.Writer is one.
type Committer interface {
	Commit(a *Attempt) error
}

// Log is where the commits of a file go through. Close it after the file.
type Log interface {
	Committer
	Close() error
}

// Opener brings the file at a path, which nobody has open, to the end of its log, and returns the log. The file is
// written without syncs then.
type Opener func(path string) (Log, error)

// Through calls f with a transaction that writes, and has it committed by c if f returns nil; by bbolt alone if c is
// nil.
func Through(db *bbolt.DB, c Committer, f func(*Tx) error) (err error) {
	if c == nil {
		return Update(db, f)
	}
	a, err := Try(db)
	if err != nil {
		return err
	}
	defer func() {
		if failed := a.Rollback(); failed != nil {
			err = errors.Join(err, failed)
		}
	}()
	if err := f(a.Tx); err != nil {
		return err
	}
	return c.Commit(a)
}

// Own returns a value that the copy keeps for itself, beside the content of the store: it is in no record, and no
// replay changes it. It is nil if there is none.
func Own(db *bbolt.DB, key string) (value []byte, err error) {
	err = View(db, func(tx *Tx) error { value = tx.Own(key); return nil })
	return value, err
}

// Own returns a value that the copy keeps for itself; see the function Own.
func (t *Tx) Own(key string) []byte {
	if b := t.tx.Bucket([]byte(reserved)); b != nil {
		return bytes.Clone(b.Get([]byte(key)))
	}
	return nil
}

func setOwn(tx *bbolt.Tx, key string, value []byte) error {
	b, err := tx.CreateBucketIfNotExists([]byte(reserved))
	if err != nil {
		return err
	}
	return b.Put([]byte(key), value)
}

// Replay applies recorded changes to a copy, and sets a value of the copy's own in the same transaction. If there is
// an error, the copy is as before; the error wraps ErrChanges if the changes cannot be read or do not fit.
func Replay(db *bbolt.DB, changes []byte, key string, value []byte) error {
	return db.Update(func(tx *bbolt.Tx) error {
		if err := apply(tx, changes); err != nil {
			return err
		}
		return setOwn(tx, key, value)
	})
}

func apply(tx *bbolt.Tx, changes []byte) error {
	r := replay{tx: tx, in: changes}
	for len(r.in) > 0 {
		if err := r.next(); err != nil {
			return fmt.Errorf("%w: %w, %d bytes before the end", ErrChanges, err, len(r.in))
		}
	}
	return nil
}

// replay repeats changes in a transaction.
type replay struct {
	tx      *bbolt.Tx
	in      []byte
	buckets []*bbolt.Bucket // by number, less one
}

var (
	errCut    = errors.New("they are cut off")
	errBucket = errors.New("they name a bucket that is not there")
)

func (r *replay) number() (uint64, error) {
	n, size := binary.Uvarint(r.in)
	if size <= 0 {
		return 0, errCut
	}
	r.in = r.in[size:]
	return n, nil
}

func (r *replay) text() ([]byte, error) {
	n, err := r.number()
	if err != nil || n > uint64(len(r.in)) {
		return nil, errCut
	}
	b := r.in[:n:n]
	r.in = r.in[n:]
	return b, nil
}

// bucket reads the number of a bucket that has one.
func (r *replay) bucket() (*bbolt.Bucket, error) {
	n, err := r.number()
	switch {
	case err != nil:
		return nil, err
	case n == 0 || n > uint64(len(r.buckets)):
		return nil, errBucket
	}
	return r.buckets[n-1], nil
}

// holder is the root of the file or a bucket.
type holder interface {
	Bucket(name []byte) *bbolt.Bucket
	CreateBucket(name []byte) (*bbolt.Bucket, error)
	DeleteBucket(name []byte) error
}

// within reads the number of a parent, and a name.
func (r *replay) within() (holder, []byte, error) {
	n, err := r.number()
	if err != nil {
		return nil, nil, err
	}
	name, err := r.text()
	switch {
	case err != nil:
		return nil, nil, err
	case n == 0 && string(name) == reserved:
		return nil, nil, errors.New("they name the copy's own bucket")
	case n == 0:
		return r.tx, name, nil
	case n > uint64(len(r.buckets)):
		return nil, nil, errBucket
	}
	return r.buckets[n-1], name, nil
}

// next repeats one change.
func (r *replay) next() error {
	op := r.in[0]
	r.in = r.in[1:]
	switch op {
	case opEnter, opCreate, opDrop:
		return r.structure(op)
	case opPut, opDelete, opSequence:
		return r.content(op)
	}
	return fmt.Errorf("they have the unknown kind %d", op)
}

// structure repeats a change of buckets.
func (r *replay) structure(op byte) error {
	in, name, err := r.within()
	if err != nil {
		return err
	}
	var b *bbolt.Bucket
	switch op {
	case opDrop:
		r.buckets = nil
		return in.DeleteBucket(name)
	case opCreate:
		if b, err = in.CreateBucket(name); err != nil {
			return err
		}
	case opEnter:
		if b = in.Bucket(name); b == nil {
			return errBucket
		}
	}
	r.buckets = append(r.buckets, b)
	return nil
}

// content repeats a change within a bucket.
func (r *replay) content(op byte) error {
	b, err := r.bucket()
	if err != nil {
		return err
	}
	if op == opSequence {
		n, err := r.number()
		if err != nil {
			return err
		}
		return b.SetSequence(n)
	}
	key, err := r.text()
	if err != nil {
		return err
	}
	if op == opDelete {
		return b.Delete(key)
	}
	value, err := r.text()
	if err != nil {
		return err
	}
	return b.Put(key, value)
}
