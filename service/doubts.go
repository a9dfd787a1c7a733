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
	"github.com/millipede-iac/millipede/service/timelines"
	"github.com/millipede-iac/millipede/service/work"
)

const (
	// resolveTerm is the time limit of a resolution: it may have to wait for operations that a run has left
	// running.
	resolveTerm = 10 * time.Minute
	// maxSaid bounds the output of the engine during a resolution, or a change of objects, in bytes.
	maxSaid = 64 << 10
	// maxResolution bounds an address and an ID, in bytes.
	maxResolution = 4 << 10
)

// Doubts are operations of runs whose outcome is unknown. People state the outcomes.
type Doubts struct {
	*shared
	timelines   *timelines.Timelines
	workspaces  *Workspaces
	engine      work.Engine
	phases      *phases
	queue       *queue.Queue
	transitions *transitions
}

// Resolve records the outcomes of operations in doubt, as the actor states them. The actor needs the right to
// apply. The engine reads the objects with the configuration and the variables of the run that left the
// operations in doubt. Resolve returns when the state has the outcomes. The workspace is locked meanwhile; the
// error is ErrConflict if the workspace is locked already, or if the engine rejects a resolution: it then names the
// operations that are still in doubt, and the others are resolved. The work continues when ctx ends.
func (s *Doubts) Resolve(ctx context.Context, a *rights.Actor, workspace string, all ...work.Resolution) error {
	j := &queue.Job{}
	r, err := s.beginResolving(a, workspace, all, j)
	if err != nil {
		return err
	}
	defer s.queue.Free(resolving(r), j)
	leaving, leave := context.WithTimeout(context.WithoutCancel(ctx), resolveTerm)
	defer leave()
	stopping, stop := context.WithCancelCause(leaving)
	defer stop(nil)
	s.queue.Stoppable(j, stop, leave)
	failures := make([]error, len(all))
	for i, res := range all {
		failures[i] = s.resolve(leaving, stopping, r, j, a, res)
	}
	if err := s.endResolving(a, r, all, j, failures); err != nil {
		return err
	}
	return unresolved(all, failures)
}

