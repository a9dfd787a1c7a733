package operation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/applying"
	"github.com/millipede-iac/millipede/coordinator/loop"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/internal/bug"
	"github.com/millipede-iac/millipede/internal/failpoint"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

// ApplyOptions are the options of Apply.
type ApplyOptions struct {
	Plan *plan.Plan
	// Saved is the encoded plan, which the journal keeps so that the run can be resumed.
	Saved []byte
	// Command is the user's command: apply, destroy, refresh.
	Command string
	// LockID is the ID of the state's lock; Who is the user who holds it.
	LockID, Who string
	// Request is the requester's name for the run; may be empty.
	Request string
	// After is the run of the round before; empty for a first round.
	After string
}

// nothingApplied is the detail of the error if an apply is interrupted before its run begins.
const nothingApplied = "No change of the plan was made."

// Applied is the result of an apply.
type Applied struct {
	Counts applying.Counts
	// Before counts the changes that were made before the run was resumed.
	Before  applying.Counts
	Outcome coordinator.Outcome
	// State is the state afterwards.
	State *state.State
	Run   string
	// Values are the values of the configuration after the apply, for expressions; Schemas are those that the apply used.
	Values  *values.Store
	Schemas *values.Schemas
}

// Apply executes a plan, which must have been made for the stored state.
func (s *Session) Apply(ctx context.Context, o ApplyOptions) (applied *Applied, diags diag.List) {
	defer caught(&diags)
	if diags := s.interrupted(nothingApplied); diags.HasErrors() {
		return nil, diags
	}
	run := s.NewID()
	record := journal.Run{
		ID: run, Workspace: s.Workspace, Coordinator: s.Hub.Coordinator(), Command: o.Command, Started: s.Now(),
		Status: journal.Running,
		Who:    o.Who, Vertices: len(o.Plan.Graph.Vertices), BaseSerial: o.Plan.BaseSerial, Request: o.Request,
		Plan: o.Plan.Digest, After: o.After,
	}
	domains, err := s.Hub.Domains(ctx)
	if err != nil {
		return nil, storesUnclear(err)
	}
	record.Domains = domains
	last, err := s.endEarlierRuns(ctx, o.LockID)
	if err != nil {
		return nil, diag.Errors("Failed to record the run", err.Error()+".", nil)
	}
	// The start times determine which run was overtaken by another. The clock of the process that began the last
	// one may be ahead.
	if !record.Started.After(last) {
		record.Started = last.Add(time.Nanosecond)
	}
	failpoint.Hit(failpoint.PlanUnsaved)
	if err := s.Store.BeginRun(s.Stop.running(ctx), o.LockID, record, o.Saved); err != nil {
		return nil, diag.Errors("Failed to record the run", err.Error()+".", nil)
	}
	failpoint.Hit(failpoint.PlanSaved)
	applier, diags := s.applier(ctx, o.Plan, run, o.LockID)
	// Nothing of the run has begun yet, so it ends as failed even if it was stopped: there is nothing to resume.
	end := func(diags diag.List) diag.List {
		return diags.Append(failed(s.Store.EndRun(context.WithoutCancel(ctx), o.LockID, run, "failed", s.Now())))
	}
	if diags.HasErrors() {
		return nil, end(diags)
	}
	envelope := s.envelope(run, true)
	if more := s.interrupted(nothingApplied); more.HasErrors() {
		return nil, end(diags.Append(more))
	}
	ro := s.runnerOptions("apply", applier)
	ro.Store, ro.LockID, ro.RunID, ro.Envelope = s.Store, o.LockID, run, envelope
	ro.Stores, ro.Who = slices.Sorted(maps.Keys(domains)), o.Who
	ended := s.traced(&ro, record, o.Plan, nil)
	return s.carryOut(ctx, coordinator.New(ro), applier, envelope, run, diags, ended)
}

