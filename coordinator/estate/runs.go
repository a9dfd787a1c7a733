package estate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/millipede-iac/millipede/coordinator/history"
	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/coordinator/picture"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/graph/plan/planfile"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state/journal"
)

// Runs is a store that was opened for its runs. The caller closes it.
type Runs struct{ store *openedStore }

// OpenRuns opens the store for its runs: exclusively if own is set, else a copy of the last commit. Runs have the
// configuration with which they were planned, so an unreadable configuration in the directory is an error only if
// it configures the encryption of the store.
func (e *Estate) OpenRuns(ctx context.Context, vars Variables, own bool) (*Runs, diag.List) {
	return e.openRuns(ctx, vars, own, 0)
}

// openRuns is OpenRuns, but waits until another process closes the store.
func (e *Estate) openRuns(ctx context.Context, vars Variables, own bool, wait time.Duration) (*Runs, diag.List) {
	_, broken := e.ownEncryption(ctx, vars)
	if broken.HasErrors() {
		if _, diags := e.encryption(ctx, nil); diags.HasErrors() {
			return nil, broken.Append(diags)
		}
		defer func() { e.sealing = nil }() // the run's own configuration sets it again
	}
	as := reads
	if own {
		as = writes
	}
	at, diags := e.storeFor(StateOptions{}, nil)
	if diags.HasErrors() {
		return nil, diags
	}
	store, diags := e.openStore(ctx, at, e.lockInfo(""), as, wait)
	if diags.HasErrors() {
		if broken.HasErrors() && HeldBy(diags) == nil {
			return nil, broken.Append(diags)
		}
		return nil, diags
	}
	return &Runs{store}, diags
}

// Journal is the part of the store about runs, and their states.
func (r *Runs) Journal() Journal { return r.store }

// Journal has the records of runs; journal.Store is one.
type Journal interface {
	journal.States
	journal.Runs
}

// Running reports whether a process executes a run. In the journal a run is running until its end is recorded; if
// no process has the store open, none executes it.
func (r *Runs) Running(run journal.Run) bool {
	return run.Status == journal.Running && r.store.elsewhere
}

// Standing returns a run with its status for people: history.CutOff if it is unfinished and no process executes it.
func (r *Runs) Standing(run journal.Run) journal.Run {
	if run.Status == journal.Running && !r.Running(run) {
		run.Status = history.CutOff
	}
	return run
}

// Recorded is a run as the store has recorded it.
type Recorded struct {
	Run    journal.Run
	Plan   *plan.Plan
	Events []journal.Event
}

// Read returns a run of a workspace: the named one or, without a name, the newest one; nil if there is none yet. The
// error wraps journal.ErrNoRun if the store has no run of the name.
func (r *Runs) Read(ctx context.Context, workspace, name string) (*Recorded, error) {
	if name == "" {
		runs, err := r.store.Runs(ctx, workspace)
		if err != nil || len(runs) == 0 {
			return nil, err
		}
		name = runs[0].ID
	}
	run, text, err := r.store.RunPlan(ctx, name)
	if err != nil {
		return nil, err
	}
	saved, err := planfile.DecodeRecorded(text)
	if err != nil {
		return nil, fmt.Errorf("the plan of the run: %w", err)
	}
	events, err := r.store.Events(ctx, name)
	return &Recorded{run, saved.Plan, events}, err
}

// Report returns the report about a run at a time.
func (r *Runs) Report(run *Recorded, now time.Time) (picture.Report, error) {
	if n := len(run.Plan.Graph.Vertices); run.Run.Vertices != n {
		return picture.Report{}, fmt.Errorf("the plan of the run has %d vertices, and the run %d", n, run.Run.Vertices)
	}
	return picture.Report{Model: history.Of(run.Run, run.Plan, run.Events, r.Running(run.Run), now),
		Parts: history.Parts(run.Plan)}, nil
}

// Close closes the store.
func (r *Runs) Close() diag.List { return r.store.close() }

// FindRun reads an unfinished run, and its plan. An empty name means the last one. With deferred, the last run may also
// have ended successfully, if its plan has deferred something. The diagnostics are HeldBy another process if that
// executes runs.
func (e *Estate) FindRun(ctx context.Context, name string, vars Variables, deferred bool) (r journal.Run,
	saved *planfile.Saved, diags diag.List) {
	opened, diags := e.OpenRuns(ctx, vars, true)
	if diags.HasErrors() {
		return r, nil, diags
	}
	store := opened.store
	defer func() { diags = diags.Append(store.close()) }()
	runs, err := store.Runs(ctx, e.Workspace())
	if err != nil {
		return r, nil, diag.Errors("Failed to read the runs", err.Error()+".", nil)
	}
	if deferred {
		if r, saved, diags = deferredBy(ctx, store, runs, name); saved != nil || diags.HasErrors() {
			return r, saved, diags
		}
	}
	if name == "" {
		open := slices.IndexFunc(runs, func(r journal.Run) bool { return !r.Over() })
		if open < 0 {
			return r, nil, diag.Errors("Nothing to resume", "Every run in this workspace has ended. See: "+
				diag.Program()+" runs list", nil).Append(e.Left(ctx))
		}
		name = runs[open].ID
	}
	r, text, err := store.RunPlan(ctx, name)
	switch {
	case errors.Is(err, journal.ErrNoRun):
		return r, nil, diag.Errors("No such run",
			fmt.Sprintf("The state that this directory uses now has no run %q. See: "+diag.Program()+" runs list", name),
			nil).Append(e.Left(ctx))
	case err != nil:
		return r, nil, diag.Errors("Failed to read the run", err.Error()+".", nil)
	case r.Workspace != e.Workspace():
		return r, nil, diag.Errors("The run is of another workspace", fmt.Sprintf("The run %s belongs to the "+
			"workspace %q, and %q is selected now.", r.ID, r.Workspace, e.Workspace()), nil)
	}
	if diags := operation.Resumable(runs, r.ID); diags.HasErrors() {
		return r, nil, diags // checked again under the lock; this check needs no engine
	}
	saved, diags = recordedPlan(ctx, store, r, text)
	return r, saved, diags
}

