package service

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/view/timeline"
)

// begin has the engine carry out the phase that a run is in.
func (q *queue) begin(ctx context.Context, r *record.Run, resumed bool) {
	stopping, stop := context.WithCancelCause(ctx)
	leaving, leave := context.WithCancel(ctx)
	j := &job{stop: stop, leave: leave}
	q.mu.Lock()
	q.running[r.ID] = j
	stopped := q.stopped
	q.mu.Unlock()
	// Who cancels it from here on finds the job; who did so before has written it.
	switch {
	case q.canceled(r.ID):
		stop(errCanceled)
	case stopped:
		stop(ErrSuspended)
	}
	q.jobs.Go(func() {
		defer leave()
		defer stop(nil)
		q.carryOut(leaving, stopping, r, j, resumed)
		q.release(r.ID, j)
		q.wake()
	})
}

// canceled tells whether somebody has asked for a run to be canceled. A run that cannot be read was not.
func (q *queue) canceled(id string) (yes bool) {
	err := q.s.store.View(func(tx *store.Tx) error {
		r, err := runs.Get(tx, id)
		yes = err == nil && !r.CancelAsked.IsZero()
		return err
	})
	return err == nil && yes
}

// carryOut carries out a phase, and writes how it has ended. What cannot be written is tried again when the service
// starts anew.
func (q *queue) carryOut(leaving, stopping context.Context, r *record.Run, j *job, resumed bool) {
	s := q.s
	phase := r.Plan.ID
	if r.Status == record.Applying {
		phase = r.Apply.ID
	}
	refused := s.store.Refused()
	results, log, err := q.attempt(leaving, stopping, r, j, phase, resumed)
	again := false
	if err != nil && !errors.Is(err, ErrStopped) {
		var why string
		again, why = q.again(stopping, r, j, err, refused)
		switch {
		case again && log != nil:
			_, _ = fmt.Fprintf(log, "\n%s\n", why)
		case !again && why != "":
			err = ErrStopped
		}
	}
	if err != nil && !again && !errors.Is(err, ErrReported) && !errors.Is(err, ErrStopped) && log != nil {
		_, _ = fmt.Fprintf(log, "\nError: %s\n", unmarked(err)) // a log that cannot be written has been told of above
	}
	if !q.finish(r, j, results, err, again) {
		return // it is under way still, for the next start
	}
	q.settle(r.ID)
	if log == nil {
		return
	}
	if _, err := io.WriteString(log, logEnd); err != nil {
		s.log.Error("the log of a run could not be ended", "run", r.ID, "error", err)
	}
	if err := s.logs.end(logFile(phase)); err != nil {
		s.log.Error("the log of a run could not be ended", "run", r.ID, "error", err)
	}
}

// attempt carries out a phase once. The log is nil where it cannot be written.
func (q *queue) attempt(leaving, stopping context.Context, r *record.Run, j *job, phase string, resumed bool) (any,
	io.Writer, error) {
	s := q.s
	file, err := s.logs.write(logFile(phase))
	if err != nil {
		s.log.Error("the log of a run cannot be written", "run", r.ID, "error", err)
		return nil, nil, err
	}
	log := &patient{log: file}
	switch {
	case file.Size() == 0:
		_, err = fmt.Fprintf(log, "%sMillipede %s\non %s_%s\nPreparing the run %s...\n", logBegin, s.opts.Version,
			runtime.GOOS, runtime.GOARCH, r.ID)
	case !q.repeats(r.ID):
		_, err = fmt.Fprintf(log, "\nThe service was started again, and goes on with the run.\n")
	}
	q.begun(r.ID)
	if err != nil {
		return nil, log, err
	}
	results, err := s.engage(leaving, stopping, r, j, log, resumed)
	return results, log, errors.Join(err, log.Flush())
}

// withoutMarks is a log into which programs that a run starts write what they like, but not the marks of its ends: a
// reader would take the log for ended.
type withoutMarks struct{ log io.Writer }

// Write implements io.Writer.
func (l withoutMarks) Write(p []byte) (int, error) {
	clean := p
	if bytes.ContainsAny(p, logBegin+logEnd) {
		clean = bytes.Map(func(r rune) rune {
			if r == rune(logBegin[0]) || r == rune(logEnd[0]) {
				return -1
			}
			return r
		}, p)
	}
	if _, err := l.log.Write(clean); err != nil {
		return 0, err
	}
	return len(p), nil
}

// unmarked is an error's text without the characters that mark the ends of a log.
func unmarked(err error) string {
	return strings.NewReplacer(logBegin, "", logEnd, "").Replace(err.Error())
}

