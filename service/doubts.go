package service

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
)

// Resolution is what somebody says became of an operation in doubt.
type Resolution struct {
	Address string
	// ID names the object that there is now. Empty: the operation never took place.
	ID string
}

// String says it in the words of logs.
func (r Resolution) String() string {
	if r.ID == "" {
		return r.Address + " was not created"
	}
	return r.Address + " exists as " + r.ID
}

const (
	// resolveTerm is how long a resolution has: it may have to wait for operations of a run that was left.
	resolveTerm = 10 * time.Minute
	// maxResolveLog bounds what the engine may say meanwhile, in bytes.
	maxResolveLog = 64 << 10
	// maxResolution bounds an address and an ID, in bytes.
	maxResolution = 4 << 10
)

// Resolve ends the doubt about an operation of a workspace, as the actor, who needs the right to apply, says what
// became of it. The object is read with the configuration and the variables of the run that has left it. It returns
// when the state has it. The workspace is locked meanwhile; the error is ErrConflict when somebody has it, or when the
// engine does not take the word. It goes on when ctx ends.
func (s *Service) Resolve(ctx context.Context, a *Actor, workspace string, res Resolution) error {
	j := &job{}
	r, err := s.beginResolving(a, workspace, res, j)
	if err != nil {
		return err
	}
	defer s.queue.jobs.Done()
	defer s.queue.release(resolving(r), j)
	leaving, leave := context.WithTimeout(context.WithoutCancel(ctx), resolveTerm)
	defer leave()
	stopping, stop := context.WithCancelCause(leaving)
	defer stop(nil)
	s.queue.stoppable(j, stop, leave)
	failure := s.resolve(leaving, stopping, r, j, a, res)
	if err := s.endResolving(a, r, res, j, failure); err != nil {
		return err
	}
	return failure
}

// beginResolving checks who asks, takes the lock of the workspace for the run that has left the doubt, and has the end
// of the service wait. The caller calls jobs.Done and release.
func (s *Service) beginResolving(a *Actor, workspace string, res Resolution, j *job) (r *record.Run, err error) {
	q := s.queue
	taken := false
	err = s.audited(a, "doubt.resolve", workspace, func(tx *store.Tx) error {
		w, err := a.allowed(tx, workspace, needApply)
		if err != nil {
			return err
		}
		if res.Address == "" || len(res.Address)+len(res.ID) > maxResolution {
			return invalid("Say which operation in doubt it is about, by the address of its object")
		}
		if r, err = doubtedRun(tx, w); err != nil {
			return err
		}
		if w.Lock.Held() {
			return conflict("%s", lockedBy(tx, w))
		}
		if !taken { // the change may be made more than once
			if err := q.take(resolving(r), j); err != nil {
				return err
			}
			taken = true
		}
		w.Lock = record.Lock{Kind: "run", ID: r.ID, At: s.now().UTC(), Reason: "an operation in doubt is being resolved"}
		s.tellAfter(tx, w)
		if err := s.remark(tx, r, "doubt_resolving", res.String(), a.ID()); err != nil {
			return err
		}
		return workspaces.Put(tx, w)
	})
	if err != nil && taken {
		q.release(resolving(r), j)
		q.jobs.Done()
	}
	return r, err
}

// doubtedRun returns the run with whose configuration and variables doubts of a workspace are resolved: the one that
// left them. The error is ErrConflict when nothing is in doubt.
func doubtedRun(tx *store.Tx, w *record.Workspace) (*record.Run, error) {
	if len(w.Doubts) > 0 {
		return runs.Get(tx, w.DoubtsOf)
	}
	for _, id := range runs.Newest(tx, "workspace", 1, w.ID) {
		if r, err := runs.Get(tx, id); err != nil || left(r, w) {
			return r, err
		}
	}
	return nil, conflict("no operation of the workspace %s is in doubt", w.Name)
}

// left tells whether a run was left while it applied, and nobody has looked since what became of its operations.
func left(r *record.Run, w *record.Workspace) bool {
	return r.Status == record.ForceCanceled && !r.Apply.Started.IsZero() && w.DoubtsSeen != r.ID
}

// resolve has the engine resolve a doubt. What it says of the reason is the error.
func (s *Service) resolve(leaving, stopping context.Context, r *record.Run, j *job, a *Actor, res Resolution) error {
	said := &limited{most: maxResolveLog}
	_, err := s.work(stopping, r, j, said, false, func(job *Job) (any, error) {
		job.Structured = false
		return nil, s.engine.Resolve(leaving, job, res, a.Name())
	})
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrReported):
		text := said.text.String()
		if i := strings.Index(text, "Error: "); i > 0 {
			text = text[i:] // before it are notes and warnings
		}
		return conflict("%s", strings.TrimSpace(text))
	case errors.Is(err, ErrStopped):
		return conflict("the service ends; the operation on %s is still in doubt", res.Address)
	}
	s.log.Error("a doubt could not be resolved", "run", r.ID, "error", err)
	return err
}

