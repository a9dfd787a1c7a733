package bolt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/recorded"
)

// Split writes a store for each workspace of this one: its state with the earlier versions, its runs, and the data
// that belongs to no workspace. storeOf returns the name of a new file. Sealed values stay sealed with the same
// key. The files are durable when Split returns; this store is not changed.
func (s *Store) Split(storeOf func(workspace string) string) error {
	return s.view(func(from *recorded.Tx) error {
		workspaces := from.Bucket(workspacesBucket)
		return workspaces.ForEachBucket(func(name []byte) error {
			if err := splitOff(from, string(name), storeOf(string(name))); err != nil {
				return fmt.Errorf("the workspace %q: %w", name, err)
			}
			return nil
		})
	})
}

func splitOff(from *recorded.Tx, workspace, path string) error {
	db, err := openFile(path, time.Second, true) // synced as a whole below
	if err != nil {
		return err
	}
	err = recorded.Update(db, func(to *recorded.Tx) error {
		for _, name := range [][]byte{metaBucket, namesBucket, depsBucket, workspacesBucket, runsBucket, valuesBucket} {
			into, err := to.CreateBucketIfNotExists(name)
			if err != nil {
				return err
			}
			b := from.Bucket(name)
			switch {
			case b == nil:
			case bytes.Equal(name, workspacesBucket):
				err = splitWorkspace(to, b, into, workspace)
			case bytes.Equal(name, runsBucket):
				err = splitRuns(b, into, workspace)
			default:
				err = copyBucket(b, into, []string{string(name)}, nil, nil)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = db.Sync()
	}
	if err = errors.Join(err, db.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// splitWorkspace copies one workspace. Every store also has the default one, which is empty in that of another.
func splitWorkspace(to *recorded.Tx, from, into *recorded.Bucket, workspace string) error {
	if workspace != journal.DefaultWorkspace {
		if err := makeWorkspace(to, journal.DefaultWorkspace); err != nil {
			return err
		}
	}
	b, err := into.CreateBucket([]byte(workspace))
	if err != nil {
		return err
	}
	return copyBucket(from.Bucket([]byte(workspace)), b, []string{string(workspacesBucket), workspace}, nil, nil)
}

func splitRuns(from, into *recorded.Bucket, workspace string) error {
	return from.ForEachBucket(func(id []byte) error {
		var r journal.Run
		if err := json.Unmarshal(from.Bucket(id).Get(runKey), &r); err != nil {
			return fmt.Errorf("run %s: %w: %w", id, ErrDamaged, err)
		}
		if r.Workspace != workspace {
			return nil
		}
		b, err := into.CreateBucket(id)
		if err != nil {
			return err
		}
		return copyBucket(from.Bucket(id), b, []string{string(runsBucket), string(id)}, nil, nil)
	})
}
