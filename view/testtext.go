package view

import (
	"fmt"
	"io"
	"strings"

	"github.com/millipede-iac/millipede/coordinator/suite"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/view/document"
)

// TestText shows a suite of tests to people. It implements suite.View.
type TestText struct {
	// Out receives the results of the tests, Err the objects left behind.
	Out, Err io.Writer
	Options  TextOptions
	// Problems shows diagnostics.
	Problems func(diag.List)
	// Failed is called with the error if a stream cannot be written.
	Failed func(error)
}

var _ suite.View = (*TestText)(nil)

func (t *TestText) write(w io.Writer, text string) {
	if _, err := io.WriteString(w, text); err != nil {
		t.Failed(err)
	}
}

// Begin implements suite.View: results are shown only when a file is finished.
func (t *TestText) Begin(*suite.Suite) {}

// Ran implements suite.View.
func (t *TestText) Ran(f *suite.File) {
	t.write(t.Out, fmt.Sprintf("%s... %s\n", f.Name, t.word(f.Status)))
	for _, r := range f.Runs {
		t.write(t.Out, fmt.Sprintf("  run %q... %s\n", r.Name, t.word(r.Status)))
		if v := r.Verbose; v != nil {
			var err error
			if v.State != nil {
				err = StateText(t.Out, v.State, v.Schemas, t.Options)
			} else {
				err = PlanText(t.Out, v.Plan, v.Schemas, t.Options)
			}
			if err != nil {
				t.Failed(err)
			}
		}
		t.Problems(r.Diags)
	}
}

// word returns a status for people; why a test failed is not distinguished.
func (t *TestText) word(s suite.Status) string {
	k := t.Options.Ink
	switch s {
	case suite.Fail, suite.Error:
		return k.on(redCode) + "fail" + k.off()
	case suite.Pass:
		return k.on(greenCode) + "pass" + k.off()
	default:
		return k.on(grayCode) + s.String() + k.off()
	}
}

// Cleaned implements suite.View.
func (t *TestText) Cleaned(f *suite.File, r *suite.Run, left *state.State, problems diag.List) {
	name := f.Name + "/" + r.Name
	if problems.HasErrors() {
		t.write(t.Err, t.Options.wrap(fmt.Sprintf("Millipede encountered an error destroying resources created while "+
			"executing %s.", name))+"\n")
	}
	t.Problems(problems)
	if objects := document.Leftovers(left); len(objects) > 0 {
		t.write(t.Err, "\n"+t.Options.wrap(fmt.Sprintf("Millipede left the following resources in state after "+
			"executing %s. They have to be cleaned up manually; their state is written to "+
			"errored_test.tfstate:", name))+"\n")
		t.list(objects)
	}
}

func (t *TestText) list(objects []document.Leftover) {
	for _, o := range objects {
		if o.DeposedKey != "" {
			t.write(t.Err, fmt.Sprintf("  - %s (%s)\n", o.Instance, o.DeposedKey))
		} else {
			t.write(t.Err, fmt.Sprintf("  - %s\n", o.Instance))
		}
	}
}

// Interrupted implements suite.View.
func (t *TestText) Interrupted() { t.write(t.Err, document.InterruptedText+"\n") }

// Cancelled implements suite.View.
func (t *TestText) Cancelled() { t.write(t.Err, document.CancelledText+"\n") }

// Abandoned implements suite.View.
func (t *TestText) Abandoned(a suite.Abandoned) {
	t.write(t.Err, "\n"+t.Options.wrap(fmt.Sprintf("Millipede was interrupted while executing %s, and may not have "+
		"performed the expected cleanup operations.", a.File.Name))+"\n")
	t.exists("the module under test", document.Leftovers(a.Main))
	for _, r := range a.File.Runs {
		if s := a.Others[r]; s != nil {
			t.exists(fmt.Sprintf("%q, from %q", r.Name, r.Config.Module.Source), document.Leftovers(s))
		}
	}
	if len(a.Creating) == 0 {
		return
	}
	module := "the module under test"
	if a.Run.Config.Module != nil {
		module = fmt.Sprintf("%q", a.Run.Config.Module.Source)
	}
	t.write(t.Err, "\n"+t.Options.wrap(fmt.Sprintf("Millipede was in the process of creating the following resources "+
		"for %q from %s, and they may not have been destroyed:", a.Run.Name, module))+"\n")
	for _, address := range a.Creating {
		t.write(t.Err, "  - "+address+"\n")
	}
}

func (t *TestText) exists(of string, objects []document.Leftover) {
	if len(objects) > 0 {
		t.write(t.Err, "\n"+t.Options.wrap("Millipede has already created the following resources for "+of+":")+"\n")
		t.list(objects)
	}
}

// End implements suite.View.
func (t *TestText) End(s *suite.Suite) {
	text := document.TestSummaryOf(s).Text()
	k := t.Options.Ink
	for word, code := range map[string]string{"Success!": greenCode, "Failure!": redCode} {
		if rest, ok := strings.CutPrefix(text, word); ok {
			text = k.on(code) + word + k.off() + rest
		}
	}
	t.write(t.Out, "\n"+text+"\n")
}
