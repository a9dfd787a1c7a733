package eval

import (
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
)

func TestUndeclaredNamesAndWrongTraversalsAreFoundWithoutValues(t *testing.T) {
	static := fakeStatic{sampleData(), map[string]StaticResource{
		"aws_vpc.main":       {Block: sink()},
		"aws_x.many":         {HasCount: true, Block: sink()},
		"aws_x.each":         {HasForEach: true, Block: sink()},
		"data.aws_ami.x":     {Check: "health"},
		"data.aws_only.here": {},
	}}
	for src, want := range map[string][2]string{
		`var.name`:             {},
		`var.nam`:              {"Reference to undeclared input variable", `Did you mean "name"?`},
		`var.zzzzzzz`:          {"Reference to undeclared input variable", `variable "zzzzzzz" {}`},
		`local.mm`:             {"Reference to undeclared local value", `Did you mean "m"?`},
		`output.ou`:            {"Reference to undeclared output value", `Did you mean "out"?`},
		`module.mod`:           {"Reference to undeclared module", `Did you mean "m"?`},
		`module.nosuch["k"].x`: {"Reference to undeclared module", "the root module"},
		`module.c[0]`:          {},
		`aws_vpc.nosuch.id`:    {"Reference to undeclared resource", "There is no managed resource"},
		`aws_only.here.id`: {"Reference to undeclared resource", "Did you mean the data resource " +
			"data.aws_only.here?"},
		`data.aws_vpc.main`: {"Reference to undeclared resource", "Did you mean the managed resource " +
			"aws_vpc.main?"},
		`ephemeral.aws_vpc.main`:      {"Reference to undeclared resource", "no ephemeral resource"},
		`aws_vpc.main.name`:           {},
		`aws_vpc.main.nam`:            {"Unsupported attribute", `Did you mean "name"?`},
		`aws_vpc.main.name.x`:         {"Unsupported attribute", ""},
		`aws_vpc.main.count`:          {"Invalid resource count attribute", "length(aws_vpc.main)"},
		`aws_vpc.main[0]`:             {"Unexpected resource instance key", "neither"},
		`aws_vpc.main["name"]`:        {"Unexpected resource instance key", ""},
		`aws_vpc.main.one_obj.x`:      {},
		`aws_vpc.main.one_obj.z`:      {"Unsupported attribute", ""},
		`aws_vpc.main.single.must`:    {},
		`aws_vpc.main.single.nosuch`:  {"Unsupported attribute", ""},
		`aws_vpc.main.single["must"]`: {"Invalid index operation", "Did you mean .must?"},
		`aws_vpc.main.single[0]`:      {"Invalid index operation", ""},
		`aws_vpc.main.rows[0].must`:   {},
		`aws_vpc.main.rows[0].nosuch`: {"Unsupported attribute", ""},
		`aws_vpc.main.rows.must`:      {"Invalid operation", ".rows[0]"},
		`aws_vpc.main.rows`:           {},
		`aws_vpc.main.set[0]`:         {"Cannot index a set value", ""},
		`aws_vpc.main.map["k"].must`:  {},
		`aws_vpc.main.map.k.nosuch`:   {"Unsupported attribute", ""},
		`aws_x.many.id`:               {"Missing resource instance key", "aws_x.many[count.index]"},
		`aws_x.each.id`:               {"Missing resource instance key", "aws_x.each[each.key]"},
		`aws_x.many[0].id`:            {},
		`aws_x.many[0].nosuch`:        {"Unsupported attribute", ""},
		`aws_x.many[count.index].id`:  {},
		`aws_x.many`:                  {},
		`data.aws_ami.x.id`:           {"Reference to scoped resource", "check block"},
		`path.module`:                 {},
	} {
		e := PrepareTestExpr(parseExpr(t, src))
		diags := CheckReferences(e.References(), static, "")
		if summaries(diags) != want[0] {
			t.Errorf("%s: got %q, want %q", src, summaries(diags), want[0])
			continue
		}
		if len(diags) > 0 && (!strings.Contains(diags[0].Detail, want[1]) || diags[0].Subject == nil) {
			t.Errorf("%s: %q is not in %q", src, want[1], diags[0].Detail)
		}
	}
	refs, _ := ExprReferences(parseExpr(t, `data.aws_ami.x.id`))
	if diags := CheckReferences(refs, static, "health"); len(diags) > 0 {
		t.Error(summaries(diags))
	}
}

func TestAScopeWithStaticRefusesWhatIsNotDeclared(t *testing.T) {
	d := sampleData()
	s := New(Options{Data: d, Functions: testFunctions, Static: fakeStatic{d, nil}})
	_, diags := s.Expr(parseExpr(t, `[var.nam, local.mm, var.nam]`), cty.DynamicPseudoType, Once, cty.NilVal)
	if summaries(diags) != "Reference to undeclared input variable; Reference to undeclared local value; Reference "+
		"to undeclared input variable" {
		t.Error(summaries(diags))
	}
}
