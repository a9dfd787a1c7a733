// Package store keeps the records of the service in one bbolt file, and what is larger in files beside it.
//
// Everything but names, identities and hashes is sealed with a key that the package is given. It knows the records only
// as values with keys, decides nothing, and sends nothing to anybody. docs/format/service.md describes the directory.
package store

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"

	"github.com/millipede-iac/millipede/state/seal"
)

// Format is the version of the file's layout. A file with a newer one is refused.
const Format = 1

var (
	metaBucket = []byte("meta") // "format", "check", "sequence", "restored"
	formatKey  = []byte("format")
	checkKey   = []byte("check")
	// restoredKey is there until a restore is settled.
	restoredKey = []byte("restored")
	// checkValue is sealed when the file is made, so that another key is noticed when it is opened.
	checkValue = []byte("millipede service")
)

// Conditions that callers handle.
var (
	// ErrNotFound means that there is no such record.
	ErrNotFound = errors.New("no such record")
	// ErrTaken means that another record has a name that must be unique.
	ErrTaken = errors.New("the name is taken")
	// ErrKey means that the data was sealed with another key.
	ErrKey = errors.New("the key is not the one with which the data of the service was sealed")
	// ErrHeld means that another process has the data open.
	ErrHeld = errors.New("another process has the data of the service open")
	// ErrNewer means that a newer version has written the data.
	ErrNewer = errors.New("the data of the service was written by a newer version")
)

// Store is the records of a service. Safe for concurrent use.
type Store struct {
	db  *bbolt.DB
	key *seal.Key
	dir string
	// around carries changes out; see Around.
	around  func(kind, name string, change func() error) error
	unsure  func() // see OnUnsure
	changes atomic.Int64
	refused atomic.Int64 // changes that found no room on the disk
	shelf   shelf

	mu     sync.Mutex // guards what follows
	pins   int        // backups under way
	doomed []string   // files to be removed once there is none
}

// OnUnsure has fn called whenever a change of records could not be made durable: it may be there all the same, in parts
// of the disk that were not synced, and then what is read has it. Whoever keeps records in memory reads them again. Set
// it before the store is used; fn must not block.
func (s *Store) OnUnsure(fn func()) { s.unsure = fn }

// Around has every change go through fn, which makes it by calling change, or does not, and returns what is told to
// whoever wanted it. Kind is "records", "file" or "log"; name is that of the file or the log. It lets a simulation lose
// and refuse changes, as disks and crashes do. Set it before the store is used; fn is called by several goroutines, and
// must not call the store but to read.
func (s *Store) Around(fn func(kind, name string, change func() error) error) { s.around = fn }

// Open opens the records in a directory, or makes them. One process at a time has them; another gets ErrHeld. The
// caller closes the store.
func Open(dir string, key *seal.Key) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "service.db")
	db, err := open(path)
	if err != nil {
		return nil, err
	}
	db.MaxBatchDelay = time.Millisecond // who waits for a sync shares it with those who came meanwhile
	s := &Store{db: db, key: key, dir: dir,
		around: func(_, _ string, change func() error) error { return change() }, unsure: func() {}}
	if err := s.prepare(); err != nil {
		return nil, errors.Join(fmt.Errorf("opening %s: %w", path, err), db.Close())
	}
	return s, nil
}

// prepare makes the layout of a new file, and checks that of one which exists.
func (s *Store) prepare() error {
	return s.db.Update(func(tx *bbolt.Tx) error {
		meta := tx.Bucket(metaBucket)
		if meta == nil {
			meta, err := tx.CreateBucket(metaBucket)
			if err != nil {
				return err
			}
			if err := meta.Put(formatKey, binary.BigEndian.AppendUint32(nil, Format)); err != nil {
				return err
			}
			return meta.Put(checkKey, s.key.Seal(checkKey, checkValue))
		}
		format := meta.Get(formatKey)
		if len(format) != 4 {
			return errors.New("the version of its format cannot be read")
		}
		if f := binary.BigEndian.Uint32(format); f > Format {
			return fmt.Errorf("%w: it has format %d, and this version knows %d", ErrNewer, f, Format)
		}
		if v, err := s.key.Open(checkKey, meta.Get(checkKey)); err != nil || string(v) != string(checkValue) {
			return ErrKey
		}
		return nil
	})
}

// Close waits for what is under way.
func (s *Store) Close() error { return s.db.Close() }

// Stats returns how many changes there were since the store was opened, how long they took to write, and how large the
// file is.
func (s *Store) Stats() (changes int64, writing time.Duration, size int64) {
	stats := s.db.Stats().TxStats
	if info, err := os.Stat(filepath.Join(s.dir, "service.db")); err == nil {
		size = info.Size()
	}
	return s.changes.Load(), stats.GetWriteTime(), size
}

// Dir returns the directory that the store is in.
func (s *Store) Dir() string { return s.dir }

// Tx is a view of the records at one moment, or a change of them. It is valid until the function ends that got it.
type Tx struct {
	tx  *bbolt.Tx
	key *seal.Key
	// shelf has what others have read; nil in a change, and where records are not sealed.
	shelf *shelf
	// after are called when the change is durable; failure is what Update returns then.
	after   []func()
	failure error
}

// View calls fn with the records as they are.
func (s *Store) View(fn func(*Tx) error) error {
	shelf := &s.shelf
	if s.key == nil {
		shelf = nil
	}
	return s.db.View(func(tx *bbolt.Tx) error { return fn(&Tx{tx: tx, key: s.key, shelf: shelf}) })
}

// Update calls fn to change records: all of what it does is done, or nothing when it returns an error. The change is
// durable when Update returns. fn may be called more than once, each time with the records as they are then, so it must
// change nothing else; what is to happen once goes to Tx.After.
func (s *Store) Update(fn func(*Tx) error) error {
	var last *Tx
	var refused error // by fn
	err := s.around("records", "", func() error {
		return s.db.Batch(func(tx *bbolt.Tx) error {
			last = &Tx{tx: tx, key: s.key}
			refused = fn(last)
			return refused
		})
	})
	if err != nil {
		if refused == nil {
			s.unsure()
		}
		return s.noted(err)
	}
	s.changes.Add(1)
	for _, f := range last.after {
		f()
	}
	return last.failure
}

// Fail has Update return an error although the change is made: what was refused, and is written down as refused.
func (t *Tx) Fail(err error) { t.failure = err }

// After has f called once the change is durable.
func (t *Tx) After(f func()) { t.after = append(t.after, f) }

// Next returns the next number of a sequence; the first is 1.
func (t *Tx) Next(sequence string) (uint64, error) {
	b, err := t.tx.CreateBucketIfNotExists([]byte("sequence/" + sequence))
	if err != nil {
		return 0, err
	}
	return b.NextSequence()
}

// seal and open are how a record is kept at a place.
func (t *Tx) seal(place string, v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return t.key.Seal([]byte(place), data), nil
}

func (t *Tx) open(place string, sealed []byte, v any) error {
	data, err := t.key.Open([]byte(place), sealed)
	if err != nil {
		return fmt.Errorf("reading %s: %w", place, err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("reading %s: %w", place, err)
	}
	return nil
}