// Asked returns the run that was started for a request, and its plan; nil if there is none. It may have ended. A
// run that ended before any of it was started counts as none. It waits for the store.
func (e *Estate) Asked(ctx context.Context, request string, vars Variables, wait time.Duration) (run *journal.Run,
	saved *planfile.Saved, diags diag.List) {
	opened, diags := e.openRuns(ctx, vars, true, wait)
	if diags.HasErrors() {
		return nil, nil, diags
	}
	store := opened.store
	defer func() { diags = diags.Append(store.close()) }()
	runs, err := store.Runs(ctx, e.Workspace())
	if err != nil {
		return nil, nil, diag.Errors("Failed to read the runs", err.Error()+".", nil)
	}
	at := slices.IndexFunc(runs, func(r journal.Run) bool { return r.Request == request })
	if at < 0 && len(runs) > 0 && runs[0].Request == "" && !runs[0].Over() {
		at = 0 // started by a version that did not record requests
	}
	if at < 0 {
		return nil, nil, nil
	}
	return begun(ctx, store, runs[at].ID)
}

// begun reads a run and its plan; nil if the run ended before any of it was started.
func begun(ctx context.Context, store journal.Store, id string) (*journal.Run, *planfile.Saved, diag.List) {
	r, text, err := store.RunPlan(ctx, id)
	if err != nil {
		return nil, nil, diag.Errors("Failed to read the run", err.Error()+".", nil)
	}
	if r.Over() && r.Status != "done" {
		events, err := store.Events(ctx, r.ID)
		if err != nil {
			return nil, nil, diag.Errors("Failed to read the run", err.Error()+".", nil)
		}
		if len(events) == 0 {
			return nil, nil, nil
		}
	}
	saved, diags := recordedPlan(ctx, store, r, text)
	return &r, saved, diags
}

// titled returns what people know a run by: its name, its command, and when it began.
func titled(r journal.Run) string {
	return fmt.Sprintf("%s (%s, begun %s)", r.ID, r.Command, r.Started.Format("2006-01-02 15:04:05 -0700"))
}

// recordedPlan reads the plan of a run in the journal.
func recordedPlan(ctx context.Context, store journal.Versions, r journal.Run, text []byte) (*planfile.Saved,
	diag.List) {
	saved, err := planfile.DecodeRecorded(text)
	var version *planfile.VersionError
	switch {
	case errors.As(err, &version):
		with := "the version of Millipede that began it"
		if version.Engine != "" {
			with = "Millipede " + version.Engine
		}
		return nil, diag.Errors("The run is of another version of Millipede", fmt.Sprintf(
			"The plan of the run %s cannot be read: %s. Only the plan says what the operations of the run are about, so "+
				"this version can neither resume nor end it. Use %s for that:\n  %s runs cancel %s",
			titled(r), err, with, diag.Program(), r.ID), nil)
	case err != nil:
		return nil, diag.Errors("Failed to read the run's plan", err.Error()+".", nil)
	}
	if diags := complete(ctx, store, &saved); diags.HasErrors() {
		return nil, diags
	}
	return &saved, nil
}

// NotResumable says what can be done with a run whose plan has an older format: resuming it needs the version that
// made it.
func NotResumable(r journal.Run, saved *planfile.Saved) diag.List {
	if !saved.Older {
		return nil
	}
	return diag.Errors("The run cannot be resumed", fmt.Sprintf(
		"An older version of Millipede started the run %s, with a plan in a format that this version cannot resume. "+
			"It can end the run: it takes its results, waits for operations in progress, and marks the others as in "+
			"doubt. Then make a new plan.\n  %s runs cancel %s",
		r.ID, diag.Program(), r.ID), nil)
}

// Coordinator returns the name of the coordinator that owns the store of the selected workspace.
func (e *Estate) Coordinator() (string, error) {
	at, diags := e.storeFor(StateOptions{}, nil)
	if diags.HasErrors() {
		return "", diags.Err()
	}
	name, _, err := readIdentity(at.Identity())
	return name, err
}

// WatchRun watches the run that another process executes, or is about to execute, on the state of the selected
// workspace: see is called with each line (see layout.Home.Watch). The error is layout.ErrNobody if there is no
// such process.
func (e *Estate) WatchRun(ctx context.Context, see func(line []byte) error) error {
	at, diags := e.storeFor(StateOptions{}, nil)
	if diags.HasErrors() {
		return diags.Err()
	}
	return at.Watch(ctx, see)
}
