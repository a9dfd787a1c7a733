package eval

import (
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/marks"
)

func sampleData() *fakeData {
	return &fakeData{
		variables: map[string]cty.Value{"name": val("n"), "secret": val("s").Mark(marks.Sensitive), "n": val(1),
			"unknown": cty.UnknownVal(cty.String)},
		locals: map[string]cty.Value{"m": obj("a", 1), "old": val("o").Mark(marks.Deprecated{Message: "use new",
			Origin: "module.x.y"})},
		outputs: map[string]cty.Value{"out": val("o")},
		resources: map[string]cty.Value{
			"aws_vpc.main":     obj("id", "vpc-1", "tags", obj("a", "b")),
			"aws_x.many":       cty.TupleVal([]cty.Value{obj("id", "m0"), obj("id", "m1"), obj("id", "m2")}),
			"aws_x.each":       obj("k", obj("id", "ek"), "5", obj("id", "e5")),
			"data.aws_ami.x":   obj("id", "ami"),
			"ephemeral.pw.x":   obj("v", "pw").Mark(marks.Ephemeral),
			"aws_x.off":        cty.NullVal(cty.Object(map[string]cty.Type{"id": cty.String})),
			"data.aws_ami.set": cty.TupleVal([]cty.Value{obj("id", "d0")}),
		},
		modules: map[string]cty.Value{"m": obj("out", "mo"),
			"c": cty.TupleVal([]cty.Value{obj("out", "c0"), obj("out", "c1")})},
		wholes: map[string]int{},
	}
}

func TestExpressionsGetTheValuesOfWhatTheyReferTo(t *testing.T) {
	self := obj("id", "me")
	for src, want := range map[string]cty.Value{
		`var.name`:                                        val("n"),
		`local.m.a + var.n`:                               val(2),
		`aws_vpc.main.id`:                                 val("vpc-1"),
		`resource.aws_vpc.main.id`:                        val("vpc-1"),
		`aws_vpc.main.tags["a"]`:                          val("b"),
		`data.aws_ami.x.id`:                               val("ami"),
		`"${data.aws_ami.x.id}-${var.name}"`:              val("ami-n"),
		`aws_x.many[0].id`:                                val("m0"),
		`aws_x.many.1.id`:                                 val("m1"),
		`aws_x.many[count.index].id`:                      val("m1"),
		`aws_x.many[count.index + 1].id`:                  val("m2"),
		`aws_x.many[var.n].id`:                            val("m1"),
		`aws_x.many["1"].id`:                              val("m1"),
		`aws_x.many[*].id`:                                cty.TupleVal([]cty.Value{val("m0"), val("m1"), val("m2")}),
		`aws_x.many.*.id`:                                 cty.TupleVal([]cty.Value{val("m0"), val("m1"), val("m2")}),
		`[for x in aws_x.many : x.id]`:                    cty.TupleVal([]cty.Value{val("m0"), val("m1"), val("m2")}),
		`[for i in range(2) : aws_x.many[i].id]`:          cty.TupleVal([]cty.Value{val("m0"), val("m1")}),
		`length(aws_x.many)`:                              val(3),
		`aws_x.each["k"].id`:                              val("ek"),
		`aws_x.each[each.key].id`:                         val("ek"),
		`aws_x.each[5].id`:                                val("e5"),
		`aws_x.each[each.value.n].id`:                     val("e5"),
		`[for k, v in aws_x.each : v.id]`:                 cty.TupleVal([]cty.Value{val("e5"), val("ek")}),
		`aws_x.many[aws_x.many[0].id == "m0" ? 2 : 0].id`: val("m2"),
		`data.aws_ami.set[0].id`:                          val("d0"),
		`data.aws_ami.set[count.index - 1].id`:            val("d0"),
		`module.m.out`:                                    val("mo"),
		`module.m`:                                        obj("out", "mo"),
		`module.c[1].out`:                                 val("c1"),
		`module.c[count.index].out`:                       val("c1"),
		`module.c[*].out`:                                 cty.TupleVal([]cty.Value{val("c0"), val("c1")}),
		`path.module`:                                     val("mod"),
		`"${path.cwd}/${path.root}"`:                      val("/cwd/."),
		`terraform.workspace`:                             val("blue"),
		`tofu.workspace`:                                  val("blue"),
		`terraform.applying`:                              val(false).Mark(marks.Ephemeral),
		`count.index`:                                     val(1),
		`each.key`:                                        val("k"),
		`each.value.n`:                                    val(5),
		`self.id`:                                         val("me"),
		`upper(var.name)`:                                 val("N"),
		`core::upper(var.name)`:                           val("N"),
		`provider::p::upper(var.name)`:                    val("N"),
		`provider::p::alias::upper(var.name)`:             val("N"),
		`var.secret`:                                      val("s").Mark(marks.Sensitive),
		`"x${var.secret}"`:                                val("xs").Mark(marks.Sensitive),
		`ephemeral.pw.x.v`:                                val("pw").Mark(marks.Ephemeral),
		`{ for k, x in { a = 1 } : k => x }`:              obj("a", 1),
		`{ var = 1 }`:                                     obj("var", 1),
		`aws_x.off == null`:                               val(true),
	} {
		t.Run(src, func(t *testing.T) {
			rep := Repetition{CountIndex: val(1), EachKey: val("k"), EachValue: obj("n", 5)}
			got, diags := testScope(sampleData()).Expr(parseExpr(t, src), cty.DynamicPseudoType, rep, self)
			noErrors(t, diags)
			if !got.RawEquals(want) {
				t.Errorf("got %#v, want %#v", got, want)
			}
		})
	}
}

