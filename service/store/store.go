// Package store keeps the records of the service in one bbolt file, and larger data in files beside it.
//
// It encrypts everything but names, IDs and hashes with the key that Open gets. It does not interpret records:
// they are values with keys. docs/format/service.md describes the directory.
package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"

	"github.com/millipede-iac/millipede/internal/bug"
	"github.com/millipede-iac/millipede/internal/wholefile"
	"github.com/millipede-iac/millipede/state/features"
	"github.com/millipede-iac/millipede/state/groupcommit"
	"github.com/millipede-iac/millipede/state/recorded"
	"github.com/millipede-iac/millipede/state/seal"
)

var (
	metaBucket = []byte("meta") // "format", "features", "check", "sequence", "restored"
	// formatKey has the level of the file, as the programs before levels read it: they refuse one above 1.
	formatKey   = []byte("format")
	featuresKey = []byte("features")
	checkKey    = []byte("check")
	// restoredKey exists between a restore and SettledRestore.
	restoredKey = []byte("restored")
	// checkValue is encrypted when the file is created, so that Open detects a wrong key.
	checkValue = []byte("millipede service")
)

// Conditions that callers handle.
var (
	// ErrNotFound means that there is no such record or file.
	ErrNotFound = errors.New("no such record")
	// ErrTaken means that another record has the same unique name.
	ErrTaken = errors.New("the name is taken")
	// ErrKey means that the data was encrypted with another key.
	ErrKey = errors.New("the data of the service was encrypted with another key")
	// ErrHeld means that another process has the data open.
	ErrHeld = errors.New("another process has the data of the service open")
	// ErrNewer means that the data has features of a newer version; ErrOlder, that its level of features is too low for
	// this one.
	ErrNewer, ErrOlder = features.ErrNewer, features.ErrOlder
)

// Store keeps the records of a service. Safe for concurrent use.
type Store struct {
	db *bbolt.DB
	// commits combines concurrent changes of records, so that they share a sync.
	commits *groupcommit.Queue
	log     recorded.Log // nil for none
	key     *seal.Key
	dir     string
	// around wraps every write; see Around.
	around  func(kind, name string, change func() error) error
	unsure  func() // see OnUnsure
	depot   Depot  // nil for none
	tails   *tails // of the logs that are written; nil without a depot
	changes atomic.Int64
	refused atomic.Int64 // writes that failed because the disk was full
	cache   recordCache
	files   wholefile.Syncer
	opts    Options

	mu     sync.Mutex // guards the fields below
	about  features.Record
	pins   int      // backups in progress
	doomed []string // files to be removed when no backup is in progress
}

// OnUnsure sets a function that is called whenever a commit of records has failed: the change may be visible
// all the same, in parts of the disk that were not synced. Callers that keep records in memory must read them
// again. Set it before the store is used; fn must not block.
func (s *Store) OnUnsure(fn func()) { s.unsure = fn }

// Depot keeps files elsewhere, so that those in the directory of a store are a cache. Names are those of the store's
// files.
type Depot interface {
	// Keep stores the file at a path, in place of an earlier one. It is durable when Keep returns.
	Keep(name, path string) error
	// Fetch writes the file to a path. The error wraps fs.ErrNotExist if there is none.
	Fetch(name, path string) error
	// Drop removes the file, if it is there.
	Drop(name string) error
	// Names returns the names of all files.
	Names() ([]string, error)
	// Extend stores a piece of a file that grows, from an offset on; the first one of an opened file is from 0. Fetch
	// returns such a file until Keep is called for it, as far as it is stored.
	Extend(name string, offset int64, data []byte) error
}

// KeepIn has files kept in a depot. Set it before the store is used. Files of Cache are not kept there, and logs are
// kept there with a delay of tailEvery.
func (s *Store) KeepIn(d Depot) {
	s.depot, s.tails = d, newTails(d)
}

