package operation_test

import (
	"testing"

	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/graph/plan"
)

// What ends was ordered by the configuration alone as long as there was a block: b, whose block does not refer to a any
// more, was destroyed at the same time as the a that it had been made from, or after it.
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
		options operation.PlanOptions
		want    []string // what the cloud does
		says    string   // the plan fails with that
	}{
		"in a destroy": {
			text:    "resource \"fake_thing\" \"a\" { name = \"a\" }\nresource \"fake_thing\" \"b\" { name = \"b\" }\n",
			options: operation.PlanOptions{Mode: plan.Destroy}, want: []string{"delete b", "delete a"},
		},
		"where both are replaced": {
			text: "resource \"fake_thing\" \"a\" { name = \"a2\" }\nresource \"fake_thing\" \"b\" {\n  name = " +
				"\"b2\"\n  depends_on = [fake_thing.c]\n}\nresource \"fake_thing\" \"c\" {\n  name = \"c\"\n  note = " +
				"fake_thing.a.id\n}\n",
			want: []string{"delete b", "delete a", "create a2", "create c", "create b2"},
		},
		"unless the configuration says the opposite": {
			text: "resource \"fake_thing\" \"a\" {\n  name = \"a\"\n  note = fake_thing.b.id\n}\nresource " +
				"\"fake_thing\" \"b\" { name = \"b\" }\n",
			options: operation.PlanOptions{Mode: plan.Destroy}, says: "Cycle: ",
		},
		"though it does, without refreshing": {
			text: "resource \"fake_thing\" \"a\" {\n  name = \"a\"\n  note = fake_thing.b.id\n}\nresource " +
				"\"fake_thing\" \"b\" { name = \"b\" }\n",
			options: operation.PlanOptions{Mode: plan.Destroy, SkipRefresh: true},
			want:    []string{"delete b", "delete a"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			e := newEstate(t)
			e.apply(made)
			e.configure(c.text)
			p, diags := e.tryPlan(c.options)
			if c.says != "" {
				if !p.Errored || !says(diags, c.says) {
					t.Fatalf("errored: %v, %v", p.Errored, diags)
				}
				return
			}
			e.clean(diags)
			_, diags = e.tryApply(p)
			e.clean(diags)
			e.equal("done", e.cloud.done(), c.want)
		})
	}
}

// An orphan's order went by what was recorded before, too; a move must not lose that.
func TestWhatWasRecordedFollowsAMovedObject(t *testing.T) {
	e := newEstate(t)
	e.apply("resource \"fake_thing\" \"a\" { name = \"a\" }\nresource \"fake_thing\" \"b\" {\n  name = \"b\"\n  note " +
		"= fake_thing.a.id\n}\n")
	e.configure("resource \"fake_thing\" \"a\" { name = \"a\" }\nresource \"fake_thing\" \"c\" { name = \"b\" " +
		"}\nmoved {\n  from = fake_thing.b\n  to = fake_thing.c\n}\n")
	p, diags := e.tryPlan(operation.PlanOptions{Mode: plan.Destroy})
	e.clean(diags)
	if _, diags = e.tryApply(p); diags.HasErrors() {
		t.Fatal(diags)
	}
	e.equal("done", e.cloud.done(), []string{"delete b", "delete a"})
}
