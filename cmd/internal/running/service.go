package running

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/cmd/internal/command"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/coordinator/remote"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/internal/cloud/tfc"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/view"
	"github.com/millipede-iac/millipede/view/document"
)

// Request has the options of a run that a service executes.
type Request struct {
	plan.Options
	Applies, Approved, Detach bool
	// Refuses has errors about options of the command that a service cannot follow.
	Refuses diag.List
	// Out is the file that the plan is saved to, GeneratedInto the one for generated blocks; empty for none.
	Out, GeneratedInto string
	// Detailed requests the exit code 2 if there are changes.
	Detailed bool
	// Input allows questions.
	Input       bool
	LockTimeout time.Duration
}

// remote returns the request in the words of the service's API.
func (r *Request) remote(d *estate.Delegated, temp string) remote.Request {
	out := remote.Request{
		Dir: d.Dir, Temp: temp, PlanOnly: !r.Applies && r.Out == "", Saved: r.Out != "",
		NewRun: tfc.NewRun{
			AutoApply: r.Applies && r.Approved, Refresh: !r.SkipRefresh, Destroy: r.Mode == plan.Destroy,
			RefreshOnly: r.Mode == plan.RefreshOnly, GenerateConfig: r.GeneratedInto != "", Variables: d.Variables,
		},
	}
	for _, t := range r.Targets {
		out.Targets = append(out.Targets, t.String())
	}
	for _, i := range r.Replace {
		out.Replace = append(out.Replace, i.String())
	}
	return out
}

// NotDetached returns the error about -detach without a service.
func NotDetached() diag.List {
	return diag.Errors("Nothing to detach from", "The option -detach is for runs that a service executes. This run is "+
		"executed by the command itself.", nil)
}

// serviceRun is one run of a service, as the command sees it.
type serviceRun struct {
	*estate.Delegated
	app     *command.App
	ui      *Screen
	request Request
	// ctx ends when the command leaves.
	ctx context.Context //nolint:containedctx // it lives as long as the command
	id  string
}

// AtService creates a run at a service, and follows it. It returns the exit code.
func AtService(a *command.App, u *Screen, d *estate.Delegated, request Request) int {
	s := &serviceRun{Delegated: d, app: a, ui: u, request: request, ctx: a.Interrupts.Leaving}
	d.Tell = u.Note
	diags := request.Refuses
	if request.Applies {
		diags = diags.Append(d.MayApply())
	}
	diags = diags.Append(d.MayPlan())
	if d.Dir == "" && request.Mode != plan.Destroy {
		diags = diags.Append(diag.New(diag.Error, "No configuration files found", "The service plans what is uploaded, "+
			"and there is no configuration in this directory.", nil))
	}
	if diags.HasErrors() {
		u.Diagnostics(diags)
		return 1
	}
	u.Diagnostics(diags)
	defer a.Interrupts.Hold()()
	run, diags := d.Begin(s.ctx, a.Interrupts.Stopping, request.remote(d, a.Estate.Temp))
	if diags.HasErrors() {
		return s.fail(diags)
	}
	s.id = run.ID
	s.begun()
	if request.Detach {
		return 0
	}
	return s.watched(func() int { return s.follow() })
}

// begun shows the address of the new run.
func (s *serviceRun) begun() {
	at := s.URL(s.id)
	s.ui.Print(fmt.Sprintf("The run %s of the workspace %s/%s is executed by the service:\n  %s\n\n", s.id,
		s.Organization, s.Workspace.Name, at))
	s.ui.Message("service_run", "Run "+s.id+": "+at, map[string]any{"run": s.id, "url": at})
	notes, err := s.Client.Notes(s.ctx, s.id)
	if err != nil {
		s.ui.Note(fmt.Sprintf("The notes of the service about the run cannot be read: %s.\n", err))
	}
	for _, n := range notes {
		switch n.Action {
		case "changed_policy_enforcements", "changed_task_enforcements", "ignored_policy_sets":
			s.ui.Diagnostics(diag.List{diag.New(diag.Warning, n.Description, "", nil)})
		}
	}
}

