package bolt

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/recorded"
	"github.com/millipede-iac/millipede/state/seal"
)

// Addresses, names, times and serials are unencrypted in the store. The content of objects and outputs, and the
// plans and events of runs, are sealed with the store's own key, if a Wrapper requires it. That key is in the file,
// encrypted by the Wrapper. See docs/adr/0008-the-store-is-sealed-with-a-key-of-its-own.md.

// Wrapper encrypts the key of a store as the user has configured. *encryption.Target is one.
type Wrapper interface {
	// Encrypts reports whether the store is to be sealed.
	Encrypts() bool
	// Seal encrypts a key.
	Seal(ctx context.Context, key []byte) ([]byte, error)
	// Open decrypts a key. stale means that it would now be encrypted differently. If the key is not encrypted, valid
	// checks whether it is the expected key; an unencrypted key is an error unless the configuration allows it.
	Open(ctx context.Context, wrapped []byte, valid func() error) (key []byte, stale bool, err error)
}

// sealedFormat is the format of sealed stores; others have plainFormat, so that older versions can read them. While
// there are requests for locks of objects it is sharedFormat: versions without support for them would mistake
// changes in progress for those of an ended version.
const (
	plainFormat  = 1
	sealedFormat = 2
	sharedFormat = 3
)

var sealKey = []byte("seal") // in meta: the encrypted key

// box is a bucket whose values are sealed, if the store is.
type box struct {
	b     *recorded.Bucket
	key   *seal.Key
	place string // of the bucket
}

// at returns the location of a value of the bucket, to which its encryption is bound.
func (x box) at(key []byte) []byte { return append(append([]byte(x.place), 0), key...) }

func (x box) has(key []byte) bool { return x.b.Get(key) != nil }

// get returns a value; nil if there is none.
func (x box) get(key []byte) ([]byte, error) { return x.open(key, x.b.Get(key)) }

// open decrypts a value that was read at a key.
func (x box) open(key, sealed []byte) ([]byte, error) {
	if x.key == nil {
		return sealed, nil
	}
	return x.key.Open(x.at(key), sealed)
}

func (x box) put(key, value []byte) error {
	if x.key == nil {
		return x.b.Put(key, value)
	}
	return x.b.Put(key, x.key.Seal(x.at(key), value))
}

// box returns the box of a bucket; path are the names of the enclosing buckets.
func (s *Store) box(b *recorded.Bucket, path ...string) box {
	return box{b, s.key, strings.Join(path, "\x00")}
}

// sealedParts are the buckets of a workspace whose values are sealed.
var sealedParts = []string{string(dataBucket), string(undoBucket), string(verdictsBucket)}

// sealed reports whether the value at a key of the bucket at a path is sealed.
func sealed(path []string, key []byte) bool {
	switch {
	case path[0] == string(workspacesBucket) && len(path) == 2:
		return string(key) == string(markKey)
	case path[0] == string(workspacesBucket) && len(path) == 3:
		return slices.Contains(sealedParts, path[2])
	case path[0] == string(workspacesBucket) && len(path) == 4:
		return path[2] == string(openBucket)
	case path[0] == string(runsBucket) && len(path) == 2:
		return string(key) == string(planKey)
	case path[0] == string(runsBucket) && len(path) == 3:
		return path[2] == string(eventsBucket)
	}
	return false
}

