package view_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/view"
	"github.com/millipede-iac/millipede/view/document"
	"github.com/millipede-iac/millipede/wire"
)

func at(file string, line int) *hcl.Range {
	return &hcl.Range{Filename: file, Start: hcl.Pos{Line: line, Column: 1, Byte: 10 * line},
		End: hcl.Pos{Line: line, Column: 4, Byte: 10*line + 3}}
}

func TestProblemsAreSortedForPeople(t *testing.T) {
	var out, errs bytes.Buffer
	p := &view.Printer{Out: &out, Err: &errs}
	list := diag.List{
		diag.New(diag.Error, "E deep", "", at("m/a.tf", 1)),
		diag.New(diag.Error, "E second", "", at("b.tf", 2)),
		diag.New(diag.Error, "E first", "", at("b.tf", 1)),
		diag.New(diag.Error, "E nowhere", "", nil),
		diag.New(diag.Warning, "W", "", at("z.tf", 1)),
	}
	if err := p.Diagnostics(list); err != nil {
		t.Fatal(err)
	}
	if list[0].Summary != "E deep" {
		t.Error("the list of the caller was changed")
	}
	if got := headlines(out.String()); got != "Warning: W" {
		t.Errorf("on standard output: %s", got)
	}
	if got := headlines(errs.String()); got != "Error: E nowhere, Error: E first, Error: E second, Error: E deep" {
		t.Errorf("on standard error: %s", got)
	}
}

func headlines(text string) string {
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, "Error: ") || strings.HasPrefix(line, "Warning: ") ||
			strings.HasPrefix(line, "(and ") {
			out = append(out, line)
		}
	}
	return strings.Join(out, ", ")
}

func TestSimilarProblemsAreShownOnce(t *testing.T) {
	deprecated := func(origin string, line int) *diag.Diagnostic {
		d := diag.New(diag.Warning, "Deprecated", "", at("a.tf", line))
		d.Extra = marks.Deprecated{Origin: origin, Message: string(rune('a' + line))}
		return d
	}
	rule := diag.New(diag.Warning, "Check block assertion failed", "", at("a.tf", 9))
	rule.Extra = &eval.Rule{}
	list := diag.List{
		diag.New(diag.Warning, "Same", "Detail.", at("a.tf", 1)), diag.New(diag.Warning, "Same", "", at("a.tf", 2)),
		diag.New(diag.Warning, "Same", "", at("a.tf", 3)), diag.New(diag.Warning, "Same", "", nil),
		diag.New(diag.Error, "Same", "", at("a.tf", 1)), diag.New(diag.Error, "Same", "", at("a.tf", 2)),
		deprecated("x", 1), deprecated("x", 2), deprecated("y", 3), deprecated("y", 3), rule, rule,
	}
	for name, c := range map[string]struct {
		printer view.Printer
		want    string
	}{
		"warnings": {view.Printer{ConsolidateWarnings: true},
			"Warning: Same, Warning: Same, (and 2 more similar warnings elsewhere), Warning: Deprecated, (and one " +
				"more similar warning elsewhere), " +
				"Warning: Deprecated, Warning: Check block assertion failed, Warning: Check block assertion failed, " +
				"Error: Same, Error: Same"},
		"errors": {view.Printer{ConsolidateErrors: true},
			"Warning: Same, Warning: Same, Warning: Deprecated, Warning: Same, Warning: Deprecated, Warning: Same, " +
				"Warning: Deprecated, " +
				"Warning: Check block assertion failed, Warning: Check block assertion failed, Error: Same, (and one " +
				"more similar error elsewhere)"},
	} {
		var out bytes.Buffer
		p := c.printer
		p.Out, p.Err = &out, &out
		if err := p.Diagnostics(list); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c.want, headlines(out.String())); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestCompactWarningsAreTheirSummaries(t *testing.T) {
	var out bytes.Buffer
	p := &view.Printer{Out: &out, Err: &out, CompactWarnings: true, ConsolidateWarnings: true}
	list := diag.List{
		diag.New(diag.Warning, "Alone", "Long.", nil), diag.New(diag.Warning, "Placed", "Long.", at("a.tf", 1)),
		diag.New(diag.Warning, "Often", "Long.", at("a.tf", 2)), diag.New(diag.Warning, "Often", "Long.",
			at("a.tf", 3)),
	}
	if err := p.Diagnostics(list); err != nil {
		t.Fatal(err)
	}
	want := `
Warnings:

- Alone
- Placed
  on a.tf line 1
- Often
  on a.tf line 2 (and 1 more)

To see the warnings in full, leave -compact-warnings out.
`
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Error(d)
	}
	out.Reset()
	if err := p.Diagnostics(append(list, diag.New(diag.Error, "E", "", nil))); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "Long.") {
		t.Error("beside errors, warnings were not shown in full")
	}
}

