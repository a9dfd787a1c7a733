package operation_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/marks"
)

func TestADataSourceThatNeedsWhatIsNotThereYetIsReadInTheApply(t *testing.T) {
	e := newEstate(t)
	e.configure(`
resource "fake_thing" "a" { name = "a" }
data "fake_lookup" "now" { key = "now" }
data "fake_lookup" "later" { key = fake_thing.a.id }
resource "fake_thing" "b" { name = data.fake_lookup.later.value }
output "now" { value = data.fake_lookup.now.value }
`)
	p := e.plan(plan.Options{})
	e.equal("plan", changes(p), []string{"create fake_thing.a", "create fake_thing.b", "read data.fake_lookup.later"})
	e.equal("done in planning", e.cloud.done(), []string{"look up now"})
	_, diags := e.tryApply(p)
	e.clean(diags)
	e.equal("done in the apply", e.cloud.done(), []string{"create a", "look up id1", "create value of id1"})
	if v := e.state().Outputs["now"].Value; !v.RawEquals(cty.StringVal("value of now")) {
		t.Errorf("the output is %#v", v)
	}
	if again := e.plan(plan.Options{}); again.Applyable() {
		t.Errorf("a second plan has the changes %v", changes(again))
	}
}

// Loading a plan's values into the apply must not expand modules: count and for_each of a module are final only when
// the call's own vertex runs, and an expansion is never computed again.
func TestModulesThatRepeatByWhatTheApplyMakesSeeItsValues(t *testing.T) {
	e := newEstate(t)
	e.configure(`
resource "fake_thing" "a" { name = "a" }
locals { ids = { x = fake_thing.a.id } }
module "each" {
  source   = "./child"
  for_each = local.ids
  name     = each.value
}
module "counted" {
  source = "./child"
  count  = length(module.each)
  name   = module.each["x"].id
}
`, `
variable "name" {}
resource "fake_thing" "b" { name = "on-${var.name}" }
output "id" { value = fake_thing.b.id }
`)
	_, diags := e.tryApply(e.plan(plan.Options{}))
	e.clean(diags)
	e.equal("done", e.cloud.done(), []string{"create a", "create on-id1", "create on-id2"})
	if again := e.plan(plan.Options{}); again.Applyable() {
		t.Errorf("a second plan has the changes %v", changes(again))
	}
}

func TestConditions(t *testing.T) {
	for sentence, c := range map[string]struct {
		text, says   string
		planned      bool // the plan is without errors
		plannedState []string
	}{
		"a precondition that is not met fails the plan": {
			text: `variable "n" { default = 1 }
resource "fake_thing" "a" {
  name = "a"
  lifecycle {
    precondition {
      condition     = var.n > 1
      error_message = "n is too small"
    }
  }
}`,
			says: "n is too small",
		},
		"a postcondition of what is known is checked in the plan": {
			text: `resource "fake_thing" "a" {
  name = "a"
  lifecycle {
    postcondition {
      condition     = self.name == "b"
      error_message = "wrong name"
    }
  }
}`,
			says: "wrong name",
		},
		"a postcondition of what is unknown is checked in the apply, stops dependents and keeps the object": {
			text: `resource "fake_thing" "a" {
  name = "a"
  lifecycle {
    postcondition {
      condition     = self.id == "other"
      error_message = "wrong id"
    }
  }
}
resource "fake_thing" "b" { name = "on-${fake_thing.a.id}" }`,
			says: "wrong id", planned: true, plannedState: []string{"fake_thing.a"},
		},
		"a failed output precondition leaves the resources": {
			text: `resource "fake_thing" "a" { name = "a" }
output "o" {
  value = fake_thing.a.id
  precondition {
    condition     = fake_thing.a.id == "other"
    error_message = "not that output"
  }
}`,
			says: "not that output", planned: true, plannedState: []string{"fake_thing.a"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			e := newEstate(t)
			e.configure(c.text)
			p, diags := e.tryPlan(plan.Options{})
			if diags.HasErrors() == c.planned {
				t.Fatalf("the diagnostics of the plan are %v", diags)
			}
			if c.planned {
				_, diags = e.tryApply(p)
			}
			if !diags.HasErrors() || !says(diags, c.says) {
				t.Errorf("the diagnostics are %v", diags)
			}
			if p.Errored == c.planned {
				t.Errorf("the plan is errored: %t", p.Errored)
			}
			e.equal("state", existing(e.state()), c.plannedState)
		})
	}
}

func TestSensitiveMarksSurviveThePlanAndTheState(t *testing.T) {
	e := newEstate(t)
	e.session.Inputs = map[string]values.Input{"password": {Value: cty.StringVal("hunter2")}}
	e.configure(`
variable "password" {
  type      = string
  sensitive = true
}
resource "fake_thing" "a" {
  name   = "a"
  note   = var.password
  secret = "s"
}
resource "terraform_data" "b" { input = fake_thing.a.note }
output "p" {
  value     = fake_thing.a.note
  sensitive = true
}
`)
	p := e.plan(plan.Options{})
	for _, c := range p.Changes {
		if c.Addr.String() == "fake_thing.a" && !c.After.GetAttr("note").HasMark(marks.Sensitive) {
			t.Errorf("the planned note is %#v", c.After.GetAttr("note"))
		}
	}
	_, diags := e.tryApply(p)
	e.clean(diags)
	for address, want := range map[string]cty.Path{"fake_thing.a": cty.GetAttrPath("note"),
		"terraform_data.b": cty.GetAttrPath("input")} {
		found := false
		for _, path := range e.object(address).Sensitive {
			found = found || path.Equals(want)
		}
		if !found {
			t.Errorf("the sensitive paths of %s are %v", address, e.object(address).Sensitive)
		}
	}
	if o := e.state().Outputs["p"]; !o.Sensitive || !o.Value.RawEquals(cty.StringVal("hunter2")) {
		t.Errorf("the output is %#v", o)
	}
	if again := e.plan(plan.Options{}); again.Applyable() {
		t.Errorf("a second plan has the changes %v", changes(again))
	}
}

