package queue

import (
	"context"
	"sync"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/service/turn"
	"github.com/millipede-iac/millipede/service/work"
)

// Job is a phase, the resolution of a doubt, or a change of objects, that the engine carries out. The zero value has
// not begun.
type Job struct {
	stop      context.CancelCauseFunc
	leave     context.CancelFunc
	left      bool      // a person has abandoned it (force-cancel)
	suspended bool      // a person has suspended it; it will continue
	waits     turn.Wait // what it waits for; the zero value is nothing

	mu         sync.Mutex // guards the fields below
	told       bool       // the engine has reported a list of doubts
	doubts     []record.Doubt
	moreDoubts int
}

// TellDoubts records the operations in doubt that the engine has found in a state; each call replaces the list of the
// call before.
func (j *Job) TellDoubts(all []record.Doubt) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.told, j.doubts, j.moreDoubts = true, all, 0
	if n := len(all) - record.MaxDoubts; n > 0 {
		j.doubts, j.moreDoubts = all[:record.MaxDoubts], n
	}
}

// NoteDoubts records in a workspace the doubts that were found after a phase of a run, if the engine has reported any
// list.
func (j *Job) NoteDoubts(w *record.Workspace, r *record.Run) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.told {
		return
	}
	if len(j.doubts) == 0 {
		w.DoubtsOf = ""
	} else if w.DoubtsOf == "" || !r.Apply.Started.IsZero() {
		w.DoubtsOf = r.ID // a later plan finds the doubts that an apply has left
	}
	w.Doubts, w.MoreDoubts, w.DoubtsSeen = j.doubts, j.moreDoubts, r.ID
}

// Take registers a job under a key. The error wraps tables.ErrConflict if the service is shutting down or
// another job has the key. The service does not end before the caller calls Free.
func (q *Queue) Take(name string, j *Job) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.stopped:
		return tables.Conflict("the service is shutting down")
	case q.running[name] != nil:
		return tables.Conflict("an operation in doubt is being resolved")
	}
	q.running[name] = j
	q.jobs.Add(1)
	return nil
}

// Stoppable sets the functions that stop a job, and stops it at once if the service is already shutting down.
func (q *Queue) Stoppable(j *Job, stop context.CancelCauseFunc, leave context.CancelFunc) {
	q.mu.Lock()
	defer q.mu.Unlock()
	j.stop, j.leave = stop, leave
	if q.stopped {
		stop(work.ErrSuspended)
	}
}

// Free removes a job that Take has registered, and lets the service end.
func (q *Queue) Free(name string, j *Job) {
	q.release(name, j)
	q.jobs.Done()
}

// release removes a job from the table.
func (q *Queue) release(name string, j *Job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running[name] == j { // otherwise the next phase of the run has begun already
		delete(q.running, name)
	}
}

// TakeChange registers the job of a change of objects under its ID, as Take does. The caller calls EndChange and Free.
func (q *Queue) TakeChange(workspace, id string, j *Job) error {
	if err := q.Take(id, j); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.changing[workspace]++
	return nil
}

// EndChange is the opposite of TakeChange, except for the job.
func (q *Queue) EndChange(workspace string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.changing[workspace]--; q.changing[workspace] == 0 {
		delete(q.changing, workspace)
	}
}

// ChangesObjects reports whether a change of objects of a workspace is in progress.
func (q *Queue) ChangesObjects(workspace string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.changing[workspace] > 0
}
