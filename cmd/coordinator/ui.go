package main

import (
	"fmt"
	"os"

	"github.com/hashicorp/hcl/v2"
	"golang.org/x/term"

	"github.com/millipede-iac/millipede/cmd/coordinator/view"
	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
)

// ui is how a command talks: text for people or JSON lines for programs.
type ui interface {
	// diagnostics shows problems; it may be called many times.
	diagnostics(diag.List)
	// observer watches the runs of the command; settle ends what it shows while a run goes on.
	observer() coordinator.Observer
	settle()
	// plan shows a plan; planned says what comes after it when the command ends there: out is the file it was saved to.
	plan(p *operation.Planned, tree *config.Tree)
	planned(p *plan.Plan, out string)
	// applied tells how an apply ended, with the outputs.
	applied(p *plan.Plan, a *operation.Applied, ok bool, s *state.State)
}

// text returns how text for people is written to standard output.
func (a *app) text(f viewFlags) view.TextOptions {
	return view.TextOptions{
		Ink: view.Ink(!f.noColor && a.getenv("NO_COLOR") == "" && terminal(a.stdout)), Width: width(a.stdout),
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

// newUI returns the ui that the flags ask for. sources returns the files that are loaded by now; it may be nil.
func (a *app) newUI(f viewFlags, command string, sources func() map[string]*hcl.File) ui {
	printer := &view.Printer{
		Out: a.stdout, Err: a.stderr, Ink: view.Ink(!f.noColor && a.getenv("NO_COLOR") == "" && terminal(a.stderr)), Width: width(a.stderr),
		Sources: sources, CompactWarnings: f.compactWarnings,
		ConsolidateWarnings: f.consolidateWarnings, ConsolidateErrors: f.consolidateErrors,
	}
	return &textUI{app: a, command: command, flags: f, printer: printer}
}

// textUI is for people.
type textUI struct {
	app     *app
	command string
	flags   viewFlags
	printer *view.Printer
}

func (u *textUI) diagnostics(l diag.List) {
	if err := u.printer.Diagnostics(l); err != nil {
		fmt.Fprintln(u.app.stderr, err)
	}
}

func (u *textUI) observer() coordinator.Observer { return coordinator.Silent{} }
func (u *textUI) settle()                        {}

func (u *textUI) plan(p *operation.Planned, tree *config.Tree) {
	u.check(view.PlanText(u.app.stdout, p.Plan, p.Schemas, u.app.text(u.flags)))
}

func (u *textUI) planned(p *plan.Plan, out string) {
	if p.HasChanges() {
		u.check(view.NextStepText(u.app.stdout, out, "", u.app.text(u.flags)))
	}
}

// check reports that standard output cannot be written; there is nothing else to be done about it.
func (u *textUI) check(err error) {
	if err != nil {
		fmt.Fprintf(u.app.stderr, "Error: writing to standard output: %s\n", err)
	}
}

func (u *textUI) applied(p *plan.Plan, a *operation.Applied, ok bool, s *state.State) {
	fmt.Fprintf(u.app.stdout, "%+v\n", a.Counts)
}
