package operation_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
)

// reasons lists the changes of a plan with their reasons, sorted.
func reasons(p *plan.Plan) []string {
	var out []string
	for _, c := range p.Changes {
		if c.Action != plan.NoOp {
			out = append(out, strings.TrimSpace(string(c.Action)+" "+c.Addr.String()+" "+string(c.Reason)))
		}
	}
	slices.Sort(out)
	return out
}

// checks lists the check results of a state or a plan.
func checks(list []state.CheckResult) []string {
	var out []string
	for _, r := range list {
		for _, o := range r.Objects {
			out = append(out, r.Kind+" "+o.Address+" "+string(o.Status))
		}
		if len(r.Objects) == 0 {
			out = append(out, r.Kind+" "+r.Config+" "+string(r.Status)+" as a whole")
		}
	}
	return out
}

// block is a block of a resource, line by line.
func block(name string, lines ...string) string {
	return "resource \"fake_thing\" \"" + name + "\" {\n" + strings.Join(lines, "\n") + "\n}\n"
}

// triggered returns a configuration in which an attribute of b replaces a.
func triggered(by string) string {
	return block("b", `name = "b"`, `lifecycle {`, `replace_triggered_by = [fake_thing.a.`+by+`]`, `}`)
}

// The words are those of OpenTofu's JSON form, for the cases that its documentation describes.
func TestAPlanSaysWhyItDestroysAndReplaces(t *testing.T) {
	for sentence, c := range map[string]struct {
		before, after string
		want          []string
		destroys      plan.Mode
	}{
		"the block is gone": {`resource "fake_thing" "a" { name = "a" }`, ``,
			[]string{"delete fake_thing.a delete_because_no_resource_config"}, plan.Normal},
		"the count is smaller": {block("a", `count = 2`, `name = "a"`), block("a", `count = 1`, `name = "a"`),
			[]string{"delete fake_thing.a[1] delete_because_count_index"}, plan.Normal},
		"a key is gone": {
			block("a", `for_each = toset(["x", "y"])`, `name = each.key`),
			block("a", `for_each = toset(["x"])`, `name = each.key`),
			[]string{`delete fake_thing.a["y"] delete_because_each_key`}, plan.Normal},
		"count became for_each": {
			block("a", `count = 1`, `name = "a"`), block("a", `for_each = toset(["x"])`, `name = each.key`),
			[]string{`create fake_thing.a["x"]`, "delete fake_thing.a[0] delete_because_wrong_repetition"},
			plan.Normal},
		"it is not enabled any more": {
			`resource "fake_thing" "a" { name = "a" }`, block("a", `name = "a"`, `lifecycle {`, `enabled = false`, `}`),
			[]string{"delete fake_thing.a delete_because_enabled_false"}, plan.Normal},
		"it moved to where nothing is": {
			`resource "fake_thing" "a" { name = "a" }`, "moved {\n from = fake_thing.a\n to = fake_thing.b\n}",
			[]string{"delete fake_thing.b delete_because_no_move_target"}, plan.Normal},
		"an argument cannot be changed": {
			`resource "fake_thing" "a" { name = "a" }`, `resource "fake_thing" "a" { name = "b" }`,
			[]string{"delete-create fake_thing.a replace_because_cannot_update"}, plan.Normal},
		"a replaced one is not to be destroyed": {
			block("a", `name = "a"`, `lifecycle {`, `destroy = false`, `}`),
			block("a", `name = "b"`, `lifecycle {`, `destroy = false`, `}`),
			[]string{"forget-create fake_thing.a replace_because_cannot_update"}, plan.Normal},
		"what triggers it changes": {
			block("a", `name = "a"`) + triggered("size"),
			block("a", `name = "a"`, `size = 2`) + triggered("size"),
			[]string{"delete-create fake_thing.b replace_by_triggers", "update fake_thing.a"}, plan.Normal},
		"another attribute than what triggers it changes": {
			block("a", `name = "a"`) + triggered("note"),
			block("a", `name = "a"`, `size = 2`) + triggered("note"),
			[]string{"update fake_thing.a"}, plan.Normal},
		"only what is sensitive changes": {
			`resource "fake_thing" "a" { name = "a" }`, `resource "fake_thing" "a" { name = sensitive("a") }`,
			[]string{"update fake_thing.a"}, plan.Normal},
		"a destroy gives no reasons": {`resource "fake_thing" "a" { name = "a" }`,
			`resource "fake_thing" "a" { name = "a" }`,
			[]string{"delete fake_thing.a"}, plan.Destroy},
	} {
		t.Run(sentence, func(t *testing.T) {
			e := newEstate(t)
			e.apply(c.before)
			e.configure(c.after)
			p := e.plan(plan.Options{Mode: c.destroys})
			e.equal("plan", reasons(p), c.want)
			_, diags := e.tryApply(p)
			e.clean(diags)
			if left := changes(e.plan(plan.Options{})); len(left) > 0 && c.destroys == plan.Normal {
				t.Errorf("the next plan still has %v", left)
			}
		})
	}
}

