package service

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/millipede-iac/millipede/coordinator/timeline"
	"github.com/millipede-iac/millipede/service/accounts"
	"github.com/millipede-iac/millipede/service/queue"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/service/timelines"
	"github.com/millipede-iac/millipede/service/variables"
	"github.com/millipede-iac/millipede/service/work"
)

// withoutMarks is a log for the output of programs that a run starts. It removes the markers of the log's ends
// from the output: a reader would otherwise take the log for complete.
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

// unmarked returns the text of an error without the characters of the log's markers.
func unmarked(err error) string {
	return strings.NewReplacer(logBegin, "", logEnd, "").Replace(err.Error())
}

// phases has the engine carry out the phases of runs.
type phases struct {
	*shared
	identity  *Identity
	timelines *timelines.Timelines
	tokens    *accounts.Tokens
	host      string
	outlines  *outlines
	engine    work.Engine
	queue     *queue.Queue
	bounds    record.Bounds // of all workspaces
}

// Run makes the engine execute a phase, and stores the files that it returns.
func (s *phases) Run(leaving, stopping context.Context, r *record.Run, j *queue.Job, log io.Writer,
	resumed bool) (results any, err error) {
	return s.work(stopping, r, j, log, resumed, func(job *work.Job) (any, error) {
		open := s.timelines.Begin(r)
		job.Watched = func(b *timeline.Recorder, engine string) {
			b.Clean(func(text string) string { return maskedAs(job.Log, text) })
			open(b, engine)
		}
		defer s.timelines.End(r)
		if r.Status == record.Applying {
			if job.Plan, err = s.store.ReadAll(tables.PlanFile(r)); err != nil {
				return nil, err
			}
			return applyResults(s.engine.Apply(leaving, job))
		}
		planned, err := s.plan(leaving, job)
		if err != nil {
			return nil, err
		}
		var files errgroup.Group // written in parallel: each write waits for the disk
		for file, data := range map[string][]byte{
			tables.PlanFile(r): planned.Plan, tables.PlanShapeFile(r): planned.Shape,
			tables.PlanRedactedFile(r): planned.Redacted,
		} {
			files.Go(func() error {
				_, err := s.store.Write(file, bytes.NewReader(data), int64(len(data)))
				return err
			})
		}
		if err := files.Wait(); err != nil {
			return nil, err
		}
		s.outlines.enqueue(func() error {
			if s.queue.PlansWait() {
				return nil // no outline now, because users wait; it is made when it is requested
			}
			_, err := s.outlines.Plan(r)
			return err
		})
		return planned, nil
	})
}

// work calls fn with the job that the engine needs for a phase. A panic in fn ends this phase only.
func (s *phases) work(stopping context.Context, r *record.Run, j *queue.Job, log io.Writer, resumed bool,
	fn func(*work.Job) (any, error)) (results any, err error) {
	defer func() {
		if bug := recover(); bug != nil {
			s.log.Error("a bug in the service has ended a run", "run", r.ID, "panic", bug, "stack",
				string(debug.Stack()))
			results, err = nil, fmt.Errorf("this is a bug in Millipede: %v", bug)
		}
	}()
	token := s.tokens.IssueForRun(r)
	defer s.tokens.RevokeForRun(token)
	job, renew, err := s.job(stopping, r, token, log, resumed)
	if err != nil {
		return nil, err
	}
	job.Doubtful = j.TellDoubts
	defer func() { err = errors.Join(err, os.RemoveAll(job.Scratch)) }()
	defer func() { err = unmask(job.Log, err) }()
	renewing, end := context.WithCancel(context.WithoutCancel(stopping))
	var renewal sync.WaitGroup
	renewal.Go(func() { renew(renewing) })
	defer renewal.Wait()
	defer end()
	return fn(job)
}

// read calls fn with a job that reads objects with the configuration and the variables of a run.
func (s *phases) read(ctx context.Context, r *record.Run, log io.Writer, fn func(*work.Job) error) error {
	_, err := s.work(ctx, r, &queue.Job{}, log, false, func(j *work.Job) (any, error) { return nil, fn(j) })
	return err
}

// applies reports whether a run is applying, or will continue to apply. It returns true if the run cannot be
// read.
func (s *phases) applies(id string) (yes bool) {
	err := s.store.View(func(tx *store.Tx) error {
		r, err := tables.Runs.Get(tx, id)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		yes = err != nil || r.Status == record.Applying
		return err
	})
	return yes || err != nil
}

// nameOf returns the name of the user, team or other owner with an ID.
func nameOf(tx *store.Tx, id string) string {
	if u, err := tables.Users.Get(tx, id); err == nil {
		return u.Name
	}
	if t, err := tables.Teams.Get(tx, id); err == nil {
		return "team " + t.Name
	}
	return id
}

// applyResults converts the result of an apply to the types that queue.Phases returns.
func applyResults(r *work.ApplyResult, err error) (any, error) {
	if r == nil {
		return nil, err
	}
	return r, err
}

// job builds the engine's job for a phase. The programs of the run get the token. renew renews the files with identity
// tokens until ctx ends.
func (s *phases) job(stopping context.Context, r *record.Run, token string, log io.Writer, resumed bool) (j *work.Job,
	renew func(ctx context.Context), err error) {
	j = &work.Job{
		Run: *r, Stopping: stopping, Log: log, Resumed: resumed,
		State: &runState{shared: s.shared, outlines: s.outlines, run: *r},
		Data:  s.dataDir(r.Workspace),
		Alive: s.applies, Waits: func(kind, on, text string) {
			s.queue.WaitsFor(r.ID, kind, on, text)
		},
	}
	var secrets []string // to be masked in the log
	err = s.store.View(func(tx *store.Tx) error {
		w, err := tables.Workspaces.Get(tx, r.Workspace)
		if err != nil {
			return err
		}
		j.Workspace = *w
		j.Who = nameOf(tx, cmp.Or(r.ConfirmedBy, r.CreatedBy))
		j.Structured = r.Structured && w.Structured
		g, err := variables.ForRun(tx, w, r)
		if err != nil {
			return err
		}
		// A token among the variables of the workspace takes precedence.
		j.Variables, j.Environment = g.Values, append([]string{"ATLAS_TOKEN=" + token}, g.Environ...)
		if s.host != "" {
			j.Environment = append([]string{accounts.TokenVariable(s.host) + "=" + token}, j.Environment...)
		}
		secrets = append(g.Secrets, token)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	if r.Configuration != "" {
		j.Configuration = func() (io.ReadCloser, error) { return s.store.Read(tables.ConfigurationFile(r.Configuration)) }
	}
	runsDir := filepath.Join(s.store.Dir(), "scratch")
	if err := errors.Join(os.MkdirAll(runsDir, 0o700), os.MkdirAll(j.Data, 0o700)); err != nil {
		return nil, nil, err
	}
	if j.Scratch, err = os.MkdirTemp(runsDir, r.ID+"-"); err != nil {
		return nil, nil, err
	}
	p := s.identity.proofsOf(r, &j.Workspace, j.Environment, j.Scratch)
	proved, err := p.issue()
	if err == nil {
		err = p.write(proved)
	}
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(j.Scratch))
	}
	j.Environment = append(j.Environment, p.variables(proved)...)
	masks := newMask(withoutMarks{log}, append(secrets, slices.Collect(maps.Values(proved))...))
	j.Log, j.Conceal = masks, masks.add
	return j, func(ctx context.Context) { p.renew(ctx, masks) }, nil
}
