package bolt

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/recorded"
)

// A command that only reads uses a copy of the store. Copying is fast, however long the command runs, so writers do
// not wait for readers. The copy has the last commit, and is sealed like the store.

// graceForReaders is how long a process waits for copying processes before it writes.
const graceForReaders = 2 * time.Second

// readersPause is the interval at which it checks whether they have finished.
const readersPause = 5 * time.Millisecond

// CopyTo writes a copy of the last commit to a new file with mode 0600. Commits do not wait for it, unless the file
// has to grow beyond its memory mapping.
func (s *Store) CopyTo(ctx context.Context, to string) error {
	return s.CopyOf(ctx, to, func() {})
}

// CopyOf is CopyTo, but calls begun, once, when the content of the copy is determined.
func (s *Store) CopyOf(ctx context.Context, to string, begun func()) error {
	begun = sync.OnceFunc(begun)
	return s.read(ctx, func(tx *recorded.Tx) error {
		begun()
		return writeCopy(tx, to)
	})
}

// Copy writes a copy of a store that no process has open for writing to a new file with mode 0600. It returns
// *journal.Held if one has, and fs.ErrNotExist if there is no store.
func Copy(path, to string) (err error) {
	defer recoverDamage(path, &err)()
	for {
		db, file, err := openShared(path)
		if err != nil {
			return err
		}
		here, statErr := file.Stat()
		named, namedErr := os.Stat(path)
		if statErr == nil && namedErr == nil && !os.SameFile(here, named) {
			if err := db.Close(); err != nil { // a writer has replaced the file in the meantime
				return err
			}
			continue
		}
		err = recorded.View(db, func(tx *recorded.Tx) error { return writeCopy(tx, to) })
		return errors.Join(err, db.Close())
	}
}

// openShared opens a store for reading; other processes may read it at the same time.
func openShared(path string) (db *bbolt.DB, file *os.File, err error) {
	if info, err := os.Stat(path); err != nil {
		return nil, nil, err
	} else if info.Size() == 0 {
		// It is being created, by a process that has opened it, or that had and was killed.
		return nil, nil, fmt.Errorf("%s is empty: %w", path, fs.ErrNotExist)
	}
	db, err = bbolt.Open(path, 0o600, &bbolt.Options{
		ReadOnly: true, Timeout: time.Nanosecond, NoStatistics: true,
		OpenFile: func(name string, flag int, perm fs.FileMode) (*os.File, error) {
			var err error
			file, err = openChecked(name, flag, perm)
			return file, err
		},
	})
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return nil, nil, &journal.Held{Holder: readHolder(path)}
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrVersionMismatch),
		errors.Is(err, berrors.ErrChecksum):
		return nil, nil, damaged(path, err.Error())
	}
	return db, file, err
}

// writeCopy writes the content of a transaction's view.
func writeCopy(tx *recorded.Tx, to string) error {
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("copying the state store: %w", err)
	}
	_, err = tx.WriteTo(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("copying the state store: %w", err), os.Remove(to))
	}
	return nil
}

// onlyRead reports whether a store that cannot be opened for writing is only being read.
func onlyRead(path string) bool {
	db, _, err := openShared(path)
	return err == nil && db.Close() == nil
}

// openWithTimeout opens the file for writing. It waits for a writer for at most timeout, and briefly for readers.
func openWithTimeout(path string, timeout time.Duration, noSync bool) (*bbolt.DB, error) {
	begun := time.Now()
	for {
		db, err := openFile(path, timeout, noSync)
		if !errors.Is(err, berrors.ErrTimeout) || time.Since(begun) > timeout+graceForReaders || !onlyRead(path) {
			return db, err
		}
		<-time.After(readersPause)
	}
}