// endResolving writes how it has ended, and releases the workspace. Where the service ends before that can be written,
// its next start releases it.
func (s *Service) endResolving(a *Actor, r *record.Run, res Resolution, j *job, failure error) error {
	action, outcome := "doubt_resolved", "done"
	if failure != nil {
		action, outcome = "doubt_kept", "failed: "+failure.Error()
	}
	for {
		err := s.store.Update(func(tx *store.Tx) error {
			if err := s.note(tx, a, "doubt.resolved", r.Workspace, outcome); err != nil {
				return err
			}
			w, err := workspaces.Get(tx, r.Workspace)
			if errors.Is(err, store.ErrNotFound) {
				return nil // it was deleted meanwhile
			}
			if err != nil {
				return err
			}
			if w.Lock.Kind == "run" && w.Lock.ID == r.ID {
				w.Lock = record.Lock{}
			}
			j.doubts.noteIn(w, r)
			if err := s.remark(tx, r, action, res.String(), a.ID()); err != nil {
				return err
			}
			s.tellAfter(tx, w)
			tx.After(s.queue.wake)
			return workspaces.Put(tx, w)
		})
		if err == nil {
			return nil
		}
		s.log.Error("how a doubt was resolved cannot be written; it is tried again", "run", r.ID, "error", err)
		if !s.queue.pause() {
			return fmt.Errorf("writing how the doubt was resolved: %w", err)
		}
	}
}

// releaseEnded takes away the locks of runs that have ended: the service has ended while a doubt was resolved.
func (s *Service) releaseEnded() error {
	var ended []string
	err := s.store.View(func(tx *store.Tx) error {
		for w, err := range workspaces.All(tx) {
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
			w, err := workspaces.Get(tx, id)
			if err != nil {
				return err
			}
			w.Lock = record.Lock{}
			if err := workspaces.Put(tx, w); err != nil {
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
	r, err := runs.Get(tx, w.Lock.ID)
	if errors.Is(err, store.ErrNotFound) {
		return true, nil
	}
	return err == nil && r.Status.Final(), err
}

// seenDoubts is what the engine has found in doubt in a state.
type seenDoubts struct {
	mu   sync.Mutex // guards what follows
	told bool
	all  []record.Doubt
	more int
}

// tell notes what is in doubt; the last word counts.
func (d *seenDoubts) tell(all []record.Doubt) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.told, d.all, d.more = true, all, 0
	if n := len(all) - maxDoubts; n > 0 {
		d.all, d.more = all[:maxDoubts], n
	}
}

// noteIn writes into a workspace what was found after a phase of a run, if the engine has told.
func (d *seenDoubts) noteIn(w *record.Workspace, r *record.Run) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.told {
		return
	}
	if len(d.all) == 0 {
		w.DoubtsOf = ""
	} else if w.DoubtsOf == "" || !r.Apply.Started.IsZero() {
		w.DoubtsOf = r.ID // a later plan only finds what an apply has left
	}
	w.Doubts, w.MoreDoubts, w.DoubtsSeen = d.all, d.more, r.ID
}

// limited keeps the beginning of what is written.
type limited struct {
	text strings.Builder
	most int
}

// Write implements io.Writer.
func (l *limited) Write(p []byte) (int, error) {
	l.text.Write(p[:min(len(p), max(0, l.most-l.text.Len()))])
	return len(p), nil
}

// resolving is the name under which the queue knows that doubts of a run are resolved. The run itself has ended, but
// what carried it out may not have heard of that yet.
func resolving(r *record.Run) string { return "doubts of " + r.ID }

// take says that j goes on under a name, unless the service ends or another one does.
func (q *queue) take(name string, j *job) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.stopped:
		return conflict("the service ends")
	case q.running[name] != nil:
		return conflict("an operation in doubt is being resolved")
	}
	q.running[name] = j
	q.jobs.Add(1)
	return nil
}

// stoppable says how j is stopped, and stops it if the service has begun to end.
func (q *queue) stoppable(j *job, stop context.CancelCauseFunc, leave context.CancelFunc) {
	q.mu.Lock()
	defer q.mu.Unlock()
	j.stop, j.leave = stop, leave
	if q.stopped {
		stop(ErrSuspended)
	}
}

// release says that j does not go on.
func (q *queue) release(name string, j *job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running[name] == j { // else the next phase of the run has begun already
		delete(q.running, name)
	}
}
