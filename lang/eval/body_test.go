package eval

import (
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/millipede-iac/millipede/lang/schema"
)

// sink is a schema with every kind of nesting.
func sink() *schema.Block {
	leaf := func() schema.Block {
		return schema.Block{Attributes: map[string]*schema.Attribute{
			"a": optional(cty.String), "n": optional(cty.Number), "must": {Type: cty.String, Required: true},
		}}
	}
	loose := func() schema.Block {
		return schema.Block{Attributes: map[string]*schema.Attribute{"any": optional(cty.DynamicPseudoType)}}
	}
	nested := func(n schema.Nesting) *schema.Attribute {
		return &schema.Attribute{Optional: true, Nested: &schema.Object{Nesting: n,
			Attributes: map[string]*schema.Attribute{
				"x": {Type: cty.String, Required: true}, "y": optional(cty.Number),
			}}}
	}
	return &schema.Block{
		Attributes: map[string]*schema.Attribute{
			"name": optional(cty.String), "size": optional(cty.Number), "on": optional(cty.Bool),
			"tags": optional(cty.Map(cty.String)), "list": optional(cty.List(cty.String)),
			"any":     optional(cty.DynamicPseudoType),
			"wo":      {Type: cty.String, Optional: true, WriteOnly: true},
			"id":      {Type: cty.String, Computed: true},
			"one_obj": nested(schema.NestingSingle), "list_obj": nested(schema.NestingList),
			"set_obj": nested(schema.NestingSet), "map_obj": nested(schema.NestingMap),
		},
		Blocks: map[string]*schema.NestedBlock{
			"single": {Nesting: schema.NestingSingle, Block: leaf()},
			"group":  {Nesting: schema.NestingGroup, Block: loose()},
			"rows": {Nesting: schema.NestingList, MaxItems: 3, Block: schema.Block{
				Attributes: leaf().Attributes,
				Blocks:     map[string]*schema.NestedBlock{"inner": {Nesting: schema.NestingSet, Block: leaf()}},
			}},
			"set":    {Nesting: schema.NestingSet, Block: leaf()},
			"map":    {Nesting: schema.NestingMap, Block: leaf()},
			"tuple":  {Nesting: schema.NestingList, Block: loose()},
			"object": {Nesting: schema.NestingMap, Block: loose()},
		},
	}
}

