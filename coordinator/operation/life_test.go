package operation_test

import (
	"slices"
	"testing"

	"github.com/millipede-iac/millipede/graph/plan"
)

func TestWhatIsAppliedIsStableAndCanBeDestroyed(t *testing.T) {
	e := newEstate(t)
	e.configure(`
module "child" {
  source   = "./child"
  for_each = toset(["x", "y"])
  prefix   = each.key
}
resource "terraform_data" "last" {
  input = module.child["x"].ids
}
output "ids" { value = module.child["y"].ids }
`, `
variable "prefix" {}
resource "fake_thing" "each" {
  count = 2
  name  = "${var.prefix}${count.index}"
}
output "ids" { value = fake_thing.each[*].id }
`)
	p := e.plan(plan.Options{})
	objects := []string{
		`module.child["x"].fake_thing.each[0]`, `module.child["x"].fake_thing.each[1]`,
		`module.child["y"].fake_thing.each[0]`, `module.child["y"].fake_thing.each[1]`, `terraform_data.last`,
	}
	var creates []string
	for _, o := range objects {
		creates = append(creates, "create "+o)
	}
	e.equal("plan", changes(p), creates)
	applied, diags := e.tryApply(p)
	e.clean(diags)
	if applied.Counts.Added != 5 || applied.Outcome.Status != "done" {
		t.Errorf("added %d, the run is %s", applied.Counts.Added, applied.Outcome.Status)
	}
	e.equal("state", existing(e.state()), objects)
	if ids := e.state().Outputs["ids"].Value; ids.LengthInt() != 2 || !ids.IsWhollyKnown() {
		t.Errorf("the output is %#v", ids)
	}
	if again := e.plan(plan.Options{}); again.Applyable() {
		t.Errorf("the second plan has the changes %v", changes(again))
	}
	_, diags = e.tryApply(e.plan(plan.Options{Mode: plan.Destroy}))
	e.clean(diags)
	e.equal("cloud after destroy", e.cloud.names(), nil)
	if !e.state().IsEmpty() {
		t.Errorf("after destroy the state has %v", existing(e.state()))
	}
}

// step is a change of the configuration and the expected operations of the engine.
type step struct {
	before, after string
	plan          []string // sorted
	did           []string // in order, when there is only one
	state         []string
}