// unlock makes sealed values readable. It decrypts the store's key once, at the first read or write: commands that
// only list what exists need no key.
func (s *Store) unlock(ctx context.Context) error {
	s.mu.RLock()
	done, err := s.unlocked, s.unlockErr
	s.mu.RUnlock()
	if done {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.unlocked {
		s.key, s.stale, s.unlockErr = s.openKey(ctx)
		s.unlocked = true
	}
	return s.unlockErr
}

// openKey returns the key, nil for an unencrypted store, and whether the store is to be sealed differently. The
// caller holds the lock.
func (s *Store) openKey(ctx context.Context) (key *seal.Key, stale bool, err error) {
	var wrapped []byte
	empty := false
	err = s.viewing(func(tx *recorded.Tx) error {
		wrapped = append(wrapped, tx.Bucket(metaBucket).Get(sealKey)...)
		empty = isEmpty(tx)
		return nil
	})
	w := s.opts.Wrapper
	encrypts := w != nil && w.Encrypts()
	switch {
	case err != nil:
		return nil, false, err
	case wrapped == nil && !encrypts:
		return nil, false, nil
	case wrapped == nil && empty && s.created:
		// No page of the file has ever had content, so it need not be replaced by a copy later.
		if key, err := s.sealNew(ctx); err == nil {
			return key, false, nil
		}
		return nil, true, nil // whoever writes tries again, and gets the error
	case wrapped == nil && empty:
		return nil, true, nil
	case wrapped == nil:
		// Unencrypted content could have been forged, so it is rejected unless the configuration allows it.
		_, _, err = w.Open(ctx, []byte("in the clear"), func() error { return nil })
	case w == nil:
		err = errors.New("it is encrypted, and there is no encryption configuration")
	default:
		var secret []byte
		if secret, stale, err = w.Open(ctx, wrapped,
			func() error { return errors.New("the key of the store is damaged") }); err == nil {
			key, err = seal.NewKey(secret)
		}
	}
	switch {
	case err == nil:
		return key, stale || encrypts != (key != nil), nil
	case empty: // nothing is lost with the key
		return nil, encrypts, s.updating(dropSeal)
	}
	return nil, false, fmt.Errorf("%w: %s: %w. Where the encryption was changed, the former method belongs into a "+
		"fallback block. Or move the "+
		"file away: the next command then starts from the snapshot (the state file that your backend names), without "+
		"the earlier versions", journal.ErrSealed, s.path, err)
}

// isEmpty reports whether a store has neither states nor runs.
func isEmpty(tx *recorded.Tx) bool {
	holds := func(b *recorded.Bucket) bool {
		k, _ := b.Cursor().First()
		return k != nil
	}
	if holds(tx.Bucket(runsBucket)) {
		return false
	}
	workspaces := tx.Bucket(workspacesBucket)
	return workspaces.ForEachBucket(func(name []byte) error {
		for _, part := range [][]byte{dataBucket, undoBucket, versionsBucket} {
			if b := workspaces.Bucket(name).Bucket(part); b == nil || holds(b) {
				return errors.New("it holds something")
			}
		}
		return nil
	}) == nil
}

// dropSeal removes the seal of an empty store.
func dropSeal(tx *recorded.Tx) error {
	workspaces := tx.Bucket(workspacesBucket)
	err := workspaces.ForEachBucket(func(name []byte) error {
		w := workspaces.Bucket(name)
		if w.Bucket(verdictsBucket) != nil {
			if err := w.DeleteBucket(verdictsBucket); err != nil {
				return err
			}
		}
		return w.Delete(markKey)
	})
	return errors.Join(err, tx.Bucket(metaBucket).Delete(sealKey), putFormat(tx, plainFormat))
}

// unlockForWriting is unlock for writing: a store that is not sealed as configured is sealed again before. This is not
// done when it is opened, so that after only reading it with another configuration the user can return to the former
// one.
func (s *Store) unlockForWriting(ctx context.Context) error {
	if err := s.unlock(ctx); err != nil {
		return err
	}
	s.mu.RLock()
	stale := s.stale
	s.mu.RUnlock()
	if !stale {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stale {
		return nil
	}
	if err := s.reseal(ctx); err != nil {
		return fmt.Errorf("encrypting %s again: %w", s.path, err)
	}
	s.stale = false
	return nil
}

// reseal replaces the store by a copy that is sealed with a new key, or unencrypted: bbolt leaves freed pages in
// the file, so rewriting each value would keep the former ones there. After a crash there is either file. The
// caller holds the lock.
func (s *Store) reseal(ctx context.Context) (err error) {
	if s.log != nil {
		return errors.New("the store is in the log of a group, and its key cannot be replaced there. Restore the former " +
			"configuration of the encryption")
	}
	var wrapped []byte
	var key *seal.Key
	if s.opts.Wrapper != nil && s.opts.Wrapper.Encrypts() {
		if key, wrapped, err = s.newKey(ctx); err != nil {
			return err
		}
	}
	path := s.path + newSuffix
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	db, err := openFile(path, time.Second, true) // synced as a whole below
	if err != nil {
		return err
	}
	err = s.viewing(func(from *recorded.Tx) error {
		return recorded.Update(db, func(to *recorded.Tx) error { return copySealed(from, to, s.key, key, wrapped) })
	})
	if err == nil {
		err = db.Sync()
	}
	if err != nil {
		return errors.Join(err, db.Close(), os.Remove(path))
	}
	if err := s.replaceBy(db, path); err != nil {
		return err
	}
	s.key = key
	s.names.forget()
	return nil
}

// newKey makes a key, and returns it also in its encrypted form.
func (s *Store) newKey(ctx context.Context) (key *seal.Key, wrapped []byte, err error) {
	secret := seal.NewSecret()
	if wrapped, err = s.opts.Wrapper.Seal(ctx, secret); err != nil {
		return nil, nil, err
	}
	key, err = seal.NewKey(secret)
	return key, wrapped, err
}

// sealNew seals a store that never had content, in one transaction. The caller holds the lock.
func (s *Store) sealNew(ctx context.Context) (*seal.Key, error) {
	key, wrapped, err := s.newKey(ctx)
	if err != nil {
		return nil, err
	}
	return key, s.updating(func(tx *recorded.Tx) error { return putSeal(tx, wrapped) })
}

// putSeal stores the encrypted key of the store.
func putSeal(tx *recorded.Tx, wrapped []byte) error {
	return errors.Join(tx.Bucket(metaBucket).Put(sealKey, wrapped), fixFormat(tx))
}

// newSuffix is the suffix of the copy while it is written.
const newSuffix = ".new"

// replaceBy replaces the file of the store. A process that waits for the lock of the old file detects afterwards
// that it has been replaced; see openFile.
func (s *Store) replaceBy(db *bbolt.DB, path string) error {
	if runtime.GOOS == "windows" { // an open file cannot be renamed there
		if err := errors.Join(db.Close(), s.db.Close(), os.Rename(path, s.path)); err != nil {
			return err
		}
		opened, err := openFile(s.path, time.Second, s.opts.NoSync)
		if err == nil {
			s.db = opened
		}
		return err
	}
	if err := os.Rename(path, s.path); err != nil {
		return errors.Join(err, db.Close(), os.Remove(path))
	}
	old := s.db
	s.db, db.NoSync = db, s.opts.NoSync
	dir, err := os.Open(filepath.Dir(s.path))
	if err != nil {
		return errors.Join(err, old.Close())
	}
	return errors.Join(dir.Sync(), dir.Close(), old.Close())
}

// copySealed copies everything, and re-encrypts sealed values from one key to another; nil keys mean unencrypted.
func copySealed(from, to *recorded.Tx, before, after *seal.Key, wrapped []byte) error {
	err := from.ForEach(func(name []byte, b *recorded.Bucket) error {
		into, err := to.CreateBucketIfNotExists(name)
		if err != nil {
			return err
		}
		return copyBucket(b, into, []string{string(name)}, before, after)
	})
	if err != nil {
		return err
	}
	if wrapped == nil {
		return errors.Join(to.Bucket(metaBucket).Delete(sealKey), fixFormat(to))
	}
	return putSeal(to, wrapped)
}

func copyBucket(from, to *recorded.Bucket, path []string, before, after *seal.Key) error {
	old, now := box{from, before, strings.Join(path, "\x00")}, box{to, after, strings.Join(path, "\x00")}
	to.GrowsAtItsEnd() // in the order of the keys
	err := from.ForEach(func(k, v []byte) error {
		switch {
		case v == nil:
			into, err := to.CreateBucketIfNotExists(k)
			if err != nil {
				return err
			}
			return copyBucket(from.Bucket(k), into, append(path[:len(path):len(path)], string(k)), before, after)
		case !sealed(path, k):
			return to.Put(k, v)
		}
		plain, err := old.open(k, v)
		if err != nil {
			return fmt.Errorf("%w: %q in %q", err, k, path)
		}
		return now.put(k, plain)
	})
	return errors.Join(err, to.SetSequence(from.Sequence()))
}

// fixFormat records the format of the content: the lowest one whose versions can all read it.
func fixFormat(tx *recorded.Tx) error {
	format := plainFormat
	if tx.Bucket(metaBucket).Get(sealKey) != nil {
		format = sealedFormat
	}
	all := tx.Bucket(workspacesBucket)
	err := all.ForEachBucket(func(name []byte) error {
		if b := all.Bucket(name).Bucket(requestsBucket); b != nil {
			if k, _ := b.Cursor().First(); k != nil {
				format = sharedFormat
			}
		}
		return nil
	})
	return errors.Join(err, putFormat(tx, format))
}

// putFormat records a format, or that of the store's level if that is higher.
func putFormat(tx *recorded.Tx, format int) error {
	about, known, err := storedFeatures(tx)
	if err != nil {
		return err
	}
	if known && about.Level > 1 {
		format = max(format, sharedFormat+about.Level-1)
	}
	data, err := json.Marshal(format)
	if err != nil {
		return err
	}
	return tx.Bucket(metaBucket).Put(formatKey, data)
}