// endEarlierRuns ends earlier runs that were cut off or interrupted: the state changes now, so that their plans will no
// longer fit it, unless they hold locks of the objects that they change. Runs with operations in doubt are kept,
// because their journals have the facts about those. It returns the time at which the last run began.
func (s *Session) endEarlierRuns(ctx context.Context, lockID string) (last time.Time, err error) {
	runs, err := s.Store.Runs(ctx, s.Workspace)
	if err != nil {
		return last, err
	}
	if len(runs) > 0 {
		last = runs[0].Started
	}
	shared, err := sharing(ctx, s.Store, s.Workspace)
	if err != nil {
		return last, err
	}
	runs = slices.DeleteFunc(runs, func(r journal.Run) bool { return r.Over() || shared[r.ID] })
	if len(runs) == 0 {
		return last, nil
	}
	stored, err := s.Store.Load(ctx, s.Workspace)
	if err != nil {
		return last, err
	}
	doubts := map[string]bool{}
	for d := range stored.Doubts() {
		doubts[d.Run] = true
	}
	for _, r := range runs {
		if doubts[r.ID] {
			continue
		}
		if err := s.Store.EndRun(ctx, lockID, r.ID, "cancelled", s.Now()); err != nil {
			return last, err
		}
		if err := s.releasePermits(ctx, r); err != nil {
			return last, err
		}
	}
	return last, nil
}

// Resumable returns why a run cannot be resumed: it has ended, or another one has begun since. runs are those of its
// workspace, the last one first.
func Resumable(runs []journal.Run, id string) diag.List {
	at := slices.IndexFunc(runs, func(r journal.Run) bool { return r.ID == id })
	switch {
	case at < 0:
		return diag.Errors("No such run", fmt.Sprintf("There is no run %q in the store. See: "+diag.Program()+
			" runs list", id), nil)
	case runs[at].Over():
		return diag.Errors("The run has ended", fmt.Sprintf("The run %s is %s; there is nothing to resume.", id,
			runs[at].Status), nil)
	case at > 0:
		return diag.Errors("The run was overtaken",
			fmt.Sprintf("The run %s has changed the state since, so the plan of the run %s does not fit it any more. Make a "+
				"new plan. To record the outcomes of the old run's operations in doubt: "+diag.Program()+
				" runs resolve", runs[0].ID, id), nil)
	}
	return nil
}

// Resume continues a run that a crash or an interrupt has ended. It checks in the store that the run is Resumable,
// because the caller has read the run before it had the lock.
func (s *Session) Resume(ctx context.Context, r journal.Run, p *plan.Plan, lockID string) (*Applied, diag.List) {
	return s.goOn(ctx, r, p, lockID, nil)
}

// Cancel ends an interrupted run permanently: attempts that no worker has claimed are revoked, and those in
// progress are awaited.
func (s *Session) Cancel(ctx context.Context, r journal.Run, p *plan.Plan, lockID string) (*Applied, diag.List) {
	applied, diags := s.goOn(ctx, r, p, lockID, (*coordinator.Runner).Cancel)
	// This is the requested result.
	return applied, slices.DeleteFunc(diags, func(d *diag.Diagnostic) bool { return d.Extra == endCancelled })
}

// Settle takes the results of a run that was cut off, waits for operations that workers elsewhere still execute, and
// marks operations with an unknown outcome as in doubt. It starts nothing. After that the state is complete. The run
// can still be resumed until another one begins. Failures and doubts of the run are warnings; errors say that the run
// could not be settled.
func (s *Session) Settle(ctx context.Context, r journal.Run, p *plan.Plan, lockID string) (*Applied, diag.List) {
	applied, all := s.goOn(ctx, r, p, lockID, (*coordinator.Runner).Settle)
	if applied == nil {
		return nil, all
	}
	var out diag.List
	for _, d := range all {
		switch {
		case d.Extra == endInterrupted || d.Extra == endIncomplete:
			continue // the requested result
		case d.Severity == diag.Error && (d.Extra == endDoubt || slices.Contains(applied.Outcome.Diags, d)):
			warning := *d
			warning.Severity = diag.Warning
			d = &warning
		}
		out = out.Append(d)
	}
	return applied, out
}

