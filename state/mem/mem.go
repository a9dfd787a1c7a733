// Package mem keeps states and journals in memory: those of the test command, and as the twin of state/bolt in tests.
//
// It has hooks that fail on purpose, and can be left as a crash leaves a store. Nothing survives the process.
package mem

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
)

// Hooks make methods fail. They are called with the method's name and the workspace, or the run where a method has
// none, without any lock held. Nil hooks do nothing.
type Hooks struct {
	// Before is called before a change. Its error is returned, and nothing is changed.
	Before func(method, of string) error
	// After is called when a change is durable. Its error is returned: the caller does not learn of the change.
	After func(method, of string) error
}

// Options are what a store takes from its surroundings. Zero fields mean the default.
type Options struct {
	Now           func() time.Time // default: always the zero time
	NewID         func() string    // makes lineages; default: "lineage-1", "lineage-2"...
	EngineVersion string
	Hooks         Hooks
}

// Store is a journal.Store in memory. Safe for concurrent use.
type Store struct {
	opts Options

	mu     sync.Mutex // guards what follows, and what disk points to
	disk   *disk
	locks  map[string]journal.LockInfo // by workspace; those of an earlier session are gone
	closed bool
}

var _ journal.Store = (*Store)(nil)

// disk is what survives a crash.
type disk struct {
	workspaces map[string]*workspace
	runs       map[string]*run
	values     map[[2]string][]byte
	lineages   int
}

type workspace struct {
	now      *state.State // with the serial and lineage of the version that ended last
	versions []version
	mark     journal.SnapshotMark
}

type version struct {
	info journal.VersionInfo
	s    *state.State
}

type run struct {
	journal.Run
	plan   []byte
	events []journal.Event
}

// New returns an empty store.
func New(o Options) *Store {
	d := &disk{workspaces: map[string]*workspace{}, runs: map[string]*run{}, values: map[[2]string][]byte{}}
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

// Reopen returns the store as a new process finds it, whether this one was closed or crashed. This one is closed.
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

// CreateWorkspace makes an empty workspace.
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
		if held, ok := s.locks[name]; ok {
			return &journal.Held{Holder: held}
		}
		delete(s.disk.workspaces, name)
		maps.DeleteFunc(s.disk.runs, func(_ string, r *run) bool { return r.Workspace == name })
		return nil
	})
}

// Load returns the state as it is now.
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
func (s *Store) Commit(ctx context.Context, name, lockID string, t journal.Tx) error {
	return s.change(ctx, "Commit", name, func() error {
		w, err := s.workspace(name)
		if err != nil {
			return err
		}
		if err := s.fence(name, lockID); err != nil {
			return err
		}
		r := s.disk.runs[t.Run]
		if r == nil && t.Run != "" && (len(t.Events) > 0 || (t.EndVersion || t.EndUnfinished) && t.Cause == "") {
			return fmt.Errorf("run %s: %w", t.Run, journal.ErrNoRun)
		}
		w.now.Apply(t.Changes...)
		if t.EndVersion || t.EndUnfinished {
			cause := t.Cause
			if cause == "" && r != nil {
				cause = r.Command
			}
			s.endVersion(w, t.EndVersion, cause)
		}
		if r != nil {
			r.events = append(r.events, t.Events...)
		}
		return nil
	})
}

// Replace puts a whole state as a new version.
func (s *Store) Replace(ctx context.Context, name, lockID string, st *state.State, cause string) error {
	return s.change(ctx, "Replace", name, func() error {
		w, err := s.workspace(name)
		if err != nil {
			return err
		}
		if err := s.fence(name, lockID); err != nil {
			return err
		}
		s.endVersion(w, false, "before "+cause)
		w.now = st.Clone()
		s.end(w, cause)
		return nil
	})
}

// last returns the version that ended last.
func (w *workspace) last() *state.State {
	if len(w.versions) == 0 {
		return state.Empty()
	}
	return w.versions[len(w.versions)-1].s
}

// endVersion ends the version that is being made, unless its changes come to nothing. The first one ends even then,
// if it was asked for.
func (s *Store) endVersion(w *workspace, asked bool, cause string) {
	if w.now.SameContent(w.last()) && !(asked && len(w.versions) == 0) {
		return
	}
	w.now.Serial++
	if w.now.Lineage == "" {
		w.now.Lineage = s.newID()
	}
	w.now.EngineVersion = s.opts.EngineVersion
	s.end(w, cause)
}

func (s *Store) end(w *workspace, cause string) {
	info := journal.VersionInfo{Serial: w.now.Serial, Lineage: w.now.Lineage, At: s.opts.Now().UTC(), Cause: cause}
	w.versions = append(w.versions, version{info, w.now.Clone()})
}

func (s *Store) newID() string {
	if s.opts.NewID != nil {
		return s.opts.NewID()
	}
	s.disk.lineages++
	return "lineage-" + strconv.Itoa(s.disk.lineages)
}

