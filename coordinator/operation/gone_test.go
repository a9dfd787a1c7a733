package operation_test

import (
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/millipede-iac/millipede/graph/plan"
)

// Outputs that refer to objects which the refresh does not find kept their old values: they were unknown in the plan,
// and only known values were stored.
func TestARefreshOnlyApplyLeavesNothingOfWhatIsGoneInOutputs(t *testing.T) {
	e := newEstate(t)
	e.apply(`
resource "fake_thing" "one" {
  name = "one"
}
resource "fake_thing" "many" {
  count = 3
  name  = "many${count.index}"
}
resource "fake_thing" "each" {
  for_each = toset(["x", "y"])
  name     = each.key
}
output "one" {
  value = fake_thing.one.name
}
output "many" {
  value = [for t in fake_thing.many : try(t.name, "gone")]
}
output "each" {
  value = keys(fake_thing.each)
}
`)
	e.cloud.mu.Lock()
	for id, o := range e.cloud.objects {
		switch o.GetAttr("name").AsString() {
		case "one", "many1", "many2", "x":
			delete(e.cloud.objects, id)
		}
	}
	e.cloud.mu.Unlock()
	_, diags := e.tryApply(e.plan(plan.Options{Mode: plan.RefreshOnly}))
	e.clean(diags)
	for name, want := range map[string]cty.Value{
		"one":  cty.NullVal(cty.DynamicPseudoType), // of its type nothing is known either, as in OpenTofu
		"many": cty.TupleVal([]cty.Value{cty.StringVal("many0")}),
		"each": cty.TupleVal([]cty.Value{cty.StringVal("y")}),
	} {
		if got := e.state().Outputs[name].Value; !got.RawEquals(want) {
			t.Errorf("the output %q is %#v, want %#v", name, got, want)
		}
	}
}

// A deposed object that the refresh did not find was not part of the plan, so the plan did not report that it was
// checked.
func TestADeposedObjectThatIsGoneIsNothingToDo(t *testing.T) {
	e := newEstate(t)
	text := func(name string) string {
		return `resource "fake_thing" "a" {
  name = "` + name + `"
  lifecycle { create_before_destroy = true }
}`
	}
	e.apply(text("old"))
	e.configure(text("new"))
	e.cloud.onApply = func(what string) error {
		if what == "delete old" {
			return errNoRoom
		}
		return nil
	}
	_, diags := e.tryApply(e.plan(plan.Options{}))
	if !says(diags, "no room") {
		t.Fatalf("the diagnostics are %v", diags)
	}
	e.equal("state", existing(e.state()), []string{"fake_thing.a", "fake_thing.a deposed"})
	e.cloud.mu.Lock()
	for id, o := range e.cloud.objects {
		if o.GetAttr("name").AsString() == "old" {
			delete(e.cloud.objects, id)
		}
	}
	e.cloud.mu.Unlock()
	p := e.plan(plan.Options{})
	e.equal("changes", changes(p), nil)
	there := false
	for _, c := range p.Changes {
		there = there || c.Deposed != "" && c.Before.IsNull() && c.After.IsNull()
	}
	if !there {
		t.Error("the plan does not report that the deposed object was checked")
	}
	_, diags = e.tryApply(e.plan(plan.Options{Mode: plan.RefreshOnly}))
	e.clean(diags)
	e.equal("state", existing(e.state()), []string{"fake_thing.a"})
}

// A destroy whose refresh failed had a plan, and its summary was shown. In that case it is not known which objects
// exist.
func TestADestroyWhoseRefreshingFailsHasNoPlan(t *testing.T) {
	e := newEstate(t)
	e.apply(`resource "fake_thing" "a" { name = "a" }
resource "fake_thing" "b" { name = "b" }`)
	e.cloud.onRead = func(name string) error {
		if name == "a" {
			return errNoRoom
		}
		return nil
	}
	planned, diags := e.session.Plan(t.Context(), e.state(), plan.Options{Mode: plan.Destroy})
	if planned != nil || !says(diags, "no room") {
		t.Errorf("the failed destroy has the plan %v, with %v", planned, diags)
	}
	p := e.plan(plan.Options{Mode: plan.Destroy, SkipRefresh: true})
	e.equal("changes", changes(p), []string{"delete fake_thing.a", "delete fake_thing.b"})
}

// A destroy failed, and failed again whenever it was repeated, if something outside of Millipede had destroyed an
// object that a data source refers to: its value was null, and null has no attributes.
func TestADestroyIgnoresDataThatReferToWhatIsGone(t *testing.T) {
	e := newEstate(t)
	e.apply(`
resource "fake_thing" "a" {
  for_each = toset(["x", "y"])
  name     = each.key
  note     = "something"
}
data "fake_lookup" "d" { key = fake_thing.a["x"].note }
output "d" { value = [data.fake_lookup.d.value, fake_thing.a["x"].name] }
`)
	e.cloud.mu.Lock()
	for id, o := range e.cloud.objects {
		if o.GetAttr("name").AsString() == "x" {
			delete(e.cloud.objects, id)
		}
	}
	e.cloud.mu.Unlock()
	p := e.plan(plan.Options{Mode: plan.Destroy})
	e.equal("plan", changes(p), []string{`delete fake_thing.a["y"]`})
	_, diags := e.tryApply(p)
	e.clean(diags)
	e.equal("cloud", e.cloud.names(), nil)
}

// A plan that only refreshes built the values of resources from the instances in the configuration. It removes nothing,
// but outputs and checks no longer contained the objects that a later apply is to remove.
func TestARefreshOnlyApplyKeepsTheInstancesToBeRemoved(t *testing.T) {
	const text = `
resource "fake_thing" "many" {
  count = COUNT
  name  = "many${count.index}"
}
resource "fake_thing" "each" {
  for_each = toset(slice(["x", "y"], 0, COUNT))
  name     = each.key
}
resource "fake_thing" "one" {
  name = "one"
  lifecycle { enabled = COUNT == 2 }
}
output "many" { value = fake_thing.many[*].name }
output "last" { value = try(fake_thing.many[1].name, "none") }
output "each" { value = keys(fake_thing.each) }
output "one" { value = try(fake_thing.one.name, "none") }
check "many" {
  assert {
    condition     = length(fake_thing.many) == 2
    error_message = "some are missing"
  }
}
`
	outputs := func(e *estate) string {
		var out []string
		for _, name := range []string{"many", "last", "each", "one"} {
			value, err := ctyjson.Marshal(e.state().Outputs[name].Value, e.state().Outputs[name].Value.Type())
			e.check(err)
			out = append(out, string(value))
		}
		return strings.Join(out, " ")
	}
	e := newEstate(t)
	e.apply(strings.ReplaceAll(text, "COUNT", "2"))
	e.configure(strings.ReplaceAll(text, "COUNT", "1"))
	_, diags := e.tryApply(e.plan(plan.Options{Mode: plan.RefreshOnly}))
	e.clean(diags)
	if got, want := outputs(e), `["many0","many1"] "many1" ["x","y"] "one"`; got != want {
		t.Errorf("the outputs are %s, want %s", got, want)
	}
	e.equal("checks", checks(e.state().Checks), []string{"check check.many pass"})
	_, diags = e.tryApply(e.plan(plan.Options{}))
	e.clean(diags)
	if got, want := outputs(e), `["many0"] "none" ["x"] "none"`; got != want {
		t.Errorf("after the removal the outputs are %s, want %s", got, want)
	}
}
