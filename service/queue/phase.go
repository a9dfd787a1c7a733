package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/service/turn"
	"github.com/millipede-iac/millipede/service/work"
)

// begin starts the job that has the engine carry out the current phase of a run. again says that the phase has been
// begun before; resumed, that this is an apply, which is resumed.
func (q *Queue) begin(ctx context.Context, r *record.Run, again, resumed bool) {
	stopping, stop := context.WithCancelCause(ctx)
	leaving, leave := context.WithCancel(ctx)
	j := &Job{stop: stop, leave: leave}
	q.mu.Lock()
	q.running[r.ID] = j
	stopped := q.stopped
	q.mu.Unlock()
	// A cancellation that arrives from here on finds the job; an earlier one has been recorded.
	switch {
	case q.canceled(r.ID):
		stop(work.ErrCanceled)
	case stopped:
		stop(work.ErrSuspended)
	}
	q.jobs.Go(func() {
		defer leave()
		defer stop(nil)
		begun := r
		if again {
			begun = q.fence(r)
		}
		if begun != nil {
			q.carryOut(leaving, stopping, begun, j, resumed)
		}
		q.release(r.ID, j)
		q.Wake()
	})
}

// fence excludes what an earlier attempt at the current phase of a run may still do. It returns the run as it is
// recorded then, or nil if the phase is not in progress any more, or the service is shutting down.
func (q *Queue) fence(r *record.Run) (now *record.Run) {
	for {
		err := q.store.Update(func(tx *store.Tx) (err error) {
			now, err = tables.Runs.Get(tx, r.ID)
			if errors.Is(err, store.ErrNotFound) || err == nil && now.Status != r.Status {
				now = nil
				return nil
			}
			if err != nil {
				return err
			}
			now.Fence++
			return tables.Runs.Put(tx, now)
		})
		if err == nil {
			return now
		}
		q.log.Error("cannot begin a phase again; will retry", "run", r.ID, "error", err)
		if !q.Pause() {
			return nil
		}
	}
}

// canceled reports whether the cancellation of a run was requested. It returns false for a run that cannot be
// read.
func (q *Queue) canceled(id string) (yes bool) {
	err := q.store.View(func(tx *store.Tx) error {
		r, err := tables.Runs.Get(tx, id)
		yes = err == nil && !r.CancelAsked.IsZero()
		return err
	})
	return err == nil && yes
}

// carryOut carries out a phase, and records its outcome. If the outcome cannot be recorded, the next start of
// the service retries.
func (q *Queue) carryOut(leaving, stopping context.Context, r *record.Run, j *Job, resumed bool) {
	phase := r.Plan.ID
	if r.Status == record.Applying {
		phase = r.Apply.ID
	}
	refused := q.store.Refused()
	results, log, err := q.attempt(leaving, stopping, r, j, phase, resumed)
	again := false
	if err != nil && !errors.Is(err, work.ErrStopped) {
		var why string
		again, why = q.again(stopping, r, j, err, refused)
		switch {
		case again && log != nil:
			_, _ = fmt.Fprintf(log, "\n%s\n", why)
		case !again && why != "":
			err = work.ErrStopped
		}
	}
	if err != nil && !again && !errors.Is(err, work.ErrReported) && !errors.Is(err, work.ErrStopped) && log != nil {
		log.Fail(err)
	}
	if !q.finish(r, j, results, err, again) {
		return // the next start of the service continues the phase
	}
	q.settle(r.ID)
	if log != nil {
		q.logs.End(r, phase, log)
	}
}

// attempt carries out a phase once. The log is nil if it cannot be written.
func (q *Queue) attempt(leaving, stopping context.Context, r *record.Run, j *Job, phase string, resumed bool) (any,
	Log, error) {
	log, begun, err := q.logs.Open(r, phase)
	if log == nil {
		return nil, nil, err
	}
	q.begun(r.ID)
	if continued := resumed || r.Status == record.Planning && r.Resumed > 0; err == nil && begun && continued &&
		!q.repeats(r.ID) {
		_, err = fmt.Fprintf(log, "\nThe service was restarted, and continues the run.\n")
	}
	if err != nil {
		return nil, log, err
	}
	if r.Deaths >= q.maxDeaths {
		return nil, log, deadly(r.Deaths)
	}
	results, err := q.phases.Run(leaving, stopping, r, j, log, resumed)
	return results, log, errors.Join(err, log.Flush())
}

// deadly is the error of a phase that is not begun again, because the process that carried it out has died so often. A
// configuration could otherwise end the process again and again.
func deadly(times int) error {
	return fmt.Errorf("The process that carried out this phase has died %d times, and the phase is not begun again. The "+
		"log of the service may tell whether the configuration is the cause: it may need more memory than there is, or than "+
		"its process may use (serve -engine-memory, and the memory of plans in the settings of the workspace). If it is "+
		"not, start a new run", times)
}

