package values

import (
	"strconv"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/millipede-iac/millipede/state"
)

const repeated = `
resource "fake_thing" "one" {}
resource "fake_thing" "list" { count = 2 }
resource "fake_thing" "map" { for_each = toset(["x", "y"]) }
resource "fake_thing" "off" {
  lifecycle { enabled = false }
}
`

// As in OpenTofu: a resource without a repetition is an object, one with count a tuple, one with for_each an object
// by key.
func TestAResourceIsSeenByItsRepetition(t *testing.T) {
	s := store(t, Planning, nil, repeated)
	is(t, s.Root(), "fake_thing.one", cty.DynamicVal) // attributes of objects that do not exist yet are unknown
	s.resource("one").Set(addr.NoKey, thing("1"))
	s.resource("list").Set(addr.IntKey(0), thing("l0"))
	s.resource("list").Set(addr.IntKey(1), thing("l1"))
	s.resource("map").Set(addr.StringKey("x"), thing("mx"))
	s.resource("map").Set(addr.StringKey("y"), thing("my"))
	text := func(v string) cty.Value { return cty.StringVal(v) }
	is(t, s.Root(), "fake_thing.one.id", text("1"))
	is(t, s.Root(), "fake_thing.list[1].id", text("l1"))
	is(t, s.Root(), "fake_thing.list[*].id", cty.TupleVal([]cty.Value{text("l0"), text("l1")}))
	is(t, s.Root(), "length(fake_thing.list)", cty.NumberIntVal(2))
	is(t, s.Root(), `fake_thing.map["y"].id`, text("my"))
	is(t, s.Root(), "keys(fake_thing.map)", cty.TupleVal([]cty.Value{text("x"), text("y")}))
	is(t, s.Root(), "fake_thing.off == null", cty.True)
	_, diags := evaluate(t, s.Root(), "fake_thing.list[2].id")
	says(t, diags, "Invalid index")
	s.resource("one").Set(addr.NoKey, thing("2")) // what was seen is seen anew
	is(t, s.Root(), "fake_thing.one.id", text("2"))
	if len(s.Root().Resources()) != 4 {
		t.Errorf("the module has %d resources", len(s.Root().Resources()))
	}
}

// A negative index was treated as that of an instance whose value is not known yet, so a plan with list[var.n - 1],
// where n is 0, was approved and failed during the apply.
func TestANegativeIndexIsOneOfNoInstance(t *testing.T) {
	s := store(t, Planning, nil, repeated+`
variable "n" { default = 0 }
resource "fake_thing" "none" { count = var.n }
`)
	for _, text := range []string{"fake_thing.none[var.n - 1].id", "fake_thing.none[0].id", "fake_thing.list[-1]"} {
		_, diags := evaluate(t, s.Root(), text)
		says(t, diags, "Invalid index")
	}
}

func TestInValidationAResourceIsUnknownOfItsType(t *testing.T) {
	s := store(t, Validating, nil, repeated)
	is(t, s.Root(), "fake_thing.one.id", cty.UnknownVal(cty.String))
	is(t, s.Root(), "fake_thing.one.secret", cty.UnknownVal(cty.String).Mark(marks.Sensitive))
	is(t, s.Root(), "fake_thing.list[7].id", cty.DynamicVal)
	is(t, s.Root(), `fake_thing.map["q"].id`, cty.DynamicVal)
	_, diags := evaluate(t, s.Root(), "fake_thing.one.nosuch")
	says(t, diags, "Unsupported attribute")
	s.resource("one").Set(addr.NoKey, thing("seen"))
	is(t, s.Root(), "fake_thing.one.id", cty.StringVal("seen"))
}

