package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/millipede-iac/millipede/cmd/internal/command"
	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/internal/cloud/tfc"
	"github.com/millipede-iac/millipede/lang/diag"
)

const runsConfirmUsage = `
Usage: coordinator [global options] runs confirm [options] [RUN]

  Approves the plan of a run of a service, which then applies it, for example of one that was created with -detach.
  Without a name, the only run of the workspace that waits for approval. RUN can also be the address of the run's page.

Options:
  -comment=TEXT         A comment, for the history of the run.
` + variablesHelp + textHelp

const runsDiscardUsage = `
Usage: coordinator [global options] runs discard [options] [RUN]

  Discards the plan of a run of a service: it will not be applied. Without a name, the only run of the workspace that
  waits for approval. RUN can also be the address of the run's page.

Options:
  -comment=TEXT         A comment, for the history of the run.
` + variablesHelp + textHelp

// decision is a person's decision about a run of a service.
type decision struct {
	verb string // for errors
	// can reports whether the service offers it for a run; needs describes such runs.
	can   func(*tfc.Run) bool
	needs string
	// do asks the service for it; done describes the effect.
	do   func(c *tfc.Client, ctx context.Context, run, comment string) error
	done string
}

var (
	confirming = decision{"confirm", func(r *tfc.Run) bool { return r.Actions.Confirmable }, "waits for approval",
		(*tfc.Client).Confirm, "The plan of the run %s is approved, and the service applies it."}
	discarding = decision{"discard", func(r *tfc.Run) bool { return r.Actions.Discardable }, "waits for approval",
		(*tfc.Client).Discard, "The run %s is discarded."}
	cancelling = decision{"cancel", func(r *tfc.Run) bool { return r.Actions.Cancelable }, "is in progress",
		(*tfc.Client).Cancel, "The service was asked to cancel the run %s: running operations are completed or " +
			"interrupted, and their results are stored."}
	abandoning = decision{"force-cancel", func(r *tfc.Run) bool { return r.Actions.ForceCancels },
		"was canceled ten seconds ago and still continues", (*tfc.Client).ForceCancel,
		"The run %s is abandoned. The outcome of operations that were running is unknown: see the page of operations " +
			"in doubt."}
)

func runRunsConfirm(ctx context.Context, a *app, args []string) int {
	return a.decide(ctx, runsConfirmUsage, args, confirming)
}

func runRunsDiscard(ctx context.Context, a *app, args []string) int {
	return a.decide(ctx, runsDiscardUsage, args, discarding)
}

// decide is a command that decides about a run of a service.
func (a *app) decide(ctx context.Context, usage string, args []string, d decision) int {
	var shown viewFlags
	var vars variableFlags
	f := a.NewFlags()
	comment := f.String("comment", "", "")
	shown.RegisterText(f)
	vars.registerValues(f)
	if code, done := a.Parse(f, usage, args); done {
		return code
	}
	u := a.textScreen(shown)
	if f.NArg() > 1 {
		return u.End(unexpected(f.Arg(1)))
	}
	at, diags := a.servedAt(ctx, f.Arg(0), vars.Variables)
	if at == nil && !diags.HasErrors() {
		diags = diags.Append(diag.New(diag.Error, "No service executes the runs of this directory", fmt.Sprintf("To %s a "+
			"run of a service, use a directory whose configuration has its cloud block, or give the address of the run's "+
			"page. A run of this directory is approved where \"%s apply\" asks for it.", d.verb, diag.Program()), nil))
	}
	if diags.HasErrors() {
		return u.End(diags)
	}
	return u.End(diags.Append(at.decide(ctx, u.Screen, d, *comment)))
}

// decide makes a decision about the run that the command names, or about the only one that it can mean.
func (at *servedAt) decide(ctx context.Context, u *command.Screen, d decision, comment string) diag.List {
	run := at.run
	if run == "" {
		r, diags := at.only(ctx, d)
		if diags.HasErrors() {
			return diags
		}
		run = r.ID
	}
	if err := d.do(at.Client, ctx, run, comment); err != nil {
		if !tfc.Conflict(err) {
			return at.refused(fmt.Sprintf("The service does not %s the run", d.verb), err)
		}
		detail := err.Error() + "."
		if r, err := at.Run(ctx, run); err == nil {
			detail = fmt.Sprintf("The run %s is %s, and only a run that %s can be treated so. The service says: %s", run,
				words(r.Status), d.needs, detail)
		}
		return diag.Errors(fmt.Sprintf("The service does not %s the run", d.verb), detail, nil)
	}
	text := fmt.Sprintf(d.done, run) + "\n"
	if url := at.url(run); url != "" {
		text += "  " + url + "\n"
	}
	if d.verb != discarding.verb {
		text += fmt.Sprintf("To follow it: %s runs watch %s\n", diag.Program(), run)
	}
	u.Print(text)
	u.Message("service_run", fmt.Sprintf(d.done, run), map[string]any{"run": run, "url": at.url(run)})
	return nil
}

// only returns the only run of the workspace to which a decision applies.
func (at *servedAt) only(ctx context.Context, d decision) (*tfc.Run, diag.List) {
	all, err := at.list(ctx, estate.MostRuns)
	if err != nil {
		return nil, diag.Errors("Failed to read the runs", err.Error()+".", nil)
	}
	var fit []*tfc.Run
	for _, r := range all {
		if d.can(r) {
			fit = append(fit, r)
		}
	}
	switch len(fit) {
	case 0:
		return nil, diag.Errors("No run to "+d.verb, fmt.Sprintf("No run of the workspace %s/%s %s. See: %s runs list",
			at.on.Organization, at.on.Workspace.Name, d.needs, diag.Program()), nil)
	case 1:
		return fit[0], nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Name one of these runs:\n")
	for _, r := range fit {
		fmt.Fprintf(&b, "  %s (%s) %s\n", r.ID, words(r.Status), r.Message)
	}
	return nil, diag.Errors("Several runs to "+d.verb, strings.TrimSpace(b.String()), nil)
}

// words returns a status as people read it.
func words(s tfc.Status) string { return strings.ReplaceAll(string(s), "_", " ") }

// cancel cancels a run of a service, or discards it if it waits for approval.
func (at *servedAt) cancel(ctx context.Context, u *command.Screen, force bool) diag.List {
	if force {
		return at.decide(ctx, u, abandoning, "")
	}
	if at.run != "" {
		if r, err := at.Run(ctx, at.run); err == nil && !r.Actions.Cancelable && r.Actions.Discardable {
			return at.decide(ctx, u, discarding, "")
		}
		return at.decide(ctx, u, cancelling, "")
	}
	ending := cancelling
	ending.can = func(r *tfc.Run) bool { return r.Actions.Cancelable || r.Actions.Discardable }
	ending.needs = "is in progress, or waits for approval"
	r, diags := at.only(ctx, ending)
	if diags.HasErrors() {
		return diags
	}
	at.run = r.ID
	return at.cancel(ctx, u, false)
}

// resumeServed says how a run of a service continues.
func resumeServed() diag.List {
	return diag.Errors("The service resumes its runs by itself", fmt.Sprintf("It executes the runs of this directory, "+
		"and continues those that were in progress when it was stopped, without a request. To see them: %[1]s runs list. To "+
		"follow one: %[1]s runs watch. If an operation is in doubt: %[1]s runs resolve", diag.Program()), nil)
}
