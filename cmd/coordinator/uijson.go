package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/view/document"
	"github.com/millipede-iac/millipede/wire"
)

// openInto opens the file of -json-into. What it held is lost.
func openInto(name string) (*os.File, diag.List) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, diag.Errors("Invalid argument", fmt.Sprintf("The file of -json-into cannot be written: %s.", err), nil)
	}
	return file, nil
}

// jsonUI is for programs.
type jsonUI struct {
	app     *app
	command string
	stream  *document.Stream
	file    *os.File // that the stream goes to, and that is closed at the end; nil for standard output
	err     error    // of writing; told at the end
}

func (a *app) newJSONUI(f viewFlags, command string, out io.Writer, file *os.File) *jsonUI {
	u := &jsonUI{app: a, command: command, file: file}
	u.stream = document.NewStream(document.StreamOptions{Out: out, Now: time.Now, EngineVersion: engineVersion, Deprecations: f.deprecations})
	return u
}

func (u *jsonUI) diagnostics(l diag.List) {
	u.app.noteBugs(l)
	u.stream.Problems(l)
}
func (u *jsonUI) observer() observer                       { return u.stream }
func (u *jsonUI) settle()                                  { u.err = errors.Join(u.err, u.stream.Settle()) }
func (u *jsonUI) applying(*plan.Plan)                      {}
func (u *jsonUI) saved(p *plan.Plan)                       { u.stream.Changes(p, true) }
func (u *jsonUI) planned(*plan.Plan, string, string)       {}
func (u *jsonUI) note(text string)                         { u.stream.Log(strings.TrimSpace(text)) }
func (u *jsonUI) from(sources func() map[string]*hcl.File) { u.stream.Sources = sources }

// refreshes tells whether all that is done is to record what was found: there is no plan then, as far as programs are
// concerned.
func (u *jsonUI) refreshes() bool { return u.command == "refresh" }

func (u *jsonUI) plan(p *operation.Planned, tree *config.Tree) {
	if !u.refreshes() {
		u.stream.Plan(p.Plan)
	}
}

func (u *jsonUI) end(code int) int {
	u.settle()
	if u.file != nil {
		u.err = errors.Join(u.err, u.file.Close())
	}
	if u.err != nil {
		fmt.Fprintf(u.app.stderr, "Error: writing the output: %s\n", u.err)
		return max(code, 1)
	}
	return code
}

func (u *jsonUI) applied(p *plan.Plan, a *operation.Applied, ok bool, s *state.State) {
	if !ok {
		return
	}
	if u.command == "import" {
		u.stream.Info(importDone)
		return
	}
	if !u.refreshes() {
		u.stream.Summary(summaryOf(u.command, a))
	}
	if u.command != "destroy" {
		u.stream.Outputs(s)
	}
}

// bothUI talks to people and, in a file, to programs.
type bothUI struct {
	people   *textUI
	programs *jsonUI
}

func (u bothUI) diagnostics(l diag.List) { u.people.diagnostics(l); u.programs.diagnostics(l) }
func (u bothUI) observer() observer      { return bothObserver{u.people.observer(), u.programs.observer()} }
func (u bothUI) saved(p *plan.Plan)      { u.people.saved(p); u.programs.saved(p) }
func (u bothUI) settle()                 { u.people.settle(); u.programs.settle() }
func (u bothUI) applying(p *plan.Plan)   { u.people.applying(p); u.programs.applying(p) }
func (u bothUI) note(text string)        { u.people.note(text); u.programs.note(text) }
func (u bothUI) end(code int) int        { return u.programs.end(u.people.end(code)) }

func (u bothUI) from(sources func() map[string]*hcl.File) {
	u.people.from(sources)
	u.programs.from(sources)
}

func (u bothUI) plan(p *operation.Planned, tree *config.Tree) {
	u.people.plan(p, tree)
	u.programs.plan(p, tree)
}

func (u bothUI) planned(p *plan.Plan, out, generated string) {
	u.people.planned(p, out, generated)
	u.programs.planned(p, out, generated)
}

func (u bothUI) applied(p *plan.Plan, a *operation.Applied, ok bool, s *state.State) {
	u.people.applied(p, a, ok, s)
	u.programs.applied(p, a, ok, s)
}

// bothObserver tells two observers what it is told.
type bothObserver [2]observer

func (b bothObserver) each(tell func(observer)) {
	tell(b[0])
	tell(b[1])
}

// Started implements coordinator.Observer.
func (b bothObserver) Started(vertex int, d program.Description, pool string, at time.Time) {
	b.each(func(o observer) { o.Started(vertex, d, pool, at) })
}

// Progress implements coordinator.Observer.
func (b bothObserver) Progress(vertex int, d program.Description, elapsed time.Duration) {
	b.each(func(o observer) { o.Progress(vertex, d, elapsed) })
}

// Finished implements coordinator.Observer.
func (b bothObserver) Finished(vertex int, d program.Description, n program.Notes, took time.Duration) {
	b.each(func(o observer) { o.Finished(vertex, d, n, took) })
}

// Failed implements coordinator.Observer.
func (b bothObserver) Failed(vertex int, d program.Description, n program.Notes, took time.Duration) {
	b.each(func(o observer) { o.Failed(vertex, d, n, took) })
}

// Skipped implements coordinator.Observer.
func (b bothObserver) Skipped(vertex int, d program.Description, because string) {
	b.each(func(o observer) { o.Skipped(vertex, d, because) })
}

// Doubtful implements coordinator.Observer.
func (b bothObserver) Doubtful(vertex int, d program.Description, reason string) {
	b.each(func(o observer) { o.Doubtful(vertex, d, reason) })
}

// Waiting implements coordinator.Observer.
func (b bothObserver) Waiting(waits []coordinator.Wait) {
	b.each(func(o observer) { o.Waiting(waits) })
}

// Counts implements coordinator.Observer.
func (b bothObserver) Counts(c coordinator.Counts) { b.each(func(o observer) { o.Counts(c) }) }

// Diagnostics implements coordinator.Observer.
func (b bothObserver) Diagnostics(l diag.List) { b.each(func(o observer) { o.Diagnostics(l) }) }

// Event tells what a provisioner says.
func (b bothObserver) Event(e wire.Event) { b.each(func(o observer) { o.Event(e) }) }