func TestAChangeOfTheConfiguration(t *testing.T) {
	for sentence, s := range map[string]step{
		"of an attribute updates the object in place": {
			before: `resource "fake_thing" "a" {
  name = "a"
  size = 1
}`,
			after: `resource "fake_thing" "a" {
  name = "a"
  size = 2
}`,
			plan: []string{"update fake_thing.a"}, did: []string{"update a"}, state: []string{"fake_thing.a"},
		},
		"that needs a new object deletes the old one first": {
			before: `resource "fake_thing" "a" { name = "old" }`,
			after:  `resource "fake_thing" "a" { name = "new" }`,
			plan:   []string{"delete-create fake_thing.a"}, did: []string{"delete old", "create new"},
			state: []string{"fake_thing.a"},
		},
		"with create_before_destroy creates first and leaves nothing deposed": {
			before: `resource "fake_thing" "a" {
  name = "old"
  lifecycle { create_before_destroy = true }
}`,
			after: `resource "fake_thing" "a" {
  name = "new"
  lifecycle { create_before_destroy = true }
}`,
			plan: []string{"create-delete fake_thing.a"}, did: []string{"create new", "delete old"},
			state: []string{"fake_thing.a"},
		},
		"replaces dependents around what they depend on": {
			before: `resource "fake_thing" "a" { name = "old" }
resource "fake_thing" "b" { name = "on-${fake_thing.a.id}" }`,
			after: `resource "fake_thing" "a" { name = "new" }
resource "fake_thing" "b" { name = "on-${fake_thing.a.id}" }`,
			plan:  []string{"delete-create fake_thing.a", "delete-create fake_thing.b"},
			did:   []string{"delete on-id1", "delete old", "create new", "create on-id3"},
			state: []string{"fake_thing.a", "fake_thing.b"},
		},
		"makes what a create_before_destroy object needs create before destroy": {
			before: `resource "fake_thing" "a" { name = "old" }
resource "fake_thing" "b" {
  name = "on-${fake_thing.a.id}"
  lifecycle { create_before_destroy = true }
}`,
			after: `resource "fake_thing" "a" { name = "new" }
resource "fake_thing" "b" {
  name = "on-${fake_thing.a.id}"
  lifecycle { create_before_destroy = true }
}`,
			plan:  []string{"create-delete fake_thing.a", "create-delete fake_thing.b"},
			did:   []string{"create new", "create on-id3", "delete on-id1", "delete old"},
			state: []string{"fake_thing.a", "fake_thing.b"},
		},
		"that moves an object keeps it": {
			before: `resource "fake_thing" "a" { name = "a" }`,
			after: `resource "fake_thing" "b" {
  for_each = toset(["k"])
  name     = "a"
}
moved {
  from = fake_thing.a
  to   = fake_thing.b["k"]
}`,
			state: []string{`fake_thing.b["k"]`},
		},
		"from one object to count moves it to the first": {
			before: `resource "fake_thing" "a" { name = "a0" }`,
			after: `resource "fake_thing" "a" {
  count = 2
  name  = "a${count.index}"
}`,
			plan: []string{"create fake_thing.a[1]"}, did: []string{"create a1"}, state: []string{"fake_thing.a[0]",
				"fake_thing.a[1]"},
		},
		"to a smaller count deletes the last": {
			before: `resource "fake_thing" "a" {
  count = 2
  name  = "a${count.index}"
}`,
			after: `resource "fake_thing" "a" {
  count = 1
  name  = "a${count.index}"
}`,
			plan: []string{"delete fake_thing.a[1]"}, did: []string{"delete a1"}, state: []string{"fake_thing.a[0]"},
		},
		"that removes blocks deletes dependents first": {
			before: `resource "fake_thing" "a" { name = "a" }
resource "fake_thing" "b" {
  name = "b"
  note = fake_thing.a.id
}
resource "fake_thing" "c" {
  name = "c"
  depends_on = [fake_thing.b]
}`,
			plan: []string{"delete fake_thing.a", "delete fake_thing.b", "delete fake_thing.c"},
			did:  []string{"delete c", "delete b", "delete a"},
		},
		"with a removed block forgets the object": {
			before: `resource "fake_thing" "a" { name = "a" }`,
			after: `removed {
  from = fake_thing.a
  lifecycle { destroy = false }
}`,
			plan: []string{"forget fake_thing.a"},
		},
		"that is ignored changes nothing": {
			before: `resource "fake_thing" "a" {
  name = "a"
  size = 1
  lifecycle { ignore_changes = [size] }
}`,
			after: `resource "fake_thing" "a" {
  name = "a"
  size = 2
  lifecycle { ignore_changes = [size] }
}`,
			state: []string{"fake_thing.a"},
		},
		"of a trigger replaces the object": {
			before: `resource "terraform_data" "t" { input = 1 }
resource "fake_thing" "a" {
  name = "a"
  lifecycle { replace_triggered_by = [terraform_data.t] }
}`,
			after: `resource "terraform_data" "t" { input = 2 }
resource "fake_thing" "a" {
  name = "a"
  lifecycle { replace_triggered_by = [terraform_data.t] }
}`,
			plan:  []string{"delete-create fake_thing.a", "update terraform_data.t"},
			did:   []string{"delete a", "create a"},
			state: []string{"fake_thing.a", "terraform_data.t"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			e := newEstate(t)
			e.apply(s.before)
			e.configure(s.after)
			p := e.plan(plan.Options{})
			e.equal("plan", changes(p), s.plan)
			_, diags := e.tryApply(p)
			e.clean(diags)
			e.equal("done", e.cloud.done(), s.did)
			e.equal("state", existing(e.state()), s.state)
			if again := e.plan(plan.Options{}); again.Applyable() {
				t.Errorf("a second plan has the changes %v", changes(again))
			}
		})
	}
}

func TestWhatVanishedIsCreatedAgain(t *testing.T) {
	e := newEstate(t)
	e.apply(`resource "fake_thing" "a" { name = "a" }`)
	clear(e.cloud.objects)
	p := e.plan(plan.Options{})
	e.equal("plan", changes(p), []string{"create fake_thing.a"})
	if len(p.Drift) != 1 || p.Drift[0].Action != plan.Delete {
		t.Errorf("the drift is %v", p.Drift)
	}
	_, diags := e.tryApply(p)
	e.clean(diags)
	if got := e.attribute("fake_thing.a", "id"); got != "id2" || !slices.Equal(e.cloud.names(), []string{"a"}) {
		t.Errorf("the id is %v, and the cloud has %v", got, e.cloud.names())
	}
}
