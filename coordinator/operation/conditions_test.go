package operation_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
)

// A failed check is a warning, and is recorded.
func TestChecksObserve(t *testing.T) {
	const text = `
variable "key" { default = "k" }
resource "fake_thing" "a" { name = "a" }
check "lookup" {
  data "fake_lookup" "d" { key = var.key }
  assert {
    condition     = data.fake_lookup.d.value == "value of k"
    error_message = "it is ${data.fake_lookup.d.value}"
  }
}
check "late" {
  assert {
    condition     = fake_thing.a.id == "id1"
    error_message = "another id"
  }
}
`
	for sentence, c := range map[string]struct {
		key, says      string
		planned, after []string
	}{
		"that hold": {
			"k", "", []string{"check check.late unknown", "check check.lookup pass"},
			[]string{"check check.late pass", "check check.lookup pass"},
		},
		"that do not hold": {"other", "it is value of other", []string{"check check.late unknown",
			"check check.lookup fail"},
			[]string{"check check.late pass", "check check.lookup fail"}},
		"whose data cannot be read": {
			"nothing", "there is nothing of that key", []string{"check check.late unknown", "check check.lookup fail"},
			[]string{"check check.late pass", "check check.lookup fail"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			e := newEstate(t)
			e.session.Inputs = map[string]values.Input{"key": {Value: cty.StringVal(c.key)}}
			e.configure(text)
			planned, diags := e.session.Plan(t.Context(), e.state(), plan.Options{})
			e.clean(diags)
			if c.says != "" && !says(diags, c.says) {
				t.Errorf("no diagnostic contains %q: %v", c.says, diags)
			}
			e.equal("plan", checks(planned.Plan.Checks), c.planned)
			_, diags = e.tryApply(planned.Plan)
			e.clean(diags)
			if c.says != "" && !says(diags, c.says) {
				t.Errorf("no diagnostic of the apply contains %q: %v", c.says, diags)
			}
			e.equal("state", checks(e.state().Checks), c.after)
		})
	}
}

// Conditions of resources, data, outputs and variables are recorded; if one is false, its object fails.
func TestConditionsAreRecordedAndFailWhatTheyAreAbout(t *testing.T) {
	const text = `
variable "v" {
  default = 1
  validation {
    condition     = var.v > 0
    error_message = "v must be positive"
  }
}
resource "fake_thing" "a" {
  name = "a"
  size = var.v
  lifecycle {
    precondition {
      condition     = var.v != 5
      error_message = "five is refused"
    }
    postcondition {
      condition     = self.size < 10
      error_message = "too large"
    }
    postcondition {
      condition     = self.id != "id2"
      error_message = "an unlucky id"
    }
  }
}
data "fake_lookup" "d" {
  key = fake_thing.a.id
  lifecycle {
    postcondition {
      condition     = self.value != "value of id3"
      error_message = "an unlucky value"
    }
  }
}
output "o" {
  value = data.fake_lookup.d.value
  precondition {
    condition     = fake_thing.a.id != "id4"
    error_message = "an unlucky output"
  }
}
`
	for sentence, c := range map[string]struct {
		v, made      int
		says         string
		inPlan       bool
		after        []string
		stateObjects []string
	}{
		"all hold": {
			1, 0, "", false,
			[]string{
				"resource data.fake_lookup.d pass", "resource fake_thing.a pass", "output_value output.o pass",
				"input_variable var.v pass",
			},
			[]string{"fake_thing.a"}},
		"a validation":                {0, 0, "v must be positive", true, nil, nil},
		"a precondition":              {5, 0, "five is refused", true, nil, nil},
		"a postcondition of a plan":   {10, 0, "too large", true, nil, nil},
		"a postcondition of an apply": {1, 1, "an unlucky id", false, nil, []string{"fake_thing.a"}},
		"a postcondition of data":     {1, 2, "an unlucky value", false, nil, []string{"fake_thing.a"}},
		"a precondition of an output": {1, 3, "an unlucky output", false, nil, []string{"fake_thing.a"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			e := newEstate(t)
			e.cloud.made = c.made
			e.session.Inputs = map[string]values.Input{"v": {Value: cty.NumberIntVal(int64(c.v))}}
			e.configure(text)
			planned, diags := e.session.Plan(t.Context(), e.state(), plan.Options{})
			if c.inPlan {
				if !diags.HasErrors() || !says(diags, c.says) {
					t.Errorf("no diagnostic contains %q: %v", c.says, diags)
				}
				return
			}
			e.clean(diags)
			_, diags = e.tryApply(planned.Plan)
			if diags.HasErrors() != (c.says != "") || c.says != "" && !says(diags, c.says) {
				t.Errorf("want %q: %v", c.says, diags)
			}
			if c.after != nil {
				e.equal("checks", checks(e.state().Checks), c.after)
			}
			e.equal("state", existing(e.state()), c.stateObjects)
			if c.says == "" {
				next := e.plan(plan.Options{})
				e.equal("the next plan", changes(next), nil)
				_, diags = e.tryApply(next)
				e.clean(diags)
				again := slices.Clone(c.after)
				// the data was read by the plan, and is not read again
				again[0] = strings.Replace(again[0], "pass", "unknown", 1)
				e.equal("checks of an apply that changes nothing", checks(e.state().Checks), again)
			}
		})
	}
}

// The data of a check without references was read at the beginning of an apply, during the first changes. So a check of
// something that the apply creates failed.
func TestTheDataOfACheckIsReadAfterAllChanges(t *testing.T) {
	const text = `
resource "fake_thing" "a" { name = "a" }
resource "fake_thing" "b" { name = fake_thing.a.id }
check "lookup" {
  data "fake_lookup" "d" { key = "k" }
  assert {
    condition     = data.fake_lookup.d.value == "value of k"
    error_message = "no value"
  }
}
`
	for sentence, c := range map[string]struct {
		fails bool
		want  []string
		check string
	}{
		"all are made": {false, []string{"create a", "create id1", "look up k"}, "check check.lookup pass"},
		"one is not":   {true, nil, "check check.lookup unknown"},
	} {
		t.Run(sentence, func(t *testing.T) {
			e := newEstate(t)
			e.configure(text)
			planned, diags := e.session.Plan(t.Context(), e.state(), plan.Options{})
			e.clean(diags)
			e.cloud.log = nil
			if c.fails {
				e.cloud.onCreate = func(context.Context, string) (bool, error) { return false, errors.New("no room") }
			}
			_, diags = e.tryApply(planned.Plan)
			if diags.HasErrors() != c.fails {
				t.Error(diags.Err())
			}
			e.equal("the order", e.cloud.log, c.want)
			e.equal("state", checks(e.state().Checks), []string{c.check})
		})
	}
}