// watched calls fn. If the command is interrupted meanwhile, it requests the service to end the run.
func (s *serviceRun) watched(fn func() int) int {
	defer s.app.Interrupts.Parts(command.PartsFromRun)()
	var asking sync.WaitGroup
	asking.Add(1)
	undo := context.AfterFunc(s.app.Interrupts.Stopping, func() {
		defer asking.Done()
		what, err := s.Stop(s.ctx, s.id, "the command was interrupted")
		switch {
		case s.ctx.Err() != nil:
		case err != nil && !tfc.Conflict(err):
			s.ui.Note(fmt.Sprintf("The service could not be asked to end the run: %s.\n", err))
		case what != "":
			s.ui.Note(fmt.Sprintf("The service was asked: the run is %s. A second interrupt ends the command without "+
				"waiting for the run.\n",
				strings.Replace(what, "cancelled", "being cancelled", 1)))
		}
	})
	code := fn()
	if undo() {
		asking.Done()
	}
	asking.Wait()
	return code
}

// fail shows problems. If the command leaves early, it says that the run continues.
func (s *serviceRun) fail(diags diag.List) int {
	if s.ctx.Err() != nil && s.id != "" {
		diags = diag.Errors("Operation interrupted", fmt.Sprintf("The command does not wait for the run %s any more, "+
			"which may continue:\n  %s", s.id, s.URL(s.id)), nil)
	} else if s.app.Interrupts.Asked() && s.id == "" {
		diags = diag.Errors("Operation interrupted", "No run was begun.", nil)
	}
	s.ui.Diagnostics(diags)
	return 1
}

func (s *serviceRun) failed(doing string, err error) int {
	return s.fail(diag.Errors(doing, err.Error()+".", nil))
}

// follow follows the run to its end.
func (s *serviceRun) follow() int {
	r, err := s.AwaitPlan(s.ctx, s.id, s.request.LockTimeout)
	if err != nil {
		return s.failed("Failed to retrieve run", err)
	}
	log, err := s.log(tfc.Plans, r.Plan)
	if err != nil {
		return s.failed("Failed to read logs", err)
	}
	if r, err = s.Settled(s.ctx, s.id); err != nil {
		return s.failed("Failed to retrieve run", err)
	}
	planFailed := r.Status.Final() && r.Status != tfc.PlannedAndFinished && r.Status != tfc.Applied &&
		(r.Planned == nil || r.Planned.Status != "finished")
	if !planFailed {
		if diags := s.show(r, log); diags.HasErrors() {
			return s.fail(diags)
		}
	}
	if planFailed || !s.request.Applies {
		return s.planned(r)
	}
	return s.apply(r)
}

// log shows the log of a phase.
func (s *serviceRun) log(kind, id string) (*view.ServiceLog, error) {
	log := &view.ServiceLog{
		Out: s.app.People(s.ui.Flags), Options: s.ui.Options(), Applying: kind == tfc.Applies,
		Problems: s.ui.Diagnostics,
	}
	line := log.Line
	if !s.ui.ForPeople() {
		log.Out, log.Problems = io.Discard, func(diag.List) {}
	}
	if s.ui.Stream != nil {
		line = func(text []byte) {
			log.Line(text)
			switch {
			case len(text) > 0 && text[0] == '{':
				s.ui.Stream.Pass(text)
			case len(text) > 0:
				s.ui.Stream.Log(string(text))
			}
		}
	}
	err := s.Follow(s.ctx, kind, id, line)
	s.ui.Check(log.Err())
	return log, err
}

// show shows the plan if the log does not contain it, and writes generated blocks.
func (s *serviceRun) show(r *tfc.Run, log *view.ServiceLog) diag.List {
	structured := r.On != nil && r.On.Structured
	generates := s.request.GeneratedInto != "" && r.Planned != nil && r.Planned.Generated
	if !generates && (!structured || !s.ui.ForPeople()) {
		return nil
	}
	p, schemas, diags := ServicePlan(s.ctx, s.Client, r)
	switch {
	case diags.HasErrors():
		return diags
	case p == nil:
		s.ui.Print(log.Summary() + "\n")
		return nil
	}
	if structured {
		s.ui.Printed(func(w io.Writer) error { return view.PlanText(w, p, schemas, s.ui.Options()) })
	}
	if generates {
		return s.app.Estate.WriteGenerated(s.request.GeneratedInto, estate.GeneratedBy(p))
	}
	return nil
}

