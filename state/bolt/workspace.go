package bolt

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/locks"
)

// The content of a workspace's bucket.
var (
	dataBucket     = []byte("data")     // the current data, see content.go; its sequence is the number of keys
	undoBucket     = []byte("undo")     // undo records: number of the version, key of data -> former content
	versionsBucket = []byte("versions") // number of the version -> version
	lockKey        = []byte("lock")
	markKey        = []byte("mark")
)

// version is an ended version of a state. Versions are numbered from 1, independently of their serials: a state
// that is pushed or adopted has its own serial and lineage.
type version struct {
	Serial  uint64    `json:"serial"`
	Lineage string    `json:"lineage"`
	Engine  string    `json:"engine"`
	At      time.Time `json:"at"`
	Cause   string    `json:"cause,omitempty"`
	Run     string    `json:"run,omitempty"`
	Who     string    `json:"who,omitempty"`
}

func (v version) info() journal.VersionInfo {
	return journal.VersionInfo{Serial: v.Serial, Lineage: v.Lineage, At: v.At, Cause: v.Cause, Run: v.Run, Who: v.Who}
}

// heldLock is the lock of a workspace. It is valid only in the session that took it: while the file is open, no
// other process has it open, so the holder of an earlier session's lock has ended.
type heldLock struct {
	Session string           `json:"session"`
	Info    journal.LockInfo `json:"info"`
}

// workspace is a workspace within a transaction.
type workspace struct {
	name        string
	b, versions *bbolt.Bucket
	own         box // its values outside of its buckets
	data, undo  box
	open        func(request string) box // former contents of a request; see requests.go
	requests    *locks.Tables
}

// workspace returns a workspace.
func (s *Store) workspace(tx *bbolt.Tx, name string) (*workspace, error) {
	b := tx.Bucket(workspacesBucket).Bucket([]byte(name))
	switch {
	case b == nil && name == journal.DefaultWorkspace:
		return nil, damaged(s.path, "the default workspace is not there")
	case b == nil:
		return nil, fmt.Errorf("workspace %q: %w", name, journal.ErrNoWorkspace)
	}
	within := func(part []byte) box { return s.box(b.Bucket(part), string(workspacesBucket), name, string(part)) }
	w := &workspace{
		name: name, b: b, own: s.box(b, string(workspacesBucket), name), data: within(dataBucket), undo: within(undoBucket),
		versions: b.Bucket(versionsBucket), requests: &s.requests,
	}
	w.open = func(request string) box {
		var own *bbolt.Bucket
		if all := b.Bucket(openBucket); all != nil {
			own = all.Bucket([]byte(request))
		}
		return s.box(own, string(workspacesBucket), name, string(openBucket), request)
	}
	if w.data.b == nil || w.undo.b == nil || w.versions == nil {
		return nil, damaged(s.path, fmt.Sprintf("the workspace %q is not whole", name))
	}
	return w, nil
}

func makeWorkspace(tx *bbolt.Tx, name string) error {
	b, err := tx.Bucket(workspacesBucket).CreateBucket([]byte(name))
	if err != nil {
		return err
	}
	for _, part := range [][]byte{dataBucket, undoBucket, versionsBucket} {
		if _, err := b.CreateBucket(part); err != nil {
			return err
		}
	}
	return nil
}

// latest returns the last ended version and its number; 0 if there is none.
func (w *workspace) latest() (uint64, version, error) {
	k, v := w.versions.Cursor().Last()
	if k == nil {
		return 0, version{}, nil
	}
	ver, err := decodeVersion(v)
	return binary.BigEndian.Uint64(k), ver, err
}

func decodeVersion(data []byte) (version, error) {
	var v version
	if err := json.Unmarshal(data, &v); err != nil {
		return v, fmt.Errorf("a version of the state: %w", err)
	}
	return v, nil
}

// lock returns the lock, or nil.
func (s *Store) lock(w *workspace) (*journal.LockInfo, error) {
	data := w.b.Get(lockKey)
	if data == nil {
		return nil, nil
	}
	var held heldLock
	if err := json.Unmarshal(data, &held); err != nil {
		return nil, damaged(s.path, "a lock cannot be read")
	}
	if held.Session != s.session {
		return nil, nil
	}
	return &held.Info, nil
}

// holder returns the name of the lock's holder; empty if there is none.
func (s *Store) holder(w *workspace) (string, error) {
	held, err := s.lock(w)
	if err != nil || held == nil {
		return "", err
	}
	return held.Who, nil
}

