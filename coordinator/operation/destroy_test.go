package operation_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
)

func TestADestroyFailsForWhatAnOrdinaryPlanCannotEvaluate(t *testing.T) {
	const stored = `
resource "fake_thing" "a" {
  name = "a"
  note = "nothing"
}
`
	for sentence, c := range map[string]struct {
		text        string
		skipRefresh bool
		says        string // the plan fails with that; empty for a plan to destroy fake_thing.a
	}{
		"data that cannot be read": {
			text: stored + `data "fake_lookup" "d" { key = fake_thing.a.note }`,
			says: "not found",
		},
		"data whose reading an ordinary plan puts off is not needed": {
			text: `
resource "fake_thing" "a" {
  name = "a"
  note = "something"
}
data "fake_lookup" "d" { key = fake_thing.a.note }
output "d" { value = data.fake_lookup.d.value }
`,
		},
		"a check that cannot be evaluated": {
			text: stored + `
check "c" {
  assert {
    condition     = tonumber(fake_thing.a.note) == 1
    error_message = "not one"
  }
}
`,
			says: "Invalid function argument",
		},
		"nothing is evaluated without refreshing": {
			text: stored + `
data "fake_lookup" "d" { key = fake_thing.a.note }
check "c" {
  assert {
    condition     = tonumber(fake_thing.a.note) == 1
    error_message = "not one"
  }
}
`,
			skipRefresh: true,
		},
		"a check that is not met is no news": {
			text: stored + `
check "c" {
  assert {
    condition     = fake_thing.a.note == "something"
    error_message = "nothing"
  }
}
`,
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			e := newEstate(t)
			e.apply(stored)
			e.configure(c.text)
			planned, diags := e.session.Plan(t.Context(), e.state(), plan.Options{Mode: plan.Destroy,
				SkipRefresh: c.skipRefresh})
			if c.says != "" {
				if !diags.HasErrors() || !says(diags, c.says) {
					t.Errorf("the diagnostics are %v", diags)
				}
				return
			}
			if len(diags) > 0 {
				t.Fatalf("the diagnostics of the plan are %v", diags)
			}
			p := planned.Plan
			e.equal("plan", changes(p), []string{"delete fake_thing.a"})
			if len(p.Outputs) > 0 {
				t.Errorf("the plan has the output %s, which is not stored", p.Outputs[0].Name)
			}
			_, diags = e.tryApply(p)
			e.clean(diags)
			e.equal("state", existing(e.state()), nil)
		})
	}
}

// A destroy deferred the read to its apply, in which nothing creates the object whose ID the read needs: "Configuration
// contains unknown value", at every attempt.
func TestADestroyReadsNoDataWithWhatDoesNotExist(t *testing.T) {
	const text = `
resource "fake_thing" "a" { name = "a" }
resource "fake_thing" "b" { name = "b" }
data "fake_lookup" "d" { key = fake_thing.a.id }
data "fake_lookup" "e" { key = data.fake_lookup.d.value }
resource "fake_thing" "c" {
  name = "c"
  note = data.fake_lookup.e.value
}
output "o" { value = data.fake_lookup.e.value }
`
	for sentence, begin := range map[string]func(*estate){
		"after an apply that failed": func(e *estate) {
			e.cloud.onCreate = func(_ context.Context, name string) (bool, error) {
				if name == "a" {
					return false, errors.New("refused")
				}
				return false, nil
			}
			e.configure(text)
			if _, diags := e.tryApply(e.plan(plan.Options{})); !diags.HasErrors() {
				t.Fatal("the apply did not fail")
			}
		},
		"after a destroy": func(e *estate) {
			e.apply(text)
			_, diags := e.tryApply(e.plan(plan.Options{Mode: plan.Destroy}))
			e.clean(diags)
		},
		"before any apply": func(e *estate) { e.configure(text) },
	} {
		for _, skip := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, refreshing %v", sentence, !skip), func(t *testing.T) {
				e := newEstate(t)
				begin(e)
				p, diags := e.tryPlan(plan.Options{Mode: plan.Destroy, SkipRefresh: skip})
				e.clean(diags)
				_, diags = e.tryApply(p)
				e.clean(diags)
				e.equal("state", existing(e.state()), nil)
			})
		}
	}
}

