package eval

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/marks"
)

// withValue returns a scope and an expression that evaluates to v there.
func withValue(t *testing.T, v cty.Value) (*Scope, *Expr) {
	t.Helper()
	return testScope(&fakeData{variables: map[string]cty.Value{"x": v}}), PrepareExpr(parseExpr(t, "var.x"))
}

func TestCount(t *testing.T) {
	for name, tc := range map[string]struct {
		v       cty.Value
		o       Repeating
		n       int
		known   bool
		summary string
		detail  string
	}{
		"a number":           {v: val(3), n: 3, known: true},
		"zero":               {v: val(0), known: true},
		"text of a number":   {v: val("4"), n: 4, known: true},
		"a sensitive number": {v: val(2).Mark(marks.Sensitive), n: 2, known: true},
		"negative":           {v: val(-1), summary: "Invalid count argument", detail: "zero or more"},
		"fraction":           {v: cty.NumberFloatVal(1.5), summary: "Invalid count argument", detail: "whole"},
		"text":               {v: val("x"), summary: "Incorrect value type"},
		"null":               {v: cty.NullVal(cty.Number), summary: "Invalid count argument", detail: "null"},
		"unknown": {v: cty.UnknownVal(cty.Number), summary: "Invalid count argument",
			detail: "known only after apply"},
		"unknown, with advice": {v: cty.UnknownVal(cty.Number), o: Repeating{Exclude: `a_b.c["k"]`},
			summary: "Invalid count argument", detail: `-exclude='a_b.c["k"]'`},
		"unknown, allowed": {v: cty.UnknownVal(cty.Number), o: Repeating{AllowUnknown: true}},
		"ephemeral": {v: val(1).Mark(marks.Ephemeral), summary: "Invalid count argument",
			detail: "ephemeral"},
		"huge": {v: cty.NumberIntVal(1 << 40), summary: "Invalid count argument"},
	} {
		t.Run(name, func(t *testing.T) {
			s, e := withValue(t, tc.v)
			n, known, diags := s.EvalCount(e, tc.o)
			if n != tc.n || known != tc.known {
				t.Errorf("got %d %v", n, known)
			}
			checkDiag(t, diags, tc.summary, tc.detail)
		})
	}
}

func checkDiag(t *testing.T, diags diag.List, summary, detail string) {
	t.Helper()
	if summaries(diags) != summary {
		t.Fatalf("got %q, want %q", summaries(diags), summary)
	}
	if summary == "" {
		return
	}
	d := diags[0]
	if !strings.Contains(d.Detail, detail) {
		t.Errorf("%q is not in %q", detail, d.Detail)
	}
	if d.Subject == nil || d.Expression == nil || d.EvalContext == nil {
		t.Error("the diagnostic does not show the expression")
	}
}