// bodies has the bodies that the tests below decode with both decoders; they also seed the fuzzer.
var bodies = []string{
	``,
	fiveAttributesOfSink,
	`name = null`,
	`any = { a = [1, "x", true] }`,
	`tags = merge_`,
	`name = "a" + 1`,
	`nosuch = 1`,
	`id = "x"`,
	`on = "maybe"`,
	`list = ["a", var.name, each.key]`,
	`one_obj = { x = "a" }`,
	`one_obj = { y = 1 }`,
	`list_obj = [{ x = "a" }, { x = "b", y = "2" }]`,
	`set_obj = [{ x = "a" }, { x = "a" }]`,
	`map_obj = { k = { x = var.name } }`,
	`single { must = "x" }`,
	`single {}`,
	"single {\n must = \"x\"\n}\nsingle {\n must = \"y\"\n}",
	`group { any = 1 }`,
	"rows {\n must = \"1\"\n}\nrows {\n must = \"2\"\n inner {\n must = each.key\n }\n}",
	"rows {\n must = 1\n}\nrows {\n must = 2\n}\nrows {\n must = 3\n}\nrows {\n must = 4\n}",
	"set {\n must = \"x\"\n}\nset {\n must = var.secret\n}",
	"map \"k\" {\n must = 1\n}\nmap \"l\" {\n must = 1\n}",
	"map \"k\" {\n must = 1\n}\nmap \"k\" {\n must = 1\n}",
	`map { must = 1 }`,
	"tuple {\n any = 1\n}\ntuple {\n any = [\"x\"]\n}",
	"object \"a\" {\n any = 1\n}\nobject \"b\" {\n any = \"x\"\n}",
	"dynamic \"rows\" {\n for_each = [\"a\", \"b\"]\n content {\n must = rows.value\n n = rows.key\n }\n}",
	"dynamic \"rows\" {\n for_each = { k = each.key }\n iterator = it\n content {\n must = it.value\n a = it.key\n " +
		"dynamic \"inner\" {\n for_each = [it.key, it.value]\n content {\n must = \"${it.key}-${inner.value}\"\n }\n " +
		"}\n }\n}",
	"dynamic \"set\" {\n for_each = toset_\n content {\n must = 1\n }\n}",
	"dynamic \"rows\" {\n for_each = var.unknown_list\n content {\n must = rows.value\n }\n}",
	"dynamic \"set\" {\n for_each = var.unknown_list\n content {\n must = set.value\n }\n}\nset {\n must = 1\n}",
	"dynamic \"single\" {\n for_each = var.unknown_list\n content {\n must = single.value\n }\n}",
	"dynamic \"single\" {\n for_each = []\n content {\n must = single.value\n }\n}",
	"dynamic \"group\" {\n for_each = []\n content {\n any = 1\n }\n}",
	"dynamic \"rows\" {\n for_each = var.secret_list\n content {\n must = rows.value\n }\n}",
	"dynamic \"rows\" {\n for_each = null\n content {\n must = rows.value\n }\n}",
	"dynamic \"rows\" {\n for_each = \"text\"\n content {\n must = rows.value\n }\n}",
	"dynamic \"rows\" {\n for_each = [1]\n}",
	"dynamic \"rows\" {\n content {\n must = 1\n }\n}",
	"dynamic \"nosuch\" {\n for_each = [1]\n content {\n must = 1\n }\n}",
	"dynamic \"map\" {\n for_each = [\"a\", \"b\"]\n labels = [map.value]\n content {\n must = map.key\n }\n}",
	"dynamic \"map\" {\n for_each = [\"a\", \"a\"]\n labels = [map.value]\n content {\n must = map.key\n }\n}",
	"dynamic \"map\" {\n for_each = [\"a\"]\n content {\n must = map.key\n }\n}",
	"dynamic \"rows\" {\n for_each = [\"a\"]\n labels = [\"x\"]\n content {\n must = rows.key\n }\n}",
	"dynamic \"rows\" {\n for_each = [1, 2, 3, 4]\n content {\n must = rows.key\n }\n}",
	"dynamic \"rows\" {\n for_each = [[\"a\"], [\"b\", each.key]]\n content {\n must = 1\n dynamic \"inner\" {\n " +
		"for_each = rows.value\n content {\n must = inner.value\n }\n }\n }\n}",
	`name = aws_x.many[count.index].id`,
	`name = aws_x.many[count.index + 9].id`,
	`name = ephemeral.pw.x.v`,
	`wo = ephemeral.pw.x.v`,
	`tags = { a = ephemeral.pw.x.v }`,
	`name = local.old`,
	`name = self.id`,
	`name = upper(var.unknown)`,
	`tags = { a = "${var.n}-${count.index}", b = upper("x${-0}${1.5}${1e30}${count.index}") }`,
	`list = ["${var.secret}${var.n}", "${var.unknown}${var.n}", "${each.value.on}${each.key}"]`,
	`name = "${aws_vpc.main}x"`,
}

const fiveAttributesOfSink = `
name = "web-${count.index}"
size = var.n
on   = each.value.on
tags = { Name = var.name, Id = aws_vpc.main.id }
list = [for v in aws_x.many : v.id]
`

func sinkData() *fakeData {
	d := sampleData()
	d.variables["unknown_list"] = cty.UnknownVal(cty.List(cty.String))
	d.variables["secret_list"] = cty.ListVal([]cty.Value{val("s")}).Mark(marks.Sensitive)
	return d
}

var sinkRep = Repetition{CountIndex: val(1), EachKey: val("k"), EachValue: obj("on", true)}

func TestBothDecodersAgree(t *testing.T) {
	for _, src := range bodies {
		compareDecoders(t, parseBody(t, src), sink())
	}
}