// The instances of a data source can depend on objects that do not exist. A destroy failed then with "Invalid count
// argument", even if there was nothing to destroy.
func TestADestroyDoesNotNeedTheInstancesOfData(t *testing.T) {
	e := newEstate(t)
	e.configure(block("a", `name = "a"`) + block("b", `name = "b"`) + `
data "fake_lookup" "d" {
  count = length(fake_thing.a.id)
  key   = "k"
}
output "o" { value = data.fake_lookup.d[*].value }
`)
	_, diags := e.tryApply(e.plan(plan.Options{Mode: plan.Destroy}))
	e.clean(diags)
	target, diags := addr.ParseTarget("fake_thing.b")
	e.clean(diags)
	p, diags := e.tryPlan(plan.Options{Targets: []addr.Target{target}})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	e.tryApply(p)
	e.equal("state", existing(e.state()), []string{"fake_thing.b"})
	_, diags = e.tryApply(e.plan(plan.Options{Mode: plan.Destroy, SkipRefresh: true}))
	e.clean(diags)
	e.equal("state", existing(e.state()), nil)
}

// A value that does not fit the type of its variable was ignored by a destroy that does not refresh, or has nothing to
// refresh. OpenTofu refuses it, because it may have been meant for something else.
func TestADestroyRefusesWrongValuesOfVariables(t *testing.T) {
	const text = `
variable "size" {
  type    = number
  default = 1
}
resource "fake_thing" "a" {
  name = "a"
  size = var.size
}
`
	for sentence, begin := range map[string]func(*estate){
		"nothing exists":   func(e *estate) { e.configure(text) },
		"an object exists": func(e *estate) { e.apply(text) },
	} {
		t.Run(sentence, func(t *testing.T) {
			e := newEstate(t)
			begin(e)
			e.session.Inputs = map[string]values.Input{"size": {Value: cty.StringVal("large")}}
			_, diags := e.tryPlan(plan.Options{Mode: plan.Destroy, SkipRefresh: true})
			if !diags.HasErrors() || diags[0].Summary != "Invalid value for input variable" {
				t.Errorf("the diagnostics are %v", diags)
			}
		})
	}
}

// If no object existed, a destroy still read all data, and failed if some could not be read.
func TestADestroyOfNothingReadsNothing(t *testing.T) {
	e := newEstate(t)
	e.configure(`data "fake_lookup" "d" { key = "nothing" }`)
	_, diags := e.tryApply(e.plan(plan.Options{Mode: plan.Destroy}))
	e.clean(diags)
	e.equal("cloud", e.cloud.done(), nil)
}

// Planning validates with the provider only the blocks that it plans from, so a check was left out for the others: in a
// plan that plans from none of them, such as a destroy or a refresh, or in a targeted plan, a block that its provider
// refuses was accepted.
func TestAProviderIsAskedAboutBlocksThatAPlanDoesNotNeed(t *testing.T) {
	target := func(name string) []addr.Target {
		a, diags := addr.ParseTarget("fake_thing." + name)
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		return []addr.Target{a}
	}
	for sentence, o := range map[string]plan.Options{
		"destroy":      {Mode: plan.Destroy},
		"refresh only": {Mode: plan.RefreshOnly},
		"target":       {Targets: target("good")},
		"exclude":      {Excludes: target("bad")},
		"whole":        {},
	} {
		t.Run(sentence, func(t *testing.T) {
			e := newEstate(t)
			e.apply(block("good", `name = "good"`) + block("bad", `name = "bad"`))
			e.configure(block("good", `name = "good"`) + block("bad", `name = "bad"`, `note = "invalid"`))
			if _, diags := e.session.Plan(t.Context(), e.state(), o); !says(diags, "Invalid note") {
				t.Errorf("the diagnostics of the plan are %v", diags)
			}
		})
	}
}
