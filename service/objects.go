package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millipede-iac/millipede/service/queue"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/rights"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/service/turn"
	"github.com/millipede-iac/millipede/service/work"
)

const (
	// changeTerm is the time limit of a change of objects, without its wait for locks.
	changeTerm = 5 * time.Minute
	// MaxChangeWait is the longest wait for locks of a change of objects, in seconds.
	MaxChangeWait = 60
)

// Objects are the instances in a state that clients change one by one, while runs may change others.
type Objects struct {
	*shared
	engine      work.Engine
	phases      *phases
	queue       *queue.Queue
	transitions *transitions
}

// Change makes a change of a workspace whose runs lock objects. It returns when the change is a version of the
// state. The error is *Refused if runs have locked the objects, or have changed them since the version that the
// change was made for; another ErrConflict if the workspace is locked as a whole, or can only be changed as a whole:
// if its runs do not lock objects, or if it had no runs. If ctx ends, it does not wait for locks any more.
func (s *Objects) Change(ctx context.Context, a *rights.Actor, workspace string, c work.ObjectChange) error {
	if c.Wait < 0 || c.Wait > MaxChangeWait {
		return tables.Invalid("The wait must be between 0 and %d seconds", MaxChangeWait)
	}
	c.ID = tables.NewID("oc")
	c.Who = fmt.Sprintf("%s (%s)", a.Name(), c.Operation)
	j := &queue.Job{}
	r, err := s.beginChange(a, workspace, c, j)
	if err != nil {
		return err
	}
	defer s.queue.Free(c.ID, j)
	leaving, leave := context.WithTimeout(context.WithoutCancel(ctx), changeTerm+MaxChangeWait*time.Second)
	defer leave()
	stopping, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	s.queue.Stoppable(j, stop, leave)
	said := &work.Output{Most: maxSaid}
	_, err = s.phases.work(stopping, r, j, said, false, func(job *work.Job) (any, error) {
		job.Structured = false
		job.State = &runState{shared: s.shared, outlines: s.phases.outlines, run: *r, changer: a.ID()}
		job.Waits = func(string, string, string) {} // the run does not wait
		return nil, s.engine.ChangeObjects(leaving, job, c)
	})
	switch {
	case errors.Is(err, work.ErrReported):
		err = said.Problem()
	case errors.Is(err, work.ErrStopped):
		err = tables.Conflict("the request was canceled, or the service is shutting down; the state was not changed")
	case err != nil && !errors.Is(err, tables.ErrConflict):
		s.log.Error("cannot change objects of a state", "workspace", workspace, "error", err)
	}
	return errors.Join(err, s.endChange(r.Workspace))
}

// beginChange checks the rights of the actor, and returns the run whose configuration and variables say how the state
// is encrypted. From then on the workspace cannot be locked as a whole, and the end of the service waits for the
// job. The caller calls Free and endChange.
func (s *Objects) beginChange(a *rights.Actor, workspace string, c work.ObjectChange, j *queue.Job) (r *record.Run,
	err error) {
	q := s.queue
	taken := ""
	err = s.audit.Change(a, "state.change-objects", workspace, func(tx *store.Tx) error {
		w, err := a.Allowed(tx, workspace, rights.WriteState)
		switch {
		case err != nil:
			return err
		case !w.ObjectLocks:
			return tables.Conflict("runs of the workspace %s lock its whole state: lock the workspace to change it", w.Name)
		case w.Lock.Held() && (w.Lock.Kind != "run" || w.Lock.Reason != ""):
			return tables.Conflict("%s", tables.LockedBy(tx, w))
		}
		id := w.Lock.ID
		if newest := tables.Runs.Newest(tx, "workspace", 1, w.ID); id == "" && len(newest) > 0 {
			id = newest[0]
		}
		if id == "" {
			return tables.Conflict("the workspace %s had no runs yet: lock the workspace to change its state", w.Name)
		}
		if r, err = tables.Runs.Get(tx, id); err != nil {
			return err
		}
		if taken == "" { // this function may be called more than once
			if err := q.TakeChange(w.ID, c.ID, j); err != nil {
				return err
			}
			taken = w.ID
		}
		if w.Lock.Held() {
			return nil
		}
		w.Lock = record.Lock{Kind: "run", ID: r.ID, At: s.now().UTC()}
		s.tellAfter(tx, w)
		return tables.Workspaces.Put(tx, w)
	})
	if err != nil && taken != "" {
		q.EndChange(taken)
		q.Free(c.ID, j)
	}
	return r, err
}

// endChange releases the lock of the workspace, unless runs or other changes are in progress. If the service ends
// before, its next start does so.
func (s *Objects) endChange(workspace string) error {
	s.queue.EndChange(workspace)
	err := s.store.Update(func(tx *store.Tx) error {
		w, err := tables.Workspaces.Get(tx, workspace)
		if errors.Is(err, store.ErrNotFound) {
			return nil // it was deleted meanwhile
		}
		if err != nil || w.Lock.Kind != "run" || w.Lock.Reason != "" {
			return err
		}
		r, err := tables.Runs.Get(tx, w.Lock.ID)
		if err != nil || r.Status.Holds() && turn.Holds(r) {
			return err
		}
		if w.Lock, err = s.transitions.lockOfOthers(tx, w, r); err != nil {
			return err
		}
		s.tellAfter(tx, w)
		tx.After(s.queue.Wake)
		return tables.Workspaces.Put(tx, w)
	})
	return tables.Translated(err)
}