// compareDecoders evaluates with the fast decoder, unless it does not support the body, and with hcldec.
func compareDecoders(t *testing.T, body hcl.Body, block *schema.Block) {
	t.Helper()
	bound := PrepareBody(body, block).Bind(testScope(sinkData()))
	for range 2 { // the second time with the caches of the first
		got, diags := bound.Eval(sinkRep, cty.NilVal)
		if bound.binding.failed.HasErrors() {
			return
		}
		want, wantDiags := bound.slow(sinkRep, cty.NilVal)
		if !got.RawEquals(want) {
			t.Errorf("body:\n%s\nfast: %#v\nslow: %#v", describeBody(body), got, want)
		}
		if summaries(diags) != summaries(wantDiags) {
			t.Errorf("body:\n%s\nfast: %s\nslow: %s", describeBody(body), summaries(diags), summaries(wantDiags))
		}
		unmarked, _ := got.UnmarkDeep()
		for _, problem := range unmarked.Type().TestConformance(block.ImpliedType()) {
			t.Errorf("body:\n%s\nresult does not conform: %s", describeBody(body), problem)
		}
	}
}

func describeBody(body hcl.Body) string {
	rng := body.MissingItemRange()
	return rng.String()
}

func TestTheFastDecoderKnowsWhatIsCommon(t *testing.T) {
	for _, src := range bodies {
		bound := PrepareBody(parseBody(t, src), sink()).Bind(testScope(sinkData()))
		ctx, diags := bound.binding.context(sinkRep, cty.NilVal)
		if diags.HasErrors() {
			continue
		}
		_, _, fast := bound.fast(ctx)
		_, slowDiags := bound.slow(sinkRep, cty.NilVal)
		rare := strings.Contains(src, "secret_list") || strings.Contains(src, `dynamic "single" {`+"\n for_each = var")
		if fast != (!slowDiags.HasErrors() || strings.Contains(src, "ephemeral")) && !rare {
			t.Errorf("fast decoder %v, errors %v:\n%s", fast, slowDiags.HasErrors(), src)
		}
	}
}

func TestBodiesDecodeToTheTypeOfTheirSchema(t *testing.T) {
	v, diags := evalSink(t, fiveAttributesOfSink)
	noErrors(t, diags)
	for name, want := range map[string]cty.Value{
		"name": val("web-1"), "size": val(1), "on": val(true),
		"tags": cty.MapVal(map[string]cty.Value{"Name": val("n"), "Id": val("vpc-1")}),
		"list": cty.ListVal([]cty.Value{val("m0"), val("m1"), val("m2")}),
		"id":   cty.NullVal(cty.String),
	} {
		if got := v.GetAttr(name); !got.RawEquals(want) {
			t.Errorf("%s is %#v, want %#v", name, got, want)
		}
	}
	if !v.GetAttr("group").RawEquals(obj("any", cty.NullVal(cty.DynamicPseudoType))) {
		t.Error("an absent group block is not an empty one")
	}
}

func evalSink(t *testing.T, src string) (cty.Value, diag.List) {
	t.Helper()
	v, _, diags := testScope(sinkData()).Body(parseBody(t, src), sink(), sinkRep, cty.NilVal)
	return v, diags
}

func TestBodyMistakesHaveTheSummariesThatToolsKnow(t *testing.T) {
	for src, want := range map[string]string{
		`nosuch = 1`:                    "Unsupported argument",
		`nosuch {}`:                     "Unsupported block type",
		`single {}`:                     "Missing required argument",
		`size = "x"`:                    "Incorrect attribute value type",
		`one_obj = { y = 1 }`:           "Incorrect attribute value type",
		bodies[20]:                      "Too many rows blocks",
		`name = var.nosuch`:             "Reference to undeclared addr.Variable",
		`name = ephemeral.pw.x.v`:       "Ephemeral value used in non-ephemeral context",
		`wo = ephemeral.pw.x.v`:         "",
		`name = local.old`:              "Value derived from a deprecated source",
		"name = nosuch()\nsize = \"x\"": "Call to unknown function; Incorrect attribute value type",
		"dynamic \"rows\" {\n for_each = null\n content {\n must = 1\n }\n}": "Invalid dynamic for_each value",
		"dynamic \"x\" {\n for_each = []\n content {\n }\n}":                 "Unsupported block type",
	} {
		v, diags := evalSink(t, src)
		if summaries(diags) != want {
			t.Errorf("%s\ngot %q, want %q", src, summaries(diags), want)
		}
		for _, d := range diags {
			if d.Subject == nil {
				t.Errorf("%s has no source range", d.Summary)
			}
		}
		unmarked, _ := v.UnmarkDeep()
		if problems := unmarked.Type().TestConformance(sink().ImpliedType()); len(problems) > 0 {
			t.Errorf("%s: %v", src, problems)
		}
	}
}

