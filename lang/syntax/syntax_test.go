package syntax_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"

	"github.com/millipede-iac/millipede/lang/syntax"
)

func deep(open, middle, closing string, n int) string {
	return strings.Repeat(open, n) + middle + strings.Repeat(closing, n)
}

// A text that was nested 500,000 times overflowed the stack of HCL's parser, or of the evaluation, which ends a program
// whatever it does.
func TestTextsBeyondTheBoundsAreRefusedAtTheirPlace(t *testing.T) {
	const n = 30_000
	for _, expression := range []string{
		deep("(", "1", ")", n), deep("[", "1", "]", n), deep("{a=", "1", "}", n), strings.Repeat("(", n),
		deep(`"${`, "1", `}"`, n), strings.Repeat("!", n) + "true", strings.Repeat("-", n) + "1",
		"1" + strings.Repeat("+1", n), strings.Repeat("true?1:", n) + "1", "f()" + strings.Repeat("[0]", n),
		"a" + strings.Repeat(".*", n), "a" + strings.Repeat(".b", n), deep("[for x in y : ", "1", "]", n),
		`"` + deep("%{if true}", "x", "%{endif}", n) + `"`, `"` + deep("%{for x in y}", "x", "%{endfor}", n) + `"`,
		deep("<<A\n${", "1", "}\nA\n", n),
	} {
		_, diags := syntax.ParseExpression([]byte(expression), "a.tf", hcl.InitialPos)
		refused(t, expression, diags)
		_, diags = syntax.ParseConfig([]byte("\na = "+expression+"\n"), "a.tf", hcl.InitialPos)
		refused(t, expression, diags)
		if len(diags) > 0 && diags[0].Subject.Start.Line < 2 {
			t.Errorf("%.30s...: it is at %s", expression, diags[0].Subject)
		}
	}
	for _, template := range []string{deep("${(", "1", ")}", n), deep("%{if true}", "", "%{endif}", n)} {
		_, diags := syntax.ParseTemplate([]byte(template), "a", hcl.InitialPos)
		refused(t, template, diags)
	}
	for _, text := range []string{deep("a {\n", "", "}\n", n), strings.Repeat("a {", n)} {
		_, diags := syntax.ParseConfig([]byte(text), "a.tf", hcl.InitialPos)
		refused(t, text, diags)
	}
	for _, text := range []string{
		`{"a":` + deep("[", "1", "]", n) + "}", deep(`{"a":`, "1", "}", n), `{"a":"${` + deep("(", "1", ")", n) + `}"}`,
		strings.Repeat("[", n), `{"a":"` + deep(`${\"`, "1", `\"}`, n) + `"}`,
	} {
		_, diags := syntax.ParseJSON([]byte(text), "a.tf.json")
		refused(t, text, diags)
	}
	_, diags := syntax.ParseTraversalAbs([]byte("a"+strings.Repeat("[0]", n)), "", hcl.InitialPos)
	refused(t, "a traversal", diags)
}

func refused(t *testing.T, text string, diags hcl.Diagnostics) {
	t.Helper()
	if len(diags) != 1 || diags[0].Subject == nil || !strings.Contains(diags[0].Summary, "too") {
		t.Errorf("%.30s...: %s", text, diags)
	}
}

func TestLargeTextsWithinTheBoundsAreParsed(t *testing.T) {
	var b strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&b, "r \"a\" \"b%d\" {\n  x = \"${a.b}-${c}\" # (((\n  y = [1, 2, { z = f(\"((([[[\") }]\n", i)
		b.WriteString("  t = <<-EOT\n    ((( ${a ? b : \"c\"} [[[\n  EOT\n  s = a - b + c * d[0] > 1 && !e\n}\n")
	}
	if _, diags := syntax.ParseConfig([]byte(b.String()), "a.tf", hcl.InitialPos); diags.HasErrors() {
		t.Fatal(diags)
	}
	for _, expression := range []string{deep("(", "1", ")", 990), "1" + strings.Repeat("+1", 9000)} {
		e, diags := syntax.ParseExpression([]byte(expression), "a.tf", hcl.InitialPos)
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		if v, diags := e.Value(nil); diags.HasErrors() || !v.IsKnown() {
			t.Errorf("%#v, %s", v, diags)
		}
	}
}

