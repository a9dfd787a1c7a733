package eval

import (
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/marks"
)

func TestTriggersNameOneInstance(t *testing.T) {
	for src, want := range map[string]string{
		`a_b.c`:                   "a_b.c",
		`a_b.c.id`:                "a_b.c",
		`a_b.c[0]`:                "a_b.c[0]",
		`a_b.c["k"].id`:           `a_b.c["k"]`,
		`a_b.c[count.index]`:      "a_b.c[4]",
		`a_b.c[count.index].id`:   "a_b.c[4]",
		`a_b.c[each.key].id["x"]`: `a_b.c["k"]`,
		`data.a_b.c[each.key].id`: `data.a_b.c["k"]`,
		`a_b.c[var.x]`:            "Invalid index expression",
		`a_b.c[count.idx]`:        "Invalid index expression",
		`a_b.c[1 + 1]`:            "Invalid index expression",
		`length(a_b.c)`:           "Invalid replace_triggered_by expression",
		`"a_b.c"`:                 "Invalid replace_triggered_by expression",
	} {
		ref, diags := EvalReference(parseExpr(t, src), Repetition{CountIndex: val(4), EachKey: val("k")})
		got := summaries(diags)
		if ref != nil {
			got = ref.Subject.String()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", src, got, want)
		}
	}
	for src, want := range map[string]string{
		`a_b.c[count.index]`: `Reference to "count" in non-counted context`,
		`a_b.c[each.key]`:    `Reference to "each" in context without for_each`,
	} {
		if _, diags := EvalReference(parseExpr(t, src), Once); summaries(diags) != want {
			t.Errorf("%s: %s", src, summaries(diags))
		}
	}
}

func TestImportTargetsEvaluateTheirKeys(t *testing.T) {
	const badKey = "Import block 'to' address contains an invalid key"
	for src, want := range map[string]string{
		`a_b.c`:                              "a_b.c",
		`a_b.c[0]`:                           "a_b.c[0]",
		`a_b.c[each.key]`:                    `a_b.c["k"]`,
		`module.m[each.value.n].a_b.c`:       "module.m[5].a_b.c",
		`module.m["x"].a_b.c["${var.name}"]`: `module.m["x"].a_b.c["n"]`,
		`a_b.c[var.unknown]`:                 badKey,
		`a_b.c[var.secret]`:                  badKey,
		`a_b.c[ephemeral.pw.x.v]`:            badKey,
		`a_b.c[var.n == 1 ? null : "x"]`:     badKey,
		`a_b.c[!false]`:                      badKey,
		`a_b.c[var.nosuch]`:                  "Reference to undeclared addr.Variable",
		`upper("a_b.c")`:                     "Invalid import address expression",
		`module.m`:                           "Invalid address",
	} {
		got, diags := testScope(sampleData()).EvalImportTarget(parseExpr(t, src), Repetition{EachKey: val("k"),
			EachValue: obj("n", 5)})
		text := summaries(diags)
		if text == "" {
			text = got.String()
		}
		if text != want {
			t.Errorf("%s: got %q, want %q", src, text, want)
		}
	}
}

func TestImportIDsAreKnownAndNotSecret(t *testing.T) {
	for name, tc := range map[string]struct {
		v            cty.Value
		allowUnknown bool
		id, summary  string
	}{
		"text":             {val("i-1"), false, "i-1", ""},
		"a number":         {val(7), false, "7", ""},
		"empty":            {val(""), false, "", "Invalid import id argument"},
		"null":             {cty.NullVal(cty.String), false, "", "Invalid import id argument"},
		"unknown":          {cty.UnknownVal(cty.String), false, "", "Invalid import id argument"},
		"unknown, allowed": {cty.UnknownVal(cty.String), true, "", ""},
		"sensitive":        {val("x").Mark(marks.Sensitive), false, "", "Invalid import id argument"},
		"ephemeral":        {val("x").Mark(marks.Ephemeral), false, "", "Invalid import id argument"},
		"a list":           {cty.ListValEmpty(cty.String), false, "", "Incorrect value type"},
	} {
		s, e := withValue(t, tc.v)
		id, known, diags := s.EvalImportID(e, Once, tc.allowUnknown)
		if id != tc.id || known != (tc.id != "") || summaries(diags) != tc.summary {
			t.Errorf("%s: %q %v %q", name, id, known, summaries(diags))
		}
	}
	s, e := withValue(t, obj("id", cty.UnknownVal(cty.String)))
	if _, _, diags := s.EvalImportIdentity(e, cty.DynamicPseudoType, Once, false); summaries(
		diags) != "Invalid import identity argument" {
		t.Error(summaries(diags))
	}
}