func TestAnEphemeralResourceTakesEphemeralValues(t *testing.T) {
	block := sink()
	block.Ephemeral = true
	_, _, diags := testScope(sinkData()).Body(parseBody(t, `name = ephemeral.pw.x.v`), block, Once, cty.NilVal)
	noErrors(t, diags)
}

func TestMarksOfAForEachGoToItsBlocks(t *testing.T) {
	v, diags := evalSink(t, "dynamic \"rows\" {\n for_each = var.secret_list\n content {\n must = \"x\"\n }\n}")
	noErrors(t, diags)
	if !marks.Contains(v.GetAttr("rows"), marks.Sensitive) {
		t.Error("the number of blocks is secret, and their values are not marked")
	}
}

func TestJSONBodiesMeanTheSame(t *testing.T) {
	native, diags := evalSink(t, `
name = aws_x.many[count.index].id
tags = { Name = var.name }
rows {
  must = upper(each.key)
}
dynamic "map" {
  for_each = ["a"]
  labels   = [map.value]
  content {
    must = map.key
  }
}
`)
	noErrors(t, diags)
	d := sinkData()
	fromJSON, _, diags := testScope(d).Body(parseJSONBody(t, `{
  "name": "${aws_x.many[count.index].id}",
  "tags": {"Name": "${var.name}"},
  "rows": [{"must": "${upper(each.key)}"}],
  "dynamic": {"map": {"for_each": ["a"], "labels": ["${map.value}"], "content": {"must": "${map.key}"}}}
}`), sink(), sinkRep, cty.NilVal)
	noErrors(t, diags)
	if !fromJSON.RawEquals(native) {
		t.Errorf("native %#v\nJSON %#v", native, fromJSON)
	}
	if d.wholes["aws_x.many"] > 0 {
		t.Error("an index in JSON built the whole resource")
	}
}

func TestInstancesShareWhatIsTheSame(t *testing.T) {
	d := sinkData()
	bound := PrepareBody(parseBody(t, `
name = "n-${count.index}"
any  = uuid()
list = [uuid()]
tags = { Name = var.name, Other = upper(aws_vpc.main.id) }
`), sink()).Bind(testScope(d))
	a, diags := bound.Eval(countRep(0), cty.NilVal)
	noErrors(t, diags)
	asked := d.wholes["aws_vpc.main"]
	b, diags := bound.Eval(countRep(1), cty.NilVal)
	noErrors(t, diags)
	if d.wholes["aws_vpc.main"] != asked {
		t.Error("what does not depend on count was fetched again")
	}
	if a.GetAttr("name").RawEquals(b.GetAttr("name")) {
		t.Error("what depends on count is the same")
	}
	if a.GetAttr("any").RawEquals(b.GetAttr("any")) || a.GetAttr("list").RawEquals(b.GetAttr("list")) {
		t.Error("two instances share the result of an impure function")
	}
}

func TestABoundTemplateSeesLaterInstances(t *testing.T) {
	d := sinkData()
	bound := PrepareBody(parseBody(t, `name = aws_x.many[count.index].id`), sink()).Bind(testScope(d))
	if _, diags := bound.Eval(countRep(5), cty.NilVal); !diags.HasErrors() {
		t.Fatal("there is an instance that should not be there yet")
	}
	many := d.resources["aws_x.many"].AsValueSlice()
	d.resources["aws_x.many"] = cty.TupleVal(append(many, obj("id", "m3"), obj("id", "m4"), obj("id", "m5")))
	v, diags := bound.Eval(countRep(5), cty.NilVal)
	noErrors(t, diags)
	if !v.GetAttr("name").RawEquals(val("m5")) {
		t.Errorf("got %#v", v.GetAttr("name"))
	}
}