// planned ends a command that only plans, or whose plan has failed.
func (s *serviceRun) planned(r *tfc.Run) int {
	switch r.Status {
	case tfc.Errored, tfc.Canceled, tfc.ForceCanceled, tfc.Discarded:
		return s.over(r)
	}
	if s.request.Out != "" {
		if diags := s.app.Estate.SaveRun(s.request.Out, s.Host, s.id); diags.HasErrors() {
			return s.fail(diags)
		}
	}
	if r.HasChanges {
		s.ui.Printed(func(w io.Writer) error {
			return view.NextStepText(w, s.request.Out, s.request.GeneratedInto, s.ui.Options())
		})
	}
	if s.request.Detailed && r.HasChanges {
		return 2
	}
	return 0
}

// over explains why a run ended without completing its work.
func (s *serviceRun) over(r *tfc.Run) int {
	switch r.Status {
	case tfc.Canceled, tfc.ForceCanceled:
		s.ui.Diagnostics(diag.Errors("The run was cancelled", "For details, see the run:\n  "+s.URL(s.id), nil))
	case tfc.Discarded:
		s.ui.Diagnostics(diag.Errors("The run was discarded", "Its plan was not applied.", nil))
	case tfc.Errored:
		s.ui.Diagnostics(diag.Errors("The run has failed", "The log of the run above has the error:\n  "+
			s.URL(s.id), nil))
	default:
		return 0
	}
	return 1
}

// apply continues after the plan: it asks for approval if necessary, and follows the apply.
func (s *serviceRun) apply(r *tfc.Run) int {
	switch {
	case r.Status == tfc.PlannedAndFinished:
		return 0
	case r.Status == tfc.Discarded || r.Status == tfc.Canceled && r.Actions.Confirmable:
		return s.over(r)
	case r.Status.Final() || r.Status.Waiting() || r.Status == tfc.Applying || r.AutoApply && s.request.Approved:
		if !r.AutoApply && (!r.Status.Final() || r.Status == tfc.Applied) {
			s.ui.Print(elsewhereText) // before the question was asked here
		}
	case !r.Actions.Confirmable && !r.HasChanges:
		return 0
	case !r.Actions.Confirmable:
		return s.fail(diag.Errors("The run cannot be applied from here", fmt.Sprintf("The run is %s, which is to be dealt "+
			"with on its page:\n  %s", r.Status, s.URL(s.id)), nil))
	default:
		if code, done := s.approve(r); done {
			return code
		}
	}
	return s.applying()
}

// applying follows an apply that was confirmed.
func (s *serviceRun) applying() int {
	r, err := s.AwaitApply(s.ctx, s.id)
	if err != nil {
		return s.failed("Failed to retrieve run", err)
	}
	s.ui.Print("\n")
	if _, err := s.log(tfc.Applies, r.Apply); err != nil {
		return s.failed("Failed to read logs", err)
	}
	if r, err = s.Ended(s.ctx, s.id); err != nil {
		return s.failed("Failed to retrieve run", err)
	}
	return s.over(r)
}

