package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/millipede-iac/millipede/wholefile"
)

const (
	// compactFrom is how many bytes of the file are free at least when it is written anew, and then half of it.
	compactFrom = 4 << 20
	// compactStep is how much a transaction copies, in bytes: it bounds the memory.
	compactStep = 1 << 20
)

// open opens the file of the records. Where most of it is free, because records were removed, it is written anew first:
// bbolt gives nothing back by itself.
func open(path string) (*bbolt.DB, error) {
	options := &bbolt.Options{Timeout: 100 * time.Millisecond, FreelistType: bbolt.FreelistMapType}
	db, err := bbolt.Open(path, 0o600, options)
	if errors.Is(err, berrors.ErrTimeout) {
		return nil, fmt.Errorf("opening %s: %w", path, ErrHeld)
	}
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	fresh := path + ".compact"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) { // a crash has left it
		return nil, errors.Join(err, db.Close())
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	tx, err := db.Begin(true) // the count of free pages is made when a change ends
	if err == nil {
		err = tx.Rollback()
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	free := int64(db.Stats().FreePageN) * int64(db.Info().PageSize)
	if free < compactFrom || free < info.Size()/2 {
		return db, nil
	}
	to, err := bbolt.Open(fresh, 0o600, options)
	if err == nil {
		err = bbolt.Compact(to, db, compactStep)
	}
	if err == nil {
		err = to.Sync()
	}
	if err == nil {
		// Whoever opens the file from here on finds it locked, as the one of before.
		err = os.Rename(fresh, path)
	}
	if err != nil { // no room, say: the old file is as good
		if to != nil {
			_ = to.Close()
		}
		_ = os.Remove(fresh)
		return db, nil //nolint:nilerr // as said above
	}
	if err := errors.Join(db.Close(), wholefile.SyncDir(filepath.Dir(path))); err != nil {
		return nil, errors.Join(err, to.Close())
	}
	return to, nil
}
