package funcs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/millipede-iac/millipede/lang/funcs"
	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/millipede-iac/millipede/lang/syntax"
	"github.com/zclconf/go-cty/cty"
)

// noon is the time of every clock in these tests.
var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// scope evaluates expressions with one function table and a few variables, known and unknown ones.
func scope(o funcs.Options) *hcl.EvalContext {
	if o.Now == nil {
		o.Now = func() time.Time { return noon }
	}
	return &hcl.EvalContext{
		Functions: funcs.Table(o),
		Variables: map[string]cty.Value{
			"unknown":   cty.UnknownVal(cty.String),
			"ids":       cty.UnknownVal(cty.List(cty.String)),
			"arn":       cty.UnknownVal(cty.String).Refine().StringPrefixFull("arn:").NewValue(),
			"secret":    cty.StringVal("hunter2").Mark(marks.Sensitive),
			"token":     cty.StringVal("t0k3n").Mark(marks.Ephemeral),
			"both":      cty.StringVal("b0th").Mark(marks.Sensitive).Mark(marks.Ephemeral),
			"untyped":   cty.DynamicVal,
			"undecided": cty.UnknownVal(cty.Bool),
		},
	}
}

func eval(t *testing.T, ctx *hcl.EvalContext, expr string) (cty.Value, hcl.Diagnostics) {
	t.Helper()
	e, diags := syntax.ParseExpression([]byte(expr), "test.tf", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatalf("%s: %s", expr, diags)
	}
	return e.Value(ctx)
}

// same is a table of claims of the form "this expression has the value, the type and the marks of that one", by
// sentence.
type same map[string][2]string

func (claims same) prove(t *testing.T, o funcs.Options) {
	t.Helper()
	ctx := scope(o)
	for claim, c := range claims {
		t.Run(claim, func(t *testing.T) {
			want, diags := eval(t, ctx, c[1])
			if diags.HasErrors() {
				t.Fatalf("%s: %s", c[1], diags)
			}
			got, diags := eval(t, ctx, c[0])
			if diags.HasErrors() {
				t.Fatalf("%s: %s", c[0], diags)
			}
			if !got.RawEquals(want) {
				t.Fatalf("%s\n got %#v\nwant %#v", c[0], got, want)
			}
		})
	}
}

// refused is a table of claims of the form "this call fails in this way", by sentence.
type refused map[string]failure

type failure struct {
	expr    string
	summary string
	// detail must be in the details, and lacks must not.
	detail, lacks string
}

const (
	badArgument = "Invalid function argument"
	badCall     = "Error in function call"
)

func (claims refused) prove(t *testing.T, o funcs.Options) {
	t.Helper()
	ctx := scope(o)
	for claim, c := range claims {
		t.Run(claim, func(t *testing.T) {
			got, diags := eval(t, ctx, c.expr)
			if !diags.HasErrors() {
				t.Fatalf("%s: no error, but %#v", c.expr, got)
			}
			d := diags[0]
			if d.Summary != c.summary || !strings.Contains(d.Detail, c.detail) {
				t.Fatalf("%s\n got %q: %s\nwant %q: %s", c.expr, d.Summary, d.Detail, c.summary, c.detail)
			}
			if c.lacks != "" && strings.Contains(d.Detail, c.lacks) {
				t.Fatalf("%s: the error gives %q away: %s", c.expr, c.lacks, d.Detail)
			}
			if strings.Contains(d.Detail, "panic") {
				t.Fatalf("%s: the error shows a panic: %s", c.expr, d.Detail)
			}
		})
	}
}

// directory makes a directory of files by path.
func directory(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, src := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(src), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