// engage has the engine carry out a phase, and keeps what it returns.
func (s *Service) engage(leaving, stopping context.Context, r *record.Run, j *job, log io.Writer,
	resumed bool) (results any, err error) {
	return s.work(stopping, r, j, log, resumed, func(job *Job) (any, error) {
		open := s.openBook(r)
		job.Watched = func(b *timeline.Book, engine string) {
			b.Clean(job.masked)
			open(b, engine)
		}
		defer s.closeBook(r)
		if r.Status == record.Applying {
			if job.Plan, err = s.store.ReadAll(planFile(r)); err != nil {
				return nil, err
			}
			return engaged(s.engine.Apply(leaving, job))
		}
		planned, err := s.engine.Plan(leaving, job)
		if err != nil {
			return nil, err
		}
		var files errgroup.Group // each waits for the disk, and they do so at the same time
		for file, data := range map[string][]byte{
			planFile(r): planned.Plan, planShapeFile(r): planned.Shape, planRedactedFile(r): planned.Redacted,
		} {
			files.Go(func() error {
				_, err := s.store.Write(file, bytes.NewReader(data), int64(len(data)))
				return err
			})
		}
		if err := files.Wait(); err != nil {
			return nil, err
		}
		s.outlines.wish(func() error {
			if s.queue.plansWait() {
				return nil // people wait for these; the outline is made when somebody asks for it
			}
			_, err := s.planOutline(r)
			return err
		})
		return planned, nil
	})
}

// work gives fn, which has the engine do something, what the engine needs. A mistake of ours ends that, and nothing
// else.
func (s *Service) work(stopping context.Context, r *record.Run, j *job, log io.Writer, resumed bool,
	fn func(*Job) (any, error)) (results any, err error) {
	defer func() {
		if bug := recover(); bug != nil {
			s.log.Error("a run was ended by a mistake in the service", "run", r.ID, "panic", bug, "stack",
				string(debug.Stack()))
			results, err = nil, fmt.Errorf("this is a bug in Millipede: %v", bug)
		}
	}()
	token, lent, err := s.lendToken(r)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err := s.takeTokenBack(lent); err != nil { // it ends with the run, and by itself
			s.log.Warn("the token of a run could not be removed", "run", r.ID, "error", err)
		}
	}()
	job, err := s.job(stopping, r, token, log, resumed)
	if err != nil {
		return nil, err
	}
	job.Doubtful = j.doubts.tell
	defer func() { err = errors.Join(err, os.RemoveAll(job.Scratch)) }()
	defer func() { err = job.unmask(err) }()
	return fn(job)
}

// applies tells whether the apply of a run is under way, or will be gone on with. What cannot be read goes on.
func (s *Service) applies(id string) (yes bool) {
	err := s.store.View(func(tx *store.Tx) error {
		r, err := runs.Get(tx, id)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		yes = err != nil || r.Status == record.Applying
		return err
	})
	return yes || err != nil
}

// nameOf is the name of who has an ID.
func nameOf(tx *store.Tx, id string) string {
	if u, err := users.Get(tx, id); err == nil {
		return u.Name
	}
	if t, err := teams.Get(tx, id); err == nil {
		return "team " + t.Name
	}
	return id
}

// waitsForObjects notes what an apply under way waits for.
func (q *queue) waitsForObjects(id, on, text string) { q.waitsFor(id, "objects", on, text) }

// waitsFor notes what a phase under way waits for; an empty text is for nothing any more.
func (q *queue) waitsFor(id, kind, on, text string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	j := q.running[id]
	switch {
	case j == nil:
		return
	case text == "":
		j.waits = Wait{}
	default:
		since := j.waits.Since
		if since.IsZero() {
			since = q.s.now().UTC()
		}
		j.waits = Wait{Kind: kind, On: on, Since: since, Text: text}
	}
	q.spread(id)
}

// masked is a text without secrets, as it is in the log.
func (j *Job) masked(text string) string {
	m, ok := j.Log.(*mask)
	if !ok {
		return text
	}
	var out strings.Builder
	one := &mask{out: &out, secrets: m.secrets}
	if _, err := one.Write([]byte(text)); err != nil {
		return masked // nothing fails here
	}
	if err := one.Flush(); err != nil {
		return masked
	}
	return out.String()
}

// unmask ends the masking of the log, and masks an error that is to be written there.
func (j *Job) unmask(err error) error {
	m, ok := j.Log.(*mask)
	if !ok {
		return err
	}
	failed := m.Flush()
	if err == nil || errors.Is(err, ErrReported) || errors.Is(err, ErrStopped) {
		return errors.Join(err, failed)
	}
	var text strings.Builder
	m.out = &text
	_, _ = m.Write([]byte(err.Error())) // a builder takes everything
	_ = m.Flush()
	if text.String() != err.Error() {
		err = errors.New(text.String())
	}
	return errors.Join(err, failed)
}

// engaged is a result as carryOut has it.
func engaged(r *ApplyResult, err error) (any, error) {
	if r == nil {
		return nil, err
	}
	return r, err
}