// approve asks for approval, and confirms or discards the run. The question may be answered elsewhere meanwhile. If
// done is true, the command ends with the exit code.
func (s *serviceRun) approve(r *tfc.Run) (code int, done bool) {
	a := s.app
	if !a.InputAllowed(s.request.Input) {
		return s.fail(diag.Errors("Cannot confirm apply due to -input=false", fmt.Sprintf("The run waits for its approval "+
			"and keeps the workspace until then. Approve or discard it on its page, or give -auto-approve:\n  %s",
			s.URL(s.id)), nil)), true
	}
	mode := plan.Normal
	switch {
	case r.Destroy:
		mode = plan.Destroy
	case r.RefreshOnly:
		mode = plan.RefreshOnly
	}
	question, what := approval(mode, s.Workspace.Name)
	fmt.Fprintf(a.Stdout, "\n%s\n  %s\n\n  Enter a value: ", question, what)
	asking, cancel := context.WithCancel(s.ctx)
	elsewhere := make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() {
		if now, err := s.Approved(asking, s.id); err == nil && !now.Actions.Confirmable {
			close(elsewhere)
		}
	})
	line, err := a.ReadLineUntil(elsewhere)
	cancel()
	looking.Wait()
	fmt.Fprintln(a.Stdout)
	switch {
	case errors.Is(err, command.ErrAnsweredElsewhere):
		return s.answered()
	case errors.Is(err, operation.ErrInterrupted):
		if r, err := s.Ended(s.ctx, s.id); err != nil {
			return s.failed("Failed to retrieve run", err), true
		} else if r.Status == tfc.Applied {
			return 1, true
		}
		return s.fail(diag.Errors("Operation interrupted", "The plan was not approved, so none of its changes were "+
			"made.", nil)), true
	case err == nil && command.Answered(line):
		err := s.Client.Confirm(s.ctx, s.id, "")
		if tfc.Conflict(err) {
			return s.answered()
		}
		if err != nil {
			return s.failed("Failed to approve the apply command", err), true
		}
		return 0, false
	}
	if _, stopErr := s.Stop(s.ctx, s.id, "it was not approved"); stopErr != nil && !tfc.Conflict(stopErr) {
		return s.failed("Failed to discard the run", stopErr), true
	}
	if err != nil {
		return s.fail(diag.Errors(noApproval, "Standard input ended before a complete line, so the run was "+
			"discarded. Use -auto-approve to apply without a question.", nil)), true
	}
	fmt.Fprintf(a.Stdout, "%s discarded.\n", map[bool]string{true: "Destroy", false: "Apply"}[r.Destroy])
	return 1, true
}

// answered continues after the question was answered elsewhere.
func (s *serviceRun) answered() (code int, done bool) {
	r, err := s.Client.Run(s.ctx, s.id)
	switch {
	case err != nil:
		return s.failed("Failed to retrieve run", err), true
	case r.Status == tfc.Discarded || r.Status == tfc.Canceled:
		return s.over(r), true
	}
	s.ui.Print(elsewhereText)
	return 0, false
}

const elsewhereText = "The run was approved elsewhere.\n"

// ApplySaved applies a plan that a service has saved.
func ApplySaved(a *command.App, u *Screen, d *estate.Delegated, r *tfc.Run, request Request) int {
	s := &serviceRun{Delegated: d, app: a, ui: u, request: request, ctx: a.Interrupts.Leaving, id: r.ID}
	d.Tell = u.Note
	if diags := d.MayApply().Append(d.Unusable(r), request.Refuses); diags.HasErrors() {
		u.Diagnostics(diags)
		return 1
	}
	defer a.Interrupts.Hold()()
	if err := s.Client.Confirm(s.ctx, s.id, ""); err != nil {
		return s.failed("Failed to approve the apply command", err)
	}
	s.begun()
	if request.Detach {
		return 0
	}
	return s.watched(s.applying)
}

// ServicePlan returns the plan of a run in a form that can be shown; nil if the service has none.
func ServicePlan(ctx context.Context, c *tfc.Client, r *tfc.Run) (*plan.Plan, *values.Schemas, diag.List) {
	data, err := c.PlanJSON(ctx, r.Plan, true)
	if err != nil {
		return nil, nil, diag.Errors("Failed to read JSON plan", err.Error()+".", nil)
	}
	if data == nil {
		return nil, nil, nil
	}
	p, schemas, err := document.ReadPlan(data)
	if err != nil {
		return nil, nil, diag.Errors("Failed to read JSON plan", err.Error()+".", nil)
	}
	switch {
	case r.Destroy:
		p.Mode = plan.Destroy
	case r.RefreshOnly:
		p.Mode = plan.RefreshOnly
	}
	return p, schemas, nil
}
