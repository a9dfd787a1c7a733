package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/millipede-iac/millipede/cloud/tfc"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/coordinator/remote"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/view"
	"github.com/millipede-iac/millipede/view/document"
)

const detachHelp = `  -detach               Where a service carries the run out: do not wait for it. The command prints the run and ends.
`

// serviceSpec is what a command wants of the service that carries its run out.
type serviceSpec struct {
	planSpec
	applies, approved, detach bool
	// refuses says which options of the command a service has no way to follow.
	refuses diag.List
	// out is the file that the plan is saved to, generated the one for generated blocks; empty for none.
	out, generated string
	detailed       bool
	input          bool
	lockTimeout    time.Duration
}

// serviceOnly are the problems of options that a service cannot follow.
func (p *planFlags) serviceOnly() (diags diag.List) {
	if len(p.excludes)+len(p.excludeFiles) > 0 {
		diags = diags.Append(diag.New(diag.Error, "-exclude option is not supported", "The service that carries the run "+
			"out has no way to leave parts out. It can be given what is to be planned, with -target.", nil))
	}
	if n := p.parallelism.value; n != 0 && n != placement.DefaultParallelism { // drivers say the default, too
		diags = diags.Append(diag.New(diag.Error, "Custom parallelism values are currently not supported", "How many "+
			"operations go on at a time is for the service to say that carries the run out.", nil))
	}
	if p.refresh.amount == placement.RefreshChanged || p.noVerdicts {
		diags = diags.Append(diag.New(diag.Error, "-refresh=changed is not supported", "The service that carries the run "+
			"out cannot be told how much to read with an option. Where it is a Millipede, refresh = \"changed\" in "+
			"the configuration's millipede.hcl tells it.", nil))
	}
	return diags
}

// notDetached says that there is nothing to detach from.
func notDetached() diag.List {
	return diag.Errors("Nothing to detach from", "The option -detach is for runs that a service carries out. This one is "+
		"carried out by the command itself.", nil)
}

// serviceRun is one run at a service, on its way.
type serviceRun struct {
	*estate.Delegated
	app  *app
	ui   *runScreen
	spec serviceSpec
	// ctx ends when the command leaves.
	ctx context.Context //nolint:containedctx // it lives as long as the command
	id  string
}

// runAtService has a service carry a run out, and follows it. It returns the exit code.
func (a *app) runAtService(u *runScreen, d *estate.Delegated, spec serviceSpec) int {
	s := &serviceRun{Delegated: d, app: a, ui: u, spec: spec, ctx: a.interrupts.Leaving}
	d.Tell = u.note
	diags := spec.refuses
	if spec.applies {
		diags = diags.Append(d.MayApply())
	}
	diags = diags.Append(d.MayPlan())
	if d.Dir == "" && spec.mode != plan.Destroy {
		diags = diags.Append(diag.New(diag.Error, "No configuration files found", "The service plans what is uploaded, "+
			"and there is no configuration in this directory.", nil))
	}
	if diags.HasErrors() {
		u.diagnostics(diags)
		return 1
	}
	u.diagnostics(diags)
	defer a.interrupts.Hold()()
	r := remote.Request{
		Dir: d.Dir, Temp: a.estate.Temp, PlanOnly: !spec.applies && spec.out == "", Saved: spec.out != "",
		NewRun: tfc.NewRun{
			AutoApply: spec.applies && spec.approved, Refresh: !spec.refresh.off, Destroy: spec.mode == plan.Destroy,
			RefreshOnly: spec.mode == plan.RefreshOnly, GenerateConfig: spec.generated != "", Variables: d.Variables,
		},
	}
	for _, t := range spec.targets {
		r.Targets = append(r.Targets, t.String())
	}
	for _, i := range spec.replace {
		r.Replace = append(r.Replace, i.String())
	}
	run, diags := d.Begin(s.ctx, a.interrupts.Stopping, r)
	if diags.HasErrors() {
		return s.fail(diags)
	}
	s.id = run.ID
	s.begun()
	if spec.detach {
		return 0
	}
	return s.watched(func() int { return s.follow() })
}

// begun tells which run it is.
func (s *serviceRun) begun() {
	at := s.URL(s.id)
	s.ui.print(fmt.Sprintf("The run %s of the workspace %s/%s is carried out by the service:\n  %s\n\n", s.id,
		s.Organization, s.Workspace.Name, at))
	s.ui.message("service_run", "Run "+s.id+": "+at, map[string]any{"run": s.id, "url": at})
	notes, err := s.Client.Notes(s.ctx, s.id)
	if err != nil {
		s.ui.note(fmt.Sprintf("What the service notes about the run cannot be read: %s.\n", err))
	}
	for _, n := range notes {
		switch n.Action {
		case "changed_policy_enforcements", "changed_task_enforcements", "ignored_policy_sets":
			s.ui.diagnostics(diag.List{diag.New(diag.Warning, n.Description, "", nil)})
		}
	}
}

