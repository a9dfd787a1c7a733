package operation_test

import (
	"slices"
	"testing"

	"github.com/millipede-iac/millipede/graph/plan"
)

// The order of destruction depended only on the configuration as long as there was a block: b, whose block no longer
// refers to a, was destroyed at the same time as the a that it had been created from, or after it. The test itself
// failed on a busy machine: it demanded an order of deleting a and creating b2, which do not wait for each other.
func TestWhatWasMadeFromAnObjectIsDestroyedBeforeIt(t *testing.T) {
	const made = `
resource "fake_thing" "a" { name = "a" }
resource "fake_thing" "b" {
  name = "b"
  note = fake_thing.a.id
}
`
	for sentence, c := range map[string]struct {
		text    string
		options plan.Options
		want    [][]string // the actions of the cloud; each list in its order, different lists in any order
	}{
		"in a destroy": {
			text:    "resource \"fake_thing\" \"a\" { name = \"a\" }\nresource \"fake_thing\" \"b\" { name = \"b\" }\n",
			options: plan.Options{Mode: plan.Destroy}, want: [][]string{{"delete b", "delete a"}},
		},
		"where both are replaced": {
			text: "resource \"fake_thing\" \"a\" { name = \"a2\" }\nresource \"fake_thing\" \"b\" {\n  name = " +
				"\"b2\"\n  depends_on = [fake_thing.c]\n}\nresource \"fake_thing\" \"c\" {\n  name = \"c\"\n  note = " +
				"fake_thing.a.id\n}\n",
			want: [][]string{{"delete b", "delete a", "create a2", "create c", "create b2"}},
		},
		"though the configuration says the opposite": {
			text: "resource \"fake_thing\" \"a\" {\n  name = \"a\"\n  note = fake_thing.b.id\n}\nresource " +
				"\"fake_thing\" \"b\" { name = \"b\" }\n",
			options: plan.Options{Mode: plan.Destroy}, want: [][]string{{"delete b", "delete a"}},
		},
		"though it does, where both are replaced": {
			text: "resource \"fake_thing\" \"a\" {\n  name = \"a2\"\n  note = fake_thing.b.id\n}\nresource " +
				"\"fake_thing\" \"b\" { name = \"b2\" }\n",
			want: [][]string{{"delete b", "delete a", "create a2"}, {"delete b", "create b2", "create a2"}},
		},
		"though it does, without refreshing": {
			text: "resource \"fake_thing\" \"a\" {\n  name = \"a\"\n  note = fake_thing.b.id\n}\nresource " +
				"\"fake_thing\" \"b\" { name = \"b\" }\n",
			options: plan.Options{Mode: plan.Destroy, SkipRefresh: true},
			want:    [][]string{{"delete b", "delete a"}},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			e := newEstate(t)
			e.apply(made)
			e.configure(c.text)
			p, diags := e.tryPlan(c.options)
			e.clean(diags)
			_, diags = e.tryApply(p)
			e.clean(diags)
			done := e.cloud.done()
			for _, order := range c.want {
				e.equal("done", slices.DeleteFunc(slices.Clone(done), func(what string) bool {
					return !slices.Contains(order, what)
				}), order)
			}
			all := slices.Concat(c.want...)
			slices.Sort(all)
			slices.Sort(done)
			e.equal("done in any order", done, slices.Compact(all))
		})
	}
}

// The order of an orphan depends on its recorded dependencies, as before; a move must not lose them.
func TestWhatWasRecordedFollowsAMovedObject(t *testing.T) {
	e := newEstate(t)
	e.apply("resource \"fake_thing\" \"a\" { name = \"a\" }\nresource \"fake_thing\" \"b\" {\n  name = \"b\"\n  note " +
		"= fake_thing.a.id\n}\n")
	e.configure("resource \"fake_thing\" \"a\" { name = \"a\" }\nresource \"fake_thing\" \"c\" { name = \"b\" " +
		"}\nmoved {\n  from = fake_thing.b\n  to = fake_thing.c\n}\n")
	p, diags := e.tryPlan(plan.Options{Mode: plan.Destroy})
	e.clean(diags)
	if _, diags = e.tryApply(p); diags.HasErrors() {
		t.Fatal(diags)
	}
	e.equal("done", e.cloud.done(), []string{"delete b", "delete a"})
}