// The behaviour that OpenTofu documents for import blocks (language/import).
func TestImportBlocks(t *testing.T) {
	for sentence, c := range map[string]struct {
		text string
		want []string
		says string
	}{
		"an object is imported as it is": {"import {\n to = fake_thing.a\n id = \"id1\"\n}\n" +
			block("a", `name = "old"`),
			[]string{"fake_thing.a"}, ""},
		"and changed where the block differs": {
			"import {\n to = fake_thing.a\n id = \"id1\"\n}\n" + block("a", `name = "old"`, `size = 3`),
			[]string{"fake_thing.a"}, ""},
		"several by for_each": {
			"import {\n for_each = { x = \"id1\", y = \"id2\" }\n to = fake_thing.a[each.key]\n id = each.value\n}\n" +
				block("a", `for_each = { x = "old", y = "older" }`, `name = each.value`),
			[]string{`fake_thing.a["x"]`, `fake_thing.a["y"]`}, ""},
		"what does not exist cannot be imported": {
			"import {\n to = fake_thing.a\n id = \"nosuch\"\n}\n" + block("a", `name = "old"`),
			nil, "there is no object of that ID"},
		"an instance that the block has not": {
			"import {\n to = fake_thing.a[5]\n id = \"id1\"\n}\n" + block("a", `count = 1`, `name = "old"`),
			nil, "Configuration for import target does not exist"},
		"by an identity that the type has not": {
			"import {\n to = fake_thing.a\n identity = { name = \"old\" }\n}\n" + block("a", `name = "old"`),
			nil, "import by id"},
	} {
		t.Run(sentence, func(t *testing.T) {
			e := newEstate(t)
			for id, name := range map[string]string{"id1": "old", "id2": "older"} {
				e.cloud.objects[id] = cty.ObjectVal(map[string]cty.Value{
					"id": cty.StringVal(id), "name": cty.StringVal(name), "size": cty.NullVal(cty.Number),
					"note": cty.NullVal(cty.String), "secret": cty.NullVal(cty.String),
				})
			}
			e.configure(c.text)
			planned, diags := e.session.Plan(t.Context(), e.state(), plan.Options{})
			if c.says != "" {
				if !diags.HasErrors() || !says(diags, c.says) {
					t.Errorf("no diagnostic contains %q: %v", c.says, diags)
				}
				return
			}
			e.clean(diags)
			applied, diags := e.tryApply(planned.Plan)
			e.clean(diags)
			e.equal("state", existing(e.state()), c.want)
			if applied.Counts.Imported != len(c.want) || applied.Counts.Added != 0 || e.cloud.made != 0 {
				t.Errorf("counted: %+v", applied.Counts)
			}
			e.equal("the next plan", changes(e.plan(plan.Options{})), nil)
		})
	}
}

