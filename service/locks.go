package service

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
)

// lockedBy says who has the lock of a workspace, in the words that clients look for.
func lockedBy(tx *store.Tx, w *record.Workspace) string {
	l := w.Lock
	name := l.ID
	switch l.Kind {
	case "run":
		return "the workspace is locked by Run " + l.ID
	case "team":
		if t, err := teams.Get(tx, l.ID); err == nil {
			name = t.Name
		}
		return "the workspace is locked by Team " + name
	}
	if u, err := users.Get(tx, l.ID); err == nil {
		name = u.Name
	}
	text := "the workspace is locked by User " + name
	if l.Reason != "" {
		text += fmt.Sprintf(" (%s)", l.Reason)
	}
	return text
}

// kind returns how the actor holds a lock.
func (a *Actor) kind() string {
	if a.Token.Kind == record.TokenUser {
		return "user"
	}
	return "team"
}

// Lock locks a workspace for the actor: nobody else changes its state, and no run starts. The error is ErrConflict when
// it is locked, by the same actor too: two terminals of one user are two.
func (s *Service) Lock(a *Actor, id, reason string) (v *WorkspaceView, err error) {
	return s.changeLock(a, "workspace.lock", id, needLock, func(tx *store.Tx, w *record.Workspace,
		_ record.Permissions) error {
		if w.Lock.Held() {
			return conflict("%s", lockedBy(tx, w))
		}
		w.Lock = record.Lock{Kind: a.kind(), ID: a.ID(), Reason: reason, At: s.now().UTC()}
		return nil
	})
}

// Unlock takes the actor's own lock away.
func (s *Service) Unlock(a *Actor, id string) (v *WorkspaceView, err error) {
	return s.changeLock(a, "workspace.unlock", id, needLock, func(tx *store.Tx, w *record.Workspace,
		_ record.Permissions) error {
		switch {
		case !w.Lock.Held():
			return conflict("the workspace is not locked")
		case w.Lock.Kind != a.kind() || w.Lock.ID != a.ID():
			return conflict("%s", lockedBy(tx, w))
		}
		w.Lock = record.Lock{}
		return nil
	})
}

// ForceUnlock takes the lock of somebody else away, but not that of a run: a run is canceled.
func (s *Service) ForceUnlock(a *Actor, id string) (v *WorkspaceView, err error) {
	return s.changeLock(a, "workspace.force-unlock", id, needAdmin, func(tx *store.Tx, w *record.Workspace,
		_ record.Permissions) error {
		switch {
		case !w.Lock.Held():
			return conflict("the workspace is not locked")
		case w.Lock.Kind == "run":
			return conflict("%s: cancel or discard the run", lockedBy(tx, w))
		}
		w.Lock = record.Lock{}
		return nil
	})
}

func (s *Service) changeLock(a *Actor, action, id string, n need,
	change func(*store.Tx, *record.Workspace, record.Permissions) error,
) (v *WorkspaceView, err error) {
	err = s.audited(a, action, id, func(tx *store.Tx) error {
		w, p, err := a.workspace(tx, id)
		if err != nil {
			return err
		}
		if !n.has(p) {
			return forbidden("you are not allowed to %s", n.what)
		}
		if err := change(tx, w, p); err != nil {
			return err
		}
		v = &WorkspaceView{*w, p}
		tx.After(s.queue.wake)
		s.tellAfter(tx, w)
		return workspaces.Put(tx, w)
	})
	return v, err
}

// ForeignLock is a lock in the protocol of the http backend: what a client said of itself, and the ID in it.
type ForeignLock struct {
	ID   string
	Info []byte
}

// Locked is returned, as an error, with the lock that is in the way.
type Locked struct{ Holder []byte }

func (l *Locked) Error() string { return "the state is locked" }

// Unwrap returns the condition.
func (l *Locked) Unwrap() error { return ErrConflict }

// LockForeign locks a workspace for a client of the http backend. The same lock again is granted: its answer may have
// been lost.
func (s *Service) LockForeign(a *Actor, id string, l ForeignLock) error {
	_, err := s.changeLock(a, "state.lock", id, needLock, func(tx *store.Tx, w *record.Workspace,
		_ record.Permissions) error {
		switch {
		case w.Lock.Held() && w.Lock.ForeignID == l.ID && w.Lock.ID == a.ID():
			return nil
		case w.Lock.Held():
			return &Locked{holderInfo(tx, w)}
		}
		w.Lock = record.Lock{
			Kind: a.kind(), ID: a.ID(), At: s.now().UTC(), Foreign: l.Info, ForeignID: l.ID,
			Reason: "lock of a state over HTTP",
		}
		return nil
	})
	return err
}

// UnlockForeign takes such a lock away, of whoever it is: force-unlock knows no more than the ID. What is not locked is
// unlocked.
func (s *Service) UnlockForeign(a *Actor, id, lock string) error {
	_, err := s.changeLock(a, "state.unlock", id, needLock, func(tx *store.Tx, w *record.Workspace,
		_ record.Permissions) error {
		switch {
		case !w.Lock.Held():
			return nil
		case w.Lock.ForeignID == "" || w.Lock.ForeignID != lock:
			return &Locked{holderInfo(tx, w)}
		}
		w.Lock = record.Lock{}
		return nil
	})
	return err
}

// holderInfo is the lock of a workspace as clients of the http backend show it.
func holderInfo(tx *store.Tx, w *record.Workspace) []byte {
	if len(w.Lock.Foreign) > 0 {
		return w.Lock.Foreign
	}
	who := w.Lock.ID
	if u, err := users.Get(tx, who); err == nil {
		who = u.Name
	}
	info, err := json.Marshal(map[string]string{
		"ID": w.Organization + "/" + w.Name, "Operation": w.Lock.Kind, "Info": lockedBy(tx, w),
		"Who": who, "Version": "",
		"Created": w.Lock.At.Format(time.RFC3339Nano), "Path": w.Organization + "/" + w.Name,
	})
	if err != nil {
		panic(err) // strings alone
	}
	return info
}