// The console shows the values in the state, whatever the configuration says now.
func TestTheConsoleSeesTheInstancesOfTheState(t *testing.T) {
	s := store(t, Evaluating, nil, repeated+`
resource "fake_thing" "none" {}
resource "fake_thing" "nones" { count = 3 }
ephemeral "fake_token" "t" {}
`)
	stored := func(keys ...addr.Key) *state.Resource {
		r := &state.Resource{Instances: map[addr.Key]*state.Instance{}}
		for _, k := range keys {
			r.Instances[k] = &state.Instance{
				Current: &state.Object{
					Attrs: []byte(`{"id":` + strconv.Quote(k.String()) + `,"name":null,"secret":null,"old":null}`),
				},
			}
		}
		return r
	}
	for name, r := range map[string]*state.Resource{
		"one": stored(addr.NoKey), "list": stored(addr.IntKey(0), addr.IntKey(2)), "map": stored(addr.StringKey("z")),
	} {
		says(t, s.resource(name).SetStored(r), "")
	}
	is(t, s.Root(), "fake_thing.one.id", cty.StringVal(""))
	is(t, s.Root(), "fake_thing.list[2].id", cty.StringVal("[2]"))
	is(t, s.Root(), "fake_thing.list[1].id", cty.UnknownVal(cty.String)) // a gap
	is(t, s.Root(), "keys(fake_thing.map)", cty.TupleVal([]cty.Value{cty.StringVal("z")}))
	is(t, s.Root(), "fake_thing.none.id", cty.UnknownVal(cty.String))
	is(t, s.Root(), "fake_thing.nones[0]", cty.DynamicVal)
	if v, _ := evaluate(t, s.Root(), "ephemeral.fake_token.t.value"); !marks.Contains(v, marks.Ephemeral) {
		t.Errorf("an ephemeral resource is %#v", v)
	}
	broken := stored(addr.NoKey)
	broken.Instances[addr.NoKey].Current.Attrs = []byte(`{"id":[]}`)
	broken.Instances[addr.IntKey(4)] = &state.Instance{} // deposed objects alone
	says(t, s.resource("one").SetStored(broken), "not of the form that its provider's schema has now")
}

func TestWhatRepeatsByItselfIsNothingToItself(t *testing.T) {
	s := store(t, Planning, nil, `
resource "fake_thing" "list" { count = length(fake_thing.list) }
resource "fake_thing" "map" { for_each = fake_thing.map }
`)
	for _, name := range []string{"list", "map"} {
		e, diags := s.resource(name).Expansion()
		says(t, diags, "")
		if len(e.Keys) != 0 {
			t.Errorf("%s has %d instances", name, len(e.Keys))
		}
	}
}

// OpenTofu refuses these when it plans.
func TestARepetitionThatCannotBeKnownIsAnError(t *testing.T) {
	for sentence, c := range map[string][2]string{
		"an unknown count":      {`count = length(fake_thing.a.id)`, "Invalid count argument"},
		"a negative count":      {`count = -1`, "Invalid count argument"},
		"a null count":          {`count = null`, "Invalid count argument"},
		"a fraction":            {`count = 1.5`, "Invalid count argument"},
		"an unknown for_each":   {`for_each = toset([fake_thing.a.id])`, "Invalid for_each argument"},
		"a list for_each":       {`for_each = ["a"]`, "Invalid for_each argument"},
		"a sensitive for_each":  {`for_each = sensitive(toset(["a"]))`, "Invalid for_each argument"},
		"a null for_each":       {`for_each = null`, "Invalid for_each argument"},
		"a null element of set": {`for_each = toset([null])`, "Invalid for_each"},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := store(t, Planning, nil, "resource \"fake_thing\" \"a\" {}\nresource \"fake_thing\" \"b\" {\n"+c[0]+
				"\n}\n")
			s.resource("a").Set(addr.NoKey, cty.UnknownVal(thing("").Type()))
			e, diags := s.resource("b").Expansion()
			says(t, diags, c[1])
			if !diags.HasErrors() || !e.Unknown || len(e.Keys) > 0 {
				t.Errorf("the instances are %v", e.Keys)
			}
		})
	}
}

// A count of a billion, or modules with a thousand instances each inside each other, took all memory before anything
// was planned, and ended the process with all of its runs.
func TestARunHasALimitedNumberOfInstances(t *testing.T) {
	s := store(t, Planning, nil, `
resource "fake_thing" "billion" { count = 1000000000 }
resource "fake_thing" "many" { count = 262145 }
resource "fake_thing" "half" { count = 200000 }
resource "fake_thing" "rest" { count = 62143 }
resource "fake_thing" "one" { for_each = toset(["a"]) }
resource "fake_thing" "last" { for_each = toset(["a"]) }
`)
	for _, c := range []struct {
		name, says string
		keys       int
	}{
		{"billion", "Invalid count argument", 0}, {"many", "Invalid count argument", 0}, {"half", "", 200_000},
		{"rest", "", 62_143}, {"one", "", 1}, {"last", "Too many instances", 0},
	} {
		e, diags := s.resource(c.name).Expansion()
		got := ""
		if len(diags) > 0 {
			got = diags[0].Summary
		}
		if got != c.says || len(e.Keys) != c.keys || e.Unknown != (c.says != "") {
			t.Errorf("%s: %d instances, unknown: %t, %q", c.name, len(e.Keys), e.Unknown, got)
		}
	}
}

