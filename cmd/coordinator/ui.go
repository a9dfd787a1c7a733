package main

import (
	"fmt"
	"io"
	"os"

	"github.com/hashicorp/hcl/v2"
	"golang.org/x/term"

	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/view"
	"github.com/millipede-iac/millipede/view/document"
	"github.com/millipede-iac/millipede/wire"
)

// ui is how a command talks: text for people or JSON lines for programs.
type ui interface {
	// diagnostics shows problems; it may be called many times.
	diagnostics(diag.List)
	// observer watches the runs of the command; settle ends what it shows while a run goes on.
	observer() observer
	settle()
	// applying tells that a plan is about to be carried out.
	applying(p *plan.Plan)
	// saved tells what a saved plan will do, before it is carried out. People have seen it already.
	saved(p *plan.Plan)
	// plan shows a plan; planned says what comes after it when the command ends there: out is
	// the file it was saved to, generated the one that configuration was written to.
	plan(p *operation.Planned, tree *config.Tree)
	planned(p *plan.Plan, out, generated string)
	// applied tells how an apply ended, with the outputs.
	applied(p *plan.Plan, a *operation.Applied, ok bool, s *state.State)
	// note tells something beside the plan, while a run goes on too: text for people; kept in one message for programs.
	note(text string)
	// from tells where the text of files is, for the snippets of problems.
	from(sources func() map[string]*hcl.File)
	// end writes what is left and closes what was opened. It returns the exit code, which is not 0 any more when
	// something could not be written.
	end(code int) int
}

// observer watches a run, and the live events of its workers.
type observer interface {
	coordinator.Observer
	Event(wire.Event)
}

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
		Out: a.stdout, Err: a.stderr, Ink: view.Ink(!f.noColor && a.getenv("NO_COLOR") == "" && terminal(a.stderr)), Width: width(a.stderr),
		Deprecations: f.deprecations, CompactWarnings: f.compactWarnings, ConsolidateWarnings: f.consolidateWarnings, ConsolidateErrors: f.consolidateErrors,
	}
}

// newUI returns the ui that the flags ask for: JSON (-json), text, or with -json-into both. End it. Where there are
// problems it is the ui that shows them.
func (a *app) newUI(f viewFlags, command string) (ui, diag.List) {
	wrong := a.checkWorkspace()
	switch {
	case f.json && f.jsonInto != "":
		return a.newJSONUI(f, command, a.stdout, nil), diag.Errors("Invalid output format", "The -json and -json-into options exclude each other.", nil)
	case f.json:
		return a.newJSONUI(f, command, a.stdout, nil), wrong
	case f.jsonInto == "":
		return a.newTextUI(f, command), wrong
	}
	file, diags := openInto(f.jsonInto)
	if diags.HasErrors() {
		return a.newTextUI(f, command), diags
	}
	return bothUI{a.newTextUI(f, command), a.newJSONUI(f, command, file, file)}, wrong
}

// textUI is for people.
type textUI struct {
	app      *app
	command  string
	flags    viewFlags
	printer  *view.Printer
	progress *view.Progress
}

func (a *app) newTextUI(f viewFlags, command string) *textUI {
	u := &textUI{app: a, command: command, flags: f, printer: a.printer(f)}
	o := view.ProgressOptions{Out: a.stdout, Ink: a.text(f).Ink, Quiet: f.concise, ByCommand: command == "import"}
	if terminal(a.stdout) {
		o.Width = func() int { return width(a.stdout) }
	}
	u.progress = view.NewProgress(o)
	return u
}

func (u *textUI) diagnostics(l diag.List) {
	u.app.noteBugs(l)
	u.check(u.printer.Diagnostics(l))
}

func (u *textUI) observer() observer                       { return u.progress }
func (u *textUI) settle()                                  { u.check(u.progress.Settle()) }
func (u *textUI) applying(p *plan.Plan)                    { u.progress.Imports(p) }
func (u *textUI) note(text string)                         { u.progress.Note(text) }
func (u *textUI) from(sources func() map[string]*hcl.File) { u.printer.Sources = sources }

func (u *textUI) saved(*plan.Plan) {}

func (u *textUI) end(code int) int {
	u.settle()
	return code
}

func (u *textUI) plan(p *operation.Planned, tree *config.Tree) {
	u.check(view.PlanText(u.app.people(u.flags), p.Plan, p.Schemas, u.app.text(u.flags)))
}

func (u *textUI) planned(p *plan.Plan, out, generated string) {
	if p.Applyable() {
		u.check(view.NextStepText(u.app.people(u.flags), out, generated, u.app.text(u.flags)))
	}
}

func (u *textUI) applied(p *plan.Plan, a *operation.Applied, ok bool, s *state.State) {
	o := u.app.text(u.flags)
	if !ok {
		fmt.Fprint(u.app.people(u.flags), view.OutcomeText(a.Run, a.Outcome, s, o))
		return
	}
	switch u.command {
	case "import":
		fmt.Fprintf(u.app.stdout, "\n%s\n\nThe object is in the state now.\n\n", importDone)
		return
	case "refresh":
	default:
		fmt.Fprint(u.app.people(u.flags), view.SummaryText(summaryOf(u.command, a), o.Ink))
	}
	if u.command == "destroy" {
		return // what outputs are left, as after -target, does not matter to who destroys
	}
	fmt.Fprint(u.app.people(u.flags), view.AppliedOutputsText(s, o))
}

// importDone is how the import command ends.
const importDone = "Import successful!"

// check reports that a stream cannot be written; there is nothing else to be done about it.
func (u *textUI) check(err error) {
	if err != nil {
		fmt.Fprintf(u.app.stderr, "Error: writing the output: %s\n", err)
	}
}

// summaryOf counts what the command did.
func summaryOf(command string, a *operation.Applied) document.Summary {
	op := document.ApplyOperation
	if command == "destroy" {
		op = document.DestroyOperation
	}
	return document.Summary{
		Operation: op, Add: a.Counts.Added, Change: a.Counts.Changed, Remove: a.Counts.Destroyed,
		Import: a.Counts.Imported, Forget: a.Counts.Forgotten,
	}
}