// As OpenTofu documents: creation-time provisioners run once, destroy-time ones before the object is destroyed;
// on_failure = continue only warns, and a tainted object's destroy-time provisioners do not run.
func TestProvisionersRunWhenTheyShould(t *testing.T) {
	dir := t.TempDir()
	ran := func() []string {
		text, _ := os.ReadFile(filepath.Join(dir, "log")) // none ran yet
		_ = os.Remove(filepath.Join(dir, "log"))
		return strings.Fields(string(text))
	}
	provisioned := func(name string) string {
		return strings.NewReplacer("NAME", name, "LOG", filepath.Join(dir, "log")).Replace(`
resource "fake_thing" "a" {
  name = "NAME"
  provisioner "local-exec" { command = "echo made-${self.name} >> LOG" }
  provisioner "local-exec" {
    command    = "echo failed >> LOG; exit 3"
    on_failure = continue
  }
  provisioner "local-exec" {
    when    = destroy
    command = "echo ending-${self.name} >> LOG"
  }
}`)
	}
	e := newEstate(t)
	e.apply(provisioned("one"))
	e.equal("creating", ran(), []string{"made-one", "failed"})
	e.apply(provisioned("one"))
	e.equal("changing nothing", ran(), nil)
	e.apply(provisioned("two"))
	e.equal("replacing", ran(), []string{"ending-one", "made-two", "failed"})
	e.apply(strings.Replace(`
removed {
  from = fake_thing.a
  lifecycle { destroy = true }
  provisioner "local-exec" {
    when    = destroy
    command = "echo removed-${self.name} >> LOG"
  }
}`, "LOG", filepath.Join(dir, "log"), 1))
	e.equal("by a removed block", ran(), []string{"removed-two"})
	e.equal("cloud", e.cloud.names(), nil)

	e.configure(strings.Replace(provisioned("three"), "echo ending", "exit 4; echo ending", 1))
	_, diags := e.tryApply(e.plan(plan.Options{}))
	e.clean(diags)
	_, diags = e.tryApply(e.plan(plan.Options{Mode: plan.Destroy}))
	if !diags.HasErrors() {
		t.Error("a destroy-time provisioner that failed did not keep the object")
	}
	e.equal("cloud", e.cloud.names(), []string{"three"})
}

func TestTargetsOfADestroyTakeAlongWhatDependsOnThem(t *testing.T) {
	const text = `
resource "fake_thing" "a" { name = "a" }
resource "fake_thing" "b" { name = fake_thing.a.id }
resource "fake_thing" "c" { name = fake_thing.b.id }
resource "fake_thing" "other" { name = "other" }
output "b" { value = fake_thing.b.id }
output "k" { value = 1 }
`
	target := func(name string) []addr.Target {
		at, diags := addr.ParseTarget(name)
		if diags.HasErrors() {
			t.Fatal(diags.Err())
		}
		return []addr.Target{at}
	}
	for sentence, c := range map[string]struct {
		o    plan.Options
		want []string
	}{
		"a target, and what depends on it": {
			plan.Options{Targets: target("fake_thing.b")}, []string{"delete fake_thing.b",
				"delete fake_thing.c"},
		},
		"all but an exclusion, and what that depends on": {plan.Options{Excludes: target("fake_thing.b")},
			[]string{"delete fake_thing.c", "delete fake_thing.other"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			e := newEstate(t)
			e.apply(text)
			c.o.Mode = plan.Destroy
			p, diags := e.tryPlan(c.o)
			e.clean(diags)
			e.equal("plan", changes(p), c.want)
			_, diags = e.tryApply(p)
			e.clean(diags)
		})
	}
}