// watched calls fn, and asks the service to end the run when the command is interrupted meanwhile.
func (s *serviceRun) watched(fn func() int) int {
	var asking sync.WaitGroup
	asking.Add(1)
	undo := context.AfterFunc(s.app.interrupts.Stopping, func() {
		defer asking.Done()
		what, err := s.Stop(s.ctx, s.id, "the command was interrupted")
		switch {
		case s.ctx.Err() != nil:
		case err != nil && !tfc.Conflict(err):
			s.ui.note(fmt.Sprintf("The service could not be asked to end the run: %s.\n", err))
		case what != "":
			s.ui.note(fmt.Sprintf("The service was asked: the run is %s. A second interrupt leaves it to itself.\n",
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

// fail shows problems. Where the command was left, it says that the run goes on.
func (s *serviceRun) fail(diags diag.List) int {
	if s.ctx.Err() != nil && s.id != "" {
		diags = diag.Errors("Operation interrupted", fmt.Sprintf("The command does not wait for the run %s any more, "+
			"which may go on:\n  %s", s.id, s.URL(s.id)), nil)
	} else if s.app.interrupts.Asked() && s.id == "" {
		diags = diag.Errors("Operation interrupted", "No run was begun.", nil)
	}
	s.ui.diagnostics(diags)
	return 1
}

func (s *serviceRun) failed(doing string, err error) int {
	return s.fail(diag.Errors(doing, err.Error()+".", nil))
}

// follow follows the run to its end.
func (s *serviceRun) follow() int {
	r, err := s.AwaitPlan(s.ctx, s.id, s.spec.lockTimeout)
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
	if planFailed || !s.spec.applies {
		return s.planned(r)
	}
	return s.apply(r)
}

// log shows the log of a phase.
func (s *serviceRun) log(kind, id string) (*view.ServiceLog, error) {
	log := &view.ServiceLog{
		Out: s.app.people(s.ui.flags.viewFlags), Options: s.ui.options(), Applying: kind == tfc.Applies,
		Problems: s.ui.diagnostics,
	}
	line := log.Line
	if !s.ui.forPeople() {
		log.Out, log.Problems = io.Discard, func(diag.List) {}
	}
	if s.ui.stream != nil {
		line = func(text []byte) {
			log.Line(text)
			switch {
			case len(text) > 0 && text[0] == '{':
				s.ui.stream.Pass(text)
			case len(text) > 0:
				s.ui.stream.Log(string(text))
			}
		}
	}
	err := s.Follow(s.ctx, kind, id, line)
	s.ui.check(log.Err())
	return log, err
}

// show shows the plan where the log does not have it, and writes generated blocks.
func (s *serviceRun) show(r *tfc.Run, log *view.ServiceLog) diag.List {
	structured := r.On != nil && r.On.Structured
	generates := s.spec.generated != "" && r.Planned != nil && r.Planned.Generated
	if !generates && (!structured || !s.ui.forPeople()) {
		return nil
	}
	p, schemas, diags := servicePlan(s.ctx, s.Client, r)
	switch {
	case diags.HasErrors():
		return diags
	case p == nil:
		s.ui.print(log.Summary() + "\n")
		return nil
	}
	if structured {
		s.ui.printed(func(w io.Writer) error { return view.PlanText(w, p, schemas, s.ui.options()) })
	}
	if generates {
		return s.app.estate.WriteGenerated(s.spec.generated, estate.GeneratedBy(p))
	}
	return nil
}

// planned ends a command that only plans, or whose plan has failed.
func (s *serviceRun) planned(r *tfc.Run) int {
	switch r.Status {
	case tfc.Errored, tfc.Canceled, tfc.ForceCanceled, tfc.Discarded:
		return s.over(r)
	}
	if s.spec.out != "" {
		if diags := s.app.estate.SaveRun(s.spec.out, s.Host, s.id); diags.HasErrors() {
			return s.fail(diags)
		}
	}
	if r.HasChanges {
		s.ui.printed(func(w io.Writer) error {
			return view.NextStepText(w, s.spec.out, s.spec.generated, s.ui.options())
		})
	}
	if s.spec.detailed && r.HasChanges {
		return 2
	}
	return 0
}

// over says how a run ended that did not do all it was to.
func (s *serviceRun) over(r *tfc.Run) int {
	switch r.Status {
	case tfc.Canceled, tfc.ForceCanceled:
		s.ui.diagnostics(diag.Errors("The run was cancelled", "For details, see the run:\n  "+s.URL(s.id), nil))
	case tfc.Discarded:
		s.ui.diagnostics(diag.Errors("The run was discarded", "Its plan was not applied.", nil))
	case tfc.Errored:
		s.ui.diagnostics(diag.Errors("The run has failed", "What went wrong is said above, in the log of the run:\n  "+
			s.URL(s.id), nil))
	default:
		return 0
	}
	return 1
}

// apply goes on behind the plan: it asks for approval if need be, and follows the apply.
func (s *serviceRun) apply(r *tfc.Run) int {
	switch {
	case r.Status == tfc.PlannedAndFinished:
		return 0
	case r.Status == tfc.Discarded || r.Status == tfc.Canceled && r.Actions.Confirmable:
		return s.over(r)
	case r.Status.Final() || r.Status.Waiting() || r.Status == tfc.Applying || r.AutoApply && s.spec.approved:
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

// applying follows an apply that was asked for.
func (s *serviceRun) applying() int {
	r, err := s.AwaitApply(s.ctx, s.id)
	if err != nil {
		return s.failed("Failed to retrieve run", err)
	}
	s.ui.print("\n")
	if _, err := s.log(tfc.Applies, r.Apply); err != nil {
		return s.failed("Failed to read logs", err)
	}
	if r, err = s.Ended(s.ctx, s.id); err != nil {
		return s.failed("Failed to retrieve run", err)
	}
	return s.over(r)
}

// approve asks for approval, and confirms or discards the run. Somebody may answer elsewhere meanwhile. With done the
// command is over, with an exit code.
func (s *serviceRun) approve(r *tfc.Run) (code int, done bool) {
	a := s.app
	if !a.inputAllowed(s.spec.input) {
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
	fmt.Fprintf(a.stdout, "\n%s\n  %s\n\n  Enter a value: ", question, what)
	asking, cancel := context.WithCancel(s.ctx)
	elsewhere := make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() {
		if now, err := s.Approved(asking, s.id); err == nil && !now.Actions.Confirmable {
			close(elsewhere)
		}
	})
	line, err := a.readLineUntil(elsewhere)
	cancel()
	looking.Wait()
	fmt.Fprintln(a.stdout)
	switch {
	case errors.Is(err, errAnswered):
		return s.answered()
	case errors.Is(err, operation.ErrInterrupted):
		if r, err := s.Ended(s.ctx, s.id); err != nil {
			return s.failed("Failed to retrieve run", err), true
		} else if r.Status == tfc.Applied {
			return 1, true
		}
		return s.fail(diag.Errors("Operation interrupted", "The plan was not approved, so nothing of it was carried "+
			"out.", nil)), true
	case err == nil && answered(line):
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
		return s.fail(diag.Errors(noApproval, "Standard input has ended before a whole line came, so the run was "+
			"discarded. Give -auto-approve to apply without being asked.", nil)), true
	}
	fmt.Fprintf(a.stdout, "%s discarded.\n", map[bool]string{true: "Destroy", false: "Apply"}[r.Destroy])
	return 1, true
}

// answered goes on where the question was answered elsewhere.
func (s *serviceRun) answered() (code int, done bool) {
	r, err := s.Client.Run(s.ctx, s.id)
	switch {
	case err != nil:
		return s.failed("Failed to retrieve run", err), true
	case r.Status == tfc.Discarded || r.Status == tfc.Canceled:
		return s.over(r), true
	}
	s.ui.print("The run was approved elsewhere.\n")
	return 0, false
}

// applySavedAtService applies a plan that a service keeps.
func (a *app) applySavedAtService(u *runScreen, d *estate.Delegated, r *tfc.Run, spec serviceSpec) int {
	s := &serviceRun{Delegated: d, app: a, ui: u, spec: spec, ctx: a.interrupts.Leaving, id: r.ID}
	d.Tell = u.note
	if diags := d.MayApply().Append(d.Unusable(r), spec.refuses); diags.HasErrors() {
		u.diagnostics(diags)
		return 1
	}
	defer a.interrupts.Hold()()
	if err := s.Client.Confirm(s.ctx, s.id, ""); err != nil {
		return s.failed("Failed to approve the apply command", err)
	}
	s.begun()
	if spec.detach {
		return 0
	}
	return s.watched(s.applying)
}

// servicePlan returns the plan of a run as it can be shown; nil where the service has none that can be.
func servicePlan(ctx context.Context, c *tfc.Client, r *tfc.Run) (*plan.Plan, *values.Schemas, diag.List) {
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
