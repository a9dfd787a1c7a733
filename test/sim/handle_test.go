package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
)

// handle is a process's access to the store of its site. Its calls wait at the gate of the disk.
type handle struct {
	*site
	p *process
}

var _ journal.Store = (*handle)(nil)

// write changes the store.
func (h *handle) write(ctx context.Context, name, key string, fn func() error) error {
	return h.p.do(ctx, disk, "store "+name, key, func(o *op) {
		if h.full && name != "Unlock" {
			o.reply(errFull)
			return
		}
		h.settle()
		o.reply(fn())
	})
}

// gone reports whether no process with the lock is left that could release it.
func (h *handle) gone(lock string) bool {
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	for _, p := range h.w.processes {
		if p.name == lock {
			return p.dead
		}
	}
	return true
}

func (h *handle) Commit(ctx context.Context, tx journal.Commit) error {
	kinds := ""
	for _, e := range tx.Events {
		kinds += fmt.Sprintf(" %d:%s", e.Vertex, e.Kind)
	}
	early := h.early(tx)
	return h.p.do(ctx, disk, "store Commit", kinds, func(o *op) {
		if h.full {
			o.reply(errFull)
			return
		}
		commit := func() error {
			tx.Fence = h.fence(tx.Fence)
			err := h.site.store.Commit(context.Background(), tx)
			h.w.mustNotDoubt(h.p, tx.Events)
			h.check()
			return err
		}
		if early {
			// The guard is disabled: the store confirms a write, and executes it a little later, which a crash prevents.
			h.late = append(h.late, commit)
			h.w.after(h.w.between(100*time.Millisecond, time.Second), func() {
				if !h.p.dead {
					h.settle()
				}
			})
			o.reply(nil)
			return
		}
		h.settle()
		o.reply(commit())
	})
}

// fence returns the lock of a write. If the guard is disabled, it returns the current lock, even that of another
// process.
func (h *handle) fence(lockID string) string {
	if h.w.options.without == guardFence {
		lockID = ""
		if held, _ := h.site.store.Locked(context.Background(), "default"); held != nil {
			lockID = held.ID
		}
	}
	return lockID
}

// early reports whether the store returns before the transaction is durable, because the guard against that is
// disabled.
func (h *handle) early(tx journal.Commit) bool {
	for _, e := range tx.Events {
		switch e.Kind {
		case journal.Dispatch:
			if h.w.options.without == guardIntent {
				return true
			}
		case journal.Finish, journal.Fail, journal.Step:
			if h.w.options.without == guardCommit && e.Attempt != "" {
				return true
			}
		}
	}
	return false
}

// settle executes the writes that were confirmed too early.
func (s *site) settle() {
	list := s.late
	s.late = nil
	for _, fn := range list {
		_ = fn()
	}
}

func (h *handle) Workspaces(ctx context.Context) ([]string, error) {
	return h.site.store.Workspaces(ctx)
}
func (h *handle) CreateWorkspace(context.Context, string) error { panic("sim: not called") }
func (h *handle) DeleteWorkspace(context.Context, string) error { panic("sim: not called") }

func (h *handle) Load(ctx context.Context, ws string) (*state.State, error) {
	st, err := h.site.store.Load(ctx, ws)
	if err == nil && h.w.options.without == guardRecorded {
		forgetDependencies(st)
	}
	return st, err
}

// forgetDependencies removes the dependencies of objects from a state.
func forgetDependencies(st *state.State) {
	alone := func(o *state.Object) *state.Object {
		if o == nil {
			return nil
		}
		forgetful := *o
		forgetful.Dependencies = nil
		return &forgetful
	}
	for _, r := range st.Resources {
		for _, i := range r.Instances {
			i.Current = alone(i.Current)
			for k, o := range i.Deposed {
				i.Deposed[k] = alone(o)
			}
		}
	}
}

func (h *handle) Replace(context.Context, string, string, *state.State, journal.Cause) error {
	panic("sim: not called")
}