func TestWhatASchemaDeprecatesIsToldToWhoUsesIt(t *testing.T) {
	s := store(t, Planning, nil, `resource "fake_thing" "a" { old = "x" }`)
	o := thing("1").AsValueMap()
	o["old"] = cty.StringVal("x")
	s.resource("a").Set(addr.NoKey, cty.ObjectVal(o))
	_, diags := evaluate(t, s.Root(), "fake_thing.a.old")
	says(t, diags, "use name")
	if _, diags := evaluate(t, s.Root(), "fake_thing.a.id"); len(diags) > 0 {
		t.Errorf("there is a warning about an attribute that is not deprecated: %v", diags)
	}
}

func TestTheStateCompletesWhatATestSees(t *testing.T) {
	s := store(t, Applying, nil, "variable \"v\" { default = 1 }\n"+repeated+"output \"o\" { value = 5 }\n")
	s.resource("list").Set(addr.IntKey(0), thing("fresh"))
	s.Root().SetOutput("o", cty.NumberIntVal(5))
	stored := state.Empty()
	for _, name := range []string{
		"fake_thing.list[0]", "fake_thing.list[1]", "fake_thing.gone", "module.nosuch.fake_thing.a",
	} {
		at, diags := addr.ParseInstance(name)
		says(t, diags, "")
		stored.Apply(state.SetObject{Addr: at, Object: &state.Object{
			SchemaVersion: 2, Attrs: []byte(`{"id":"stored","name":null,"secret":null,"old":null}`),
			Status: state.Ready,
		}})
	}
	s.Complete(stored)
	is(t, s.Root(), "fake_thing.list[*].id", cty.TupleVal([]cty.Value{cty.StringVal("fresh"), cty.StringVal("stored")}))

	asserts := store(t, Applying, nil, `
variable "v" { default = 1 }
output "o" { value = 5 }
check "c" {
  assert {
    condition     = output.o == 5 && var.v == 1 && var.extra == "e"
    error_message = "all is well"
  }
  assert {
    condition     = output.o == 6
    error_message = "it is ${output.o}"
  }
}`)
	asserts.Root().SetOutput("o", cty.NumberIntVal(5))
	rules := asserts.Root().Node.Module.Checks["c"].Asserts
	statuses, diags := asserts.CheckTest(rules, map[string]cty.Value{"extra": cty.StringVal("e")})
	if len(statuses) != 2 || statuses[0] != eval.StatusPass || statuses[1] != eval.StatusFail {
		t.Errorf("the assertions are %v: %v", statuses, diags)
	}
	says(t, diags, "it is 5")
}

func TestReplaceTriggeredByNamesAResourceThatIsThere(t *testing.T) {
	s := store(t, Validating, nil, repeated)
	for text, want := range map[string]string{
		"fake_thing.one":          "",
		"fake_thing.one.id":       "",
		"fake_thing.list[0].name": "",
		"fake_thing.nosuch":       "Undeclared resource in replace_triggered_by",
		"fake_thing.one.nosuch":   "nosuch",
	} {
		expr, problems := hclsyntax.ParseExpression([]byte(text), "e", hcl.InitialPos)
		if problems.HasErrors() {
			t.Fatal(problems)
		}
		_, diags := s.Root().CheckTrigger(expr, eval.Once)
		says(t, diags, want)
	}
}

func TestAPresetIsThereBeforeItsModuleIsExpanded(t *testing.T) {
	s := store(t, Applying, nil, `module "child" {
  source = "./child"
  count  = 2
}`, `resource "fake_thing" "a" {}
output "id" { value = fake_thing.a.id }`)
	for _, name := range []string{"module.child[1].fake_thing.a", "fake_thing.nosuch"} {
		at, diags := addr.ParseInstance(name)
		says(t, diags, "")
		s.Preset(at, thing("preset"))
	}
	all := s.Instances(addr.ModuleOf("child"))
	if len(all) != 2 {
		t.Fatalf("there are %d instances", len(all))
	}
	is(t, all[1], "fake_thing.a.id", cty.StringVal("preset"))
	is(t, all[0], "fake_thing.a", cty.DynamicVal)
	if s.Module(addr.ModuleInstanceOf(addr.Step{Name: "child", Key: addr.IntKey(5)})) != nil {
		t.Error("an instance exists that no expansion has created")
	}
}