func (s *Store) fence(name, lockID string) error {
	held, ok := s.locks[name]
	switch {
	case ok && held.ID != lockID:
		return fmt.Errorf("%w: it is held by %s (%s, lock %s)", journal.ErrFenced, held.Who, held.Operation, held.ID)
	case !ok && lockID != "":
		return fmt.Errorf("%w: lock %s is not held any more", journal.ErrFenced, lockID)
	}
	return nil
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

// Lock locks a workspace.
func (s *Store) Lock(ctx context.Context, name string, info journal.LockInfo) error {
	return s.change(ctx, "Lock", name, func() error {
		if _, err := s.workspace(name); err != nil {
			return err
		}
		if held, ok := s.locks[name]; ok {
			return &journal.Held{Holder: held}
		}
		s.locks[name] = info
		return nil
	})
}

// Unlock gives up a lock.
func (s *Store) Unlock(ctx context.Context, name, lockID string) error {
	return s.change(ctx, "Unlock", name, func() error {
		if _, err := s.workspace(name); err != nil {
			return err
		}
		if held, ok := s.locks[name]; !ok || held.ID != lockID {
			return fmt.Errorf("%w: %s", journal.ErrLockID, lockID)
		}
		delete(s.locks, name)
		return nil
	})
}

// Locked returns the lock that is held, or nil.
func (s *Store) Locked(ctx context.Context, name string) (info *journal.LockInfo, err error) {
	err = s.look(ctx, func() error {
		if _, err := s.workspace(name); err != nil {
			return err
		}
		if held, ok := s.locks[name]; ok {
			info = &held
		}
		return nil
	})
	return info, err
}

// Mark returns what the snapshot held when it was last agreed with.
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

// SetMark notes what the snapshot holds.
func (s *Store) SetMark(ctx context.Context, name string, m journal.SnapshotMark) error {
	return s.change(ctx, "SetMark", name, func() error {
		w, err := s.workspace(name)
		if err == nil {
			w.mark = m
		}
		return err
	})
}

// PutValue keeps a value.
func (s *Store) PutValue(ctx context.Context, bucket, key string, value []byte) error {
	return s.change(ctx, "PutValue", bucket, func() error {
		s.disk.values[[2]string{bucket, key}] = append([]byte{}, value...)
		return nil
	})
}

// GetValue returns a value, nil when there is none.
func (s *Store) GetValue(ctx context.Context, bucket, key string) (value []byte, err error) {
	err = s.look(ctx, func() error {
		value = slices.Clone(s.disk.values[[2]string{bucket, key}])
		return nil
	})
	return value, err
}

// BeginRun records a run and the plan that it carries out.
func (s *Store) BeginRun(ctx context.Context, lockID string, r journal.Run, plan []byte) error {
	return s.change(ctx, "BeginRun", r.ID, func() error {
		if _, err := s.workspace(r.Workspace); err != nil {
			return err
		}
		if err := s.fence(r.Workspace, lockID); err != nil {
			return err
		}
		if s.disk.runs[r.ID] != nil {
			return fmt.Errorf("recording run %s: it exists already", r.ID)
		}
		s.disk.runs[r.ID] = &run{Run: r, plan: slices.Clone(plan)}
		return nil
	})
}

// EndRun records how a run ended, and forgets the oldest ended ones.
func (s *Store) EndRun(ctx context.Context, lockID, id, status string, at time.Time) error {
	return s.change(ctx, "EndRun", id, func() error {
		r := s.disk.runs[id]
		if r == nil {
			return fmt.Errorf("run %s: %w", id, journal.ErrNoRun)
		}
		if err := s.fence(r.Workspace, lockID); err != nil {
			return err
		}
		r.Status, r.Ended = status, at
		ended := slices.DeleteFunc(s.runsOf(r.Workspace), func(r journal.Run) bool { return r.Status == "running" })
		for i, r := range ended {
			if i >= journal.KeptRuns {
				delete(s.disk.runs, r.ID)
			}
		}
		return nil
	})
}

// Runs lists the runs of a workspace, newest first.
func (s *Store) Runs(ctx context.Context, name string) (runs []journal.Run, err error) {
	err = s.look(ctx, func() error {
		if _, err := s.workspace(name); err != nil {
			return err
		}
		runs = s.runsOf(name)
		return nil
	})
	return runs, err
}

func (s *Store) runsOf(name string) []journal.Run {
	var runs []journal.Run
	for _, r := range s.disk.runs {
		if r.Workspace == name {
			runs = append(runs, r.Run)
		}
	}
	slices.SortFunc(runs, func(a, b journal.Run) int {
		if c := b.Started.Compare(a.Started); c != 0 {
			return c
		}
		return strings.Compare(b.ID, a.ID)
	})
	return runs
}

// RunPlan returns a run and its plan.
func (s *Store) RunPlan(ctx context.Context, id string) (r journal.Run, plan []byte, err error) {
	err = s.run(ctx, id, func(found *run) { r, plan = found.Run, slices.Clone(found.plan) })
	return r, plan, err
}

// Events returns what happened in a run.
func (s *Store) Events(ctx context.Context, id string) (events []journal.Event, err error) {
	err = s.run(ctx, id, func(r *run) { events = slices.Clone(r.events) })
	return events, err
}

func (s *Store) run(ctx context.Context, id string, f func(*run)) error {
	return s.look(ctx, func() error {
		r := s.disk.runs[id]
		if r == nil {
			return fmt.Errorf("run %s: %w", id, journal.ErrNoRun)
		}
		f(r)
		return nil
	})
}