func (h *handle) Versions(ctx context.Context, ws string) ([]journal.VersionInfo, error) {
	return h.site.store.Versions(ctx, ws)
}

func (h *handle) LoadVersion(ctx context.Context, ws string, serial uint64) (*state.State, error) {
	return h.site.store.LoadVersion(ctx, ws, serial)
}

func (h *handle) LoadExactly(ctx context.Context, ws string, v journal.VersionInfo) (*state.State, error) {
	return h.site.store.LoadExactly(ctx, ws, v)
}

func (h *handle) Since(ctx context.Context, ws, lineage string, serial uint64) ([]journal.Difference, error) {
	return h.site.store.Since(ctx, ws, lineage, serial)
}

func (h *handle) Reads(ctx context.Context, ws string) (journal.Reads, error) {
	return h.site.store.Reads(ctx, ws)
}

func (h *handle) NoteReads(ctx context.Context, ws string, at time.Time, all bool, list []string) error {
	return h.write(ctx, "NoteReads", "", func() error {
		return h.site.store.NoteReads(context.Background(), ws, at, all, list)
	})
}

func (h *handle) Verdicts(ctx context.Context, ws string) (map[string]journal.Verdict, error) {
	return h.site.store.Verdicts(ctx, ws)
}

func (h *handle) NoteVerdicts(ctx context.Context, ws string, list map[string]journal.Verdict) error {
	return h.write(ctx, "NoteVerdicts", "", func() error {
		return h.site.store.NoteVerdicts(context.Background(), ws, list)
	})
}

func (h *handle) Lock(ctx context.Context, ws string, info journal.LockInfo) error {
	return h.write(ctx, "Lock", "", func() error { return h.site.store.Lock(context.Background(), ws, info) })
}

func (h *handle) Unlock(ctx context.Context, ws, id string) error {
	return h.write(ctx, "Unlock", id, func() error { return h.site.store.Unlock(context.Background(), ws, id) })
}

func (h *handle) Locked(ctx context.Context, ws string) (*journal.LockInfo, error) {
	return h.site.store.Locked(ctx, ws)
}

func (h *handle) Mark(ctx context.Context, ws string) (journal.SnapshotMark, error) {
	return h.site.store.Mark(ctx, ws)
}

func (h *handle) SetMark(context.Context, string, journal.SnapshotMark) error {
	panic("sim: not called")
}

func (h *handle) BeginRun(ctx context.Context, lockID string, r journal.Run, text []byte) error {
	return h.write(ctx, "BeginRun", r.ID, func() error {
		return h.site.store.BeginRun(context.Background(),
			h.fence(lockID), r, text)
	})
}

func (h *handle) EndRun(ctx context.Context, lockID, id, status string, at time.Time) error {
	return h.write(ctx, "EndRun", id+" "+status, func() error {
		return h.site.store.EndRun(context.Background(),
			h.fence(lockID), id, status, at)
	})
}

func (h *handle) Runs(ctx context.Context, ws string) ([]journal.Run, error) {
	return h.site.store.Runs(ctx, ws)
}

func (h *handle) RunPlan(ctx context.Context, id string) (journal.Run, []byte, error) {
	return h.site.store.RunPlan(ctx, id)
}

func (h *handle) Events(ctx context.Context, id string) ([]journal.Event, error) {
	return h.site.store.Events(ctx, id)
}

func (h *handle) PutValue(ctx context.Context, bucket, key string, value []byte) error {
	return h.write(ctx, "PutValue", bucket+" "+key, func() error {
		return h.site.store.PutValue(context.Background(),
			bucket, key, value)
	})
}

func (h *handle) PutHint(ctx context.Context, bucket, key string, value []byte) error {
	return h.PutValue(ctx, bucket, key, value)
}

func (h *handle) GetValue(ctx context.Context, bucket, key string) ([]byte, error) {
	return h.site.store.GetValue(ctx, bucket, key)
}

func (h *handle) Close() error { return nil }
