package main

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/view"
	"github.com/millipede-iac/millipede/view/document"
)

// ink tells whether standard output takes colours.
func (a *app) ink(f viewFlags) view.Ink {
	return view.Ink(!f.noColor && a.getenv("NO_COLOR") == "" && terminal(a.stdout))
}

// people returns standard output for text, which what others say cannot make control the terminal; see view.Clean.
func (a *app) people(f viewFlags) io.Writer { return view.Clean(a.stdout, a.ink(f)) }

// text returns how text for people is written to standard output.
func (a *app) text(f viewFlags) view.TextOptions {
	return view.TextOptions{
		Ink: a.ink(f), Width: width(a.stdout),
		Reveal: f.showSensitive, Automated: a.automated(),
	}
}

// width is the number of columns of a stream; 0 when it is no terminal.
func width(stream any) int {
	f, ok := stream.(*os.File)
	if !ok || !terminal(stream) {
		return 0
	}
	w, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return w
}

// printer returns what shows problems to people.
func (a *app) printer(f viewFlags) *view.Printer {
	return &view.Printer{
		Out: a.stdout, Err: a.stderr, Ink: view.Ink(!f.noColor && a.getenv("NO_COLOR") == "" && terminal(a.stderr)),
		Width:        width(a.stderr),
		Deprecations: f.deprecations, CompactWarnings: f.compactWarnings, ConsolidateWarnings: f.consolidateWarnings,
		ConsolidateErrors: f.consolidateErrors,
	}
}

// runKind says what the runs of a command do, as far as it is told in other words.
type runKind struct{ imports, refreshes, destroys bool }

// runScreen is the screen of a command that carries out runs, with what is shown while they go on.
type runScreen struct {
	*screen
	kind runKind
	// progress is for people; nil where there are none.
	progress *view.Progress
}

// newRunScreen returns the screen that the flags ask for. Close it. Where there are problems it is the screen that
// shows them.
func (a *app) newRunScreen(f viewFlags, kind runKind) (*runScreen, diag.List) {
	both := f.json && f.jsonInto != ""
	if both {
		f.jsonInto = ""
	}
	s, diags := a.newStreamScreen(showFlags{f}, nil)
	if both {
		diags = diag.Errors("Invalid output format", "The -json and -json-into options exclude each other.", nil)
	}
	return a.runScreenOn(s, kind), diags
}

// runScreenOn adds what is shown while runs go on to a screen.
func (a *app) runScreenOn(s *screen, kind runKind) *runScreen {
	u := &runScreen{screen: s, kind: kind}
	if s.forPeople() {
		o := view.ProgressOptions{Out: a.stdout, Ink: s.options().Ink, Quiet: s.flags.concise, ByCommand: kind.imports}
		if terminal(a.stdout) {
			o.Width = func() int { return width(a.stdout) }
		}
		u.progress = view.NewProgress(o)
	}
	return u
}

// observer watches the runs of the command; settle ends what it shows while a run goes on.
func (u *runScreen) observer() coordinator.Watcher {
	switch {
	case u.stream == nil:
		return u.progress
	case u.progress == nil:
		return u.stream
	}
	return coordinator.Both{u.progress, u.stream}
}

func (u *runScreen) settle() {
	if u.progress != nil {
		u.check(u.progress.Settle())
	}
	if u.stream != nil {
		u.check(u.stream.Settle())
	}
}

// applying tells that a plan is about to be carried out.
func (u *runScreen) applying(p *plan.Plan) {
	if u.progress != nil {
		u.progress.Imports(p)
	}
}

// saved tells programs what a saved plan will do, before it is carried out. People have seen it already.
func (u *runScreen) saved(p *plan.Plan) {
	if u.stream != nil {
		u.stream.Changes(p, true)
	}
}

// note tells something beside the plan, while a run goes on too: text for people; kept in one message for programs.
func (u *runScreen) note(text string) {
	if u.progress != nil {
		u.progress.Note(text)
	}
	if u.stream != nil {
		u.stream.Log(strings.TrimSpace(text))
	}
}

// plan shows a plan. Where all that is done is to record what was found, there is none, as far as programs are
// concerned.
func (u *runScreen) plan(p *operation.Planned) {
	u.printed(func(w io.Writer) error { return view.PlanText(w, p.Plan, p.Schemas, u.options()) })
	if u.stream != nil && !u.kind.refreshes {
		u.stream.Plan(p.Plan)
		u.stream.Unread(p.Plan)
	}
}

// planned says what comes after a plan when the command ends there: out is the file it was saved to, generated the one
// that configuration was written to.
func (u *runScreen) planned(p *plan.Plan, out, generated string) {
	if p.Applyable() {
		u.printed(func(w io.Writer) error { return view.NextStepText(w, out, generated, u.options()) })
	}
}

// applied tells how an apply ended, with the outputs.
func (u *runScreen) applied(p *plan.Plan, a *operation.Applied, ok bool, s *state.State) {
	if !ok {
		u.print(view.OutcomeText(a.Run, a.Outcome, s, u.options()))
		return
	}
	if u.kind.imports {
		u.print("\n" + importDone + "\n\nThe object is in the state now.\n\n")
		if u.stream != nil {
			u.stream.Info(importDone)
		}
		return
	}
	if !u.kind.refreshes {
		summary := u.summary(a)
		u.print(view.SummaryText(summary, u.options().Ink))
		if u.stream != nil {
			u.stream.Summary(summary)
		}
	}
	if u.kind.destroys {
		return // what outputs are left, as after -target, does not matter to who destroys
	}
	u.print(view.AppliedOutputsText(s, u.options()))
	if u.stream != nil {
		u.stream.Outputs(s)
	}
}

// close writes what is left and closes what was opened. It returns the exit code, which is not 0 any more when
// something could not be written.
func (u *runScreen) close(code int) int {
	u.settle()
	return max(code, u.end(nil))
}

// importDone is how the import command ends.
const importDone = "Import successful!"

// summary counts what the command did.
func (u *runScreen) summary(a *operation.Applied) document.Summary {
	op := document.ApplyOperation
	if u.kind.destroys {
		op = document.DestroyOperation
	}
	return document.Summary{
		Operation: op, Add: a.Counts.Added, Change: a.Counts.Changed, Remove: a.Counts.Destroyed,
		Import: a.Counts.Imported, Forget: a.Counts.Forgotten,
	}
}