func TestConcurrentEvaluationsDoNotDisturbEachOther(t *testing.T) {
	bound := PrepareBody(parseBody(t, bodies[1]+"\n"+bodies[19]), sink()).Bind(testScope(&fakeData{
		variables: sinkData().variables, resources: sinkData().resources, // without the counters, which are not safe
	}))
	want, diags := bound.Eval(sinkRep, cty.NilVal)
	noErrors(t, diags)
	done := make(chan bool, 4)
	for range cap(done) {
		go func() {
			same := true
			for range 100 {
				v, _ := bound.Eval(sinkRep, cty.NilVal)
				same = same && v.RawEquals(want)
			}
			done <- same
		}()
	}
	for range cap(done) {
		if !<-done {
			t.Error("the value changed")
		}
	}
}

// legacy is a schema like those of old SDKs: a list of objects is an attribute.
func legacy() *schema.Block {
	rule := cty.Object(map[string]cty.Type{"port": cty.Number, "cidr": cty.List(cty.String)})
	return &schema.Block{
		Attributes: map[string]*schema.Attribute{
			"name": optional(cty.String), "ingress": {Type: cty.Set(rule), Optional: true, Computed: true},
			"route": {Type: cty.List(rule), Optional: true, Computed: true},
		},
		Blocks: map[string]*schema.NestedBlock{"timeouts": {Nesting: schema.NestingSingle, Block: schema.Block{
			Attributes: map[string]*schema.Attribute{"create": optional(cty.String)},
		}}},
	}
}

func TestLegacyAttributesCanBeWrittenAsBlocks(t *testing.T) {
	s := testScope(sinkData())
	asAttr, _, diags := s.Body(parseBody(t, `
ingress = [{ port = 80, cidr = ["a"] }, { port = 81, cidr = null }]
route   = []
`), legacy(), sinkRep, cty.NilVal)
	noErrors(t, diags)
	asBlocks, _, diags := s.Body(parseBody(t, `
ingress {
  port = 80
  cidr = ["a"]
}
ingress {
  port = 81
}
route = []
`), legacy(), sinkRep, cty.NilVal)
	noErrors(t, diags)
	if !asAttr.RawEquals(asBlocks) {
		t.Errorf("as attribute %#v\nas blocks %#v", asAttr, asBlocks)
	}
	dynamic, _, diags := s.Body(parseBody(t, `
dynamic "ingress" {
  for_each = [80, 81]
  content {
    port = ingress.value
    cidr = ingress.value == 80 ? ["a"] : null
  }
}
route = []
`), legacy(), sinkRep, cty.NilVal)
	noErrors(t, diags)
	if !asAttr.RawEquals(dynamic) {
		t.Errorf("as attribute %#v\nas dynamic blocks %#v", asAttr, dynamic)
	}
	for _, src := range []string{``, "dynamic \"route\" {\n for_each = []\n content {\n port = 1\n }\n}"} {
		v, _, diags := s.Body(parseBody(t, src), legacy(), sinkRep, cty.NilVal)
		noErrors(t, diags)
		if !v.GetAttr("route").IsNull() {
			t.Errorf("%q: no blocks are %#v, want null", src, v.GetAttr("route"))
		}
	}
	refs, diags := BodyReferences(parseBody(t, "ingress {\n port = var.n\n cidr = [local.m.a]\n}"), legacy())
	noErrors(t, diags)
	if got := subjects(refs); got != "var.n local.m" {
		t.Errorf("references: %s", got)
	}
}

func TestModernSchemasHaveNoBlocksForAttributes(t *testing.T) {
	block := legacy()
	block.Attributes["modern"] = &schema.Attribute{Optional: true,
		Nested: &schema.Object{Nesting: schema.NestingSingle}}
	_, _, diags := testScope(sinkData()).Body(parseBody(t, "ingress {\n port = 1\n}"), block, sinkRep, cty.NilVal)
	if !strings.Contains(summaries(diags), "Unsupported block type") {
		t.Error(summaries(diags))
	}
}
