package sim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/bolt"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/locks"
	"github.com/millipede-iac/millipede/state/mem"
	"github.com/millipede-iac/millipede/state/tfstate"
)

// teamStore is the store as the service uses it. It reports all changes to the ledger.
type teamStore struct {
	*handle
	team *team
}

// CopyTo implements layout.Source.
func (h *teamStore) CopyTo(context.Context, string) error { panic("sim: not called") }

// Split implements estate.Store.
func (h *teamStore) Split(func(string) string) error { panic("sim: not called") }

// Unlock passes the gate under a name without the ID of the lock, which differs from one simulation to the next.
func (h *teamStore) Unlock(ctx context.Context, ws, id string) error {
	return h.write(ctx, "Unlock", "", func() error { return h.site.store.Unlock(context.Background(), ws, id) })
}

func (h *teamStore) SetMark(ctx context.Context, ws string, m journal.SnapshotMark) error {
	return h.write(ctx, "SetMark", "", func() error { return h.site.store.SetMark(context.Background(), ws, m) })
}

func (h *teamStore) AskLocks(ctx context.Context, ws string, r locks.Request) error {
	return h.write(ctx, "AskLocks", r.ID, func() error {
		var jumped []locks.Request
		if h.w.options.without == guardOrder {
			jumped = h.jump(r)
		}
		err := h.site.store.AskLocks(context.Background(), ws, r)
		if err == nil {
			h.team.ledger.asks(r)
		}
		for _, q := range jumped {
			err = errors.Join(err, h.site.store.AskLocks(context.Background(), ws, q))
		}
		return err
	})
}

// jump withdraws the waiting requests that a request would have to wait for: it disables the guard that no request
// overtakes one with which it is in conflict.
func (h *teamStore) jump(r locks.Request) (list []locks.Request) {
	for _, a := range h.team.ledger.line {
		if a.granted || a.ID == r.ID || h.isGranted(a.ID) {
			continue
		}
		list = append(list, a.Request)
		if err := h.site.store.LeaveLocks(context.Background(), "default", a.ID); err != nil {
			panic(err)
		}
	}
	return list
}

func (h *teamStore) isGranted(id string) bool {
	list, err := h.site.store.LockBlockers(context.Background(), "default", id, 1)
	if err != nil {
		panic(err)
	}
	return len(list) == 0
}

func (h *teamStore) AwaitLocks(ctx context.Context, ws, id string) error {
	if err := h.site.store.AwaitLocks(ctx, ws, id); err != nil {
		return err
	}
	return h.p.do(ctx, local, "has locks", id, func(o *op) {
		h.team.ledger.grants(id)
		o.reply(nil)
	})
}

func (h *teamStore) LeaveLocks(ctx context.Context, ws, id string) error {
	return h.write(ctx, "LeaveLocks", id, func() error {
		err := h.site.store.LeaveLocks(context.Background(), ws, id)
		if err == nil {
			h.team.ledger.leaves(id)
		}
		return err
	})
}

func (h *teamStore) LoadEnded(ctx context.Context, ws string) (st *state.State, err error) {
	err = h.p.do(ctx, local, "loads", "", func(o *op) {
		if st, err = h.site.store.LoadEnded(context.Background(), ws); err == nil {
			h.team.ledger.read(st)
		}
		o.reply(err)
	})
	return st, err
}

func (h *teamStore) BeginRun(ctx context.Context, lockID string, r journal.Run, text []byte) error {
	return h.write(ctx, "BeginRun", r.ID, func() error {
		if run := h.team.runs[lockID]; run != nil {
			run.journal = r.ID
		}
		return h.site.store.BeginRun(context.Background(), lockID, r, text)
	})
}

func (h *teamStore) EndRun(ctx context.Context, lockID, id, status string, at time.Time) error {
	return h.write(ctx, "EndRun", id+" "+status, func() error {
		if h.team.diesAfterEnd {
			h.team.diesAfterEnd = false
			h.w.after(h.w.between(time.Microsecond, 5*time.Millisecond), h.killNow)
		}
		return h.site.store.EndRun(context.Background(), lockID, id, status, at)
	})
}

func (h *teamStore) Commit(ctx context.Context, tx journal.Commit) error {
	kinds := ""
	if h.team.runs[tx.Fence] != nil {
		kinds = tx.Fence
	}
	for _, e := range tx.Events {
		kinds += fmt.Sprintf(" %d:%s", e.Vertex, e.Kind)
	}
	return h.p.do(ctx, disk, "store Commit", kinds, func(o *op) {
		switch {
		case h.full:
			o.reply(errFull)
		case h.team.diesInCommit:
			h.team.diesInCommit = false
			h.w.after(time.Microsecond, h.killNow)
			h.w.after(h.w.between(time.Second, time.Minute), func() { h.team.strays(tx) })
		default:
			o.reply(h.team.commit(tx))
		}
	})
}

