package service

import (
	"encoding/json"
	"time"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
)

// Lock locks a workspace for the actor: nobody else can change its state, and no run starts. The error is
// ErrConflict if the workspace is locked already, even by the same actor: a user may work in two terminals.
func (s *Workspaces) Lock(a *rights.Actor, id, reason string) (v *WorkspaceView, err error) {
	return s.changeLock(a, "workspace.lock", id, rights.Lock, func(tx *store.Tx, w *record.Workspace,
		_ record.Permissions) error {
		if w.Lock.Held() {
			return tables.Conflict("%s", tables.LockedBy(tx, w))
		}
		w.Lock = record.Lock{Kind: a.LockKind(), ID: a.ID(), Reason: reason, At: s.now().UTC()}
		return nil
	})
}

// Unlock removes the actor's own lock.
func (s *Workspaces) Unlock(a *rights.Actor, id string) (v *WorkspaceView, err error) {
	return s.changeLock(a, "workspace.unlock", id, rights.Lock, func(tx *store.Tx, w *record.Workspace,
		_ record.Permissions) error {
		switch {
		case !w.Lock.Held():
			return tables.Conflict("the workspace is not locked")
		case w.Lock.Kind != a.LockKind() || w.Lock.ID != a.ID():
			return tables.Conflict("%s", tables.LockedBy(tx, w))
		}
		w.Lock = record.Lock{}
		return nil
	})
}

// ForceUnlock removes another actor's lock. The lock of a run cannot be removed; cancel the run instead.
func (s *Workspaces) ForceUnlock(a *rights.Actor, id string) (v *WorkspaceView, err error) {
	return s.changeLock(a, "workspace.force-unlock", id, rights.Administer, func(tx *store.Tx, w *record.Workspace,
		_ record.Permissions) error {
		switch {
		case !w.Lock.Held():
			return tables.Conflict("the workspace is not locked")
		case w.Lock.Kind == "run":
			return tables.Conflict("%s: cancel or discard the run", tables.LockedBy(tx, w))
		}
		w.Lock = record.Lock{}
		return nil
	})
}

func (s *Workspaces) changeLock(a *rights.Actor, action, id string, n rights.Right,
	change func(*store.Tx, *record.Workspace, record.Permissions) error,
) (v *WorkspaceView, err error) {
	err = s.audit.Change(a, action, id, func(tx *store.Tx) error {
		w, p, err := a.Workspace(tx, id)
		if err != nil {
			return err
		}
		if !n.Has(p) {
			return tables.Forbidden("you are not allowed to %s", n.What)
		}
		if err := change(tx, w, p); err != nil {
			return err
		}
		v = &WorkspaceView{*w, p}
		tx.After(s.queue.Wake)
		s.tellAfter(tx, w)
		return tables.Workspaces.Put(tx, w)
	})
	return v, err
}

// ForeignLock is a lock in the protocol of the http backend: the client's description of itself, and the lock's
// ID from it.
type ForeignLock struct {
	ID   string
	Info []byte
}

// LockForeign locks a workspace for a client of the http backend. A repeated request for the same lock
// succeeds, because the client may have lost the first response.
func (s *Workspaces) LockForeign(a *rights.Actor, id string, l ForeignLock) error {
	_, err := s.changeLock(a, "state.lock", id, rights.Lock, func(tx *store.Tx, w *record.Workspace,
		_ record.Permissions) error {
		switch {
		case w.Lock.Held() && w.Lock.ForeignID == l.ID && w.Lock.ID == a.ID():
			return nil
		case w.Lock.Held():
			return &tables.Locked{Holder: holderInfo(tx, w)}
		}
		w.Lock = record.Lock{
			Kind: a.LockKind(), ID: a.ID(), At: s.now().UTC(), Foreign: l.Info, ForeignID: l.ID,
			Reason: "lock of a state over HTTP",
		}
		return nil
	})
	return err
}

// UnlockForeign removes a lock of the http backend, whoever holds it: the force-unlock of a client sends only
// the lock's ID. It succeeds if the workspace is not locked.
func (s *Workspaces) UnlockForeign(a *rights.Actor, id, lock string) error {
	_, err := s.changeLock(a, "state.unlock", id, rights.Lock, func(tx *store.Tx, w *record.Workspace,
		_ record.Permissions) error {
		switch {
		case !w.Lock.Held():
			return nil
		case w.Lock.ForeignID == "" || w.Lock.ForeignID != lock:
			return &tables.Locked{Holder: holderInfo(tx, w)}
		}
		w.Lock = record.Lock{}
		return nil
	})
	return err
}

// holderInfo returns the description of a workspace's lock in the form that clients of the http backend show.
func holderInfo(tx *store.Tx, w *record.Workspace) []byte {
	if len(w.Lock.Foreign) > 0 {
		return w.Lock.Foreign
	}
	who := w.Lock.ID
	if u, err := tables.Users.Get(tx, who); err == nil {
		who = u.Name
	}
	info, err := json.Marshal(map[string]string{
		"ID": w.Organization + "/" + w.Name, "Operation": w.Lock.Kind, "Info": tables.LockedBy(tx, w),
		"Who": who, "Version": "",
		"Created": w.Lock.At.Format(time.RFC3339Nano), "Path": w.Organization + "/" + w.Name,
	})
	if err != nil {
		panic(err) // strings can always be marshalled
	}
	return info
}