// goOn executes the rest of an interrupted run. If limit is not nil, it first restricts the runner to a part of that.
// The result is nil if the run cannot be resumed.
func (s *Session) goOn(ctx context.Context, r journal.Run, p *plan.Plan, lockID string,
	limit func(*coordinator.Runner)) (applied *Applied, diags diag.List) {
	defer caught(&diags)
	runs, err := s.Store.Runs(ctx, s.Workspace)
	if err != nil {
		return nil, diag.Errors("Failed to read the runs", err.Error()+".", nil)
	}
	shared, err := sharing(ctx, s.Store, s.Workspace)
	if err != nil {
		return nil, diag.Errors("Failed to read the locks", err.Error()+".", nil)
	}
	if shared[r.ID] { // its changes are locked, so no other run has overtaken it
		runs = slices.DeleteFunc(runs, func(other journal.Run) bool { return other.ID != r.ID })
	}
	if diags := Resumable(runs, r.ID); diags.HasErrors() {
		return nil, diags
	}
	if diags := s.sameStores(ctx, r); diags.HasErrors() {
		return nil, diags
	}
	applier, diags := s.applier(ctx, p, r.ID, lockID)
	if diags.HasErrors() {
		return nil, diags
	}
	envelope := s.envelope(r.ID, false)
	if more := s.interrupted("The run " + r.ID + " is unchanged: nothing was started."); more.HasErrors() {
		return nil, diags.Append(more)
	}
	ro := s.runnerOptions("apply", applier)
	ro.Store, ro.LockID, ro.RunID, ro.Hub, ro.Envelope = s.Store, lockID, r.ID, s.Hub.For(r.Coordinator), envelope
	ro.Stores, ro.Who = slices.Sorted(maps.Keys(r.Domains)), r.Who
	ended := func(string) {}
	if s.Timeline != nil {
		events, err := s.Store.Events(ctx, r.ID)
		if err != nil {
			return nil, diags.Append(failed(err))
		}
		ended = s.traced(&ro, r, p, events)
	}
	before, err := s.carriedOut(ctx, r, p)
	if err != nil {
		return nil, diags.Append(failed(err))
	}
	runner, err := coordinator.Resume(ctx, ro)
	if err != nil {
		return nil, diags.Append(diag.New(diag.Error, "The run cannot be resumed", err.Error()+".", nil))
	}
	if err := envelope.reopen(ctx, runner.Pools()); err != nil {
		return nil, diags.Append(failed(err))
	}
	if limit != nil {
		limit(runner)
	}
	applied, diags = s.carryOut(ctx, runner, applier, envelope, r.ID, diags, ended)
	applied.Before = before
	return applied, diags
}

// carriedOut counts the changes that a run has made, according to its journal.
func (s *Session) carriedOut(ctx context.Context, r journal.Run, p *plan.Plan) (n applying.Counts, err error) {
	events, err := s.Store.Events(ctx, r.ID)
	if err != nil {
		return n, err
	}
	statuses, _, err := journal.Fold(len(p.Graph.Vertices), events)
	if err != nil {
		return n, err
	}
	return applying.CountDone(p, func(v int) bool { return statuses[v] == journal.Done }), nil
}

// Ended returns the result of a run that has ended, for a process that did not execute it. It starts nothing, and
// removes the run's messages from the streams.
func (s *Session) Ended(ctx context.Context, r journal.Run, p *plan.Plan) (applied *Applied, diags diag.List) {
	defer caught(&diags)
	applied = &Applied{Run: r.ID, Outcome: coordinator.Outcome{Status: r.Status}}
	var err error
	if applied.Before, err = s.carriedOut(ctx, r, p); err != nil {
		return nil, failed(err)
	}
	events, err := s.Store.Events(ctx, r.ID)
	if err != nil {
		return nil, failed(err)
	}
	for _, e := range events {
		if e.Kind == journal.Fail {
			diags = diags.Append(failedEarlier(loop.Failure{Address: e.Address, Reason: e.Detail}))
		}
	}
	if r.Status != "done" && !diags.HasErrors() {
		diags = diags.Append(diag.New(diag.Error, "The run has failed",
			fmt.Sprintf("The run %s is %s. The state has its changes.", r.ID, r.Status), nil))
	}
	if err := s.Hub.For(r.Coordinator).PurgeRun(ctx, r.ID, coordinator.PoolsOf(events)); err != nil {
		diags = diags.Append(diag.New(diag.Warning, "The streams were not cleaned",
			fmt.Sprintf("The messages of run %s could not be removed from the streams of NATS. They remain there, and do no "+
				"harm: %s.", r.ID, err), nil))
	}
	return applied, diags
}