// unresolved returns the error for the resolutions that have failed.
func unresolved(all []work.Resolution, failures []error) error {
	var failed []error
	for i, err := range failures {
		if err != nil && len(all) > 1 {
			err = fmt.Errorf("%s: %w", all[i].Address, err)
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// beginResolving checks the rights of the actor, and locks the workspace in the name of the run that left the
// doubt. From then on, the end of the service waits for the job. The caller calls Free.
func (s *Doubts) beginResolving(a *rights.Actor, workspace string, all []work.Resolution, j *queue.Job) (r *record.Run,
	err error) {
	q := s.queue
	taken := false
	err = s.audit.Change(a, "doubt.resolve", workspace, func(tx *store.Tx) error {
		w, err := a.Allowed(tx, workspace, rights.Apply)
		if err != nil {
			return err
		}
		if len(all) == 0 || len(all) > record.MaxDoubts {
			return tables.Invalid("State the outcome of 1 to %d operations", record.MaxDoubts)
		}
		for _, res := range all {
			if res.Address == "" || len(res.Address)+len(res.ID) > maxResolution {
				return tables.Invalid("Name the operation in doubt by the address of its object")
			}
		}
		if r, err = doubtedRun(tx, w); err != nil {
			return err
		}
		if w.Lock.Held() {
			return tables.Conflict("%s", tables.LockedBy(tx, w))
		}
		if !taken { // this function may be called more than once
			if err := q.Take(resolving(r), j); err != nil {
				return err
			}
			taken = true
		}
		w.Lock = record.Lock{Kind: "run", ID: r.ID, At: s.now().UTC(), Reason: "an operation in doubt is being resolved"}
		s.tellAfter(tx, w)
		for _, res := range all {
			if err := s.transitions.Remark(tx, r, "doubt_resolving", res.String(), a.ID()); err != nil {
				return err
			}
		}
		return tables.Workspaces.Put(tx, w)
	})
	if err != nil && taken {
		q.Free(resolving(r), j)
	}
	return r, err
}

// doubtedRun returns the run whose configuration and variables are used to resolve doubts of a workspace: the
// run that left them. The error is ErrConflict if nothing is in doubt.
func doubtedRun(tx *store.Tx, w *record.Workspace) (*record.Run, error) {
	if len(w.Doubts) > 0 {
		return tables.Runs.Get(tx, w.DoubtsOf)
	}
	for _, id := range tables.Runs.Newest(tx, "workspace", 1, w.ID) {
		if r, err := tables.Runs.Get(tx, id); err != nil || left(r, w) {
			return r, err
		}
	}
	return nil, tables.Conflict("no operation of the workspace %s is in doubt", w.Name)
}

// left reports whether a run was abandoned while it applied, and the outcome of its operations has not been
// looked at since.
func left(r *record.Run, w *record.Workspace) bool {
	return r.Status == record.ForceCanceled && !r.Apply.Started.IsZero() && w.DoubtsSeen != r.ID
}

// resolve makes the engine resolve a doubt. The error has the reason that the engine gives.
func (s *Doubts) resolve(leaving, stopping context.Context, r *record.Run, j *queue.Job, a *rights.Actor,
	res work.Resolution) error {
	said := &work.Output{Most: maxSaid}
	_, err := s.phases.work(stopping, r, j, said, false, func(job *work.Job) (any, error) {
		job.Structured = false
		return nil, s.engine.Resolve(leaving, job, res, a.Name())
	})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, work.ErrReported):
		return said.Problem()
	case errors.Is(err, work.ErrStopped):
		return tables.Conflict("the service is shutting down; the operation on %s is still in doubt", res.Address)
	}
	s.log.Error("cannot resolve an operation in doubt", "run", r.ID, "error", err)
	return err
}

// endResolving records the outcomes of resolutions, and unlocks the workspace. If the service ends before it
// can record this, its next start unlocks the workspace.
func (s *Doubts) endResolving(a *rights.Actor, r *record.Run, all []work.Resolution, j *queue.Job,
	failures []error) error {
	for {
		err := s.store.Update(func(tx *store.Tx) error {
			for _, failure := range failures {
				outcome := "done"
				if failure != nil {
					outcome = "failed: " + failure.Error()
				}
				if err := s.audit.Note(tx, a, "doubt.resolved", r.Workspace, outcome); err != nil {
					return err
				}
			}
			w, err := tables.Workspaces.Get(tx, r.Workspace)
			if errors.Is(err, store.ErrNotFound) {
				return nil // the workspace was deleted meanwhile
			}
			if err != nil {
				return err
			}
			if w.Lock.Kind == "run" && w.Lock.ID == r.ID {
				w.Lock = record.Lock{}
			}
			j.NoteDoubts(w, r)
			for i, res := range all {
				action := "doubt_resolved"
				if failures[i] != nil {
					action = "doubt_kept"
				}
				if err := s.transitions.Remark(tx, r, action, res.String(), a.ID()); err != nil {
					return err
				}
			}
			s.tellAfter(tx, w)
			tx.After(s.queue.Wake)
			return tables.Workspaces.Put(tx, w)
		})
		if err == nil {
			return nil
		}
		s.log.Error("cannot record the outcome of a resolution; will retry", "run", r.ID, "error", err)
		if !s.queue.Pause() {
			return fmt.Errorf("recording the outcome of the resolution: %w", err)
		}
	}
}

// releaseEnded removes the locks of runs that have ended. Such locks remain when the service ends while a doubt
// is being resolved.
func (s *Service) releaseEnded() error {
	var ended []string
	err := s.store.View(func(tx *store.Tx) error {
		for w, err := range tables.Workspaces.All(tx) {
			if err != nil {
				return err
			}
			if stale, err := lockStale(tx, w); err != nil {
				return err
			} else if stale {
				ended = append(ended, w.ID)
			}
		}
		return nil
	})
	if err != nil || len(ended) == 0 {
		return err
	}
	return s.store.Update(func(tx *store.Tx) error {
		for _, id := range ended {
			w, err := tables.Workspaces.Get(tx, id)
			if err != nil {
				return err
			}
			w.Lock = record.Lock{}
			if err := tables.Workspaces.Put(tx, w); err != nil {
				return err
			}
		}
		return nil
	})
}

func lockStale(tx *store.Tx, w *record.Workspace) (bool, error) {
	if w.Lock.Kind != "run" {
		return false, nil
	}
	r, err := tables.Runs.Get(tx, w.Lock.ID)
	if errors.Is(err, store.ErrNotFound) {
		return true, nil
	}
	return err == nil && r.Status.Final(), err
}

// resolving returns the key in the queue's table of jobs for resolving the doubts of a run. It differs from the
// key of the run itself, whose job may not have been removed yet although the run has ended.
func resolving(r *record.Run) string { return "doubts of " + r.ID }

// WorkspaceDoubts are the operations in doubt of a workspace.
type WorkspaceDoubts struct {
	*Overview
	// By is the run that left them.
	By         *record.Run
	Operations []record.Doubt
	// More is the number of operations that are not listed.
	More int
}

// OfOrganization returns the workspaces of an organization with operations in doubt.
func (s *Doubts) OfOrganization(a *rights.Actor, organization string) (out []WorkspaceDoubts, err error) {
	all, err := s.workspaces.Overviews(a, organization, WorkspaceFilter{})
	if err != nil {
		return nil, err
	}
	for _, v := range all {
		if v.Attention != HasDoubts {
			continue
		}
		d, err := s.doubts(v)
		if err != nil {
			return nil, tables.Translated(err)
		}
		out = append(out, d)
	}
	return out, nil
}

// OfWorkspace returns the operations in doubt of a workspace.
func (s *Doubts) OfWorkspace(a *rights.Actor, workspace string) (d WorkspaceDoubts, err error) {
	v, err := s.workspaces.OverviewOf(a, workspace)
	switch {
	case err != nil:
		return d, err
	case !rights.ReadRuns.Has(v.Permissions):
		return d, tables.Forbidden("you are not allowed to %s", rights.ReadRuns.What)
	case v.Attention != HasDoubts:
		return WorkspaceDoubts{Overview: v}, nil
	}
	d, err = s.doubts(v)
	return d, tables.Translated(err)
}

func (s *Doubts) doubts(v *Overview) (d WorkspaceDoubts, err error) {
	d = WorkspaceDoubts{Overview: v, By: v.Run, Operations: v.Doubts, More: v.MoreDoubts}
	if len(v.Doubts) == 0 { // the run was abandoned, and no later run has looked
		d.Operations, d.More, err = s.doubtful(v.Run)
		return d, err
	}
	return d, s.store.View(func(tx *store.Tx) error {
		d.By, err = tables.Runs.Get(tx,
			v.WorkspaceView.DoubtsOf)
		return err
	})
}

// doubtful reads the operations in doubt from the timeline of an apply.
func (s *Doubts) doubtful(r *record.Run) (out []record.Doubt, more int, err error) {
	m, err := s.timelines.Model(r.Apply.ID)
	if errors.Is(err, store.ErrNotFound) {
		return nil, 0, nil // the run was abandoned before it had a timeline
	}
	if err != nil {
		return nil, 0, err
	}
	for i := range m.Vertices {
		v := &m.Vertices[i]
		if !timelines.InDoubt(v) {
			continue
		}
		if len(out) == record.MaxDoubts {
			more++
			continue
		}
		out = append(out, record.Doubt{Address: v.Address, Operation: v.Action, Reason: v.Doubtful, Worker: v.Worker})
	}
	return out, more, nil
}
