// Package mem stores states and journals in memory: for the test command, and as the in-memory twin of state/bolt
// in tests.
//
// It has hooks that inject failures, and can simulate a crash. Nothing survives the process.
package mem

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/locks"
)

// Hooks inject failures into methods. They are called with the method's name and the workspace, or the run if the
// method has no workspace, and without holding a lock. Nil hooks do nothing.
type Hooks struct {
	// Before is called before a change. Its error is returned, and nothing is changed.
	Before func(method, of string) error
	// After is called after a change has become durable. Its error is returned, so that the caller does not learn
	// of the change.
	After func(method, of string) error
	// Fence is called with the refusal of a change because of its lock, while the store is locked. Its result
	// replaces the refusal; if it is nil, the change is made.
	Fence func(refusal error) error
}

// Options are the options of a store. Zero fields mean the default.
type Options struct {
	Now           func() time.Time // default: always the zero time
	NewID         func() string    // makes lineages; default: "lineage-1", "lineage-2"...
	EngineVersion string
	Hooks         Hooks
}

// Store is a journal.Store in memory. Safe for concurrent use.
type Store struct {
	opts Options

	mu     sync.Mutex // guards the fields below, and the data to which disk points
	disk   *disk
	locks  map[string]journal.LockInfo // by workspace; those of an earlier session are gone
	closed bool
}

var _ journal.Store = (*Store)(nil)

// disk is the part that survives a crash.
type disk struct {
	workspaces map[string]*workspace
	runs       map[string]*run
	values     map[[2]string][]byte
	requests   *locks.Tables
	lineages   int
}

type workspace struct {
	now      *state.State // with the serial and lineage of the last ended version
	versions []version
	mark     journal.SnapshotMark
	reads    journal.Reads
	verdicts map[string]journal.Verdict
	noted    map[string][]state.Change // by request: changes since its last version ended
	// touched are the instances that the version in progress has changed, notedTouched those of requests.
	touched      []addr.Instance
	notedTouched map[string][]addr.Instance
}

type version struct {
	info    journal.VersionInfo
	s       *state.State
	touched []addr.Instance // that it has changed, or changed and changed back
}

type run struct {
	journal.Run
	plan   []byte
	events []journal.Event
}

// New returns an empty store.
func New(o Options) *Store {
	d := &disk{workspaces: map[string]*workspace{}, runs: map[string]*run{}, values: map[[2]string][]byte{},
		requests: &locks.Tables{}}
	d.workspaces[journal.DefaultWorkspace] = newWorkspace()
	return open(d, o)
}

func open(d *disk, o Options) *Store {
	if o.Now == nil {
		o.Now = func() time.Time { return time.Time{} }
	}
	return &Store{opts: o, disk: d, locks: map[string]journal.LockInfo{}}
}

func newWorkspace() *workspace { return &workspace{now: state.Empty()} }

// Reopen returns the store as a new process finds it, after a close or a crash. This one is closed.
func (s *Store) Reopen() *Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return open(s.disk, s.opts)
}

// Close closes the store.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// change calls f between the hooks.
func (s *Store) change(ctx context.Context, method, of string, f func() error) error {
	if h := s.opts.Hooks.Before; h != nil {
		if err := h(method, of); err != nil {
			return err
		}
	}
	if err := s.look(ctx, f); err != nil {
		return err
	}
	if h := s.opts.Hooks.After; h != nil {
		return h(method, of)
	}
	return nil
}

// look calls f with the lock held.
func (s *Store) look(ctx context.Context, f func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return journal.ErrClosed
	}
	return f()
}

func (s *Store) workspace(name string) (*workspace, error) {
	w := s.disk.workspaces[name]
	if w == nil {
		return nil, fmt.Errorf("workspace %q: %w", name, journal.ErrNoWorkspace)
	}
	return w, nil
}

// Workspaces lists the workspaces, sorted.
func (s *Store) Workspaces(ctx context.Context) (names []string, err error) {
	err = s.look(ctx, func() error {
		names = slices.Sorted(maps.Keys(s.disk.workspaces))
		return nil
	})
	return names, err
}