// job puts together what the engine gets. Programs of the run have the token.
func (s *Service) job(stopping context.Context, r *record.Run, token string, log io.Writer, resumed bool) (*Job,
	error) {
	j := &Job{
		Run: *r, Stopping: stopping, Log: log, Resumed: resumed, State: &runState{s: s, run: *r},
		Data:  s.dataDir(r.Workspace),
		Alive: s.applies, Waits: func(run, text string) { s.queue.waitsForObjects(r.ID, run, text) },
	}
	var secrets []string // that the log does not tell
	err := s.store.View(func(tx *store.Tx) error {
		w, err := workspaces.Get(tx, r.Workspace)
		if err != nil {
			return err
		}
		j.Workspace = *w
		j.Who = nameOf(tx, cmp.Or(r.ConfirmedBy, r.CreatedBy))
		j.Structured = r.Structured && w.Structured
		g, err := effective(tx, w, r)
		if err != nil {
			return err
		}
		// A token that the workspace has among its variables wins.
		j.Variables, j.Environment = g.values, append([]string{"ATLAS_TOKEN=" + token}, g.environ...)
		if s.opts.Host != "" {
			j.Environment = append([]string{TokenVariable(s.opts.Host) + "=" + token}, j.Environment...)
		}
		secrets = append(g.secrets, token)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if r.Configuration != "" {
		j.Configuration = func() (io.ReadCloser, error) { return s.store.Read(configurationFile(r.Configuration)) }
	}
	runsDir := filepath.Join(s.store.Dir(), "scratch")
	if err := errors.Join(os.MkdirAll(runsDir, 0o700), os.MkdirAll(j.Data, 0o700)); err != nil {
		return nil, err
	}
	if j.Scratch, err = os.MkdirTemp(runsDir, r.ID+"-"); err != nil {
		return nil, err
	}
	proofs, told, err := s.proofs(r, &j.Workspace, j.Environment, j.Scratch)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(j.Scratch))
	}
	j.Environment = append(j.Environment, proofs...)
	j.Log = newMask(withoutMarks{log}, append(secrets, told...))
	return j, nil
}

// finish writes how a phase has ended. It returns false when the phase has not ended, because the service does, or it
// is to be carried out again.
func (q *queue) finish(r *record.Run, j *job, results any, failure error, again bool) bool {
	q.mu.Lock()
	halted, left, suspended := q.stopped, j.left, j.suspended
	q.mu.Unlock()
	ended := false
	for {
		err := q.s.store.Update(func(tx *store.Tx) error {
			ended = false
			now, err := runs.Get(tx, r.ID)
			if errors.Is(err, store.ErrNotFound) {
				return nil // the workspace was deleted meanwhile
			}
			if err != nil {
				return err
			}
			if now.Status != r.Status {
				ended = true // an earlier try has written it, though the store did not say so
				tx.After(func() { q.changed(r.ID) })
				return nil
			}
			kind, outcome := record.EventFailed, record.Outcome(0)
			switch {
			case left:
				kind = record.EventForceCanceled
			case again && now.Status == record.Planning:
				kind = record.EventPlanAgain
			case again:
				return nil // goOn goes on with it
			case failure == nil && now.Status == record.Planning && !now.CancelAsked.IsZero():
				kind = record.EventCanceled // the plan was there before it heard that it is not wanted
			case errors.Is(failure, ErrStopped) && !now.CancelAsked.IsZero():
				kind = record.EventCanceled
			case errors.Is(failure, ErrStopped) && suspended && now.Status == record.Planning:
				now.Resumed++
				kind = record.EventPlanAgain
			case errors.Is(failure, ErrStopped) && (halted || suspended):
				return nil
			case failure == nil:
				kind, outcome = came(now, results)
			}
			ended = kind != record.EventPlanAgain
			if err := q.s.enter(tx, now, kind, outcome, ""); err != nil || left || r.PlanOnly ||
				r.SavePlan && r.Status == record.Planning {
				return err
			}
			w, err := workspaces.Get(tx, r.Workspace)
			if err != nil {
				return err
			}
			had := len(w.Doubts)
			j.doubts.noteIn(w, now)
			if had == 0 && len(w.Doubts) > 0 {
				if err := q.s.notify(tx, now, triggerDoubt, "Operations In Doubt", ""); err != nil {
					return err
				}
			}
			return workspaces.Put(tx, w)
		})
		if err == nil {
			return ended
		}
		q.s.log.Error("how a run has ended cannot be written; it is tried again", "run", r.ID, "error", err)
		if halted || !q.pause() {
			return false
		}
	}
}

// came records what a phase came to in its run, and returns the event of that.
func came(r *record.Run, results any) (record.RunEventKind, record.Outcome) {
	switch v := results.(type) {
	case *PlanResult:
		r.HasChanges, r.Generated, r.Sensitive = v.HasChanges, v.Generated, v.Sensitive
		r.Plan.Add, r.Plan.Change, r.Plan.Destroy, r.Plan.Import = v.Add, v.Change, v.Destroy, v.Import
		switch {
		case r.PlanOnly || v.Generated || !v.HasChanges && !r.AllowEmpty:
			// What was generated is not in the configuration yet, so that nothing can be applied by it.
			return record.EventPlanEnded, record.Finished
		case r.SavePlan:
			return record.EventPlanEnded, record.Saved
		}
		return record.EventPlanEnded, record.Waiting
	case *ApplyResult:
		r.Apply.Add, r.Apply.Change, r.Apply.Destroy, r.Apply.Import = v.Add, v.Change, v.Destroy, v.Import
	}
	return record.EventApplied, 0
}

// pause waits before a write is tried again. It returns false when the service ends meanwhile.
func (q *queue) pause() bool {
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-q.halted:
		return false
	}
}
