package eval

import (
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/lang/syntax"
)

const endless = `${[for a in var.r : [for b in var.r : [for c in var.r : 0]]]}`

// HCL itself evaluates the templates in strings of the JSON syntax, so loops in them did not end.
func TestLoopsInTheJSONSyntaxEnd(t *testing.T) {
	numbers := make([]cty.Value, 1000)
	for i := range numbers {
		numbers[i] = cty.NumberIntVal(int64(i))
	}
	s := testScope(&fakeData{variables: map[string]cty.Value{"r": cty.TupleVal(numbers)}})
	for _, value := range []string{`"` + endless + `"`, `{"a":["` + endless + `"]}`} {
		f, diags := syntax.ParseJSON([]byte(`{"a":`+value+`}`), "a.tf.json")
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		attrs, _ := f.Body.JustAttributes()
		_, found := PrepareExpr(attrs["a"].Expr).Eval(s, cty.DynamicPseudoType, Repetition{}, cty.NilVal)
		if got := summaries(found); got != "Too many steps" {
			t.Errorf("the expression %.20s: %s", value, got)
		}
		if value[0] == '"' {
			continue // the fast decoder evaluates it
		}
		block := &schema.Block{Attributes: map[string]*schema.Attribute{"a": optional(cty.DynamicPseudoType)}}
		_, found = PrepareBody(f.Body, block).Eval(s, Repetition{}, cty.NilVal)
		if got := summaries(found); got != "Too many steps" {
			t.Errorf("the body %.20s: %s", value, got)
		}
	}
}

// Three dynamic blocks in each other, of 200 blocks each, make 8 million; of a thousand each, they did not end.
func TestDynamicBlocksEnd(t *testing.T) {
	numbers := make([]cty.Value, 200)
	for i := range numbers {
		numbers[i] = cty.StringVal(strings.Repeat("x", i))
	}
	s := testScope(&fakeData{variables: map[string]cty.Value{"r": cty.TupleVal(numbers)}})
	block := &schema.Block{Attributes: map[string]*schema.Attribute{"a": optional(cty.String)}}
	for range 3 {
		nested := &schema.NestedBlock{Nesting: schema.NestingList}
		nested.Attributes, nested.Blocks = block.Attributes, block.Blocks
		block = &schema.Block{Blocks: map[string]*schema.NestedBlock{"b": nested}}
	}
	src := "a = 1\n"
	for range 3 {
		src = "dynamic \"b\" {\nfor_each = var.r\ncontent {\n" + src + "}\n}\n"
	}
	for _, more := range []string{"", "nosuch = 1\n"} { // the second is for the slow decoder alone
		f, diags := syntax.ParseConfig([]byte(src+more), "a.tf", hcl.InitialPos)
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		_, found := PrepareBody(f.Body, block).Eval(s, Repetition{}, cty.NilVal)
		if !strings.Contains(summaries(found), "Too many blocks") {
			t.Errorf("%.200s", summaries(found))
		}
	}
}

// An argument of any type was measured by the fast decoder alone, which left what is too large to the slow one.
func TestAnArgumentOfABodyIsMeasured(t *testing.T) {
	shared := cty.True
	for range 19 {
		shared = cty.TupleVal([]cty.Value{shared, shared})
	}
	s := testScope(&fakeData{variables: map[string]cty.Value{"s": shared}})
	f, diags := syntax.ParseConfig([]byte("a = [var.s, var.s]"), "a.tf", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	block := &schema.Block{Attributes: map[string]*schema.Attribute{"a": optional(cty.DynamicPseudoType)}}
	if _, found := PrepareBody(f.Body, block).Eval(s, Repetition{}, cty.NilVal); summaries(found) != "Value too large" {
		t.Errorf("%s", summaries(found))
	}
}

// An argument that is a number took a text of millions of digits, which takes minutes to read, in either decoder.
func TestATextThatBecomesANumberInABodyIsMeasured(t *testing.T) {
	s := testScope(&fakeData{variables: map[string]cty.Value{"d": cty.StringVal(strings.Repeat("9", 200_000))}})
	inner := &schema.NestedBlock{Nesting: schema.NestingList}
	inner.Attributes = map[string]*schema.Attribute{"n": optional(cty.Map(cty.Number))}
	block := &schema.Block{Attributes: map[string]*schema.Attribute{"n": optional(cty.Number)},
		Blocks: map[string]*schema.NestedBlock{"b": inner}}
	for _, src := range []string{"n = var.d\n", "b {\nn = { a = var.d }\n}\n", "nosuch = 1\nn = \"${var.d}\"\n"} {
		f, diags := syntax.ParseConfig([]byte(src), "a.tf", hcl.InitialPos)
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		_, found := PrepareBody(f.Body, block).Eval(s, Repetition{}, cty.NilVal)
		if !strings.Contains(summaries(found), "Value too large") {
			t.Errorf("%s: %.300s", src, summaries(found))
		}
	}
	f, _ := syntax.ParseJSON([]byte(`{"a":"${1 + var.d}"}`), "a.tf.json")
	attrs, _ := f.Body.JustAttributes()
	for want, summary := range map[cty.Type]string{cty.Number: "Value too large", cty.String: "Value too large"} {
		_, found := PrepareExpr(attrs["a"].Expr).Eval(s, want, Repetition{}, cty.NilVal)
		if got := summaries(found); got != summary {
			t.Errorf("JSON as %s: %.300s", want.FriendlyName(), got)
		}
	}
}