// CreateWorkspace creates an empty workspace.
func (s *Store) CreateWorkspace(ctx context.Context, name string) error {
	return s.change(ctx, "CreateWorkspace", name, func() error {
		if s.disk.workspaces[name] != nil {
			return fmt.Errorf("workspace %q: %w", name, journal.ErrWorkspaceExists)
		}
		s.disk.workspaces[name] = newWorkspace()
		return nil
	})
}

// DeleteWorkspace removes a workspace with its earlier versions and its runs, unless it is locked.
func (s *Store) DeleteWorkspace(ctx context.Context, name string) error {
	return s.change(ctx, "DeleteWorkspace", name, func() error {
		if name == journal.DefaultWorkspace {
			return journal.ErrDefaultWorkspace
		}
		if _, err := s.workspace(name); err != nil {
			return err
		}
		if held := s.held(name); held != nil {
			return &journal.Held{Holder: *held}
		}
		delete(s.disk.workspaces, name)
		maps.DeleteFunc(s.disk.runs, func(_ string, r *run) bool { return r.Workspace == name })
		return nil
	})
}

// Load returns the current state.
func (s *Store) Load(ctx context.Context, name string) (st *state.State, err error) {
	err = s.look(ctx, func() error {
		w, err := s.workspace(name)
		if err == nil {
			st = w.now.Clone()
		}
		return err
	})
	return st, err
}

// Commit makes state changes and events durable together.
func (s *Store) Commit(ctx context.Context, t journal.Commit) error {
	return s.change(ctx, "Commit", t.Workspace, func() error {
		w, err := s.workspace(t.Workspace)
		if err != nil {
			return err
		}
		idle := len(t.Changes)+len(t.Events) == 0 && !t.EndVersion
		_, _, own := s.disk.requests.Get(t.Workspace, t.Fence)
		if idle && !own && len(s.disk.requests.Requests(t.Workspace)) > 0 {
			return nil
		}
		request, err := s.fence(t.Workspace, t.Fence)
		if err != nil {
			return err
		}
		r := s.disk.runs[t.Run]
		if r == nil && t.Run != "" && (len(t.Events) > 0 || t.End != nil ||
			(t.EndVersion || t.EndUnfinished) && t.Cause == "") {
			return fmt.Errorf("run %s: %w", t.Run, journal.ErrNoRun)
		}
		cause := t.Cause
		if cause == "" && r != nil {
			cause = r.Command
		}
		before := w.instances()
		if request != nil {
			if err := s.commitShared(w, *request, t, cause); err != nil {
				return err
			}
		} else {
			w.touched = append(w.touched, applyTo(w.now, t.Changes)...)
		}
		w.forget(before)
		if (t.EndVersion || t.EndUnfinished) && request == nil {
			who := ""
			if t.EndVersion {
				who = s.locks[t.Workspace].Who
			}
			s.endVersion(w, t.EndVersion, cause, t.Run, who)
		}
		if r != nil {
			r.events = append(r.events, t.Events...)
		}
		if t.End != nil {
			s.endRun(r, *t.End)
		}
		return nil
	})
}

// Replace stores a whole state as a new version.
func (s *Store) Replace(ctx context.Context, name, lockID string, st *state.State, cause journal.Cause) error {
	return s.change(ctx, "Replace", name, func() error {
		w, err := s.workspace(name)
		if err != nil {
			return err
		}
		request, err := s.fence(name, lockID)
		if err == nil && request != nil {
			err = fmt.Errorf("%w: %s is for objects, and does not put a whole state", journal.ErrFenced, lockID)
		}
		if err != nil {
			return err
		}
		s.endVersion(w, false, "before "+cause.Text, "", "")
		before := w.instances()
		w.now = st.Clone()
		w.forget(before)
		who := ""
		if !cause.Elsewhere {
			who = s.locks[name].Who
		}
		s.end(w, cause.Text, "", who)
		return nil
	})
}

// last returns the last ended version.
func (w *workspace) last() *state.State {
	if len(w.versions) == 0 {
		return state.Empty()
	}
	return w.versions[len(w.versions)-1].s
}

