package operation_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/graph/plan"
)

// A block that refers to its own resource kept the whole plan from being made, so that nothing else could be shown. As
// in OpenTofu, only that block fails.
func TestASelfReferenceKeepsNothingElseFromBeingPlanned(t *testing.T) {
	for sentence, c := range map[string]struct{ text, summary string }{
		"an argument refers to the resource": {
			block("a", `name = fake_thing.a.id`), "Self-referential block",
		},
		"an argument refers to one of the instances": {
			block("a", `count = 2`, `name = fake_thing.a[0].id`), "Self-referential block",
		},
		"all instances refer to all": {
			block("a", `count = 2`, `name = join("", fake_thing.a[*].id)`), "Cycle: ",
		},
		"provisioners refer to each other's objects": {
			block("a", `count = 2`, `name = "a"`, `provisioner "local-exec" {`,
				`command = "echo ${fake_thing.a[0].id} ${fake_thing.a[1].id}"`, `}`), "Cycle: ",
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			e := newEstate(t)
			e.configure(c.text + block("b", `name = "b"`) + block("c", `name = "c"`, `depends_on = [fake_thing.a]`))
			p, diags := e.tryPlan(plan.Options{})
			if !diags.HasErrors() || !strings.HasPrefix(diags[0].Summary, c.summary) {
				t.Errorf("the diagnostics are %v", diags)
			}
			if p == nil || !p.Errored {
				t.Fatal("there is no plan that is marked as errored")
			}
			e.equal("plan", changes(p), []string{"create fake_thing.b"})
		})
	}
}

// A provisioner that referred to its object by the address made the object wait for itself: the plan had a cycle. With
// a splat, the object was not known yet when the provisioner was evaluated, so the run broke off.
func TestAProvisionerMayReferToItsObjectByTheAddress(t *testing.T) {
	for sentence, c := range map[string]struct{ count, command, want string }{
		"one object":      {``, `echo ${fake_thing.a.id}`, "id1\n"},
		"first of two":    {`count = 2`, `echo ${fake_thing.a[0].id}`, "id1\nid1\n"},
		"all, of one":     {`count = 1`, `echo ${join("", fake_thing.a[*].id)}`, "id1\n"},
		"by the key each": {`for_each = { x = "y" }`, `echo ${fake_thing.a[each.key].id}`, "id1\n"},
	} {
		t.Run(sentence, func(t *testing.T) {
			e := newEstate(t)
			log := filepath.Join(t.TempDir(), "log")
			e.apply(block("a", c.count, `name = "a"`,
				`provisioner "local-exec" {`, `command = "`+c.command+` >> `+log+`"`, `}`))
			text, err := os.ReadFile(log)
			if err != nil || string(text) != c.want {
				t.Errorf("the provisioners have written %q, %v; want %q", text, err, c.want)
			}
		})
	}
}