// end identifies a diagnostic about how a run has ended, as its Extra.
type end int

const (
	endCancelled   end = iota + 1 // the run was cancelled, and cannot be resumed
	endInterrupted                // the run was interrupted, and can be resumed
	endDoubt                      // the outcome of an operation is unknown
	endIncomplete                 // the plan covered only a part of the configuration
)

// diagnostic returns a diagnostic with the end as its Extra.
func (e end) diagnostic(severity diag.Severity, summary, detail string) *diag.Diagnostic {
	d := diag.New(severity, summary, detail, nil)
	d.Extra = e
	return d
}

func failed(err error) diag.List {
	if err == nil {
		return nil
	}
	return diag.Errors("Failed to execute the run", err.Error()+".", nil)
}

func (s *Session) carryOut(ctx context.Context, r *coordinator.Runner, a *applying.Applier, e *envelope, run string,
	diags diag.List, ended func(outcome string)) (*Applied, diag.List) {
	ctx = s.Stop.running(ctx)
	release := s.forwardStop(r)
	defer release()
	sharing, stop := context.WithCancel(ctx)
	var group errgroup.Group
	group.Go(func() error {
		return bug.Catch(func() error { return e.keepSharing(sharing, s.Hub.SubscribeHeartbeats) })
	})
	if s.Events != nil {
		group.Go(func() error {
			return s.Hub.Events(sharing, run, func(pool string, data []byte) {
				// The transport calls it, and must survive a panic in it.
				err := bug.Catch(func() error {
					e, err := wire.DecodeEvent(data)
					if err != nil {
						return nil //nolint:nilerr // nobody waits for it
					}
					var ours bool
					if e.Address, ours = r.Address(e.Attempt, pool); ours {
						a.NoteProgress(e)
						s.Events(e)
					}
					return nil
				})
				if err != nil {
					r.Fail(err)
				}
			})
		})
	}
	outcome, err := r.Run(ctx)
	ended(outcome.Status)
	a.Renewals.Stop()
	stop()
	if sharingErr := group.Wait(); err == nil && !errors.Is(sharingErr, context.Canceled) {
		err = sharingErr
	}
	diags = diags.Append(outcome.Diags)
	switch {
	case errors.Is(err, journal.ErrFenced):
		diags = diags.Append(diag.New(diag.Error, "The state lock was lost",
			fmt.Sprintf("Another command took the lock of the state while run %s was in progress. The state contains "+
				"the changes that were finished before.", run), nil))
	case errors.Is(err, coordinator.ErrRecording):
		diags = diags.Append(diag.New(diag.Error, "Failed to save state", err.Error()+".", nil))
	case err != nil:
		diags = diags.Append(runFailed(err))
	}
	if p := a.Plan; len(p.Targets)+len(p.Excludes) > 0 {
		diags = diags.Append(endIncomplete.diagnostic(diag.Warning, "Applied changes may be incomplete",
			"The plan covered only a part of the configuration, because of -target or -exclude, so there may be more "+
				"changes to make. Make a plan without these options to see them."))
	}
	for _, f := range outcome.Failed {
		if f.Earlier {
			diags = diags.Append(failedEarlier(f))
		}
	}
	for _, d := range outcome.InDoubt {
		detail := fmt.Sprintf("%s is in doubt: %s.\n\n", d.Address, strings.TrimSuffix(d.Reason, "."))
		if d.Answer != nil && len(d.Answer.Known) > 0 {
			detail += fmt.Sprintf("The provider has answered, and this part of the answer is readable:\n  %s\n\n",
				d.Answer.Known)
		}
		switch a.Describe(d.Vertex).Action {
		case "invoke":
			detail += fmt.Sprintf("It is not invoked again by itself. Check whether it happened, then record it:\n  "+
				diag.Program()+" runs resolve '%s' -invoked\n  "+diag.Program()+" runs resolve '%s' -not-invoked", d.Address,
				d.Address)
		case "create":
			detail += fmt.Sprintf("Check whether it happened, then record it:\n  "+diag.Program()+" runs resolve '%s' "+
				"-created ID\n  "+diag.Program()+" runs resolve '%s' -not-created", d.Address, d.Address)
		default:
			detail += fmt.Sprintf("The next plan reads the object, and continues from the existing one. Until then the "+
				"operation holds its permits, because it may still be running; to release them at once, record its "+
				"outcome:\n  "+
				diag.Program()+" runs resolve '%s' -created ID\n  "+diag.Program()+" runs resolve '%s' -not-created",
				d.Address, d.Address)
		}
		diags = diags.Append(endDoubt.diagnostic(diag.Error, "The outcome of an operation is not known", detail))
	}
	switch {
	case outcome.Interrupted && outcome.Status != "cancelled" && len(outcome.InDoubt) > 0:
		diags = diags.Append(resumable(run, len(outcome.InDoubt)))
	case diags.HasErrors():
	case outcome.Status == "cancelled":
		diags = diags.Append(endCancelled.diagnostic(diag.Error, "Run cancelled", fmt.Sprintf("The run %s was cancelled "+
			"before it was complete. The state contains its finished changes.", run)))
	case outcome.Interrupted:
		diags = diags.Append(endInterrupted.diagnostic(diag.Error, "Operation interrupted",
			fmt.Sprintf("The run %s was stopped before it was complete. To continue: "+diag.Program()+
				" runs resume %s", run, run)))
	}
	return &Applied{
		Counts: a.Counts(), Outcome: outcome, State: a.State(), Run: run, Values: a.Store, Schemas: a.Code.Schemas,
	}, diags
}