// endVersion ends the version in progress, unless its changes cancel each other out. The first one ends even then,
// if that was requested.
func (s *Store) endVersion(w *workspace, asked bool, cause, run, who string) {
	if w.now.SameContent(w.last()) && !(asked && len(w.versions) == 0) {
		w.touched = nil
		return
	}
	w.now.Serial++
	if w.now.Lineage == "" {
		w.now.Lineage = s.newID()
	}
	w.now.EngineVersion = s.opts.EngineVersion
	s.end(w, cause, run, who)
}

func (s *Store) end(w *workspace, cause, run, who string) {
	info := journal.VersionInfo{Serial: w.now.Serial, Lineage: w.now.Lineage, At: s.opts.Now().UTC(), Cause: cause,
		Run: run, Who: who}
	w.versions = append(w.versions, version{info, w.now.Clone(), w.touched})
	w.touched = nil
}

func (s *Store) newID() string {
	if s.opts.NewID != nil {
		return s.opts.NewID()
	}
	s.disk.lineages++
	return "lineage-" + strconv.Itoa(s.disk.lineages)
}

// Versions lists the ended versions, newest first.
func (s *Store) Versions(ctx context.Context, name string) (list []journal.VersionInfo, err error) {
	err = s.look(ctx, func() error {
		w, err := s.workspace(name)
		if err != nil {
			return err
		}
		for _, v := range slices.Backward(w.versions) {
			list = append(list, v.info)
		}
		return nil
	})
	return list, err
}

// LoadVersion returns an earlier version.
func (s *Store) LoadVersion(ctx context.Context, name string, serial uint64) (st *state.State, err error) {
	err = s.look(ctx, func() error {
		w, err := s.workspace(name)
		if err != nil {
			return err
		}
		for _, v := range slices.Backward(w.versions) {
			if v.info.Serial == serial {
				st = v.s.Clone()
				return nil
			}
		}
		return fmt.Errorf("serial %d of workspace %q: %w", serial, name, journal.ErrVersion)
	})
	return st, err
}

// LoadExactly returns the earlier version with this lineage, serial and time.
func (s *Store) LoadExactly(ctx context.Context, name string, info journal.VersionInfo) (st *state.State, err error) {
	err = s.look(ctx, func() error {
		w, err := s.workspace(name)
		if err != nil {
			return err
		}
		for _, v := range slices.Backward(w.versions) {
			if v.info.Serial == info.Serial && v.info.Lineage == info.Lineage && v.info.At.Equal(info.At) {
				st = v.s.Clone()
				return nil
			}
		}
		return fmt.Errorf("serial %d of workspace %q from %s: %w", info.Serial, name, info.At, journal.ErrVersion)
	})
	return st, err
}

// Mark returns the content of the snapshot when it last agreed with the store.
func (s *Store) Mark(ctx context.Context, name string) (m journal.SnapshotMark, err error) {
	err = s.look(ctx, func() error {
		w, err := s.workspace(name)
		if err == nil {
			m = w.mark
		}
		return err
	})
	return m, err
}

// SetMark records the content of the snapshot.
func (s *Store) SetMark(ctx context.Context, name string, m journal.SnapshotMark) error {
	return s.change(ctx, "SetMark", name, func() error {
		w, err := s.workspace(name)
		if err == nil {
			w.mark = m
		}
		return err
	})
}

// PutValue stores a value.
func (s *Store) PutValue(ctx context.Context, bucket, key string, value []byte) error {
	return s.change(ctx, "PutValue", bucket, func() error {
		s.disk.values[[2]string{bucket, key}] = append([]byte{}, value...)
		return nil
	})
}

// PutHint stores a value.
func (s *Store) PutHint(ctx context.Context, bucket, key string, value []byte) error {
	return s.PutValue(ctx, bucket, key, value)
}

// GetValue returns a value, nil when there is none.
func (s *Store) GetValue(ctx context.Context, bucket, key string) (value []byte, err error) {
	err = s.look(ctx, func() error {
		value = slices.Clone(s.disk.values[[2]string{bucket, key}])
		return nil
	})
	return value, err
}
