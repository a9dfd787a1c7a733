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

	"github.com/millipede-iac/millipede/internal/wholefile"
)

const (
	// compactFrom is the minimum of free bytes for compaction; they must also be half of what the file has used.
	compactFrom = 4 << 20
	// compactStep is the size of a copying transaction, in bytes: it bounds the memory.
	compactStep = 1 << 20
)

// open opens the file of the records. It first compacts the file if most of it is free because records were
// removed: bbolt itself never shrinks its file. noSync is for a file whose log makes its changes durable.
func open(path string, noSync bool) (*bbolt.DB, error) {
	options := &bbolt.Options{Timeout: 100 * time.Millisecond, FreelistType: bbolt.FreelistMapType, NoSync: noSync}
	db, err := bbolt.Open(path, 0o600, options)
	if errors.Is(err, berrors.ErrTimeout) {
		return nil, fmt.Errorf("opening %s: %w", path, ErrHeld)
	}
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	fresh := path + ".compact"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) { // left by a crash
		return nil, errors.Join(err, db.Close())
	}
	tx, err := db.Begin(true) // the number of free pages is computed at the end of a write transaction
	used := int64(0)          // without the end of the file, which bbolt has allocated in advance
	if err == nil {
		used = tx.Size()
		err = tx.Rollback()
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	free := int64(db.Stats().FreePageN) * int64(db.Info().PageSize)
	if free < compactFrom || free < used/2 {
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
		// The lock of the new file is held across the rename, as that of the old one was.
		err = os.Rename(fresh, path)
	}
	if err != nil { // e.g. a full disk: the old file can be used as well
		if to != nil {
			_ = to.Close()
		}
		_ = os.Remove(fresh)
		return db, nil // the old file is used
	}
	if err := errors.Join(db.Close(), wholefile.SyncDir(filepath.Dir(path))); err != nil {
		return nil, errors.Join(err, to.Close())
	}
	return to, nil
}