// Loops in loops took hours and all memory, and a template of long texts took all memory.
func TestLoopsAndTemplatesEndWhenTheyProduceTooMuch(t *testing.T) {
	long := cty.StringVal(strings.Repeat("x", 40<<20))
	numbers := make([]cty.Value, 1000)
	for i := range numbers {
		numbers[i] = cty.NumberIntVal(int64(i))
	}
	ctx := &hcl.EvalContext{Variables: map[string]cty.Value{"long": long, "r": cty.TupleVal(numbers)},
		Functions: map[string]function.Function{"f": stdlib.JSONEncodeFunc, "double": doubling}}
	for expression, want := range map[string]string{
		`{ for a in r : a => [for b in r : [for c in r : 0 if false]] }`:        "Too many steps",
		`"%{for a in r}%{for b in r}%{for c in r}x%{endfor}%{endfor}%{endfor}"`: "Too many steps",
		`"${long}${long}"`: "Text too long", `"%{for a in r}${long}%{endfor}"`: "Text too long",
		// These took all memory, since only the text at the end was measured, and not what was made in the steps.
		`[for a in r : "${long}-"]`: "Text too long", `[for a in r : double(long)]`: "Text too long",
		`{ for a in r : "${a}${long}" => a }`: "Text too long",
		// These did not end: a list contains the same list twice, again and again, and a function that walks through it
		// visits all copies.
		"f(" + doubled(40) + ")": "Value too large", doubled(40) + " == " + doubled(40): "Value too large",
		`true ? ` + doubled(40) + ` : null`: "Value too large", doubled(40) + "[*].a": "Value too large",
	} {
		e, diags := syntax.ParseExpression([]byte(expression), "a.tf", hcl.InitialPos)
		if diags.HasErrors() {
			t.Fatal(expression, diags)
		}
		_, diags = e.Value(ctx)
		if !diags.HasErrors() || diags[0].Summary != want || diags[0].Subject == nil {
			t.Errorf("%s: %s", expression, diags)
		}
	}
	e, diags := syntax.ParseExpression([]byte(`[for a in r : [for b in r : 0]]`), "a.tf", hcl.InitialPos)
	if _, more := e.Value(ctx); diags.HasErrors() || more.HasErrors() {
		t.Errorf("a million steps: %s %s", diags, more)
	}
}

// doubled is an expression of a list whose depth is n and that has the power of n elements.
func doubled(n int) string {
	out := "[1]"
	for range n {
		out = "[for v in " + out + " : [v, v]]"
	}
	return out
}

var doubling = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "text", Type: cty.String}}, Type: function.StaticReturnType(cty.String),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		return cty.StringVal(args[0].AsString() + args[0].AsString()), nil
	},
})

