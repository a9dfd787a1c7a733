package running

import (
	"io"
	"strings"

	"github.com/millipede-iac/millipede/cmd/internal/command"
	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/view"
	"github.com/millipede-iac/millipede/view/document"
)

// Kind has the properties of a command that change the wording of its output.
type Kind struct{ Imports, Refreshes, Destroys bool }

// Screen is the screen of a command that executes runs, with their progress.
type Screen struct {
	*command.Screen
	kind Kind
	// progress is shown to people; nil if the output is for programs.
	progress *view.Progress
}

// NewScreen returns the screen that the flags select. The caller closes it. If there are problems, the screen is one
// that can show them.
func NewScreen(a *command.App, f command.ViewFlags, kind Kind) (*Screen, diag.List) {
	both := f.JSON && f.JSONInto != ""
	if both {
		f.JSONInto = ""
	}
	s, diags := a.NewStreamScreen(f, nil)
	if both {
		diags = diag.Errors("Invalid output format", "The -json and -json-into options exclude each other.", nil)
	}
	return On(s, kind), diags
}

// On adds the progress of runs to a screen.
func On(s *command.Screen, kind Kind) *Screen {
	u := &Screen{Screen: s, kind: kind}
	if s.ForPeople() {
		o := view.ProgressOptions{Out: s.App.Stdout, Ink: s.Options().Ink, Quiet: s.Flags.Concise, ByCommand: kind.Imports}
		if command.Terminal(s.App.Stdout) {
			o.Width = func() int { return command.Width(s.App.Stdout) }
		}
		u.progress = view.NewProgress(o)
	}
	return u
}

// observer returns the watcher of the command's runs.
func (u *Screen) observer() coordinator.Watcher {
	switch {
	case u.Stream == nil:
		return u.progress
	case u.progress == nil:
		return u.Stream
	}
	return coordinator.Both{u.progress, u.Stream}
}

func (u *Screen) settle() {
	if u.progress != nil {
		u.Check(u.progress.Settle())
	}
	if u.Stream != nil {
		u.Check(u.Stream.Settle())
	}
}

// applying prepares the screen for an apply of the plan.
func (u *Screen) applying(p *plan.Plan) {
	if u.progress != nil {
		u.progress.Imports(p)
	}
}

// Saved sends the changes of a saved plan to programs, before the plan is applied. People have already seen them.
func (u *Screen) Saved(p *plan.Plan) {
	if u.Stream != nil {
		u.Stream.Changes(p, true)
	}
}

// Note shows a remark, also while a run is in progress: as text for people, and as one log message for programs.
func (u *Screen) Note(text string) {
	if u.progress != nil {
		u.progress.Note(text)
	}
	if u.Stream != nil {
		u.Stream.Log(strings.TrimSpace(text))
	}
}

// Plan shows a plan. A refresh-only plan is not sent to programs, because a refresh has no changes for them.
func (u *Screen) Plan(p *operation.Planned) {
	u.Printed(func(w io.Writer) error { return view.PlanText(w, p.Plan, p.Schemas, u.Options()) })
	if u.Stream != nil && !u.kind.Refreshes {
		u.Stream.Plan(p.Plan)
		u.Stream.Unread(p.Plan)
	}
}

// Planned shows the next step after a command that only plans. out is the file to which the plan was saved, and
// generated the one to which configuration was written.
func (u *Screen) Planned(p *plan.Plan, out, generated string) {
	if p.Applyable() {
		u.Printed(func(w io.Writer) error { return view.NextStepText(w, out, generated, u.Options()) })
	}
}

// Applied shows the result of an apply, with the outputs.
func (u *Screen) Applied(p *plan.Plan, a *operation.Applied, ok bool, s *state.State) {
	if !ok {
		u.Print(view.OutcomeText(a.Run, a.Outcome, s, u.Options()))
		return
	}
	if u.kind.Imports {
		u.Print("\n" + importDone + "\n\nThe object is now in the state.\n\n")
		if u.Stream != nil {
			u.Stream.Info(importDone)
		}
		return
	}
	if !u.kind.Refreshes {
		summary := u.summary(a)
		u.Print(view.SummaryText(summary, u.Options().Ink))
		if u.Stream != nil {
			u.Stream.Summary(summary)
		}
	}
	if u.kind.Destroys {
		return // outputs that remain, as after -target, are not shown by destroy
	}
	u.Print(view.AppliedOutputsText(s, u.Options()))
	if u.Stream != nil {
		u.Stream.Outputs(s)
	}
}

// Close writes pending output, and closes the screen. It returns the exit code, which is not 0 if something could not
// be written.
func (u *Screen) Close(code int) int {
	u.settle()
	return max(code, u.End(nil))
}

// importDone is the message of the import command after success.
const importDone = "Import successful!"

// summary returns the numbers of changed objects.
func (u *Screen) summary(a *operation.Applied) document.Summary {
	op := document.ApplyOperation
	if u.kind.Destroys {
		op = document.DestroyOperation
	}
	return document.Summary{
		Operation: op, Add: a.Counts.Added, Change: a.Counts.Changed, Remove: a.Counts.Destroyed,
		Import: a.Counts.Imported, Forget: a.Counts.Forgotten, Invoke: a.Counts.Invoked,
	}
}