func TestMistakesHaveTheSummariesThatToolsKnow(t *testing.T) {
	for src, want := range map[string]string{
		`count.index`:               `Reference to "count" in non-counted context`,
		`count.idx`:                 `Invalid "count" attribute`,
		`each.key`:                  `Reference to "each" in context without for_each`,
		`each.value`:                `each.value cannot be used in this context`,
		`each.foo`:                  `Invalid "each" attribute`,
		`self.id`:                   `Invalid "self" reference`,
		`path.modul`:                `Invalid "path" attribute`,
		`terraform.env`:             `Invalid "terraform" attribute`,
		`tofu.foo`:                  `Invalid "tofu" attribute`,
		`var`:                       `Invalid reference`,
		`aws_vpc`:                   `Invalid reference`,
		`template.x`:                `Reserved symbol name`,
		`nosuch()`:                  `Call to unknown function`,
		`core::nosuch()`:            `Call to unknown function`,
		`other::nosuch()`:           `Unknown function namespace`,
		`provider::x()`:             `Unable to parse provider function`,
		`provider::p::nosuch()`:     `Function not found in provider`,
		`aws_x.many[3].id`:          `Invalid index`,
		`aws_x.many[var.n + 7].id`:  `Invalid index`,
		`aws_x.each["nosuch"].id`:   `Invalid index`,
		`aws_vpc.main.nosuch`:       `Unsupported attribute`,
		`aws_x.many.id`:             `Unsupported attribute`,
		`aws_x.off.id`:              `Attempt to get attribute from null value`,
		`var.name.foo`:              `Unsupported attribute`,
		`upper()`:                   `Not enough function arguments`,
		`var.name && true`:          `Invalid operand`,
		`var.nosuch`:                `Reference to undeclared addr.Variable`,
		`[var.nosuch, var.nosuch2]`: `Reference to undeclared addr.Variable; Reference to undeclared addr.Variable`,
	} {
		t.Run(src, func(t *testing.T) {
			got, diags := testScope(sampleData()).Expr(parseExpr(t, src), cty.String, Once, cty.NilVal)
			if summaries(diags) != want {
				t.Errorf("got %q, want %q", summaries(diags), want)
			}
			if !got.RawEquals(cty.UnknownVal(cty.String)) {
				t.Errorf("the result is %#v, not an unknown string", got)
			}
			for _, d := range diags {
				if d.Subject == nil {
					t.Errorf("%s has no source range", d.Summary)
				}
			}
		})
	}
}

func TestAConversionThatFailsShowsTheExpressionAndItsValues(t *testing.T) {
	_, diags := testScope(sampleData()).Expr(parseExpr(t, `[var.name]`), cty.String, Once, cty.NilVal)
	if summaries(diags) != "Incorrect value type" {
		t.Fatal(summaries(diags))
	}
	if diags[0].Expression == nil || diags[0].EvalContext == nil ||
		!diags[0].EvalContext.Variables["var"].GetAttr("name").RawEquals(val("n")) {
		t.Error("the diagnostic does not carry what a view needs to show values")
	}
}

