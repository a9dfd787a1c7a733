package bolt

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/locks"
	"github.com/millipede-iac/millipede/state/recorded"
)

// The content of a workspace's bucket.
var (
	dataBucket     = []byte("data")     // the current data, see content.go; its sequence is the number of keys
	undoBucket     = []byte("undo")     // undo records: number of the version, key of data -> former content
	versionsBucket = []byte("versions") // number of the version -> version
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

// workspace is a workspace within a transaction.
type workspace struct {
	name        string
	b, versions *recorded.Bucket
	own         box // its values outside of its buckets
	data, undo  box
	open        func(request string) box // former contents of a request; see requests.go
	requests    *locks.Tables
}

// workspace returns a workspace.
func (s *Store) workspace(tx *recorded.Tx, name string) (*workspace, error) {
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
		var own *recorded.Bucket
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

func makeWorkspace(tx *recorded.Tx, name string) error {
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

// lock returns the lock of a workspace, or nil.
func (s *Store) lock(w *workspace) *journal.LockInfo { return s.held.get(w.name) }

// holder returns the name of the lock's holder; empty if there is none.
func (s *Store) holder(w *workspace) string {
	if held := s.lock(w); held != nil {
		return held.Who
	}
	return ""
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
	switch held := s.lock(w); {
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
	err = s.read(ctx, func(tx *recorded.Tx) error {
		return tx.Bucket(workspacesBucket).ForEachBucket(func(k []byte) error {
			names = append(names, string(k))
			return nil
		})
	})
	return names, err
}

// CreateWorkspace creates an empty workspace.
func (s *Store) CreateWorkspace(ctx context.Context, name string) error {
	return s.write(ctx, func(tx *recorded.Tx) error {
		if tx.Bucket(workspacesBucket).Bucket([]byte(name)) != nil {
			return fmt.Errorf("workspace %q: %w", name, journal.ErrWorkspaceExists)
		}
		return makeWorkspace(tx, name)
	})
}

// DeleteWorkspace removes a workspace with its earlier versions and its runs, unless it is locked.
func (s *Store) DeleteWorkspace(ctx context.Context, name string) error {
	return s.write(ctx, func(tx *recorded.Tx) error {
		if name == journal.DefaultWorkspace {
			return journal.ErrDefaultWorkspace
		}
		w, err := s.workspace(tx, name)
		if err != nil {
			return err
		}
		if held := s.holds(w); held != nil {
			return &journal.Held{Holder: *held}
		}
		if err := pruneRuns(tx, name, 0, true); err != nil {
			return err
		}
		return tx.Bucket(workspacesBucket).DeleteBucket([]byte(name))
	})
}

// heldLocks are the locks of whole workspaces. They are not in the file: no other process has it open, and a lock ends
// with the process. They only change while no transaction is being written; see groupcommit.Queue.
type heldLocks struct {
	mu  sync.Mutex // guards all
	all map[string]journal.LockInfo
}

func (h *heldLocks) get(workspace string) *journal.LockInfo {
	h.mu.Lock()
	defer h.mu.Unlock()
	if info, is := h.all[workspace]; is {
		return &info
	}
	return nil
}

func (h *heldLocks) set(workspace string, info journal.LockInfo) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = map[string]journal.LockInfo{}
	}
	h.all[workspace] = info
}

func (h *heldLocks) remove(workspace string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.all, workspace)
}

// holds returns the holder of the lock of the workspace, or of objects in it; nil if there is none.
func (s *Store) holds(w *workspace) *journal.LockInfo {
	if held := s.lock(w); held != nil {
		return held
	}
	return s.asked(w.name)
}

// changeLock calls f with a workspace whose lock f may change. No transaction is being written meanwhile: a commit is
// either complete, or is checked against the changed lock.
func (s *Store) changeLock(ctx context.Context, name string, f func(*workspace) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.commits.Between(func() error {
		return s.view(func(tx *recorded.Tx) error {
			w, err := s.workspace(tx, name)
			if err != nil {
				return err
			}
			return f(w)
		})
	})
}

// Lock locks a workspace until Unlock or the end of the process.
func (s *Store) Lock(ctx context.Context, name string, info journal.LockInfo) error {
	s.asking.Lock()
	defer s.asking.Unlock()
	return s.changeLock(ctx, name, func(w *workspace) error {
		if held := s.holds(w); held != nil {
			return &journal.Held{Holder: *held}
		}
		s.held.set(name, info)
		return nil
	})
}

// Unlock releases a lock.
func (s *Store) Unlock(ctx context.Context, name, lockID string) error {
	return s.changeLock(ctx, name, func(w *workspace) error {
		if held := s.lock(w); held == nil || held.ID != lockID {
			return fmt.Errorf("%w: %s", journal.ErrLockID, lockID)
		}
		s.held.remove(name)
		return nil
	})
}

// Locked returns the lock, or nil.
func (s *Store) Locked(ctx context.Context, name string) (held *journal.LockInfo, err error) {
	err = s.read(ctx, func(tx *recorded.Tx) error {
		w, err := s.workspace(tx, name)
		if err == nil {
			held = s.lock(w)
		}
		return err
	})
	return held, err
}

// Mark returns the content of the snapshot when it last agreed with the store.
func (s *Store) Mark(ctx context.Context, name string) (m journal.SnapshotMark, err error) {
	if err := s.unlock(ctx); err != nil {
		return m, err
	}
	err = s.read(ctx, func(tx *recorded.Tx) error {
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
	return s.write(ctx, func(tx *recorded.Tx) error {
		w, err := s.workspace(tx, name)
		if err != nil {
			return err
		}
		return w.own.put(markKey, data)
	})
}