func TestForEach(t *testing.T) {
	const invalid = "Invalid for_each argument"
	unknown := cty.UnknownVal(cty.String)
	for name, tc := range map[string]struct {
		v       cty.Value
		o       Repeating
		want    string // key=value ...; "-" when not known
		summary string
		detail  string
	}{
		"a map":                   {v: cty.MapVal(map[string]cty.Value{"b": val("2"), "a": val("1")}), want: "a=1 b=2"},
		"an object":               {v: obj("b", "2", "a", "1"), want: "a=1 b=2"},
		"an empty map":            {v: cty.MapValEmpty(cty.String), want: ""},
		"a set":                   {v: cty.SetVal([]cty.Value{val("y"), val("x")}), want: "x=x y=y"},
		"an empty set of nothing": {v: cty.SetValEmpty(cty.DynamicPseudoType), want: ""},
		"unknown values":          {v: cty.MapVal(map[string]cty.Value{"a": unknown}), want: "a=?"},
		"sensitive values": {v: cty.MapVal(map[string]cty.Value{"a": val("s").Mark(marks.Sensitive)}),
			want: "a=(sensitive)"},
		"a tuple": {v: cty.TupleVal([]cty.Value{val("x")}), want: "-", summary: invalid,
			detail: "this is a tuple"},
		"a tuple, allowed": {v: cty.TupleVal([]cty.Value{val("x"), val("y")}), o: Repeating{AllowTuple: true},
			want: "0=x 1=y"},
		"a list": {v: cty.ListVal([]cty.Value{val("x")}), want: "-", summary: invalid,
			detail: "this is a list of string"},
		"text": {v: val("x"), want: "-", summary: invalid, detail: "this is a string"},
		"a set of numbers": {v: cty.SetVal([]cty.Value{val(1)}), want: "-", summary: invalid,
			detail: "this one is of number"},
		"a set with null": {v: cty.SetVal([]cty.Value{cty.NullVal(cty.String)}), want: "-", summary: invalid,
			detail: "null elements"},
		"null":            {v: cty.NullVal(cty.Map(cty.String)), want: "-", summary: invalid, detail: "null"},
		"an untyped null": {v: cty.NullVal(cty.DynamicPseudoType), want: "-", summary: invalid, detail: "null"},
		"an unknown map": {v: cty.UnknownVal(cty.Map(cty.String)), want: "-", summary: invalid,
			detail: "map has keys"},
		"an unknown set": {v: cty.UnknownVal(cty.Set(cty.String)), want: "-", summary: invalid,
			detail: "set has elements"},
		"a set of unknowns": {v: cty.SetVal([]cty.Value{unknown}), want: "-", summary: invalid,
			detail: "set has elements"},
		"unknown":          {v: cty.DynamicVal, want: "-", summary: invalid, detail: "may have keys"},
		"unknown, allowed": {v: cty.DynamicVal, o: Repeating{AllowUnknown: true}, want: "-"},
		"a sensitive map": {v: obj("a", "1").Mark(marks.Sensitive), want: "-", summary: invalid,
			detail: "sensitive"},
		"an ephemeral map": {v: obj("a", "1").Mark(marks.Ephemeral), want: "-", summary: invalid,
			detail: "ephemeral"},
		"a set with a secret": {v: cty.SetVal([]cty.Value{val("x").Mark(marks.Sensitive)}), want: "-",
			summary: invalid, detail: "sensitive"},
	} {
		t.Run(name, func(t *testing.T) {
			s, e := withValue(t, tc.v)
			elements, known, diags := s.EvalForEach(e, tc.o)
			got := "-"
			if known {
				got = describeElements(elements)
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			checkDiag(t, diags, tc.summary, tc.detail)
		})
	}
}

func describeElements(elements []Element) string {
	var out []string
	for _, e := range elements {
		rep := e.Repetition()
		v := "?"
		switch {
		case rep.EachValue.IsMarked():
			v = "(sensitive)"
		case rep.EachValue.IsKnown():
			v = rep.EachValue.AsString()
		}
		out = append(out, fmt.Sprintf("%s=%s", e.Name, v))
	}
	return strings.Join(out, " ")
}

func TestEnabled(t *testing.T) {
	const invalid = "Invalid enabled argument"
	for name, tc := range map[string]struct {
		v              cty.Value
		o              Repeating
		enabled, known bool
		summary        string
		detail         string
	}{
		"true":             {v: val(true), enabled: true, known: true},
		"false":            {v: val(false), known: true},
		"text":             {v: val("true"), enabled: true, known: true},
		"a number":         {v: val(1), summary: invalid, detail: "bool required"},
		"null":             {v: cty.NullVal(cty.Bool), summary: invalid, detail: "null"},
		"unknown":          {v: cty.UnknownVal(cty.Bool), summary: invalid, detail: "known only after apply"},
		"unknown, allowed": {v: cty.UnknownVal(cty.Bool), o: Repeating{AllowUnknown: true}},
		"sensitive":        {v: val(true).Mark(marks.Sensitive), summary: invalid, detail: "sensitive"},
		"ephemeral":        {v: val(true).Mark(marks.Ephemeral), summary: invalid, detail: "ephemeral"},
	} {
		t.Run(name, func(t *testing.T) {
			s, e := withValue(t, tc.v)
			enabled, known, diags := s.EvalEnabled(e, tc.o)
			if enabled != tc.enabled || known != tc.known {
				t.Errorf("got %v %v", enabled, known)
			}
			checkDiag(t, diags, tc.summary, tc.detail)
		})
	}
}