func TestAnIndexedReferenceAsksForOneInstanceOnly(t *testing.T) {
	for _, src := range []string{
		`aws_x.many[count.index].id`, `aws_x.many[0].id`, `aws_x.each["k"].id`, `aws_x.each[each.key].id`,
		`aws_x.many[var.n].id`,
		`[aws_x.many[count.index].id, aws_x.many[count.index - 1].id]`,
	} {
		d := sampleData()
		rep := Repetition{CountIndex: val(1), EachKey: val("k")}
		_, diags := testScope(d).Expr(parseExpr(t, src), cty.DynamicPseudoType, rep, cty.NilVal)
		noErrors(t, diags)
		if d.wholes["aws_x.many"] > 0 || d.wholes["aws_x.each"] > 0 {
			t.Errorf("%s built the whole resource", src)
		}
	}
}

func TestAFailingIndexShowsTheWholeResource(t *testing.T) {
	d := sampleData()
	_, diags := testScope(d).Expr(parseExpr(t, `aws_x.many[count.index].nosuch`), cty.DynamicPseudoType,
		countRep(1), cty.NilVal)
	if summaries(diags) != "Unsupported attribute" {
		t.Fatal(summaries(diags))
	}
	shown := diags[0].EvalContext.Variables["aws_x"].GetAttr("many")
	if shown.LengthInt() != 3 {
		t.Errorf("the diagnostic shows %#v instead of all instances", shown)
	}
}

func TestInstancesAndWholesGiveTheSameValues(t *testing.T) {
	for _, src := range []string{
		`aws_x.many[count.index].id`, `aws_x.many[count.index + 5].id`, `aws_x.many[0.5].id`, `aws_x.each[5].id`,
		`aws_x.each["5"].id`,
		`aws_x.many["01"].id`, `aws_x.many[-1].id`, `aws_x.many[var.secret].id`, `aws_x.many[var.unknown].id`,
		`aws_x.many[null].id`,
		`aws_x.many[count.index]`, `[aws_x.many[0], length(aws_x.many)]`, `aws_vpc.main[0]`, `aws_x.off[0]`,
		`module.c[count.index]`,
		`module.c[7]`, `module.m["out"]`, `aws_x.many[true].id`, `aws_x.many[{}].id`,
	} {
		fast, slow := sampleData(), sampleData()
		slow.withoutInstances = true
		a, aDiags := testScope(fast).Expr(parseExpr(t, src), cty.DynamicPseudoType, countRep(1), cty.NilVal)
		b, bDiags := testScope(slow).Expr(parseExpr(t, src), cty.DynamicPseudoType, countRep(1), cty.NilVal)
		if !a.RawEquals(b) || summaries(aDiags) != summaries(bDiags) {
			t.Errorf("%s: %#v %q by instance, %#v %q by whole", src, a, summaries(aDiags), b, summaries(bDiags))
		}
	}
}

func TestDeprecatedValuesWarnOnceAndLoseTheMark(t *testing.T) {
	v, diags := testScope(sampleData()).Expr(parseExpr(t, `{ a = local.old }`), cty.DynamicPseudoType, Once, cty.NilVal)
	noErrors(t, diags)
	if v.ContainsMarked() {
		t.Error("the mark is still there")
	}
	if summaries(diags) != "Value derived from a deprecated source" {
		t.Fatal(summaries(diags))
	}
	if _, ok := diags[0].Extra.(marks.Deprecated); !ok {
		t.Error("the warning does not say what is deprecated")
	}
}

func TestOutputsExistInTestsOnly(t *testing.T) {
	s := testScope(sampleData())
	v, diags := PrepareTestExpr(parseExpr(t, `output.out`)).Eval(s, cty.String, Once, cty.NilVal)
	noErrors(t, diags)
	if !v.RawEquals(val("o")) {
		t.Errorf("got %#v", v)
	}
	if _, diags = PrepareTestExpr(parseExpr(t, `check.x`)).Eval(s, cty.String, Once, cty.NilVal); summaries(
		diags) != `Reference to "check" in invalid context` {
		t.Error(summaries(diags))
	}
}
