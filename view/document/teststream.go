package document

import (
	"encoding/json"
	"fmt"

	"github.com/millipede-iac/millipede/coordinator/suite"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
)

// TestStream reports the results of a test suite to programs. It implements suite.View.
type TestStream struct{ *Stream }

var _ suite.View = TestStream{}

// of returns the fields that identify the file, and the run, of a message, together with more.
func of(f *suite.File, r *suite.Run, more map[string]any) map[string]any {
	out := map[string]any{"@testfile": f.Name}
	if r != nil {
		out["@testrun"] = r.Name
	}
	for k, v := range more {
		out[k] = v
	}
	return out
}

// Begin implements suite.View.
func (t TestStream) Begin(s *suite.Suite) {
	abstract := map[string][]string{}
	runs := 0
	for _, f := range s.Files {
		var names []string // null if there are none, as in OpenTofu
		for _, r := range f.Runs {
			names = append(names, r.Name)
		}
		abstract[f.Name] = names
		runs += len(names)
	}
	t.message("info", "test_abstract", fmt.Sprintf("Found %s and %s", counted(len(s.Files), "file"),
		counted(runs, "run block")),
		map[string]any{"test_abstract": abstract})
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Ran implements suite.View.
func (t TestStream) Ran(f *suite.File) {
	t.message("info", "test_file", fmt.Sprintf("%s... %s", f.Name, shortWord(f.Status)),
		of(f, nil, map[string]any{"test_file": map[string]string{"path": f.Name, "status": f.Status.String()}}))
	for _, r := range f.Runs {
		t.message("info", "test_run", fmt.Sprintf("  %q... %s", r.Name, shortWord(r.Status)),
			of(f, r, map[string]any{"test_run": map[string]string{"path": f.Name, "run": r.Name,
				"status": r.Status.String()}}))
		if r.Verbose != nil {
			t.verbose(f, r)
		}
		t.problems(r.Diags, of(f, r, nil))
	}
}

// shortWord returns a status for the texts of messages.
func shortWord(s suite.Status) string {
	if s == suite.Error {
		s = suite.Fail
	}
	return s.String()
}

func (t TestStream) verbose(f *suite.File, r *suite.Run) {
	v := r.Verbose
	kind, text := "test_plan", "-verbose flag enabled, printing plan"
	var form []byte
	var err error
	if v.State != nil {
		kind, text = "test_state", "-verbose flag enabled, printing state"
		form, err = StateJSON(v.State, v.Schemas, t.EngineVersion)
	} else {
		form, err = PlanJSON(v.Plan, v.Tree, v.Schemas)
	}
	if err != nil {
		t.problems(diag.List{diag.New(diag.Warning, "Failed to render test "+kind[len("test_"):], err.Error()+".",
			nil)}, of(f, r, nil))
		return
	}
	t.message("info", kind, text, of(f, r, map[string]any{kind: json.RawMessage(form)}))
}

// Cleaned implements suite.View.
func (t TestStream) Cleaned(f *suite.File, r *suite.Run, left *state.State, problems diag.List) {
	if objects := Leftovers(left); len(objects) > 0 {
		t.message("error", "test_cleanup", fmt.Sprintf("Millipede left some resources in state after executing "+
			"%s/%s. They have to be cleaned up manually; their state is written to errored_test.tfstate:",
			f.Name, r.Name),
			of(f, r, map[string]any{"test_cleanup": map[string]any{"failed_resources": objects}}))
	}
	t.problems(problems, of(f, r, nil))
}

// Interrupted implements suite.View.
func (t TestStream) Interrupted() { t.Log(InterruptedText) }

// Cancelled implements suite.View.
func (t TestStream) Cancelled() { t.Log(CancelledText) }

// Abandoned implements suite.View.
func (t TestStream) Abandoned(a suite.Abandoned) {
	message := struct {
		State   []Leftover            `json:"state,omitempty"`
		States  map[string][]Leftover `json:"states,omitempty"`
		Planned []string              `json:"planned,omitempty"`
	}{State: Leftovers(a.Main), States: map[string][]Leftover{}, Planned: a.Creating}
	for r, s := range a.Others {
		if objects := Leftovers(s); len(objects) > 0 {
			message.States[r.Name] = objects
		}
	}
	if len(message.State)+len(message.States)+len(message.Planned) == 0 {
		return
	}
	t.message("error", "test_interrupt", "Millipede was interrupted during test execution, and may not have "+
		"performed the expected cleanup operations.",
		of(a.File, nil, map[string]any{"test_interrupt": message}))
}

// End implements suite.View.
func (t TestStream) End(s *suite.Suite) {
	sum := TestSummaryOf(s)
	t.message("info", "test_summary", sum.Text(), map[string]any{"test_summary": sum})
}

// TestViews shows a suite in several views at once.
type TestViews []suite.View

var _ suite.View = TestViews(nil)

// Begin implements suite.View.
func (t TestViews) Begin(s *suite.Suite) {
	for _, v := range t {
		v.Begin(s)
	}
}

// Ran implements suite.View.
func (t TestViews) Ran(f *suite.File) {
	for _, v := range t {
		v.Ran(f)
	}
}

// Cleaned implements suite.View.
func (t TestViews) Cleaned(f *suite.File, r *suite.Run, left *state.State, problems diag.List) {
	for _, v := range t {
		v.Cleaned(f, r, left, problems)
	}
}

// Interrupted implements suite.View.
func (t TestViews) Interrupted() {
	for _, v := range t {
		v.Interrupted()
	}
}

// Cancelled implements suite.View.
func (t TestViews) Cancelled() {
	for _, v := range t {
		v.Cancelled()
	}
}

// Abandoned implements suite.View.
func (t TestViews) Abandoned(a suite.Abandoned) {
	for _, v := range t {
		v.Abandoned(a)
	}
}

// End implements suite.View.
func (t TestViews) End(s *suite.Suite) {
	for _, v := range t {
		v.End(s)
	}
}