func TestASensitiveValueInAnOrdinaryOutputIsRefused(t *testing.T) {
	e := newEstate(t)
	e.configure(`
resource "fake_thing" "a" {
  name   = "a"
  secret = "s"
}
output "p" { value = fake_thing.a.secret }
`)
	if _, diags := e.session.Plan(t.Context(), e.state(), plan.Options{}); !says(diags,
		"Output refers to sensitive values") {
		t.Errorf("the diagnostics are %v", diags)
	}
}

func TestAReplacementByRequestSaysSo(t *testing.T) {
	e := newEstate(t)
	e.apply(`resource "fake_thing" "a" { name = "a" }`)
	at, diags := addr.ParseInstance("fake_thing.a")
	e.clean(diags)
	p := e.plan(plan.Options{Replace: []addr.Instance{at}})
	if len(p.Changes) != 1 || p.Changes[0].Action != plan.DeleteThenCreate ||
		p.Changes[0].Reason != plan.ReplaceByRequest {
		t.Fatalf("the plan is %v", changes(p))
	}
	_, diags = e.tryApply(p)
	e.clean(diags)
	e.equal("done", e.cloud.done(), []string{"delete a", "create a"})
}

func TestACycleIsToldAsALoop(t *testing.T) {
	e := newEstate(t)
	e.configure(`
resource "fake_thing" "a" { name = fake_thing.b.id }
resource "fake_thing" "b" { name = fake_thing.a.id }
`)
	_, diags := e.session.Plan(t.Context(), e.state(), plan.Options{})
	if !diags.HasErrors() || !strings.HasPrefix(diags[0].Summary, "Cycle: ") {
		t.Errorf("the diagnostics are %v", diags)
	}
}

func TestARefreshOnlyPlanRecordsWhatChangedOutside(t *testing.T) {
	e := newEstate(t)
	e.apply(`resource "fake_thing" "a" {
  name = "a"
  size = 1
}`)
	vals := e.cloud.objects["id1"].AsValueMap()
	vals["size"] = cty.NumberIntVal(7)
	e.cloud.objects["id1"] = cty.ObjectVal(vals)
	p := e.plan(plan.Options{Mode: plan.RefreshOnly})
	if len(p.Drift) != 1 || p.Drift[0].Action != plan.Update || !p.Applyable() {
		t.Fatalf("the drift is %v", p.Drift)
	}
	_, diags := e.tryApply(p)
	e.clean(diags)
	if size := e.attribute("fake_thing.a", "size"); size != float64(7) {
		t.Errorf("the size is %v", size)
	}
	e.equal("done", e.cloud.done(), nil)
	e.equal("the next plan", changes(e.plan(plan.Options{})), []string{"update fake_thing.a"})
}

func TestAnUpdateThatTurnsOutToBeNothingIsNotCounted(t *testing.T) {
	const text = `
resource "fake_thing" "a" { name = "%s" }
resource "fake_thing" "b" {
  name = "b"
  note = substr(fake_thing.a.id, 0, 2)
}`
	e := newEstate(t)
	e.apply(fmt.Sprintf(text, "a"))
	e.cloud.done()
	e.configure(fmt.Sprintf(text, "other"))
	p := e.plan(plan.Options{})
	e.equal("plan", changes(p), []string{"delete-create fake_thing.a", "update fake_thing.b"})
	applied, diags := e.tryApply(p)
	e.clean(diags)
	e.equal("done", e.cloud.done(), []string{"delete a", "create other"})
	if c := applied.Counts; c.Changed != 0 || c.Added != 1 || c.Destroyed != 1 {
		t.Errorf("the counts are %+v", c)
	}
}

func TestTheConditionsOfAnOutputAreLookedAtAgainWhereSomethingUsesIt(t *testing.T) {
	e := newEstate(t)
	e.apply(`
module "whole" {
  source   = "./child"
  for_each = { x = 1 }
  n        = each.value
}
module "one" {
  source = "./child"
  count  = 1
  n      = 1
}
module "unused" {
  source = "./child"
  n      = 1
}
resource "fake_thing" "a" { name = module.one[0].left }
output "o" { value = { for k, m in module.whole : k => m.left } }
`, `
variable "n" {}
output "left" {
  value = "l${var.n}"
  precondition {
    condition     = var.n < 5
    error_message = "too much"
  }
}
output "right" {
  value = "r${var.n}"
  precondition {
    condition     = var.n < 5
    error_message = "too much"
  }
}
`)
	var got []string
	for _, c := range e.state().Checks {
		for _, o := range c.Objects {
			got = append(got, o.Address+" "+string(o.Status))
		}
	}
	e.equal("checks", got, []string{
		"module.one[0].output.left pass", "module.one[0].output.right unknown",
		"module.unused.output.left unknown", "module.unused.output.right unknown",
		`module.whole["x"].output.left pass`, `module.whole["x"].output.right pass`,
	})
}

func TestAKnownOutputHasNoNegativeZero(t *testing.T) {
	e := newEstate(t)
	e.apply(`
output "one" { value = -0.0 }
output "list" { value = [-0.0, -1, { a = -0.0 }, null] }
`)
	for name, want := range map[string]string{"one": "0", "list": `[0,-1,{"a":0},null]`} {
		v := e.state().Outputs[name].Value
		if got, err := ctyjson.Marshal(v, v.Type()); err != nil || string(got) != want {
			t.Errorf("%s is %s, %v", name, got, err)
		}
	}
}