// A template evaluated its parts a second time if there was a problem, so that templates in templates took time that
// doubled with each level.
func TestAProblemInNestedTemplatesIsFoundOnce(t *testing.T) {
	e, diags := syntax.ParseExpression([]byte(deep(`"${x}${`, `nosuch`, `}"`, 200)), "a.tf", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	ctx := &hcl.EvalContext{Variables: map[string]cty.Value{"x": cty.StringVal("x")}}
	if _, diags := e.Value(ctx); len(diags) != 1 || diags[0].Summary != "Unknown variable" {
		t.Errorf("%s", diags)
	}
}

// HCL and this program ask what kind of expression an argument is: types are written as calls.
func TestKindsOfExpressionsAreSeenThroughWhatCounts(t *testing.T) {
	e, diags := syntax.ParseExpression([]byte(`object({ a = list(string), b = optional(number) })`), "a.tf", hcl.InitialPos)
	call, more := hcl.ExprCall(e)
	if diags.HasErrors() || more.HasErrors() {
		t.Fatal(diags, more)
	}
	if items, diags := hcl.ExprMap(call.Arguments[0]); diags.HasErrors() || len(items) != 2 {
		t.Error(items, diags)
	}
}

// same are expressions whose values and references must be those of HCL's own parser.
var same = []string{
	`"a${x}b${n}${t}"`, `"${x}${u}"`, `"${l}${x}"`, `"${z}-${x}"`, `"${s}${x}"`, `[for k, v in l : "${k}${v.a}"]`,
	`{ for v in l : v.a => v... if v.b }`, `"%{for v in l}${v.a}%{endfor}${x}"`, `[for v in nosuch : other]`,
	`[for v in u : v]`, `{ for k, v in { a = x } : k => "${k}${v}" }`, `f("${x}${z}")`, `f([x, z], { a = x, b = z })`, `t ? [x, z] : [for v in l : f(v.a)]`, `[x, z] == [z, x]`, `l[*].a`, `"${x}${"${n}${n}"}"`,
}

// guess is HCL's suggestion for an unknown name; it is one of several names, in no order.
var guess = regexp.MustCompile(` Did you mean "[^"]*"\?`)

func FuzzExpressionsMeanTheSame(f *testing.F) {
	for _, src := range same {
		f.Add(src)
	}
	ctx := &hcl.EvalContext{Variables: map[string]cty.Value{
		"x": cty.StringVal("e\u0301"), "n": cty.NumberFloatVal(1.5), "t": cty.True, "u": cty.UnknownVal(cty.String),
		"z": cty.NullVal(cty.String), "s": cty.StringVal("s").Mark("secret"),
		"l": cty.ListVal([]cty.Value{cty.ObjectVal(map[string]cty.Value{"a": cty.StringVal("1"), "b": cty.True})}),
	}}
	f.Fuzz(func(t *testing.T, src string) {
		if len(src) > 300 || regexp.MustCompile(`[eE]\+?[0-9_]{4,}`).MatchString(src) || strings.Count(src, "for") > 3 {
			t.Skip()
		}
		ours, diags := syntax.ParseExpression([]byte(src), "a.tf", hcl.InitialPos)
		theirs, wanted := hclsyntax.ParseExpression([]byte(src), "a.tf", hcl.InitialPos)
		if diags.HasErrors() != wanted.HasErrors() {
			t.Fatalf("%s, not %s", diags, wanted)
		}
		if diags.HasErrors() {
			return
		}
		if a, b := fmt.Sprint(ours.Variables()), fmt.Sprint(theirs.Variables()); a != b {
			t.Errorf("the references are %s, not %s", a, b)
		}
		got, diags := ours.Value(ctx)
		want, wanted := theirs.Value(ctx)
		if !got.RawEquals(want) || guess.ReplaceAllString(diags.Error(), "") != guess.ReplaceAllString(wanted.Error(), "") {
			t.Errorf("%#v %s, not %#v %s", got, diags, want, wanted)
		}
	})
}

// FuzzFiles parses files of both syntaxes and templates; none may end the program.
func FuzzFiles(f *testing.F) {
	for _, src := range []string{"a \"b\" {\n  c = <<-E\n  ${d}\n  E\n}\n", `{"a":{"b":["${c}", null, 1e3]}}`,
		"x = [for a in b : a...]\n%{ if x }y%{ endif }", strings.Repeat("[", 1500), strings.Repeat("a{\n", 1200)} {
		f.Add([]byte(src))
	}
	f.Fuzz(func(_ *testing.T, src []byte) {
		syntax.ParseConfig(src, "a.tf", hcl.InitialPos)
		syntax.ParseTemplate(src, "a", hcl.InitialPos)
		syntax.ParseTraversalAbs(src, "a", hcl.InitialPos)
		syntax.ParseJSON(src, "a.tf.json")
	})
}

func TestValuesBeyondTheBoundsAreRefused(t *testing.T) {
	nested, shared, null := cty.True, cty.True, cty.String
	for range 2000 {
		nested, null = cty.TupleVal([]cty.Value{nested}), cty.List(null)
	}
	for range 40 {
		shared = cty.TupleVal([]cty.Value{shared, shared})
	}
	great, err := cty.ParseNumberVal("1e200000")
	if err != nil {
		t.Fatal(err)
	}
	for want, values := range map[error][]cty.Value{
		syntax.ErrTooDeep:  {nested, cty.NullVal(null), cty.UnknownVal(null), cty.TupleVal([]cty.Value{nested})},
		syntax.ErrTooMany:  {shared, shared.Mark("secret"), cty.TupleVal([]cty.Value{cty.NullVal(shared.Type())})},
		syntax.ErrTooGreat: {great, cty.TupleVal([]cty.Value{great})},
		nil: {cty.True, cty.NullVal(cty.DynamicPseudoType), cty.DynamicVal, cty.SetValEmpty(cty.String),
			cty.PositiveInfinity, cty.UnknownVal(cty.Set(cty.String))},
	} {
		for _, v := range values {
			if err := syntax.CheckValue(v); err != want { //nolint:errorlint // these are the errors themselves
				t.Errorf("%v, not %v", err, want)
			}
		}
	}
}

// Each new call of HCL's own parsers would recurse without bounds.
func TestEverythingIsParsedWithinTheBounds(t *testing.T) {
	unbounded := regexp.MustCompile(`hclsyntax\.Parse(Config|Expression|Template|TraversalAbs)\(|hcljson\.Parse\(|hclparse\.`)
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && (d.Name() == "test" || strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2) {
			return errorOrSkip(err)
		}
		slash := filepath.ToSlash(path)
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
			strings.Contains(slash, "lang/syntax/") || strings.HasSuffix(slash, "lang/format/format.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if call := unbounded.Find(text); call != nil {
			t.Errorf("%s calls %s...) instead of package syntax", path, call)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func errorOrSkip(err error) error {
	if err != nil {
		return err
	}
	return fs.SkipDir
}