// Around sets a function that wraps every write: it makes the write by calling change, or omits it, and its result is
// returned to the writer. kind is "records", "file" or "log"; name is that of the file or the log. Simulations use it
// to lose and refuse writes, as disks and crashes do. Set it before the store is used. fn is called concurrently, and
// may only read from the store.
func (s *Store) Around(fn func(kind, name string, change func() error) error) { s.around = fn }

// Open opens the records in a directory, and creates them if necessary. Only one process can have them open;
// for another one the error is ErrHeld. The caller closes the store.
func Open(dir string, key *seal.Key) (*Store, error) { return OpenOptions(dir, key, Options{}) }

// Options are the settings of a store. Zero fields mean defaults.
type Options struct {
	// Program is the version of Millipede that opens the store; empty leaves it unrecorded.
	Program string
	// Levels are the levels of features that the program can work with; default features.Own().
	Levels features.Levels
	// Log is the log that all changes go through, which makes them durable; nil for none. After an error of it, nothing
	// can be changed any more: see package log.
	Log recorded.Opener
}

// OpenOptions is Open with options.
func OpenOptions(dir string, key *seal.Key, o Options) (*Store, error) {
	if o.Levels == (features.Levels{}) {
		o.Levels = features.Own()
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, Database)
	var log recorded.Log
	if o.Log != nil {
		var err error
		if log, err = o.Log(path); err != nil {
			return nil, err
		}
	}
	s, err := openAt(dir, path, key, o, log)
	if err != nil && log != nil {
		err = errors.Join(err, log.Close())
	}
	return s, err
}

// openAt opens a file that is at the end of its log, if it has one.
func openAt(dir, path string, key *seal.Key, o Options, log recorded.Log) (*Store, error) {
	db, err := open(path, log != nil)
	if err != nil {
		return nil, err
	}
	s := &Store{log: log, db: db, key: key, dir: dir, opts: o,
		around: func(_, _ string, change func() error) error { return change() }, unsure: func() {}}
	s.commits = groupcommit.New(s.transact)
	if err := s.prepare(); err != nil {
		return nil, errors.Join(fmt.Errorf("opening %s: %w", path, err), db.Close())
	}
	return s, nil
}

// prepare creates the layout of a new file, and checks the level of an existing one.
func (s *Store) prepare() error {
	return s.update(func(tx *recorded.Tx) error {
		meta := tx.Bucket(metaBucket)
		if meta == nil {
			meta, err := tx.CreateBucket(metaBucket)
			if err != nil {
				return err
			}
			s.about = features.Record{Level: s.opts.Levels.Newest, By: s.opts.Program, Opened: s.opts.Program}
			return errors.Join(putFeatures(meta, s.about), meta.Put(checkKey, s.key.Seal(checkKey, checkValue)))
		}
		var err error
		if s.about, err = readFeatures(meta); err != nil {
			return err
		}
		if err := s.about.Check(s.opts.Levels); err != nil {
			return err
		}
		if s.opts.Program != "" && s.about.Opened != s.opts.Program {
			s.about.Opened = s.opts.Program
			if err := putFeatures(meta, s.about); err != nil {
				return err
			}
		}
		if v, err := s.key.Open(checkKey, meta.Get(checkKey)); err != nil || string(v) != string(checkValue) {
			return ErrKey
		}
		return nil
	})
}

// Close waits for transactions in progress, and closes the file.
func (s *Store) Close() error {
	s.commits.Close()
	if s.tails != nil {
		s.tails.close()
	}
	err := s.db.Close()
	if s.log != nil {
		err = errors.Join(err, s.log.Close())
	}
	return err
}

// update makes a change in one transaction.
func (s *Store) update(f func(*recorded.Tx) error) error {
	var through recorded.Committer
	if s.log != nil {
		through = s.log
	}
	return recorded.Through(s.db, through, f)
}

