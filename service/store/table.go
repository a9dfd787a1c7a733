package store

import (
	"bytes"
	"fmt"
	"iter"
	"strings"

	"github.com/millipede-iac/millipede/state/recorded"
)

// Table is a kind of record with its indexes. Declare it as a package variable: it has no state.
type Table[T any] struct {
	Name string
	// ID returns the key of a record. It must be unique and have no zero byte.
	ID func(*T) string
	// Unique and Lists define the indexes by name.
	Unique map[string]func(*T) string
	Lists  map[string]func(*T) []string
}

// separator separates the parts of an index key.
const separator = "\x00"

// Join makes an index key from its parts. List also finds the key by its first parts, and sorts by the others.
func Join(parts ...string) string { return strings.Join(parts, separator) }

func (t *Table[T]) bucket(tx *Tx) *recorded.Bucket { return tx.tx.Bucket([]byte("table/" + t.Name)) }

func (t *Table[T]) index(tx *Tx, name string) *recorded.Bucket {
	return tx.tx.Bucket([]byte("index/" + t.Name + "/" + name))
}

// Get returns a record. The error wraps ErrNotFound if there is none.
func (t *Table[T]) Get(tx *Tx, id string) (*T, error) {
	if b := t.bucket(tx); b != nil && id != "" {
		if sealed := b.Get([]byte(id)); sealed != nil {
			v := new(T)
			return v, tx.open(t.Name+"/"+id, sealed, v)
		}
	}
	return nil, fmt.Errorf("%s %q: %w", t.Name, id, ErrNotFound)
}

// Find returns the record with a key in a unique index. The error wraps ErrNotFound if there is none.
func (t *Table[T]) Find(tx *Tx, index string, key ...string) (*T, error) {
	if b := t.index(tx, index); b != nil {
		if id := b.Get([]byte(Join(key...))); id != nil {
			return t.Get(tx, string(id))
		}
	}
	return nil, fmt.Errorf("%s %q: %w", t.Name, strings.Join(key, "/"), ErrNotFound)
}

// Put stores a record, and replaces the one with the same key. The error wraps ErrTaken if another record has
// the same key in a unique index.
func (t *Table[T]) Put(tx *Tx, v *T) error {
	id := t.ID(v)
	b, err := tx.tx.CreateBucketIfNotExists([]byte("table/" + t.Name))
	if err != nil {
		return err
	}
	if before, err := t.Get(tx, id); err == nil {
		if err := t.unlist(tx, before); err != nil {
			return err
		}
	} else if b.Get([]byte(id)) != nil {
		return err // the previous record cannot be read
	}
	sealed, err := tx.seal(t.Name+"/"+id, v)
	if err != nil {
		return err
	}
	if err := t.list(tx, v); err != nil {
		return err
	}
	return b.Put([]byte(id), sealed)
}

// list adds a record to the indexes.
func (t *Table[T]) list(tx *Tx, v *T) error {
	id := t.ID(v)
	for name, key := range t.Unique {
		b, err := tx.tx.CreateBucketIfNotExists([]byte("index/" + t.Name + "/" + name))
		if err != nil {
			return err
		}
		k := []byte(key(v))
		if other := b.Get(k); other != nil && string(other) != id {
			return fmt.Errorf("%s: %w", t.Name, ErrTaken)
		}
		if err := b.Put(k, []byte(id)); err != nil {
			return err
		}
	}
	for name, keys := range t.Lists {
		b, err := tx.tx.CreateBucketIfNotExists([]byte("index/" + t.Name + "/" + name))
		if err != nil {
			return err
		}
		for _, k := range keys(v) {
			if err := b.Put([]byte(k+separator+id), nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// unlist removes a record from the indexes.
func (t *Table[T]) unlist(tx *Tx, v *T) error {
	id := t.ID(v)
	for name, key := range t.Unique {
		if b := t.index(tx, name); b != nil {
			if err := b.Delete([]byte(key(v))); err != nil {
				return err
			}
		}
	}
	for name, keys := range t.Lists {
		if b := t.index(tx, name); b != nil {
			for _, k := range keys(v) {
				if err := b.Delete([]byte(k + separator + id)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Delete removes a record if it exists.
func (t *Table[T]) Delete(tx *Tx, id string) error {
	v, err := t.Get(tx, id)
	if err != nil {
		if b := t.bucket(tx); b == nil || b.Get([]byte(id)) == nil {
			return nil
		}
		return err
	}
	if err := t.unlist(tx, v); err != nil {
		return err
	}
	return t.bucket(tx).Delete([]byte(id))
}

// All yields every record, sorted by key. It ends after the first record that cannot be read. The records must
// not be changed during the iteration.
func (t *Table[T]) All(tx *Tx) iter.Seq2[*T, error] {
	return t.walk(tx, recorded.Cursor.First, recorded.Cursor.Next)
}

// Backward is All in descending order.
func (t *Table[T]) Backward(tx *Tx) iter.Seq2[*T, error] {
	return t.walk(tx, recorded.Cursor.Last, recorded.Cursor.Prev)
}

func (t *Table[T]) walk(tx *Tx, first, next func(recorded.Cursor) (k, v []byte)) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		b := t.bucket(tx)
		if b == nil {
			return
		}
		c := b.Cursor()
		for k, sealed := first(c); k != nil; k, sealed = next(c) {
			v := new(T)
			err := tx.open(t.Name+"/"+string(k), sealed, v)
			if !yield(v, err) || err != nil {
				return
			}
		}
	}
}

// List returns the keys of the records that an index has under a key, sorted by the further parts of their
// index keys (see Join), then by their own keys.
func (t *Table[T]) List(tx *Tx, index string, key ...string) []string {
	var out []string
	t.each(tx, index, key, func(id string) bool { out = append(out, id); return true })
	return out
}

// Newest is List in descending order, limited to limit keys.
func (t *Table[T]) Newest(tx *Tx, index string, limit int, key ...string) []string {
	b := t.index(tx, index)
	if b == nil {
		return nil
	}
	prefix := []byte(Join(key...) + separator)
	behind := append(bytes.Clone(prefix[:len(prefix)-1]), separator[0]+1)
	var out []string
	c := b.Cursor()
	k, _ := c.Seek(behind)
	if k == nil {
		k, _ = c.Last()
	} else {
		k, _ = c.Prev()
	}
	for ; k != nil && bytes.HasPrefix(k, prefix) && len(out) < limit; k, _ = c.Prev() {
		out = append(out, idOf(k))
	}
	return out
}

func (t *Table[T]) each(tx *Tx, index string, key []string, yield func(id string) bool) {
	b := t.index(tx, index)
	if b == nil {
		return
	}
	prefix := []byte(Join(key...) + separator)
	c := b.Cursor()
	for k, _ := c.Seek(prefix); k != nil && bytes.HasPrefix(k, prefix); k, _ = c.Next() {
		if !yield(idOf(k)) {
			return
		}
	}
}

// idOf returns the record key at the end of an index key.
func idOf(k []byte) string { return string(k[bytes.LastIndexByte(k, separator[0])+1:]) }

// Select returns the records that an index has under a key, in the order of List.
func (t *Table[T]) Select(tx *Tx, index string, key ...string) ([]*T, error) {
	var out []*T
	for _, id := range t.List(tx, index, key...) {
		v, err := t.Get(tx, id)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}