// strays simulates a late write of a dead process, which a network file system executes after the process's locks were
// released. (A write whose locks are still held would be accepted: only the lock of the store's file prevents that two
// processes write to one store.)
func (t *team) strays(tx journal.Commit) {
	if t.ledger.find(tx.Fence) != nil || t.runs[tx.Fence] == nil {
		return
	}
	t.s.w.faults["team: late writes"]++
	t.s.w.note("a late write under %s", tx.Fence)
	if err := t.commit(tx); err == nil {
		t.ledger.violate("a late write under %s was accepted, although its locks had been released", tx.Fence)
	}
}

// commit commits in the store, and passes the commit to the ledger.
func (t *team) commit(tx journal.Commit) error {
	before, err := t.s.store.Load(context.Background(), tx.Workspace)
	if err != nil {
		panic(err)
	}
	err = t.s.store.Commit(context.Background(), tx)
	after, lerr := t.s.store.Load(context.Background(), tx.Workspace)
	if lerr != nil {
		panic(lerr)
	}
	t.s.check()
	t.ledger.commits(tx, before, after, err)
	return err
}

// openStore creates the store of a team, either in memory or the product's own in a file.
func (t *team) openStore() journal.Store {
	w := t.s.w
	if w.options.without == guardObjects {
		return mem.New(mem.Options{Now: time.Now, Hooks: mem.Hooks{Fence: func(error) error { return nil }}})
	}
	if t.chance.IntN(2) == 0 {
		return mem.New(mem.Options{Now: time.Now})
	}
	return t.openFile()
}

func (t *team) openFile() journal.Store {
	if err := os.MkdirAll(t.dir, 0o700); err != nil {
		panic(err)
	}
	ids := 0
	store, err := bolt.OpenOptions(filepath.Join(t.dir, "store.db"), journal.LockInfo{}, 0, bolt.Options{
		Now: time.Now, EngineVersion: "1.12.6", NoSync: true, // the real machine does not crash
		NewID: func() string { ids++; return fmt.Sprintf("id-%d-%d", t.s.life, ids) },
	})
	if err != nil {
		panic(err)
	}
	return store
}

// warmUp makes the store create its process-wide objects outside of all bubbles: objects that are created in one bubble
// cannot be used in another.
func warmUp() {
	dir, err := os.MkdirTemp("", "millipede-sim-")
	if err != nil {
		panic(err)
	}
	t := &team{s: &site{}, dir: dir}
	ctx := context.Background()
	for range 2 { // the second open also reads data
		store := t.openFile()
		err = errors.Join(err, store.AskLocks(ctx, "default", locks.Request{ID: "r"}), store.Close())
	}
	if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
		panic(err)
	}
}

// reopen closes and opens the store, like the start of a new process.
func (t *team) reopen() {
	if store, is := t.s.store.(*mem.Store); is {
		t.s.store = store.Reopen()
		return
	}
	if err := t.s.store.Close(); err != nil {
		panic(err)
	}
	t.s.store = t.openFile()
}

// teamBackend is the backend that stores the snapshot.
type teamBackend struct{ *service }

var _ backend.Backend = (*teamBackend)(nil)

var errBackend = errors.New("the backend does not respond")

func (b *teamBackend) Describe(string) backend.Description {
	return backend.Description{Where: "the team's", Form: tfstate.Compact}
}

func (b *teamBackend) Read(ctx context.Context, _ string) (data []byte, err error) {
	err = b.p.do(ctx, outside, "Read", "", func(o *op) {
		data = slices.Clone(b.snapshot)
		o.reply(nil)
	})
	return data, err
}

func (b *teamBackend) Write(ctx context.Context, _ string, data []byte) error {
	return b.p.do(ctx, outside, "Write", "", func(o *op) {
		w := b.s.w
		if w.odds(30) {
			w.faults["snapshot refused"]++
			o.reply(errBackend)
			return
		}
		b.snapshot = slices.Clone(data)
		b.ledger.pushes(data)
		o.reply(nil)
	})
}

func (b *teamBackend) Lock(context.Context, string, journal.LockInfo) (backend.Lock, error) {
	return backend.Lock{ID: "the service's"}, nil
}
func (b *teamBackend) Unlock(context.Context, string, string) error { return nil }
func (b *teamBackend) Workspaces(context.Context) ([]string, error) { return []string{"default"}, nil }
func (b *teamBackend) Create(context.Context, string) error         { return nil }
func (b *teamBackend) Delete(context.Context, string) error         { panic("sim: not called") }
