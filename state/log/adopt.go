package log

import (
	"context"
	"errors"
	"fmt"
	"os"

	"go.etcd.io/bbolt"

	"github.com/millipede-iac/millipede/state/recorded"
)

// View calls f with a transaction that reads the file at a path, which nobody has open.
func View(path string, f func(*recorded.Tx) error) error {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: heldTimeout, ReadOnly: true})
	if err != nil {
		return err
	}
	return errors.Join(recorded.View(db, f), db.Close())
}

// Adopt makes the file at a path the copy of a store that the log does not have yet: its content becomes the first
// change. change, unless it is nil, is called in the same transaction afterwards. Nobody may have the file open. After
// an error or a crash the file is as before, and Adopt can be called again for a log that does not have the store.
func Adopt(ctx context.Context, path string, o Options, change func(*recorded.Tx) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("taking the store %s over into the log: %w", o.Store, err)
		}
	}()
	old, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: heldTimeout, ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, old.Close()) }()
	fresh := path + ".adopted"
	for _, p := range []string{fresh, markPath(fresh)} {
		if err := os.RemoveAll(p); err != nil {
			return err
		}
	}
	o.First = true
	w, err := Open(ctx, fresh, o)
	if err != nil {
		return err
	}
	if err := errors.Join(fill(old, fresh, w, change), w.Close()); err != nil {
		return err
	}
	// The mark of before, if there is one, is of another log: with it, the new file is not trusted.
	if err := os.Rename(fresh, path); err != nil {
		return err
	}
	return os.Rename(markPath(fresh), markPath(path))
}

// fill puts the content of a file into a new one.
func fill(old *bbolt.DB, path string, w *Writer, change func(*recorded.Tx) error) error {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: heldTimeout, NoSync: true,
		FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return err
	}
	err = recorded.View(old, func(from *recorded.Tx) error {
		return recorded.Through(db, w, func(to *recorded.Tx) error {
			err := recorded.CopyAll(from, to)
			if err == nil && change != nil {
				err = change(to)
			}
			return err
		})
	})
	return errors.Join(err, db.Close())
}
