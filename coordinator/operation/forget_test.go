package operation_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/graph/plan"
)

// An error in lifecycle.destroy, which is evaluated like any other expression, counted as true: an object that was to
// be kept was destroyed.
func TestAMistakeInLifecycleDestroyDestroysNothing(t *testing.T) {
	block := func(destroy string) string {
		return "locals {\n  no = false\n}\nresource \"fake_thing\" \"a\" {\n  name = \"a\"\n  lifecycle {\n    " +
			"destroy = " + destroy + "\n  }\n}\n"
	}
	for _, mistake := range []string{"nosuch.thing", "var.undeclared", "local.no", "null", `"false"`, "0", "[]",
		`tobool("false")`, "each.key", `sensitive(false)`} {
		t.Run(mistake, func(t *testing.T) {
			e := newEstate(t)
			e.apply(block("false"))
			e.configure(block(mistake))
			for _, mode := range []plan.Mode{plan.Normal, plan.Destroy, plan.RefreshOnly} {
				planned, diags := e.session.Plan(t.Context(), e.state(), plan.Options{Mode: mode})
				if planned != nil || !diags.HasErrors() {
					t.Errorf("mode %d plans %v: %v", mode, planned, diags)
				}
			}
		})
	}
	for constant, want := range map[string]string{"false": "forget fake_thing.a", "1 == 2": "forget fake_thing.a",
		"!false": "delete fake_thing.a"} {
		t.Run(constant, func(t *testing.T) {
			e := newEstate(t)
			e.apply(block(constant))
			e.equal("plan", changes(e.plan(plan.Options{Mode: plan.Destroy})), []string{want})
			// The state stores the setting with the object, so it is also valid when its block, or the module around it, is
			// gone.
			e.configure("")
			e.equal("plan without a block", changes(e.plan(plan.Options{})), []string{want})
		})
	}
}

// A destroy plan gave no reason when it forgot an object because of the stored setting, and warned about that if there
// was a removed block. Nor did it destroy an object whose block no longer had destroy = false. The expected changes are
// those of OpenTofu 1.12.
func TestWhatAnObjectRemembersInADestroyPlan(t *testing.T) {
	const kept = "lifecycle {\n    destroy = false\n  }\n"
	block := func(meta string) string { return "resource \"fake_thing\" \"a\" {\n  name = \"a\"\n  " + meta + "}\n" }
	for sentence, c := range map[string]struct {
		before, after string
		noRefresh     bool
		want          []string
	}{
		"the block says so still": {block(kept), block(kept), false, []string{
			"forget fake_thing.a forgot_because_lifecycle_destroy_in_config"}},
		"the block is gone": {
			block(kept), "", false, []string{"forget fake_thing.a forgot_because_lifecycle_destroy_in_state"},
		},
		"a removed block stands there, which a destroy does not look at": {
			block(kept), "removed {\n  from = fake_thing.a\n  lifecycle {\n    destroy = true\n  }\n}\n", false,
			[]string{"forget fake_thing.a forgot_because_lifecycle_destroy_in_state"}},
		"the block says nothing any more": {block(kept), block(""), false, []string{"delete fake_thing.a "}},
		"the block says nothing any more, and nothing is refreshed": {block(kept), block(""), true, []string{
			"forget fake_thing.a forgot_because_lifecycle_destroy_in_state"}},
		"only one instance still has a place": {block("count = 2\n  " + kept), block("count = 1\n  "), false, []string{
			"delete fake_thing.a[0] ", "forget fake_thing.a[1] forgot_because_lifecycle_destroy_in_state"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			e := newEstate(t)
			e.apply(c.before)
			e.configure(c.after)
			planned, diags := e.session.Plan(t.Context(), e.state(),
				plan.Options{Mode: plan.Destroy, SkipRefresh: c.noRefresh})
			e.clean(diags)
			if says(diags, "Resource will be removed from the state") {
				t.Errorf("a destroy plan warns about a forgotten object: %v", diags)
			}
			var got []string
			for _, ch := range planned.Plan.Changes {
				got = append(got, string(ch.Action)+" "+ch.Addr.String()+" "+string(ch.Reason))
			}
			slices.Sort(got)
			e.equal("plan", got, c.want)
		})
	}
}

// An instance that the configuration no longer contains was forgotten without a message if its block said destroy =
// false, unlike one with only the stored setting.
func TestAPlanWarnsOfAnInstanceThatIsForgotten(t *testing.T) {
	const text = "resource \"fake_thing\" \"a\" {\n  count = N\n  name  = \"a\"\n" +
		"  lifecycle {\n    destroy = false\n  }\n}\n"
	e := newEstate(t)
	e.apply(strings.Replace(text, "N", "2", 1))
	e.configure(strings.Replace(text, "N", "1", 1))
	planned, diags := e.session.Plan(t.Context(), e.state(), plan.Options{})
	e.clean(diags)
	e.equal("plan", changes(planned.Plan), []string{"forget fake_thing.a[1]"})
	if !says(diags, "Resource will be removed from the state") {
		t.Errorf("no diagnostic mentions the forgotten object: %v", diags)
	}
}

// A removed block is the user's latest statement; the stored lifecycle argument of the object overruled it.
func TestARemovedBlockDecidesOverWhatAnObjectRemembers(t *testing.T) {
	e := newEstate(t)
	e.apply("resource \"fake_thing\" \"a\" {\n  name = \"a\"\n  lifecycle {\n    destroy = false\n  }\n}\n")
	e.configure("removed {\n  from = fake_thing.a\n  lifecycle {\n    destroy = true\n  }\n}\n")
	e.equal("plan", changes(e.plan(plan.Options{})), []string{"delete fake_thing.a"})
}

// A forgotten object with create_before_destroy had to wait for its dependents, which wait for the new object: a cycle.
// It is forgotten before the new one is created, and nothing else waits for that.
func TestWhatIsForgottenIsNotCreatedFirst(t *testing.T) {
	text := func(name string) string {
		return `
resource "fake_thing" "base" { name = "base` + name + `" }
resource "fake_thing" "kept" {
  name = "kept` + name + `"
  note = fake_thing.base.id
  lifecycle {
    destroy               = false
    create_before_destroy = true
  }
}
resource "fake_thing" "user" {
  name = "user"
  note = fake_thing.kept.id
}
resource "fake_thing" "first" {
  name = "first` + name + `"
  note = fake_thing.kept.id
  lifecycle { create_before_destroy = true }
}
`
	}
	e := newEstate(t)
	e.apply(text("1"))
	e.configure(text("2"))
	p := e.plan(plan.Options{})
	e.equal("plan", changes(p), []string{"create-delete fake_thing.base", "create-delete fake_thing.first",
		"forget-create fake_thing.kept", "update fake_thing.user"})
	e.cloud.done()
	_, diags := e.tryApply(p)
	e.clean(diags)
	log := e.cloud.done()
	for _, c := range [][2]string{{"create base2", "create kept2"}, {"create kept2", "create first2"},
		{"create kept2", "delete base1"}, {"create first2", "delete first1"}} {
		if i, j := slices.Index(log, c[0]), slices.Index(log, c[1]); i < 0 || j < 0 || i > j {
			t.Errorf("%s is not before %s in the log: %v", c[0], c[1], log)
		}
	}
	if slices.Contains(log, "delete kept1") {
		t.Errorf("an object that had to be kept was destroyed: %v", log)
	}
}
