package running

import (
	"io"
	"strings"

	"github.com/millipede-iac/millipede/cmd/command"
	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/view"
	"github.com/millipede-iac/millipede/view/document"
)

// Kind says what the runs of a command do, as far as it is told in other words.
type Kind struct{ Imports, Refreshes, Destroys bool }

// Screen is the screen of a command that carries out runs, with what is shown while they go on.
type Screen struct {
	*command.Screen
	kind Kind
	// progress is for people; nil where there are none.
	progress *view.Progress
}

// NewScreen returns the screen that the flags ask for. Close it. Where there are problems it is the screen that
// shows them.
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

// On adds what is shown while runs go on to a screen.
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

// observer watches the runs of the command; settle ends what it shows while a run goes on.
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

// applying tells that a plan is about to be carried out.
func (u *Screen) applying(p *plan.Plan) {
	if u.progress != nil {
		u.progress.Imports(p)
	}
}

// Saved tells programs what a saved plan will do, before it is carried out. People have seen it already.
func (u *Screen) Saved(p *plan.Plan) {
	if u.Stream != nil {
		u.Stream.Changes(p, true)
	}
}

// Note tells something beside the plan, while a run goes on too: text for people; kept in one message for programs.
func (u *Screen) Note(text string) {
	if u.progress != nil {
		u.progress.Note(text)
	}
	if u.Stream != nil {
		u.Stream.Log(strings.TrimSpace(text))
	}
}

// Plan shows a plan. Where all that is done is to record what was found, there is none, as far as programs are
// concerned.
func (u *Screen) Plan(p *operation.Planned) {
	u.Printed(func(w io.Writer) error { return view.PlanText(w, p.Plan, p.Schemas, u.Options()) })
	if u.Stream != nil && !u.kind.Refreshes {
		u.Stream.Plan(p.Plan)
		u.Stream.Unread(p.Plan)
	}
}

// Planned says what comes after a plan when the command ends there: out is the file it was saved to, generated the one
// that configuration was written to.
func (u *Screen) Planned(p *plan.Plan, out, generated string) {
	if p.Applyable() {
		u.Printed(func(w io.Writer) error { return view.NextStepText(w, out, generated, u.Options()) })
	}
}

// Applied tells how an apply ended, with the outputs.
func (u *Screen) Applied(p *plan.Plan, a *operation.Applied, ok bool, s *state.State) {
	if !ok {
		u.Print(view.OutcomeText(a.Run, a.Outcome, s, u.Options()))
		return
	}
	if u.kind.Imports {
		u.Print("\n" + importDone + "\n\nThe object is in the state now.\n\n")
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
		return // what outputs are left, as after -target, does not matter to who destroys
	}
	u.Print(view.AppliedOutputsText(s, u.Options()))
	if u.Stream != nil {
		u.Stream.Outputs(s)
	}
}

// Close writes what is left and closes what was opened. It returns the exit code, which is not 0 any more when
// something could not be written.
func (u *Screen) Close(code int) int {
	u.settle()
	return max(code, u.End(nil))
}

// importDone is how the import command ends.
const importDone = "Import successful!"

// summary counts what the command did.
func (u *Screen) summary(a *operation.Applied) document.Summary {
	op := document.ApplyOperation
	if u.kind.Destroys {
		op = document.DestroyOperation
	}
	return document.Summary{
		Operation: op, Add: a.Counts.Added, Change: a.Counts.Changed, Remove: a.Counts.Destroyed,
		Import: a.Counts.Imported, Forget: a.Counts.Forgotten,
	}
}