// A targeted destroy also destroyed what the target itself depends on by now, because the state recorded that the
// dependency was once the other way round. And with a block that has no object yet, which makes an ordinary plan
// necessary before the destroy, neither the targets nor the exclusions of the destroy took the blocks into account.
func TestADestroyOfAPartTakesTheBlocksIntoAccountIfItRefreshes(t *testing.T) {
	thing := func(name string, on ...string) string {
		return fmt.Sprintf("resource \"fake_thing\" %q {\n  name = %[1]q\n  depends_on = [%s]\n}\n", name,
			strings.Join(on, ", "))
	}
	const a, b, c = "fake_thing.a", "fake_thing.b", "fake_thing.c"
	for sentence, x := range map[string]struct {
		was, is, want string
		skipRefresh   bool
		exclude       string // instead of the target a
	}{
		"the dependency is as it was": {
			was: thing("a") + thing("b", a), is: thing("a") + thing("b", a), want: "delete a, delete b",
		},
		"the dependency is gone from the configuration": {
			was: thing("a") + thing("b", a), is: thing("a") + thing("b"), want: "delete a, delete b",
		},
		"the dependency was turned round": {
			was: thing("a") + thing("b", a), is: thing("a", b) + thing("b"), want: "delete a",
		},
		"it was turned round, and nothing is refreshed": {
			was: thing("a") + thing("b", a), is: thing("a", b) + thing("b"), want: "delete a, delete b",
			skipRefresh: true,
		},
		"a chain was turned round": {
			was: thing("a") + thing("b", a) + thing("c", b), is: thing("a", b) + thing("b", c) + thing("c"),
			want: "delete a",
		},
		"another object still depends on the target": {
			was: thing("a") + thing("b", a) + thing("c", b), is: thing("a", b) + thing("b") + thing("c", b),
			want: "delete a, delete c",
		},
		"it was turned round, by way of a new block": {
			was: thing("a") + thing("b", a), is: thing("a", "fake_thing.n") + thing("n", b) + thing("b"),
			want: "delete a",
		},
		"an object that is kept depends on another one by now": {
			was: thing("a") + thing("b") + thing("c", b), is: thing("a") + thing("b", a) + thing("c", b), exclude: c,
			want: "",
		},
		"it does, and there is a new block": {
			was: thing("a") + thing("b") + thing("c", b),
			is:  thing("a") + thing("b", a) + thing("c", "fake_thing.n") + thing("n", b), exclude: c, want: "",
		},
		"it does, and nothing is refreshed": {
			was: thing("a") + thing("b") + thing("c", b), is: thing("a") + thing("b", a) + thing("c", b), exclude: c,
			want: "delete a", skipRefresh: true,
		},
	} {
		e := newEstate(t)
		e.apply(x.was)
		e.configure(x.is)
		o := plan.Options{Mode: plan.Destroy, SkipRefresh: x.skipRefresh}
		target, _ := addr.ParseTarget(a)
		excluded, _ := addr.ParseTarget(x.exclude)
		if o.Targets = []addr.Target{target}; x.exclude != "" {
			o.Targets, o.Excludes = nil, []addr.Target{excluded}
		}
		p, diags := e.tryPlan(o)
		e.clean(diags)
		got := strings.ReplaceAll(strings.Join(changes(p), ", "), "fake_thing.", "")
		if got != x.want {
			t.Errorf("%s: %s, want %s", sentence, got, x.want)
		}
		_, diags = e.tryApply(p)
		e.clean(diags)
	}
}

func TestAnObjectWhoseCreationIsInDoubtIsNotPlannedOver(t *testing.T) {
	e := newEstate(t)
	e.configure(`resource "fake_thing" "a" { name = "a" }`)
	begun, goOn := make(chan struct{}), make(chan struct{})
	e.cloud.onApply = func(string) error {
		close(begun)
		<-goOn
		return nil
	}
	t.Cleanup(func() { close(goOn) })
	h := e.applying()
	<-begun
	h.Leave()
	h.Wait()
	_, diags := e.tryPlan(plan.Options{})
	for _, want := range []string{
		"Resource instance is in doubt", "operation: create", `"name":"a"`, "runs resolve 'fake_thing.a' -not-created",
	} {
		if !says(diags, want) {
			t.Errorf("no diagnostic contains %q: %v", want, diags)
		}
	}
}