// resumable tells users how to continue a run that has ended with operations in doubt, regardless of other errors.
func resumable(run string, doubts int) *diag.Diagnostic {
	return diag.New(diag.Warning, "The run can be resumed", fmt.Sprintf("The run %[1]s is not complete, and %[2]d of its "+
		"operations are in doubt. They hold their permits, so that with as many of them as permits nothing more can start. "+
		"If a worker that has one of them can come back, start it: it reports what became of it. Record the outcomes of "+
		"the others as shown above. Then continue: %[3]s runs resume %[1]s. Or make a new plan.", run, doubts,
		diag.Program()), nil)
}

// failedEarlier returns the error of a vertex that failed before the run was resumed. Without it the run would end
// as if it had succeeded.
func failedEarlier(f loop.Failure) *diag.Diagnostic {
	reason := strings.TrimSpace(f.Reason)
	if reason == "" {
		reason = "The reason was reported when the failure occurred."
	}
	d := diag.New(diag.Error, "Failed before the run was cut off", f.Address+" failed, and was not tried again:\n\n"+
		reason, nil)
	d.Address = f.Address
	return d
}

// applier makes the program of an apply from the stored state. If the lock is one of objects, the program changes only
// these.
func (s *Session) applier(ctx context.Context, p *plan.Plan, run, lockID string) (*applying.Applier, diag.List) {
	own, err := s.own(ctx, lockID)
	if err != nil {
		return nil, diag.Errors("Failed to read the locks", err.Error()+".", nil)
	}
	stored, err := s.Store.Load(ctx, s.Workspace)
	if err != nil {
		return nil, diag.Errors("Failed to read the state", err.Error()+".", nil)
	}
	schemas, diags := s.Schemas(ctx, p.Prior)
	if diags.HasErrors() {
		return nil, diags
	}
	code := values.NewCode(s.Tree, schemas)
	static := graph.Build(s.Tree, p.Prior, code)
	return applying.New(applying.Options{
		Plan: p, Static: static, Code: code, Store: s.store(code, values.Applying, p.Timestamp), State: stored,
		Run: run, Dir: s.Dir, Files: s.Files, Env: s.Env, Package: s.Package,
		Removed: removedBlocks(s.Tree).provisioning, Renewals: s.renewals(), Own: own,
		Reveal: s.Reveal,
	}), diags
}
