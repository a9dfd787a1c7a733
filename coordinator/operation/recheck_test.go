package operation_test

import (
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
)

// An apply evaluated only the postconditions of objects that do not change. A precondition that could not be evaluated
// when planning, because it refers to something that changes, was never evaluated: it stayed unknown, and its violation
// went unnoticed.
func TestAnApplyChecksPreconditionsOfObjectsThatDoNotChange(t *testing.T) {
	const text = `
variable "name" {}
resource "fake_thing" "a" { name = var.name }
resource "fake_thing" "b" {
  name = "b"
  lifecycle {
    precondition {
      condition     = fake_thing.a.id != "id3"
      error_message = "an unlucky id"
    }
  }
}
`
	e := newEstate(t)
	name := func(name string) {
		e.session.Inputs = map[string]values.Input{"name": {Value: cty.StringVal(name)}}
	}
	name("one")
	e.apply(text)
	e.apply(text)
	e.equal("without changes", checks(e.state().Checks), []string{"resource fake_thing.b pass"})
	name("two")
	e.configure(text)
	_, diags := e.tryApply(e.plan(plan.Options{}))
	if !diags.HasErrors() || !says(diags, "an unlucky id") {
		t.Errorf("the precondition was not evaluated: %v", diags)
	}
	e.equal("violated", checks(e.state().Checks), []string{"resource fake_thing.b fail"})
	name("three")
	e.apply(text)
	e.equal("met again", checks(e.state().Checks), []string{"resource fake_thing.b pass"})
}

// The results of validations were unknown after a destroy. As in OpenTofu, those of variables that configure a provider
// stay known, because the destroy uses their values.
func TestADestroyKeepsTheResultsOfTheVariablesOfProviders(t *testing.T) {
	const text = `
variable "token" {
  default = "p"
  validation {
    condition     = var.token != ""
    error_message = "empty"
  }
}
variable "object" {
  default = "o"
  validation {
    condition     = var.object != ""
    error_message = "empty"
  }
}
provider "fake" { token = var.token }
resource "fake_thing" "a" { name = var.object }
`
	e := newEstate(t)
	e.apply(text)
	_, diags := e.tryApply(e.plan(plan.Options{Mode: plan.Destroy}))
	e.clean(diags)
	e.equal("state", existing(e.state()), nil)
	e.equal("checks", checks(e.state().Checks), []string{
		"input_variable var.object unknown as a whole", "input_variable var.token pass",
	})
}

// The data of checks was read only after everything else that an apply does. When the reading of other data failed, it
// was not read at all, and the check had no result; OpenTofu has it wait for managed objects alone.
func TestTheDataOfACheckIsReadAlthoughOtherDataCannotBeRead(t *testing.T) {
	e := newEstate(t)
	e.configure(`
resource "fake_thing" "a" { name = "a" }
data "fake_lookup" "missing" {
  key        = "nothing"
  depends_on = [fake_thing.a]
}
check "c" {
  data "fake_lookup" "d" { key = "k" }
  assert {
    condition     = data.fake_lookup.d.value == "value of k"
    error_message = "it is ${data.fake_lookup.d.value}"
  }
}
`)
	_, diags := e.tryApply(e.plan(plan.Options{}))
	if !diags.HasErrors() || !says(diags, "there is nothing of that key") {
		t.Errorf("the other data was read: %v", diags)
	}
	e.equal("checks", checks(e.state().Checks), []string{"check check.c pass"})
}