// leading is a log whose writer other members wait to replace. *log.Writer is one.
type leading interface {
	Beat(db *bbolt.DB) error
	HandOver(db *bbolt.DB, to string) error
}

// Beat has the log say that the store is still written, without a change. The store must have a log with members.
func (s *Store) Beat() error { return s.log.(leading).Beat(s.db) } //nolint:forcetypeassert // as documented

// HandOver has another member write the store from now on. Afterwards nothing can be changed here.
func (s *Store) HandOver(to string) error {
	return s.log.(leading).HandOver(s.db, to) //nolint:forcetypeassert // as for Beat
}

// Stats returns the number of changes since the store was opened, the total time for writing them, and the size
// of the file in bytes.
func (s *Store) Stats() (changes int64, writing time.Duration, size int64) {
	stats := s.db.Stats().TxStats
	if info, err := os.Stat(filepath.Join(s.dir, "service.db")); err == nil {
		size = info.Size()
	}
	return s.changes.Load(), stats.GetWriteTime(), size
}

// Dir returns the directory of the store.
func (s *Store) Dir() string { return s.dir }

// Seal encrypts a value that the service gives away and gets back. It can be opened only at the same place.
func (s *Store) Seal(place, value []byte) []byte { return s.key.Seal(place, value) }

// Unseal returns the content of a value that Seal has returned, also in an earlier process of the service.
func (s *Store) Unseal(place, sealed []byte) ([]byte, error) { return s.key.Open(place, sealed) }

// Tx is a transaction on the records. It is valid until the function that received it returns.
type Tx struct {
	tx  *recorded.Tx
	key *seal.Key
	// cache is the cache of decoded records; nil in a write transaction, and if records are not encrypted.
	cache *recordCache
	// after are called after the commit; failure is the error that Update returns then.
	after   []func()
	failure error
}

// Over returns a transaction on the records of a copy, which follows a log and is no Store: it only reads.
func Over(tx *recorded.Tx, key *seal.Key) *Tx { return &Tx{tx: tx, key: key} }

// View calls fn with a read-only transaction.
func (s *Store) View(fn func(*Tx) error) error {
	shelf := &s.cache
	if s.key == nil {
		shelf = nil
	}
	return recorded.View(s.db, func(tx *recorded.Tx) error { return fn(&Tx{tx: tx, key: s.key, cache: shelf}) })
}

// Update calls fn with a write transaction, and commits if fn returns nil. The change is durable when Update
// returns. fn may be called more than once, each time with the current records, so it must have no other
// effects; use Tx.After for those.
func (s *Store) Update(fn func(*Tx) error) error {
	var last *Tx
	var refused error // the error of fn
	err := s.around("records", "", func() error {
		return s.commits.Do(func(tx *recorded.Tx) error {
			last = &Tx{tx: tx, key: s.key}
			refused = fn(last)
			return refused
		})
	})
	if b := (*bug.Error)(nil); errors.As(err, &b) {
		panic(b) // where it was made, and not where the transaction was
	}
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

// transact runs changes of records in one transaction. A panic becomes a *bug.Error of that change, because those that
// share the transaction wait for a result.
func (s *Store) transact(ops []groupcommit.Op) (failed int, err error) {
	failed = -1
	err = bug.Catch(func() error {
		return s.update(func(tx *recorded.Tx) error { return groupcommit.Run(tx, ops, &failed) })
	})
	return failed, err
}

// Fail makes Update return an error although it commits: for the record that a request was refused.
func (t *Tx) Fail(err error) { t.failure = err }

// After registers a function to be called once after the commit.
func (t *Tx) After(f func()) { t.after = append(t.after, f) }

// Next returns the next number of a sequence, which starts at 1.
func (t *Tx) Next(sequence string) (uint64, error) {
	b, err := t.tx.CreateBucketIfNotExists([]byte("sequence/" + sequence))
	if err != nil {
		return 0, err
	}
	return b.NextSequence()
}

// seal encodes and encrypts the record of a place.
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
