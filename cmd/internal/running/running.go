// Package running executes runs for commands, in this process or at a service, and shows their progress.
//
// Package coordinator/estate and services decide about runs; this package asks people for approval and shows results.
package running

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/millipede-iac/millipede/cmd/internal/command"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
)

// Run is one plan or apply, with the operation and the screen that it uses.
type Run struct {
	*estate.Operation
	UI  *Screen
	app *command.App
	// Left has problems that make an apply fail even if all of its operations succeeded.
	Left diag.List
}

// Here opens an operation, calls fn, and closes the operation. It returns the exit code of fn, or 1 if the operation
// could not be opened or closed.
func Here(ctx context.Context, a *command.App, u *Screen, o estate.OperationOptions, fn func(*Run) int) int {
	return Operate(ctx, a, u, o, nil, fn)
}

// Operate is like Here, but if the configuration delegates the operation to a service, it calls elsewhere instead of
// fn. If elsewhere is nil, nothing is delegated.
func Operate(ctx context.Context, a *command.App, u *Screen, o estate.OperationOptions,
	elsewhere func(*estate.Delegated) int, fn func(*Run) int) (code int) {
	o.Delegates = elsewhere != nil
	watch := a.Logs.Observe(u.observer())
	o.Watch = estate.Watch{Sources: u.From, Observer: watch, Events: watch.Event, Note: u.Note, Settle: u.settle}
	op, diags := a.Estate.Begin(ctx, o)
	u.Diagnostics(diags)
	if diags.HasErrors() {
		return 1
	}
	if op.Delegated != nil {
		return elsewhere(op.Delegated)
	}
	defer func() { // also after a panic, because the state is locked
		diags := op.Close(ctx)
		u.Diagnostics(diags)
		if diags.HasErrors() {
			code = 1
		}
	}()
	op.Engine.Session.Reveal = u.Flags.ShowSensitive
	return fn(&Run{Operation: op, app: a, UI: u})
}

// ShowPlan makes a plan that will be applied, and shows it with its problems. It returns nil if there is no plan to
// show, as with errors and no changes. If approved, nobody is asked whether to apply the plan; warnings about checks
// are then left out, because the apply evaluates the checks again. A plan with errors is not applied, and keeps its
// warnings.
func (r *Run) ShowPlan(ctx context.Context, o plan.Options, approved bool) (*operation.Planned, bool) {
	planned, diags := r.Plan(ctx, o)
	if planned != nil && diags.HasErrors() && len(planned.Plan.Changes)+len(planned.Plan.Outputs) == 0 {
		planned = nil
	}
	r.showPlan(planned, nil)
	if planned != nil && !diags.HasErrors() && (approved || !planned.Plan.Applyable()) {
		diags = slices.DeleteFunc(slices.Clone(diags), values.OfCheck)
	}
	r.UI.Diagnostics(diags)
	return planned, !diags.HasErrors() && planned != nil
}

// ShowPlanOnly makes a plan, and shows it without its problems. It returns nil if there is no plan to show. generated
// are the blocks that were generated for this plan.
func (r *Run) ShowPlanOnly(ctx context.Context, o plan.Options, generated []operation.Generated) (*operation.Planned,
	diag.List) {
	planned, diags := r.Plan(ctx, o)
	r.showPlan(planned, generated)
	return planned, diags
}

func (r *Run) showPlan(planned *operation.Planned, generated []operation.Generated) {
	if planned != nil {
		operation.Note(planned.Plan, generated)
		r.UI.Plan(planned)
	}
}

// CarryOut applies a plan, and shows the result. It returns the exit code.
func (r *Run) CarryOut(ctx context.Context, p *plan.Plan, command string) int {
	applied, after, diags := r.Apply(ctx, p, command, func() { r.UI.applying(p) })
	return r.Finish(p, applied, after, diags)
}

// Finish shows the result of an apply or a resumed run.
func (r *Run) Finish(p *plan.Plan, applied *operation.Applied, after *state.State, diags diag.List) int {
	if !diags.HasErrors() {
		diags = diags.Append(r.Left)
	}
	if after != nil {
		r.UI.Applied(p, applied, !diags.HasErrors(), after)
	}
	r.UI.Diagnostics(diags)
	if diags.HasErrors() {
		return 1
	}
	return 0
}

// noApproval is the summary that OpenTofu shows if standard input ends before the approval.
const noApproval = "error asking for approval: EOF"

// approval returns the question that approves a plan, and its explanation.
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

// Approve asks the user for approval. As in OpenTofu, it also asks with -input=false, which only concerns values of
// variables. If standard input has ended, that is an error.
func (r *Run) Approve(p *plan.Plan) bool {
	a := r.app
	question, what := approval(p.Mode, a.Estate.Workspace())
	fmt.Fprintf(a.Stdout, "\n%s\n  %s\n\n  Enter a value: ", question, what)
	line, err := a.ReadLine()
	fmt.Fprintln(a.Stdout)
	if command.Answered(line) && err == nil {
		return true
	}
	if errors.Is(err, operation.ErrInterrupted) {
		r.UI.Diagnostics(diag.Errors("Operation interrupted", "The plan was not approved, so none of its changes "+
			"were made.", nil))
		return false
	}
	if err != nil {
		r.UI.Diagnostics(diag.Errors(noApproval, "Standard input ended before a complete line. Use "+
			"-auto-approve to apply without a question, or save the plan with plan -out=FILE and apply that.", nil))
		return false
	}
	verb := "Apply"
	if p.Mode == plan.Destroy {
		verb = "Destroy"
	}
	fmt.Fprintf(a.Stdout, "\n%s cancelled.\n", verb)
	return false
}