// WaitsFor records what a running phase waits for. An empty text means that it no longer waits.
func (q *Queue) WaitsFor(id, kind, on, text string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	j := q.running[id]
	switch {
	case j == nil:
		return
	case text == "":
		j.waits = turn.Wait{}
	default:
		since := j.waits.Since
		if since.IsZero() {
			since = q.now().UTC()
		}
		j.waits = turn.Wait{Kind: kind, On: on, Since: since, Text: text}
	}
	q.notifyChanged(id)
}

// finish records the outcome of a phase. It returns false if the phase has not ended, because the service is
// shutting down or the phase must be repeated.
func (q *Queue) finish(r *record.Run, j *Job, results any, failure error, again bool) bool {
	q.mu.Lock()
	halted, left, suspended := q.stopped, j.left, j.suspended
	q.mu.Unlock()
	ended := false
	for {
		tried := ended // what the change before says that may have been committed although the store returned an error
		err := q.store.Update(func(tx *store.Tx) error {
			ended = false
			now, err := tables.Runs.Get(tx, r.ID)
			if errors.Is(err, store.ErrNotFound) {
				return nil // the workspace was deleted meanwhile
			}
			if err != nil {
				return err
			}
			if now.Status != r.Status || now.Fence != r.Fence {
				ended = tried
				tx.After(func() { q.Changed(r.ID) })
				return nil
			}
			lost := errors.Is(failure, work.ErrLost)
			if lost {
				now.Deaths++
			}
			kind, outcome := record.EventFailed, record.Outcome(0)
			switch {
			case left:
				kind = record.EventForceCanceled
			case again && now.Status == record.Planning:
				kind = record.EventPlanAgain
			case again:
				if lost {
					tx.After(func() { q.Changed(r.ID) })
					return tables.Runs.Put(tx, now)
				}
				return nil // continueApplies resumes it
			case failure == nil && now.Status == record.Planning && !now.CancelAsked.IsZero():
				kind = record.EventCanceled // the plan was finished before the cancellation arrived
			case errors.Is(failure, work.ErrStopped) && !now.CancelAsked.IsZero():
				kind = record.EventCanceled
			case errors.Is(failure, work.ErrStopped) && suspended && now.Status == record.Planning:
				now.Resumed++
				kind = record.EventPlanAgain
			case errors.Is(failure, work.ErrStopped) && (halted || suspended):
				if now.Status == record.Planning {
					now.Suspended = true // the service ends in order, and not because of this plan
					return tables.Runs.Put(tx, now)
				}
				return nil
			case failure == nil:
				kind, outcome = recordResult(now, results)
			}
			ended = kind != record.EventPlanAgain
			if err := q.transitions.Enter(tx, now, kind, outcome, ""); err != nil || left || r.PlanOnly ||
				r.SavePlan && r.Status == record.Planning {
				return err
			}
			w, err := tables.Workspaces.Get(tx, r.Workspace)
			if err != nil {
				return err
			}
			had := len(w.Doubts)
			j.NoteDoubts(w, now)
			if had == 0 && len(w.Doubts) > 0 {
				if err := q.transitions.NotifyDoubt(tx, now); err != nil {
					return err
				}
			}
			return tables.Workspaces.Put(tx, w)
		})
		if err == nil {
			return ended
		}
		q.log.Error("cannot record the outcome of a run; will retry", "run", r.ID, "error", err)
		if halted || !q.Pause() {
			return false
		}
	}
}

// recordResult records the result of a phase in its run, and returns the event for it.
func recordResult(r *record.Run, results any) (record.RunEventKind, record.Outcome) {
	switch v := results.(type) {
	case *work.PlanResult:
		r.Deaths = 0 // those of the apply are counted anew
		r.HasChanges, r.Generated, r.Sensitive = v.HasChanges, v.Generated, v.Sensitive
		r.Plan.Add, r.Plan.Change, r.Plan.Destroy, r.Plan.Import = v.Add, v.Change, v.Destroy, v.Import
		switch {
		case r.PlanOnly || v.Generated || !v.HasChanges && !r.AllowEmpty:
			// The generated configuration is not part of the uploaded one yet, so that there is nothing to
			// apply.
			return record.EventPlanEnded, record.Finished
		case r.SavePlan:
			return record.EventPlanEnded, record.Saved
		}
		return record.EventPlanEnded, record.Waiting
	case *work.ApplyResult:
		r.Apply.Add, r.Apply.Change, r.Apply.Destroy, r.Apply.Import = v.Add, v.Change, v.Destroy, v.Import
	}
	return record.EventApplied, 0
}

// Pause waits before a write is retried. It returns false if the service shuts down meanwhile.
func (q *Queue) Pause() bool {
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-q.halted:
		return false
	}
}