// fence rejects callers that do not hold the lock. It returns the request for locks of objects with the ID; nil if
// the lock is that of the workspace.
func (s *Store) fence(w *workspace, lockID string) (*locks.Request, error) {
	request, granted, is := s.requests.Get(w.name, lockID)
	switch {
	case is && granted:
		return &request, nil
	case is:
		return nil, fmt.Errorf("%w: %s waits for its locks", journal.ErrFenced, lockID)
	case len(s.requests.Requests(w.name)) > 0:
		return nil, fmt.Errorf("%w: %q has no locks, and others have", journal.ErrFenced, lockID)
	}
	held, err := s.lock(w)
	switch {
	case err != nil:
		return nil, err
	case held == nil && lockID == "":
		return nil, nil
	case held == nil:
		return nil, fmt.Errorf("%w: lock %s is not held any more", journal.ErrFenced, lockID)
	case held.ID != lockID:
		return nil, fmt.Errorf("%w: it is held by %s (%s, lock %s)", journal.ErrFenced, held.Who, held.Operation,
			held.ID)
	}
	return nil, nil
}

// Workspaces lists the workspaces, sorted.
func (s *Store) Workspaces(ctx context.Context) (names []string, err error) {
	err = s.read(ctx, func(tx *bbolt.Tx) error {
		return tx.Bucket(workspacesBucket).ForEachBucket(func(k []byte) error {
			names = append(names, string(k))
			return nil
		})
	})
	return names, err
}

// CreateWorkspace creates an empty workspace.
func (s *Store) CreateWorkspace(ctx context.Context, name string) error {
	return s.write(ctx, func(tx *bbolt.Tx) error {
		if tx.Bucket(workspacesBucket).Bucket([]byte(name)) != nil {
			return fmt.Errorf("workspace %q: %w", name, journal.ErrWorkspaceExists)
		}
		return makeWorkspace(tx, name)
	})
}

// DeleteWorkspace removes a workspace with its earlier versions and its runs, unless it is locked.
func (s *Store) DeleteWorkspace(ctx context.Context, name string) error {
	return s.write(ctx, func(tx *bbolt.Tx) error {
		if name == journal.DefaultWorkspace {
			return journal.ErrDefaultWorkspace
		}
		w, err := s.workspace(tx, name)
		if err != nil {
			return err
		}
		held, err := s.lock(w)
		if err != nil {
			return err
		}
		if held == nil {
			held = s.asked(name)
		}
		if held != nil {
			return &journal.Held{Holder: *held}
		}
		if err := pruneRuns(tx, name, 0, true); err != nil {
			return err
		}
		return tx.Bucket(workspacesBucket).DeleteBucket([]byte(name))
	})
}

// Lock locks a workspace until Unlock or the end of the process.
func (s *Store) Lock(ctx context.Context, name string, info journal.LockInfo) error {
	data, err := json.Marshal(heldLock{s.session, info})
	if err != nil {
		return err
	}
	s.asking.Lock()
	defer s.asking.Unlock()
	return s.write(ctx, func(tx *bbolt.Tx) error {
		w, err := s.workspace(tx, name)
		if err != nil {
			return err
		}
		held, err := s.lock(w)
		if err != nil {
			return err
		}
		if held == nil {
			held = s.asked(name)
		}
		if held != nil {
			return &journal.Held{Holder: *held}
		}
		return w.b.Put(lockKey, data)
	})
}

// Unlock releases a lock.
func (s *Store) Unlock(ctx context.Context, name, lockID string) error {
	return s.write(ctx, func(tx *bbolt.Tx) error {
		w, err := s.workspace(tx, name)
		if err != nil {
			return err
		}
		held, err := s.lock(w)
		if err != nil {
			return err
		}
		if held == nil || held.ID != lockID {
			return fmt.Errorf("%w: %s", journal.ErrLockID, lockID)
		}
		return w.b.Delete(lockKey)
	})
}

// Locked returns the lock, or nil.
func (s *Store) Locked(ctx context.Context, name string) (held *journal.LockInfo, err error) {
	err = s.read(ctx, func(tx *bbolt.Tx) error {
		w, err := s.workspace(tx, name)
		if err != nil {
			return err
		}
		held, err = s.lock(w)
		return err
	})
	return held, err
}

// Mark returns the content of the snapshot when it last agreed with the store.
func (s *Store) Mark(ctx context.Context, name string) (m journal.SnapshotMark, err error) {
	if err := s.unlock(ctx); err != nil {
		return m, err
	}
	err = s.read(ctx, func(tx *bbolt.Tx) error {
		w, err := s.workspace(tx, name)
		if err != nil {
			return err
		}
		data, err := w.own.get(markKey)
		if err != nil {
			return damaged(s.path, err.Error())
		}
		if data != nil {
			if err := json.Unmarshal(data, &m); err != nil {
				return damaged(s.path, "the mark of the snapshot cannot be read")
			}
		}
		return nil
	})
	return m, err
}

// SetMark records the content of the snapshot.
func (s *Store) SetMark(ctx context.Context, name string, m journal.SnapshotMark) error {
	if err := s.unlock(ctx); err != nil {
		return err
	}
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return s.write(ctx, func(tx *bbolt.Tx) error {
		w, err := s.workspace(tx, name)
		if err != nil {
			return err
		}
		return w.own.put(markKey, data)
	})
}
