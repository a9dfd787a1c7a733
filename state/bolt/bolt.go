// Package bolt stores states and the journals of runs in one bbolt file.
//
// The cost of a commit depends on its changes and not on the size of the state, and a commit is durable when it
// returns. The package makes no decisions about runs, and does not know the exchange format. docs/format/journal.md
// describes the file.
package bolt

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/millipede-iac/millipede/internal/wholefile"
	"github.com/millipede-iac/millipede/state/features"
	"github.com/millipede-iac/millipede/state/groupcommit"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/locks"
	"github.com/millipede-iac/millipede/state/recorded"
	"github.com/millipede-iac/millipede/state/seal"
)

// Format is the newest version of the file's layout that this code supports. It reads older ones and rejects newer
// ones. From level 2 on, a level (package features) has a format of its own, so that programs before it reject the
// file.
const Format = sharedFormat + features.Newest - 1

// The top-level buckets of the file.
var (
	metaBucket       = []byte("meta")       // "format", "seal", "features"
	namesBucket      = []byte("names")      // number -> static resource address
	depsBucket       = []byte("deps")       // content hash -> dependencies as numbers of names
	workspacesBucket = []byte("workspaces") // name -> bucket, see workspace.go
	runsBucket       = []byte("runs")       // run id -> bucket, see runs.go
	valuesBucket     = []byte("values")     // bucket name -> bucket of values

	formatKey = []byte("format")
)

// Conditions that callers handle; the errors that wrap them tell users how to proceed.
var (
	// ErrDamaged means that the file is corrupt.
	ErrDamaged = errors.New("the state store is damaged")
	// ErrNewer means that the file has features of a newer version of Millipede; ErrOlder, that its level of features is
	// too low for this one.
	ErrNewer, ErrOlder = features.ErrNewer, features.ErrOlder
)

// Options are the settings of a store. Zero fields mean defaults.
type Options struct {
	// Now returns the time; default time.Now.
	Now func() time.Time
	// NewID returns a new ID for a lineage; default random UUIDs.
	NewID func() string
	// EngineVersion is recorded with each version of a state.
	EngineVersion string
	// NoSync omits fsync, for benchmarks, tests and volatile stores: an acknowledged commit can then be lost.
	NoSync bool
	// Wrapper encrypts the store's key; nil for an unencrypted store.
	Wrapper Wrapper
	// SealNew seals a new file when it is created. Otherwise the first read or write does, because a Wrapper may have to
	// ask others for that.
	SealNew bool
	// Unannounced omits the file beside the store that names who has it open.
	Unannounced bool
	// Log is the log that all commits go through, which makes them durable; nil for none. An error of it closes the
	// store for writing: see package log.
	Log recorded.Opener
	// Workspace is a workspace that a new file has in addition to the default one; empty for none.
	Workspace string
	// Program is the version of Millipede that opens the file; empty leaves it unrecorded.
	Program string
	// Level is the level of features to which the file is raised when it is opened. 0 leaves that of an existing file,
	// and gives a new one the newest.
	Level int
	// Levels are those that the program can work with; default features.Own().
	Levels features.Levels
}

// Store is a journal.Store over one file. Safe for concurrent use.
type Store struct {
	path    string
	opts    Options
	created bool // this opening has created the file
	about   features.Record

	commits *groupcommit.Queue
	log     recorded.Log // nil for none
	names   names        // used only by the writer

	held     heldLocks    // of whole workspaces
	requests locks.Tables // for locks of objects, by workspace; a copy of those in the file
	asking   sync.Mutex   // held while requests are changed, in the file and in the table of this process

	keeping sync.Mutex // guards kept, and is held while a state is loaded; taken before mu
	kept    *keptState

	// mu guards the fields below. It is held for reading while the file is used, and for writing while the file is
	// replaced.
	mu        sync.RWMutex
	db        *bbolt.DB
	unlocked  bool      // key, stale and unlockErr are known
	key       *seal.Key // nil: unencrypted
	stale     bool      // the store is not sealed as configured
	unlockErr error

	closeOnce sync.Once
	closeErr  error
}

var _ journal.Store = (*Store)(nil)

// Open opens the file, or creates it with mode 0600. While it is open, no other process can open it: Open there
// waits for at most timeout (0: not at all), and then returns *journal.Held with the info of the holder. The caller
// closes the store.
func Open(path string, info journal.LockInfo, timeout time.Duration) (*Store, error) {
	return OpenOptions(path, info, timeout, Options{})
}

// OpenOptions is Open with options.
func OpenOptions(path string, info journal.LockInfo, timeout time.Duration, o Options) (*Store, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.NewID == nil {
		o.NewID = uuid.NewString
	}
	if o.Levels == (features.Levels{}) {
		o.Levels = features.Own()
	}
	var log recorded.Log
	if o.Log != nil {
		var err error
		if log, err = o.Log(path); err != nil {
			return nil, err
		}
		o.NoSync = true
	}
	s, err := open(path, info, timeout, o, log)
	if err != nil && log != nil {
		err = errors.Join(err, log.Close())
	}
	return s, err
}

