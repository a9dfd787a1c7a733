package eval

import (
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// bigNumber matches numbers whose decimal form would fill the memory: go-cty writes all their digits.
var bigNumber = regexp.MustCompile(`[eE]\+?[0-9_]{4,}`)

// cheap reports whether evaluating a source ends soon: it is short, and does not loop inside of a loop.
func cheap(src string) bool {
	return len(src) <= 2048 && !bigNumber.MatchString(src) && strings.Count(src, "for") <= 2 &&
		strings.Count(src, "range") <= 1 &&
		strings.Count(src, "dynamic") <= 3 && strings.Count(src, "*") <= 8
}

// FuzzExpr evaluates expressions. Looking up instances one by one must have the same result as using whole resources,
// two evaluations must have the same result, and none may panic.
func FuzzExpr(f *testing.F) {
	for _, src := range []string{
		`var.name`, `local.m.a + var.n`, `aws_x.many[count.index].id`, `aws_x.each[each.key].id`,
		`[for k, v in aws_x.each : v.id if k != ""]`,
		`"a${upper(var.name)}%{ if var.n == 1 }b%{ else }c%{ endif }"`, `{ for x in aws_x.many : x.id => x... }`,
		`module.c[*].out`,
		`data.aws_ami.x.*.id[0]`, `(aws_x.many)[1].id`, `aws_x.many[aws_x.many[0].id].id`, `provider::p::upper("x")`,
		`self.id ? each.value : path.cwd`,
		"<<-EOT\n  ${var.secret}\nEOT", `-terraform.applying`, `!var.unknown`, `aws_x.off[0].id`,
		`resource.aws_vpc.main["id"]`, `core::length(ephemeral.pw.x)`,
		`[local.old, var.secret][count.index]`, `aws_x.many[var.unknown][each.key]`, `range(3)[1]`,
		`var.n == 1 ? aws_x.many[5].id : null`,
	} {
		f.Add(src, true)
	}
	f.Fuzz(func(t *testing.T, src string, repeats bool) {
		if !cheap(src) {
			t.Skip()
		}
		expr, diags := hclsyntax.ParseExpression([]byte(src), "fuzz.tf", hcl.InitialPos)
		if diags.HasErrors() {
			t.Skip()
		}
		rep, self := Once, cty.NilVal
		if repeats {
			rep, self = sinkRep, obj("id", "me")
		}
		data, whole := sinkData(), sinkData()
		whole.withoutInstances = true
		bound := PrepareExpr(expr).Bind(testScope(data))
		a, aDiags := bound.Eval(cty.DynamicPseudoType, rep, self)
		again, _ := bound.Eval(cty.DynamicPseudoType, rep, self)
		b, bDiags := PrepareExpr(expr).Eval(testScope(whole), cty.DynamicPseudoType, rep, self)
		if strings.Contains(src, "uuid") {
			return
		}
		if !a.RawEquals(again) {
			t.Errorf("twice evaluated: %#v, then %#v", a, again)
		}
		if !a.RawEquals(b) || summaries(aDiags) != summaries(bDiags) {
			t.Errorf("by instance %#v %s\nby whole %#v %s", a, summaries(aDiags), b, summaries(bDiags))
		}
		if text, diags := bound.Eval(cty.String, rep, self); !text.Type().Equals(cty.String) {
			t.Errorf("asked for a string, got %#v %s", text, summaries(diags))
		}
	})
}

// FuzzBody decodes bodies. The fast decoder must have the same result as hcldec, or leave the body to hcldec.
func FuzzBody(f *testing.F) {
	for _, src := range bodies {
		f.Add(src, false)
	}
	f.Add("ingress {\n port = 80\n}\ndynamic \"route\" {\n for_each = [1]\n content {\n port = route.value\n }\n}",
		true)
	f.Fuzz(func(t *testing.T, src string, old bool) {
		if !cheap(src) || strings.Contains(src, "uuid") {
			t.Skip()
		}
		file, diags := hclsyntax.ParseConfig([]byte(src), "fuzz.tf", hcl.InitialPos)
		if diags.HasErrors() {
			t.Skip()
		}
		block := sink()
		if old {
			block = legacy()
		}
		compareDecoders(t, file.Body, block)
	})
}