func TestAProblemShowsTheValuesThatItMay(t *testing.T) {
	src := `f(var.text, var.list, var.obj, var.hidden, var.fleeting, var.unknown, var.some, var.mystery, var.list[0], ` +
		`var.text, var.null, var.none[0])`
	expr, diags := hclsyntax.ParseExpression([]byte(src), "a.tf", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	ctx := &hcl.EvalContext{Variables: map[string]cty.Value{"var": cty.ObjectVal(map[string]cty.Value{
		"text": cty.StringVal("x"),
		"list": cty.ListVal([]cty.Value{cty.NumberIntVal(1)}),
		"obj": cty.ObjectVal(map[string]cty.Value{"secret": cty.StringVal("s").Mark(marks.Sensitive),
			"b": cty.True}),
		"hidden":   cty.StringVal("s").Mark(marks.Sensitive),
		"fleeting": cty.StringVal("s").Mark(marks.Ephemeral),
		"unknown":  cty.UnknownVal(cty.Number),
		"some": cty.UnknownVal(cty.List(cty.String)).Refine().CollectionLengthLowerBound(
			1).CollectionLengthUpperBound(3).NewValue(),
		"mystery": cty.DynamicVal,
		"null":    cty.NullVal(cty.String),
		"none":    cty.ListValEmpty(cty.String),
	})}}
	common := map[string]string{
		"var.text": `is "x"`, "var.list": "is list of number with 1 element", "var.list[0]": "is 1",
		"var.obj": "is object with 2 attributes", "var.null": "is null", "var.none": "is empty list of string",
	}
	for name, c := range map[string]struct {
		extra any
		more  map[string]string
	}{
		"usually": {nil, map[string]string{"var.unknown": "is a number",
			"var.some": "is a list of string"}},
		"because of the unknown": {eval.BecauseUnknown, map[string]string{"var.unknown": "is a number, known " +
			"only after apply", "var.some": "is a list of string with between 1 and 3 elements, known only after apply",
			"var.mystery": "will be known only after apply"}},
		"because of what is private": {eval.BecauseConfidential, map[string]string{"var.unknown": "is a number",
			"var.some": "is a list of string", "var.hidden": "has a sensitive value",
			"var.fleeting": "has an ephemeral value"}},
	} {
		d := diag.New(diag.Error, "S", "", &hcl.Range{Filename: "a.tf", Start: hcl.InitialPos,
			End: hcl.Pos{Line: 1, Column: 2, Byte: 1}})
		d.Expression, d.EvalContext, d.Extra = expr, ctx, c.extra
		got := map[string]string{}
		for _, v := range document.DiagnosticJSON(d,
			map[string]*hcl.File{"a.tf": {Bytes: []byte(src)}}).Snippet.Values {
			got[v.Traversal] = v.Statement
		}
		want := map[string]string{}
		for _, m := range []map[string]string{common, c.more} {
			for k, v := range m {
				want[k] = v
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestAFailedCallShowsTheSignature(t *testing.T) {
	src := `outer([for x in ["a"] : tonumber2(x)])`
	expr, _ := hclsyntax.ParseExpression([]byte(src), "a.tf", hcl.InitialPos)
	boom := function.New(&function.Spec{
		Params:   []function.Parameter{{Name: "v", Type: cty.String}},
		VarParam: &function.Parameter{Name: "more", Type: cty.Number},
		Type:     function.StaticReturnType(cty.Number),
		Impl:     func([]cty.Value, cty.Type) (cty.Value, error) { return cty.NilVal, function.NewArgErrorf(0, "no") },
	})
	_, diags := expr.Value(&hcl.EvalContext{Functions: map[string]function.Function{"tonumber2": boom, "outer": boom}})
	if len(diags) == 0 {
		t.Fatal("nothing failed")
	}
	text := (&view.Printer{}).Text(document.DiagnosticJSON(diag.FromHCL(diags[0]),
		map[string]*hcl.File{"a.tf": {Bytes: []byte(src)}}))
	if !strings.Contains(text, "│ while calling tonumber2(v, more...)\n    │ x is \"a\"\n") {
		t.Error(text)
	}
}

func TestValidationInJSONCountsTheProblems(t *testing.T) {
	got := string(document.ValidateJSON(diag.List{diag.New(diag.Warning, "W", "", nil),
		diag.New(diag.Error, "E", "D", nil)}, nil))
	want := `{
  "format_version": "1.0",
  "valid": false,
  "error_count": 1,
  "warning_count": 1,
  "diagnostics": [
    {
      "severity": "warning",
      "summary": "W",
      "detail": ""
    },
    {
      "severity": "error",
      "summary": "E",
      "detail": "D"
    }
  ]
}
`
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if got := string(document.ValidateJSON(nil, nil)); !strings.Contains(got, `"valid": true`) ||
		!strings.Contains(got, `"diagnostics": []`) {
		t.Error(got)
	}
}

func TestAValueReadsAsTheExpressionThatGivesIt(t *testing.T) {
	for want, v := range map[string]cty.Value{
		`"a\tb"`:                       cty.StringVal("a\tb"),
		"7227701560655103598":          cty.MustParseNumberVal("7227701560655103598"),
		"0.1":                          cty.MustParseNumberVal("0.1"),
		"true":                         cty.True,
		"null":                         cty.NullVal(cty.DynamicPseudoType),
		"tostring(null)":               cty.NullVal(cty.String),
		"tolist(null) /* of number */": cty.NullVal(cty.List(cty.Number)),
		"null /* object */":            cty.NullVal(cty.EmptyObject),
		"(known after apply)":          cty.UnknownVal(cty.String),
		"(sensitive value)":            cty.StringVal("x").Mark(marks.Sensitive),
		"[]":                           cty.EmptyTupleVal,
		"tomap({})":                    cty.MapValEmpty(cty.String),
		"tolist([\n  1,\n])":           cty.ListVal([]cty.Value{cty.NumberIntVal(1)}),
		"<<EOT_\na\nEOT\nEOT_":         cty.StringVal("a\nEOT"),
		"{\n  \"t\" = <<-EOT\n  a\n  b\n  EOT\n}": cty.ObjectVal(map[string]cty.Value{"t": cty.StringVal("a\nb")}),
		"{\n  \"s\" = (sensitive value)\n}": cty.ObjectVal(
			map[string]cty.Value{"s": cty.StringVal("x").Mark(marks.Sensitive)}),
	} {
		if got := view.FormatValue(v); got != want {
			t.Errorf("%#v reads as\n%s\nwant\n%s", v, got, want)
		}
	}
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func TestTablesListRunsWorkersAndLimits(t *testing.T) {
	var b bytes.Buffer
	runs := []journal.Run{
		{ID: "02", Workspace: "default", Command: "apply", Status: "running", Started: noon.Add(-time.Minute),
			Who: "me"},
		{ID: "01", Workspace: "default", Command: "destroy", Status: "done", Started: noon.Add(-time.Hour),
			Ended: noon.Add(-time.Hour + 3*time.Second)},
	}
	workers := []wire.Worker{
		{Heartbeat: wire.Heartbeat{Worker: "w2", Pools: []string{"eu", "us"}, Slots: 4, Draining: true,
			Version: "0.1.0", Platform: "linux_amd64", Host: "h", Protocol: wire.ProtocolVersion},
			Since: 1234 * time.Millisecond},
		{Heartbeat: wire.Heartbeat{Worker: "w1", Pools: []string{"default"}, Slots: 10, Running: 3, Version: "0.1.0",
			Platform: "linux_amd64", Protocol: 9, Lowest: wire.ProtocolVersion}},
		{Heartbeat: wire.Heartbeat{Worker: "w3", Pools: []string{"eu"}, Slots: 1, Version: "0.0.9", Protocol: 3,
			Platform: "linux_amd64"}},
	}
	limits := []wire.LimitStatus{
		{Limit: wire.Limit{Name: "parallelism", Slots: 10},
			Held: []wire.PermitRequest{{ID: "p1", Coordinator: "c", Run: "02", At: noon.Add(-time.Second)},
				{ID: "p0", Coordinator: "c", Run: "02", At: noon.Add(-time.Hour)}},
			Uses: map[string]wire.PermitUse{"p1": {By: "ann", Pool: "us"}, "p0": {By: "ann", Pool: "eu", Address: "a.b",
				InDoubt: true}},
			Waiting: []wire.PermitRequest{{ID: "p2", Coordinator: "d", Run: "03", At: noon}}},
		{Limit: wire.Limit{Name: "db", Slots: 1}},
	}
	for _, err := range []error{view.RunsText(&b, runs, noon), view.WorkersText(&b, workers),
		view.LimitsText(&b, limits, noon)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := `RUN  WORKSPACE  COMMAND  STATUS   STARTED              TOOK         BY
02   default    apply    running  2026-01-02 11:59:00  1m0s so far  me
01   default    destroy  done     2026-01-02 11:00:00  3s
WORKER  POOLS    BUSY  STATUS            SEEN      VERSION  PROTOCOL  PLATFORM     HOST
w1      default  3/10  ready             0s ago    0.1.0    6 to 9    linux_amd64
w2      eu,us    0/4   draining          1.2s ago  0.1.0    6         linux_amd64  h
w3      eu       0/1   is given nothing  0s ago    0.0.9    3         linux_amd64

Nothing is given to:
  worker w3 is Millipede 0.0.9 and speaks version 3 of the protocol, this program version 6: ` +
		`replace this worker by one of the version of this program
LIMIT        SLOTS  HELD  WAITING
db           1      0     0
parallelism  10     2     1

parallelism
                       RUN  COORDINATOR  BY   POOL  FOR     PERMIT
  held                 02   c            ann  us    1s      p1
  held, in doubt: a.b  02   c            ann  eu    1h0m0s  p0
  waiting              03   d                       0s      p2

The permits of operations in doubt are free when these are resolved (runs resolve ADDRESS), when their worker
reports their end, or, for a limit that pools share, after their term (doubt_term in millipede.hcl).
`
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Error(d)
	}
}

func TestARunShowsWhatIsKnownOfWhatIsInDoubt(t *testing.T) {
	s := state.Empty()
	a, _ := addr.ParseInstance(`a.b["x"]`)
	s.Resources[a.Abs()] = &state.Resource{Instances: map[addr.Key]*state.Instance{a.Key: {Current: &state.Object{
		Status: state.InDoubt, Doubt: &state.Doubt{
			Run: "01", Attempt: "at", Worker: "w", Pool: "eu", Operation: "create", Started: noon,
			Reason: "the worker is gone", Sent: []byte(`{"name":"x"}`),
		},
	}}}}
	event := func(k journal.Kind, v int, address, detail string) journal.Event {
		return journal.Event{Kind: k, Vertex: v, At: noon, Address: address, Attempt: "at", Pool: "eu",
			Action: "create", Detail: detail}
	}
	events := []journal.Event{
		event(journal.Want, 0, "a.a", ""), event(journal.Dispatch, 0, "a.a", ""),
		event(journal.Want, 1, a.String(), ""), event(journal.Dispatch, 1, a.String(), ""),
		event(journal.Suspect, 1, a.String(), "gone"),
		event(journal.Want, 2, "a.c", ""), event(journal.Fail, 2, "a.c", "Quota exceeded"),
		event(journal.Skip, 3, "a.d", ""),
	}
	var b bytes.Buffer
	run := journal.Run{ID: "01", Workspace: "default", Command: "apply", Status: "running", Started: noon,
		Who: "me", Vertices: 7}
	at := func(text string) addr.Instance { i, _ := addr.ParseInstance(text); return i }
	// The last two vertices are not operations: they belong to no change.
	p := &plan.Plan{
		Changes: []*plan.Change{{Action: plan.Create}},
		Graph:   plan.Graph{Vertices: []plan.Vertex{5: {Change: -1}, 6: {Change: -1}}},
		Dependencies: &plan.Dependencies{
			Writes: []addr.Instance{at("a.a"), at("a.c")}, Outputs: []string{"o"}, Reads: []addr.Instance{at("a.v")},
			Keeps: []addr.ConfigResource{at("a.d").Config()},
		},
	}
	if err := view.RunText(&b, run, p, events, s, noon.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`Run 01: apply in the workspace "default", by me`, "Steps: 5 (1 waiting, 1 dispatched, 1 failed, 1 skipped, " +
			"1 in doubt)",
		"a.a: create, sent to the pool eu 1m0s ago (attempt at)", "a.c: Quota exceeded",
		"reason:    the worker is gone", "Its plan writes: a.a, a.c, output.o\nIt reads:        a.v\n" +
			"It removes from: a.d\n",
		`sent:      {"name":"x"}`, `coordinator runs resolve 'a.b["x"]' -created=ID`,
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
}

func TestARunThatDidNotDoEverythingSaysWhatIsMissing(t *testing.T) {
	o := coordinator.Outcome{
		Failed:      []coordinator.Failure{{Address: "a.f"}},
		Interrupted: true,
		Counts:      coordinator.Counts{Total: 20, Done: 3},
	}
	for i := range 12 {
		o.Skipped = append(o.Skipped, coordinator.Skipped{Address: fmt.Sprintf("a.s[%d]", i), Because: "a.f"})
	}
	want := `
Interrupted! Operations: 3 of 20 done, 1 failed, 12 skipped.

Failed:
  a.f

Skipped, because of a.f:
  a.s[0]
  a.s[1]
  a.s[2]
  a.s[3]
  a.s[4]
  a.s[5]
  a.s[6]
  a.s[7]
  a.s[8]
  a.s[9]
  and 2 more

To resume the run where it stopped:
  coordinator runs resume 01
`
	if d := cmp.Diff(want, view.OutcomeText("01", o, nil, view.TextOptions{})); d != "" {
		t.Error(d)
	}
	if text := view.OutcomeText("01", coordinator.Outcome{Status: "done"}, nil, view.TextOptions{}); text != "" {
		t.Errorf("a run that did everything says %q", text)
	}
}

// The line of an argument was shown with the password in it, also when nothing was wrong with the argument and the
// server was only out of reach.
func TestTheSourceOfAnArgumentThatMayContainASecretIsNotShown(t *testing.T) {
	for name, source := range map[string]string{
		"main.tf":      "backend \"pg\" {\n  conn_str = \"postgres://u:hunter2@db/x\"\n}\n",
		"main.tf.json": "{\"backend\": {\"pg\": {\n  \"conn_str\": \"postgres://u:hunter2@db/x\"\n}}}\n",
	} {
		t.Run(name, func(t *testing.T) {
			at := strings.Index(source, "conn_str")
			subject := &hcl.Range{
				Filename: name, Start: hcl.Pos{Line: 2, Column: 3, Byte: at},
				End: hcl.Pos{Line: 2, Column: 46, Byte: strings.Index(source, "/x\"") + 3},
			}
			d := diag.New(diag.Error, "Failed to open the database", "Connection refused.", subject)
			d.Extra = diag.Confidential{}
			form := document.DiagnosticJSON(d, map[string]*hcl.File{name: {Bytes: []byte(source)}})
			text := (&view.Printer{}).Text(form)
			if strings.Contains(text, "hunter2") || strings.Contains(form.Snippet.Code, "hunter2") {
				t.Errorf("the password is shown:\n%s", text)
			}
			if !strings.Contains(text, "conn_str") || !strings.Contains(text, "line 2") {
				t.Errorf("the argument is not named:\n%s", text)
			}
		})
	}
}
