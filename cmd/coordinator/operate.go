package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
)

// operationRun is one plan or apply with everything opened for it.
type operationRun struct {
	*estate.Operation
	app *app
	ui  *runScreen
	// left is what is wrong with an apply although all of it succeeded.
	left diag.List
}

// operate opens what an operation needs, calls fn, and closes everything. It returns the exit code that fn returned,
// or 1 when something failed on the way.
func (a *app) operate(ctx context.Context, u *runScreen, o estate.OperationOptions, fn func(*operationRun) int) int {
	return a.operateOr(ctx, u, o, nil, fn)
}

// operateOr is operate, but calls elsewhere in place of fn where the service of the configuration carries the operation
// out. Without it nothing is left to a service.
func (a *app) operateOr(ctx context.Context, u *runScreen, o estate.OperationOptions,
	elsewhere func(*estate.Delegated) int, fn func(*operationRun) int) int {
	o.Delegates = elsewhere != nil
	watch := a.logs.Observe(u.observer())
	o.Watch = estate.Watch{Sources: u.from, Observer: watch, Events: watch.Event, Note: u.note, Settle: u.settle}
	op, diags := a.estate.Begin(ctx, o)
	u.diagnostics(diags)
	if diags.HasErrors() {
		return 1
	}
	if op.Delegated != nil {
		return elsewhere(op.Delegated)
	}
	code := fn(&operationRun{Operation: op, app: a, ui: u})
	diags = op.Close(ctx)
	u.diagnostics(diags)
	if diags.HasErrors() {
		return 1
	}
	return code
}

// plan makes a plan and shows it with its problems, to apply it; nil when there is none to show. One with problems that
// has nothing to show for them is left out.
func (r *operationRun) plan(ctx context.Context, spec planSpec) (*operation.Planned, bool) {
	planned, diags := r.prepare(ctx, spec)
	if planned != nil && diags.HasErrors() && len(planned.Plan.Changes)+len(planned.Plan.Outputs) == 0 {
		planned = nil
	}
	r.showPlan(planned, spec)
	r.ui.diagnostics(diags)
	return planned, !diags.HasErrors() && planned != nil
}

// show makes a plan and shows it, without its problems; nil when there is none to show.
func (r *operationRun) show(ctx context.Context, spec planSpec) (*operation.Planned, diag.List) {
	planned, diags := r.prepare(ctx, spec)
	r.showPlan(planned, spec)
	return planned, diags
}

func (r *operationRun) showPlan(planned *operation.Planned, spec planSpec) {
	if planned != nil {
		operation.Note(planned.Plan, spec.generated)
		r.ui.plan(planned)
	}
}

// prepare makes a plan and shows nothing of it.
func (r *operationRun) prepare(ctx context.Context, spec planSpec) (*operation.Planned, diag.List) {
	return r.Plan(ctx, operation.PlanOptions{
		Mode: spec.mode, SkipRefresh: spec.refresh.off, Refresh: spec.refresh.amount, NoVerdicts: spec.noVerdicts,
		Targets: spec.targets, Excludes: spec.excludes,
		Replace: spec.replace,
		Imports: spec.imports,
	})
}

// apply carries a plan out and shows how it ended. It returns the exit code.
func (r *operationRun) apply(ctx context.Context, p *plan.Plan, command string) int {
	applied, after, diags := r.Apply(ctx, p, command, func() { r.ui.applying(p) })
	return r.finish(p, applied, after, diags)
}

// finish shows the result of an apply or a resumed run.
func (r *operationRun) finish(p *plan.Plan, applied *operation.Applied, after *state.State, diags diag.List) int {
	if !diags.HasErrors() {
		diags = diags.Append(r.left)
	}
	if after != nil {
		r.ui.applied(p, applied, !diags.HasErrors(), after)
	}
	r.ui.diagnostics(diags)
	if diags.HasErrors() {
		return 1
	}
	return 0
}

// noApproval is the summary that OpenTofu has where nobody can approve.
const noApproval = "error asking for approval: EOF"

// approval is what people are asked before a plan is carried out.
func approval(mode plan.Mode, workspace string) (question, what string) {
	question, what = "Do you want to perform these actions?",
		"Millipede will perform the actions described above.\n  Only 'yes' will be accepted to approve."
	switch mode {
	case plan.Destroy:
		question, what = "Do you really want to destroy all resources?", "Millipede will destroy all your managed "+
			"infrastructure, as shown above.\n  There is no undo. Only 'yes' will be accepted to confirm."
	case plan.RefreshOnly:
		question, what = "Would you like to update the state to reflect these detected changes?", "Millipede will "+
			"write these changes to the state without modifying any real infrastructure.\n  There is no undo. Only "+
			"'yes' will be accepted to confirm."
	}
	if workspace != "default" {
		question = strings.TrimSuffix(question, "?") + fmt.Sprintf(" in workspace %q?", workspace)
	}
	return question, what
}

// approve asks the user; without somebody to ask it is an error. As in OpenTofu it does so even where input is turned
// off, which is about the values of variables.
func (r *operationRun) approve(p *plan.Plan) bool {
	a := r.app
	question, what := approval(p.Mode, a.estate.Workspace())
	fmt.Fprintf(a.stdout, "\n%s\n  %s\n\n  Enter a value: ", question, what)
	line, err := a.readLine()
	fmt.Fprintln(a.stdout)
	if answered(line) && err == nil {
		return true
	}
	if errors.Is(err, operation.ErrInterrupted) {
		r.ui.diagnostics(diag.Errors("Operation interrupted", "The plan was not approved, so nothing of it was "+
			"carried out.", nil))
		return false
	}
	if err != nil {
		r.ui.diagnostics(diag.Errors(noApproval, "Standard input has ended before a whole line came. Give "+
			"-auto-approve to apply without being asked, or save the plan with plan -out=FILE and apply that.", nil))
		return false
	}
	verb := "Apply"
	if p.Mode == plan.Destroy {
		verb = "Destroy"
	}
	fmt.Fprintf(a.stdout, "\n%s cancelled.\n", verb)
	return false
}
