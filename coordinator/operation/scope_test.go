package operation_test

import (
	"slices"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
)

// targetsOf parses the values of -target or -exclude.
func (e *estate) targetsOf(addresses ...string) (out []addr.Target) {
	e.t.Helper()
	for _, address := range addresses {
		at, diags := addr.ParseTarget(address)
		e.clean(diags)
		out = append(out, at)
	}
	return out
}

// With -target, the validations of variables that depend on the targets were not evaluated; with -exclude, checks and
// validations that none of the remaining objects depends on were. OpenTofu treats both options alike: it keeps what the
// covered resources depend on, and the variables and root outputs that depend on nothing but covered resources.
func TestTargetsAndExclusionsEvaluateTheSameRules(t *testing.T) {
	const (
		child = `
variable "id" {
  validation {
    condition     = var.id != ""
    error_message = "no ID"
  }
}
variable "constant" {
  validation {
    condition     = var.constant != ""
    error_message = "no constant"
  }
}
output "unused" {
  value = var.id
  precondition {
    condition     = var.id != ""
    error_message = "no ID"
  }
}
`
		text = `
variable "name" {
  validation {
    condition     = var.name != ""
    error_message = "no name"
  }
}
resource "fake_thing" "a" { name = var.name }
resource "fake_thing" "b" { name = "b" }
module "child" {
  source   = "./child"
  id       = fake_thing.a.id
  constant = "constant"
}
check "a" {
  assert {
    condition     = fake_thing.a.id != ""
    error_message = "no ID"
  }
}
output "a" {
  value = fake_thing.a.name
  precondition {
    condition     = fake_thing.a.id != ""
    error_message = "no ID"
  }
}
`
	)
	without := []string{
		"check check.a unknown as a whole", "output_value module.child.output.unused unknown as a whole",
		"input_variable module.child.var.constant unknown as a whole",
	}
	onlyA := append(slices.Clone(without), "input_variable module.child.var.id pass", "output_value output.a pass",
		"input_variable var.name pass")
	onlyB := append(slices.Clone(without), "input_variable module.child.var.id unknown as a whole",
		"output_value output.a unknown as a whole", "input_variable var.name unknown as a whole")
	for sentence, c := range map[string]struct {
		targets, excludes []string
		want              []string
	}{
		"a target that rules depend on":      {[]string{"fake_thing.a"}, nil, onlyA},
		"a target without rules":             {[]string{"fake_thing.b"}, nil, onlyB},
		"an exclusion without rules":         {nil, []string{"fake_thing.b"}, onlyA},
		"an exclusion of a whole module":     {nil, []string{"module.child"}, onlyA},
		"an exclusion that rules depend on":  {nil, []string{"fake_thing.a"}, onlyB},
		"an exclusion of a missing instance": {nil, []string{"fake_thing.b[1]"}, onlyA},
	} {
		t.Run(sentence, func(t *testing.T) {
			e := newEstate(t)
			e.session.Inputs = map[string]values.Input{"name": {Value: cty.StringVal("one")}}
			e.apply(text, child)
			e.session.Inputs = map[string]values.Input{"name": {Value: cty.StringVal("two")}}
			_, diags := e.tryApply(e.plan(plan.Options{
				Targets: e.targetsOf(c.targets...), Excludes: e.targetsOf(c.excludes...)}))
			e.clean(diags)
			got := checks(e.state().Checks)
			slices.Sort(got)
			slices.Sort(c.want)
			e.equal("checks", got, c.want)
		})
	}
}

// The vertex that closes an ephemeral object depends on its users, and no user depends on it. With -target it was not
// part of the plan, so that the object stayed open until its provider ended.
func TestAPartialPlanClosesTheEphemeralObjectsThatItOpens(t *testing.T) {
	const text = `
provider "fake" { alias = "plain" }
provider "fake" { token = ephemeral.fake_token.t.value }
ephemeral "fake_token" "t" {
  name     = "t"
  provider = fake.plain
}
resource "fake_thing" "a" { name = "a" }
resource "fake_thing" "b" { name = "b" }
`
	for sentence, o := range map[string]func(e *estate) plan.Options{
		"a target": func(e *estate) plan.Options {
			return plan.Options{Targets: e.targetsOf("fake_thing.a")}
		},
		"an exclusion": func(e *estate) plan.Options {
			return plan.Options{Excludes: e.targetsOf("fake_thing.b")}
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			e := newEstate(t)
			e.configure(text)
			p := e.plan(o(e))
			for _, phase := range []string{"plan", "apply"} {
				if phase == "apply" {
					_, diags := e.tryApply(p)
					e.clean(diags)
				}
				log := e.cloud.done()
				if opened := slices.Index(log, "open t"); opened < 0 || !slices.Contains(log[opened:], "close t") {
					t.Errorf("%s: the object was not opened and closed: %v", phase, log)
				}
			}
		})
	}
}

// A variable without validations has no result, and its module may not even be expandable before the targets exist.
func TestATargetDoesNotExpandTheModulesThatDependOnIt(t *testing.T) {
	e := newEstate(t)
	e.configure(`
resource "fake_thing" "a" { name = "a" }
module "child" {
  source   = "./child"
  for_each = toset([fake_thing.a.id])
  id       = each.key
}
`, `variable "id" {}`)
	_, diags := e.tryApply(e.plan(plan.Options{Targets: e.targetsOf("fake_thing.a")}))
	e.clean(diags)
	e.equal("state", existing(e.state()), []string{"fake_thing.a"})
}
