package engine

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/millipede-iac/millipede/coordinator/estate"
	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/service/work"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/view"
	"github.com/millipede-iac/millipede/view/document"
)

// screen writes the log of a phase: as text, or as JSON messages, one per line.
type screen interface {
	watch() estate.Watch
	sources(func() map[string]*hcl.File)
	note(text string)
	diagnostics(diag.List)
	plan(*operation.Planned)
	applying(*plan.Plan)
	applied(a *operation.Applied, after *state.State, ok bool)
	// end writes the remaining output. It returns the first error of writing.
	end() error
}

func newScreen(j *work.Job, o Options) screen {
	if j.Structured {
		return &lines{destroys: j.Run.Destroy, stream: document.NewStream(document.StreamOptions{Out: j.Log, Now: o.Now,
			EngineVersion: o.EngineVersion})}
	}
	out := view.Clean(j.Log, false)
	t := &text{out: out, destroys: j.Run.Destroy, printer: &view.Printer{Out: out, Err: out}}
	t.progress = view.NewProgress(view.ProgressOptions{Out: out})
	return t
}

// text writes text for people.
type text struct {
	out      io.Writer
	printer  *view.Printer
	progress *view.Progress
	destroys bool
	err      error
}

func (t *text) keep(err error) { t.err = errors.Join(t.err, err) }

func (t *text) print(s string) {
	_, err := io.WriteString(t.out, s)
	t.keep(err)
}

func (t *text) watch() estate.Watch {
	return estate.Watch{
		Sources: t.sources, Observer: t.progress, Events: t.progress.Event, Note: t.note,
		Settle: func() { t.keep(t.progress.Settle()) },
	}
}

func (t *text) sources(f func() map[string]*hcl.File) { t.printer.Sources = f }
func (t *text) note(s string)                         { t.progress.Note(s) }
func (t *text) diagnostics(l diag.List)               { t.keep(t.printer.Diagnostics(l)) }
func (t *text) applying(p *plan.Plan)                 { t.progress.Imports(p) }

func (t *text) plan(p *operation.Planned) {
	t.keep(view.PlanText(t.out, p.Plan, p.Schemas, view.TextOptions{Automated: true}))
}

func (t *text) applied(a *operation.Applied, after *state.State, ok bool) {
	if a == nil || after == nil {
		return
	}
	if !ok {
		t.print(view.OutcomeText(a.Run, a.Outcome, after, view.TextOptions{Automated: true}))
		return
	}
	t.print(view.SummaryText(summaryOf(a, t.destroys), false))
	t.print(view.AppliedOutputsText(after, view.TextOptions{Automated: true}))
}

func (t *text) end() error {
	t.keep(t.progress.Settle())
	if t.err != nil {
		return fmt.Errorf("writing the log: %w", t.err)
	}
	return nil
}

func summaryOf(a *operation.Applied, destroys bool) document.Summary {
	kind := document.ApplyOperation
	if destroys {
		kind = document.DestroyOperation
	}
	return document.Summary{
		Operation: kind, Add: a.Counts.Added, Change: a.Counts.Changed, Remove: a.Counts.Destroyed,
		Import: a.Counts.Imported, Forget: a.Counts.Forgotten, Invoke: a.Counts.Invoked,
	}
}

// lines writes JSON lines for programs.
type lines struct {
	stream   *document.Stream
	destroys bool
	err      error
}

func (s *lines) keep(err error) { s.err = errors.Join(s.err, err) }

func (s *lines) watch() estate.Watch {
	return estate.Watch{
		Sources: s.sources, Observer: s.stream, Events: s.stream.Event, Note: s.note,
		Settle: func() { s.keep(s.stream.Settle()) },
	}
}

func (s *lines) sources(f func() map[string]*hcl.File) { s.stream.Sources = f }
func (s *lines) note(text string)                      { s.stream.Log(strings.TrimSpace(text)) }
func (s *lines) diagnostics(l diag.List)               { s.stream.Problems(l) }
func (s *lines) applying(*plan.Plan)                   {}
func (s *lines) plan(p *operation.Planned)             { s.stream.Plan(p.Plan) }

func (s *lines) applied(a *operation.Applied, after *state.State, ok bool) {
	if a == nil || after == nil || !ok {
		return
	}
	s.stream.Summary(summaryOf(a, s.destroys))
	s.stream.Outputs(after)
}

func (s *lines) end() error {
	s.keep(s.stream.Settle())
	if s.err != nil {
		return fmt.Errorf("writing the log: %w", s.err)
	}
	return nil
}