// A reference to a whole module, for example with a key that is not constant, waited only for the vertices that the
// module's outputs are computed from, and only those were recorded.
func TestWhatRefersToAWholeModuleDependsOnAllOfIt(t *testing.T) {
	e := newEstate(t)
	e.apply(`
module "child" {
  source   = "./child"
  for_each = toset(["k"])
}
resource "fake_thing" "whole" {
  for_each = toset(["k"])
  name     = "whole-${module.child[each.key].name}"
}
resource "fake_thing" "one" {
  name = "one-${module.child["k"].name}"
}
`, `
output "name" {
  value = "plain"
}
resource "fake_thing" "beside" {
  name = "beside"
}
`)
	dependencies := func(address string) []string { return slices.Collect(e.object(address).Dependencies.Texts()) }
	e.equal("of the whole", dependencies(`fake_thing.whole["k"]`), []string{"module.child.fake_thing.beside"})
	e.equal("of an output", dependencies("fake_thing.one"), nil)
}

// A move did not rename the dependencies that other objects had recorded, so that an object without a block was
// destroyed at the same time as the objects that it had been made from, or after them.
func TestWhatWasRecordedOnAMovedObjectFollowsIt(t *testing.T) {
	const made = `
resource "fake_thing" "a" { name = "a" }
resource "fake_thing" "b" {
  name = "b"
  note = fake_thing.a.id
}
`
	for sentence, c := range map[string]struct {
		text string
		mode plan.Mode
		want []string
	}{
		"a moved block, in a destroy": {"resource \"fake_thing\" \"c\" { name = \"a\" }\nmoved {\n  from = fake_thing.a\n" +
			"  to = fake_thing.c\n}\n", plan.Destroy, []string{"delete b", "delete a"}},
		"a moved block of what is replaced": {"resource \"fake_thing\" \"c\" { name = \"c\" }\nmoved {\n  from = " +
			"fake_thing.a\n  to = fake_thing.c\n}\n", plan.Normal, []string{"delete b", "delete a", "create c"}},
		"an instance that gets a key": {"resource \"fake_thing\" \"a\" {\n  count = 1\n  name = \"a\"\n}\n", plan.Destroy,
			[]string{"delete b", "delete a"}},
		"a move to a module": {"module \"m\" { source = \"./child\" }\nmoved {\n  from = fake_thing.a\n  to = " +
			"module.m.fake_thing.a\n}\n", plan.Destroy, []string{"delete b", "delete a"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			e := newEstate(t)
			e.apply(made)
			e.configure(c.text, "resource \"fake_thing\" \"a\" { name = \"a\" }\n")
			p, diags := e.tryPlan(plan.Options{Mode: c.mode})
			e.clean(diags)
			_, diags = e.tryApply(p)
			e.clean(diags)
			e.equal("done", e.cloud.done(), c.want)
		})
	}
}

// The state kept the old address as the dependency of an object that did not change itself.
func TestAMoveIsRecordedInWhatDependsOnIt(t *testing.T) {
	e := newEstate(t)
	e.apply("resource \"fake_thing\" \"a\" { name = \"a\" }\nresource \"fake_thing\" \"b\" {\n  name = \"b\"\n  note " +
		"= fake_thing.a.id\n}\n")
	e.apply("resource \"fake_thing\" \"c\" { name = \"a\" }\nresource \"fake_thing\" \"b\" {\n  name = \"b\"\n  note " +
		"= fake_thing.c.id\n}\nmoved {\n  from = fake_thing.a\n  to = fake_thing.c\n}\n")
	e.equal("dependencies", slices.Collect(e.object("fake_thing.b").Dependencies.Texts()), []string{"fake_thing.c"})
}
