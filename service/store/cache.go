package store

import (
	"fmt"
	"iter"
	"sync"

	"github.com/millipede-iac/millipede/state/seal"
)

// The limits of the cache in bytes of encrypted records: all records together, and one record.
const (
	cacheSize       = 4 << 20
	cacheRecordSize = 64 << 10
)

// recordCache is a cache of decoded records. Each is identified by the nonce of the encrypted bytes that it was read
// from: bytes with the same nonce are the same record, in every transaction.
type recordCache struct {
	mu      sync.RWMutex // guards the fields below
	records map[place]cachedRecord
	size    int
}

type place struct{ table, id string }

type cachedRecord struct {
	nonce string
	size  int
	v     any // a *T
}

// get returns the record with a nonce; nil if it is not cached.
func (s *recordCache) get(at place, nonce []byte) any {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if r, found := s.records[at]; found && r.nonce == string(nonce) {
		return r.v
	}
	return nil
}

func (s *recordCache) put(at place, nonce []byte, size int, v any) {
	if size > cacheRecordSize {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.records == nil {
		s.records = map[place]cachedRecord{}
	}
	s.size += size - s.records[at].size
	s.records[at] = cachedRecord{nonce: string(nonce), size: size, v: v}
	for other, r := range s.records { // evict any record
		if s.size <= cacheSize {
			return
		}
		if other != at {
			delete(s.records, other)
			s.size -= r.size
		}
	}
}

// Look is Get for read-only use: the record may be shared with other readers, so it must not be modified, nor
// anything that it points to. In a write transaction it is Get, which returns a private copy.
func (t *Table[T]) Look(tx *Tx, id string) (*T, error) {
	b := t.bucket(tx)
	if tx.cache == nil || b == nil {
		return t.Get(tx, id)
	}
	return t.look(tx, id, b.Get([]byte(id)))
}

// LookThrough is to All what Look is to Get.
func (t *Table[T]) LookThrough(tx *Tx) iter.Seq2[*T, error] {
	if tx.cache == nil {
		return t.All(tx)
	}
	return func(yield func(*T, error) bool) {
		b := t.bucket(tx)
		if b == nil {
			return
		}
		c := b.Cursor()
		for k, sealed := c.First(); k != nil; k, sealed = c.Next() {
			v, err := t.look(tx, string(k), sealed)
			if !yield(v, err) || err != nil {
				return
			}
		}
	}
}

// look returns the cached record for the encrypted bytes; if they are nil, it reads them.
func (t *Table[T]) look(tx *Tx, id string, sealed []byte) (*T, error) {
	nonce := seal.Nonce(sealed)
	if nonce == nil {
		return t.Get(tx, id)
	}
	at := place{t.Name, id}
	if v, ok := tx.cache.get(at, nonce).(*T); ok {
		return v, nil
	}
	v := new(T)
	if err := tx.open(t.Name+"/"+id, sealed, v); err != nil {
		return nil, err
	}
	tx.cache.put(at, nonce, len(sealed), v)
	return v, nil
}

// LookUp is to Find what Look is to Get.
func (t *Table[T]) LookUp(tx *Tx, index string, key ...string) (*T, error) {
	if b := t.index(tx, index); b != nil {
		if id := b.Get([]byte(Join(key...))); id != nil {
			return t.Look(tx, string(id))
		}
	}
	return nil, fmt.Errorf("%s %q: %w", t.Name, key, ErrNotFound)
}

// LookAll is to Select what Look is to Get.
func (t *Table[T]) LookAll(tx *Tx, index string, key ...string) ([]*T, error) {
	var out []*T
	for _, id := range t.List(tx, index, key...) {
		v, err := t.Look(tx, id)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}