// open opens a file that is at the end of its log, if it has one.
func open(path string, info journal.LockInfo, timeout time.Duration, o Options, log recorded.Log) (*Store, error) {
	db, err := openWithTimeout(path, timeout, o.NoSync)
	if errors.Is(err, berrors.ErrTimeout) {
		return nil, &journal.Held{Holder: readHolder(path)}
	}
	if err != nil {
		return nil, err
	}
	// A crash may have left a copy that was about to replace the file.
	if err := os.Remove(path + newSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, db.Close())
	}
	s := &Store{db: db, path: path, opts: o, log: log}
	s.commits = groupcommit.New(s.transact)
	if err := s.prepare(info); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// prepare checks the format of the file, or writes it to a new one, and records the holder.
func (s *Store) prepare(info journal.LockInfo) error {
	existing := false
	err := s.view(func(tx *recorded.Tx) (err error) {
		if existing = tx.Bucket(metaBucket) != nil; existing {
			s.about, err = readFeatures(tx, s.path)
		}
		return err
	})
	if err != nil {
		return err
	}
	if !existing {
		err = s.create()
	} else if err = s.about.Check(s.opts.Levels); err == nil {
		err = s.noteFeatures()
	}
	if err != nil {
		return fmt.Errorf("opening %s: %w", s.path, err)
	}
	if err := s.view(s.readRequests); err != nil {
		return err
	}
	if s.opts.Unannounced {
		return nil
	}
	return writeHolder(s.path, info)
}

// create writes the content of a new file, in one transaction.
func (s *Store) create() (err error) {
	var key *seal.Key
	var wrapped []byte
	if s.opts.SealNew && s.opts.Wrapper != nil && s.opts.Wrapper.Encrypts() {
		if key, wrapped, err = s.newKey(context.Background()); err != nil {
			return err
		}
	}
	level := cmp.Or(s.opts.Level, s.opts.Levels.Newest)
	s.about = features.Record{Level: level, By: s.opts.Program, Opened: s.opts.Program}
	if err := s.about.Check(s.opts.Levels); err != nil {
		return err
	}
	err = s.update(func(tx *recorded.Tx) error {
		if err := layOut(tx, s.about); err != nil {
			return err
		}
		if name := s.opts.Workspace; name != "" && name != journal.DefaultWorkspace {
			if err := makeWorkspace(tx, name); err != nil {
				return err
			}
		}
		if key == nil {
			return nil
		}
		return putSeal(tx, wrapped)
	})
	if err != nil {
		return err
	}
	s.created, s.key, s.unlocked = true, key, key != nil
	return nil
}

// layOut creates the buckets of a new file.
func layOut(tx *recorded.Tx, about features.Record) error {
	for _, name := range [][]byte{metaBucket, namesBucket, depsBucket, workspacesBucket, runsBucket, valuesBucket} {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	if err := makeWorkspace(tx, journal.DefaultWorkspace); err != nil {
		return err
	}
	return errors.Join(putFeatures(tx, about), putFormat(tx, plainFormat))
}

// Close waits for commits in progress, and lets other processes open the file.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		s.commits.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		var err error
		if !s.opts.Unannounced {
			err = os.Remove(holderPath(s.path))
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		s.closeErr = errors.Join(err, s.db.Close())
		if s.log != nil {
			s.closeErr = errors.Join(s.closeErr, s.log.Close())
		}
	})
	return s.closeErr
}

// PutValue stores a value.
func (s *Store) PutValue(ctx context.Context, bucket, key string, value []byte) error {
	return s.write(ctx, putValue(bucket, key, value))
}

// PutHint stores a value with the next transaction.
func (s *Store) PutHint(ctx context.Context, bucket, key string, value []byte) error {
	return s.later(ctx, putValue(bucket, key, value))
}

func putValue(bucket, key string, value []byte) func(*recorded.Tx) error {
	return func(tx *recorded.Tx) error {
		b, err := tx.Bucket(valuesBucket).CreateBucketIfNotExists([]byte(bucket))
		if err != nil {
			return err
		}
		return b.Put([]byte(key), value)
	}
}

// GetValue returns a value; nil if there is none.
func (s *Store) GetValue(ctx context.Context, bucket, key string) (value []byte, err error) {
	if err := s.settled(ctx); err != nil {
		return nil, err
	}
	err = s.read(ctx, func(tx *recorded.Tx) error {
		if b := tx.Bucket(valuesBucket).Bucket([]byte(bucket)); b != nil {
			if v := b.Get([]byte(key)); v != nil {
				value = append([]byte{}, v...)
			}
		}
		return nil
	})
	return value, err
}

// holderPath returns the path of the file beside the store with the name of its holder. It is valid only while the
// store is locked.
func holderPath(path string) string { return path + ".lock.info" }

// readHolder returns the holder of the store, as far as known; empty otherwise.
func readHolder(path string) journal.LockInfo {
	var info journal.LockInfo
	data, err := os.ReadFile(holderPath(path))
	if err != nil || json.Unmarshal(data, &info) != nil {
		return journal.LockInfo{Path: path, Who: "another process"}
	}
	return info
}

func writeHolder(path string, info journal.LockInfo) error {
	if info.Path == "" {
		info.Path = path
	}
	if info.PID == 0 {
		info.PID = os.Getpid()
	}
	data, err := json.Marshal(info)
	if err != nil {
		return err
	}
	if err := wholefile.Write(holderPath(path), wholefile.Private, wholefile.Bytes(data)); err != nil {
		return fmt.Errorf("noting who holds %s: %w", path, err)
	}
	return nil
}
