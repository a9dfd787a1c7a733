package mem

import (
	"context"
	"fmt"
	"maps"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/locks"
)

// Changes under a request for locks of objects are applied to the state immediately, and recorded. When the
// request's version ends, they are applied to the last ended version: so a version has the changes of only one
// request.

// AskLocks records a request.
func (s *Store) AskLocks(ctx context.Context, name string, r locks.Request) error {
	return s.change(ctx, "AskLocks", name, func() error {
		w, err := s.workspace(name)
		if err != nil {
			return err
		}
		if had, _, is := s.disk.requests.Get(name, r.ID); is {
			if maps.Equal(had.Set, r.Set) {
				return nil
			}
			s.leave(w, name, r.ID)
		}
		if held, ok := s.locks[name]; ok {
			return &journal.Held{Holder: held}
		}
		if len(s.disk.requests.Requests(name)) == 0 {
			s.endVersion(w, false, "interrupted", "", "")
		}
		s.disk.requests.Ask(name, r)
		return nil
	})
}

// AwaitLocks blocks until a request is granted.
func (s *Store) AwaitLocks(ctx context.Context, name, id string) error {
	return s.disk.requests.Await(ctx, name, id)
}

// LeaveLocks withdraws a request.
func (s *Store) LeaveLocks(ctx context.Context, name, id string) error {
	return s.change(ctx, "LeaveLocks", name, func() error {
		w, err := s.workspace(name)
		if err == nil {
			s.leave(w, name, id)
		}
		return err
	})
}

func (s *Store) leave(w *workspace, name, id string) {
	r, _, is := s.disk.requests.Get(name, id)
	if !is {
		return
	}
	if len(w.noted[id]) > 0 {
		s.endRequest(w, r, "interrupted", r.Run)
	}
	s.disk.requests.Leave(name, id)
}

// LockRequests returns the requests.
func (s *Store) LockRequests(ctx context.Context, name string) ([]locks.Request, error) {
	return s.disk.requests.Requests(name), ctx.Err()
}

// LockBlockers returns why a request waits.
func (s *Store) LockBlockers(ctx context.Context, name, id string, most int) ([]locks.Blocker, error) {
	return s.disk.requests.Blockers(name, id, most), ctx.Err()
}

// LoadEnded returns the state of the last ended version.
func (s *Store) LoadEnded(ctx context.Context, name string) (st *state.State, err error) {
	err = s.look(ctx, func() error {
		w, err := s.workspace(name)
		if err == nil {
			st = w.last().Clone()
		}
		return err
	})
	return st, err
}

// endRequest ends the version of a request, if it has changed anything.
func (s *Store) endRequest(w *workspace, r locks.Request, cause, run string) {
	ended := w.last().Clone()
	ended.Apply(w.noted[r.ID]...)
	touched := w.notedTouched[r.ID]
	delete(w.noted, r.ID)
	delete(w.notedTouched, r.ID)
	if ended.SameContent(w.last()) && len(w.versions) > 0 {
		return
	}
	ended.Serial++
	if ended.Lineage == "" {
		ended.Lineage = s.newID()
	}
	ended.EngineVersion = s.opts.EngineVersion
	w.now.Serial, w.now.Lineage, w.now.EngineVersion = ended.Serial, ended.Lineage, ended.EngineVersion
	info := journal.VersionInfo{Serial: ended.Serial, Lineage: ended.Lineage, At: s.opts.Now().UTC(), Cause: cause,
		Run: run, Who: r.Who}
	w.versions = append(w.versions, version{info, ended, touched})
}

// commitShared makes changes under a request for locks.
func (s *Store) commitShared(w *workspace, r locks.Request, t journal.Commit, cause string) error {
	after := w.now.Clone()
	touched := applyTo(after, t.Changes)
	if err := s.refused(within(r, w.now, after, t)); err != nil {
		return err
	}
	if w.noted == nil {
		w.noted, w.notedTouched = map[string][]state.Change{}, map[string][]addr.Instance{}
	}
	w.noted[r.ID] = append(w.noted[r.ID], t.Changes...)
	w.notedTouched[r.ID] = append(w.notedTouched[r.ID], touched...)
	w.now = after
	if t.EndVersion || t.EndUnfinished && len(w.noted[r.ID]) > 0 {
		s.endRequest(w, r, cause, t.Run)
	}
	return nil
}

// within rejects changes of objects that are not locked.
func within(r locks.Request, before, after *state.State, t journal.Commit) error {
	refuse := func(o locks.Object) error {
		if r.Set.Writes(o) {
			return nil
		}
		return fmt.Errorf("%w: the run %s has not locked %s, which it changes", journal.ErrFenced, r.Run, o)
	}
	for _, c := range t.Changes {
		switch c := c.(type) {
		case state.SetChecks:
			if err := refuse(locks.All); err != nil {
				return err
			}
		case state.MergeChecks:
			if !t.EndVersion {
				return fmt.Errorf("%w: check results of the run %s come with its end", journal.ErrFenced, r.Run)
			}
			for _, config := range c.Owned {
				if err := refuse(locks.Check(config)); err != nil {
					return err
				}
			}
		}
	}
	for _, d := range state.Differences(before, after) {
		o := locks.Instance(d.Instance.String())
		switch {
		case d.Checks:
			continue
		case d.Output != "":
			o = locks.Output(d.Output)
		}
		if err := refuse(o); err != nil {
			return err
		}
	}
	for _, of := range []*state.State{before, after} {
		for abs := range of.Resources {
			if provider(before, abs) != provider(after, abs) {
				if err := refuse(locks.Resource(abs.String())); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func provider(s *state.State, abs addr.AbsResource) addr.ProviderConfig {
	if r := s.Resources[abs]; r != nil {
		return r.Provider
	}
	return addr.ProviderConfig{}
}
