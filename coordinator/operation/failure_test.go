package operation_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
)

var errNoRoom = errors.New("no room")

func TestAFailingCreateSkipsItsDependentsOnlyAndTheStateIsTrue(t *testing.T) {
	e := newEstate(t)
	e.configure(`
resource "fake_thing" "bad" { name = "bad" }
resource "fake_thing" "after" { name = "after-${fake_thing.bad.id}" }
resource "fake_thing" "last" {
  name       = "last"
  depends_on = [fake_thing.after]
}
resource "fake_thing" "other" { name = "other" }
resource "fake_thing" "beside" { name = "beside-${fake_thing.other.id}" }
`)
	e.cloud.onCreate = func(_ context.Context, name string) (bool, error) {
		if name == "bad" {
			return false, errNoRoom
		}
		return false, nil
	}
	applied, diags := e.tryApply(e.plan(plan.Options{}))
	if !says(diags, "no room") {
		t.Errorf("the diagnostics are %v", diags)
	}
	e.equal("state", existing(e.state()), []string{"fake_thing.beside", "fake_thing.other"})
	var failed, skipped []string
	for _, f := range applied.Outcome.Failed {
		failed = append(failed, f.Address)
	}
	for _, s := range applied.Outcome.Skipped {
		if strings.HasPrefix(s.Address, "fake_thing.") {
			skipped = append(skipped, s.Address)
		}
	}
	slices.Sort(skipped)
	e.equal("failed", failed, []string{"fake_thing.bad"})
	e.equal("skipped", slices.Compact(skipped), []string{"fake_thing.after", "fake_thing.last"})
	if applied.Outcome.Status != "failed" {
		t.Errorf("the run is %s", applied.Outcome.Status)
	}

	e.cloud.onCreate = nil
	e.cloud.done()
	_, diags = e.tryApply(e.plan(plan.Options{}))
	e.clean(diags)
	if n := len(e.cloud.done()); n != 3 {
		t.Errorf("the second apply did %d things, want 3", n)
	}
}

func TestAHalfCreatedObjectIsTaintedAndReplaced(t *testing.T) {
	e := newEstate(t)
	e.configure(`resource "fake_thing" "a" { name = "a" }`)
	e.cloud.onCreate = func(context.Context, string) (bool, error) { return true, errNoRoom }
	_, diags := e.tryApply(e.plan(plan.Options{}))
	if !says(diags, "no room") {
		t.Errorf("the diagnostics are %v", diags)
	}
	e.equal("state", existing(e.state()), []string{"fake_thing.a tainted"})
	e.cloud.onCreate = nil
	p := e.plan(plan.Options{})
	if len(p.Changes) != 1 || p.Changes[0].Action != plan.DeleteThenCreate ||
		p.Changes[0].Reason != plan.ReplaceBecauseTainted {
		t.Errorf("the plan is %v", changes(p))
	}
	_, diags = e.tryApply(p)
	e.clean(diags)
	e.equal("state", existing(e.state()), []string{"fake_thing.a"})
}

func TestAFailedReplacementWithCreateBeforeDestroyKeepsTheOldObject(t *testing.T) {
	e := newEstate(t)
	text := func(name string) string {
		return `resource "fake_thing" "a" {
  name = "` + name + `"
  lifecycle { create_before_destroy = true }
}`
	}
	e.apply(text("old"))
	e.configure(text("new"))
	e.cloud.onCreate = func(context.Context, string) (bool, error) { return false, errNoRoom }
	_, diags := e.tryApply(e.plan(plan.Options{}))
	if !says(diags, "no room") {
		t.Errorf("the diagnostics are %v", diags)
	}
	e.equal("state", existing(e.state()), []string{"fake_thing.a"})
	if id := e.attribute("fake_thing.a", "id"); id != "id1" {
		t.Errorf("the object is %v, want the old one", id)
	}
	e.equal("cloud", e.cloud.names(), []string{"old"})
}

func TestAHalfReplacementWithCreateBeforeDestroyIsClearedUpByTheNextApply(t *testing.T) {
	e := newEstate(t)
	text := func(name string) string {
		return `resource "fake_thing" "a" {
  name = "` + name + `"
  lifecycle { create_before_destroy = true }
}`
	}
	e.apply(text("old"))
	e.configure(text("new"))
	e.cloud.onCreate = func(context.Context, string) (bool, error) { return true, errNoRoom }
	_, diags := e.tryApply(e.plan(plan.Options{}))
	if !says(diags, "no room") {
		t.Errorf("the diagnostics are %v", diags)
	}
	e.equal("state", existing(e.state()), []string{"fake_thing.a deposed", "fake_thing.a tainted"})
	e.cloud.onCreate = nil
	_, diags = e.tryApply(e.plan(plan.Options{}))
	e.clean(diags)
	e.equal("state", existing(e.state()), []string{"fake_thing.a"})
	e.equal("cloud", e.cloud.names(), []string{"new"})
}

func TestAFailingProvisionerTaintsTheObject(t *testing.T) {
	e := newEstate(t)
	e.configure(`resource "fake_thing" "a" {
  name = "a"
  provisioner "local-exec" { command = "exit 3" }
}
resource "fake_thing" "b" { name = "on-${fake_thing.a.id}" }`)
	_, diags := e.tryApply(e.plan(plan.Options{}))
	if !says(diags, "exit") {
		t.Errorf("the diagnostics are %v", diags)
	}
	e.equal("state", existing(e.state()), []string{"fake_thing.a tainted"})
}

func TestAnInterruptedRunIsResumedAndNothingIsMadeTwice(t *testing.T) {
	e := newEstate(t)
	e.configure(`
resource "fake_thing" "a" { name = "a" }
resource "fake_thing" "b" {
  count = 3
  name  = "b${count.index}-${fake_thing.a.id}"
}
resource "fake_thing" "c" { name = "c-${fake_thing.b[1].id}" }
output "c" { value = fake_thing.c.name }
`)
	p := e.plan(plan.Options{})
	e.cloud.onCreate = func(ctx context.Context, name string) (bool, error) {
		if name == "a" {
			e.interrupt()
			select {
			case <-e.cloud.stopped: // the worker was told, so the run has taken notice
			case <-ctx.Done():
			}
		}
		return false, nil
	}
	applied, diags := e.tryApply(p)
	if !applied.Outcome.Interrupted || applied.Outcome.Status != "interrupted" ||
		!says(diags, "runs resume "+applied.Run) {
		t.Fatalf("the run is %s: %v", applied.Outcome.Status, diags)
	}
	e.equal("state", existing(e.state()), []string{"fake_thing.a"})
	e.cloud.onCreate = nil

	runs, err := e.store.Runs(t.Context(), "default")
	e.check(err)
	if len(runs) != 1 || runs[0].ID != applied.Run {
		t.Fatalf("the runs are %v", runs)
	}
	e.again()
	resumed, diags := e.session.Resume(t.Context(), runs[0], p, "")
	e.clean(diags)
	if resumed.Outcome.Status != "done" || resumed.Run != applied.Run {
		t.Errorf("the resumed run %s is %s", resumed.Run, resumed.Outcome.Status)
	}
	e.equal("state", existing(e.state()), []string{"fake_thing.a", "fake_thing.b[0]", "fake_thing.b[1]",
		"fake_thing.b[2]", "fake_thing.c"})
	if e.cloud.made != 5 || e.state().Outputs["c"] == nil {
		t.Errorf("%d objects were created, want 5; the outputs are %v", e.cloud.made, e.state().Outputs)
	}
	if again := e.plan(plan.Options{}); again.Applyable() {
		t.Errorf("a second plan has the changes %v", changes(again))
	}
}

// A resumed run reported that everything was applied, and did not mention failures before the interruption.
func TestAResumedRunTellsWhatFailedBefore(t *testing.T) {
	e := newEstate(t)
	e.configure(`
resource "fake_thing" "a" { name = "a" }
resource "fake_thing" "b" { name = "b" }
resource "fake_thing" "c" { name = "c-${fake_thing.b.id}" }
`)
	p := e.plan(plan.Options{})
	var begun sync.WaitGroup
	begun.Add(2)
	e.cloud.onCreate = func(ctx context.Context, name string) (bool, error) {
		begun.Done()
		begun.Wait()
		if name == "b" {
			e.interrupt()
		}
		select {
		case <-e.cloud.stopped:
		case <-ctx.Done():
		}
		if name == "a" {
			return false, errors.New("it was asked to stop")
		}
		return false, nil
	}
	applied, diags := e.tryApply(p)
	if !applied.Outcome.Interrupted || !says(diags, "it was asked to stop") {
		t.Fatalf("the run is %s: %v", applied.Outcome.Status, diags)
	}
	e.cloud.onCreate = nil
	runs, err := e.store.Runs(t.Context(), "default")
	e.check(err)
	e.again()
	resumed, diags := e.session.Resume(t.Context(), runs[0], p, "")
	if resumed.Outcome.Status != "failed" || !diags.HasErrors() || !says(diags, "it was asked to stop") {
		t.Errorf("the resumed run is %s: %v", resumed.Outcome.Status, diags)
	}
	e.equal("state", existing(e.state()), []string{"fake_thing.b", "fake_thing.c"})
}

func TestAnInterruptIsHeardWhileAProviderIsAskedForItsSchemas(t *testing.T) {
	e := newEstate(t)
	e.configure(`resource "fake_thing" "a" { name = "a" }`)
	answer := make(chan struct{})
	t.Cleanup(func() { close(answer) })
	e.cloud.onSchemas = func() {
		e.interrupt()
		<-answer
	}
	planned, diags := e.session.Plan(t.Context(), e.state(), plan.Options{})
	if planned != nil || !says(diags, "The command was interrupted") {
		t.Errorf("the plan is %v, the diagnostics are %v", planned, diags)
	}
}

func TestAnInstanceStartsWhenTheInstanceThatItNeedsIsDone(t *testing.T) {
	e := newEstate(t)
	e.configure(`
resource "fake_thing" "a" {
  count = 2
  name  = "a${count.index}"
}
resource "fake_thing" "b" {
  count = 2
  name  = "b${count.index}"
  note  = fake_thing.a[count.index].id
}
`)
	p := e.plan(plan.Options{})
	begun := make(chan struct{})
	e.cloud.onCreate = func(ctx context.Context, name string) (bool, error) {
		switch name {
		case "b0":
			close(begun)
		case "a1":
			select {
			case <-begun:
			case <-time.After(4 * time.Second):
				return false, errors.New("b[0] waits for a[1]")
			}
		}
		return false, nil
	}
	_, diags := e.tryApply(p)
	e.clean(diags)
}

func TestTargetsAndExcludes(t *testing.T) {
	const text = `
resource "fake_thing" "a" { name = "a" }
resource "fake_thing" "b" { name = "on-${fake_thing.a.id}" }
resource "fake_thing" "c" { name = "on-${fake_thing.b.id}" }
resource "fake_thing" "d" {
  count = 2
  name  = "d${count.index}"
}
resource "fake_thing" "e" { name = "on-${fake_thing.d[0].id}" }
`
	for sentence, c := range map[string]struct {
		targets, excludes []string
		want              []string
	}{
		"a target comes with what it needs, not with what needs it": {
			targets: []string{"fake_thing.b"}, want: []string{"fake_thing.a", "fake_thing.b"}},
		"one instance can be a target": {
			targets: []string{"fake_thing.d[1]"}, want: []string{"fake_thing.d[1]"}},
		"an exclude goes with what needs it, not with what it needs": {
			excludes: []string{"fake_thing.b"}, want: []string{"fake_thing.a", "fake_thing.d[0]", "fake_thing.d[1]",
				"fake_thing.e"}},
		"one instance can be excluded, and goes with all that needs an instance of the resource": {
			excludes: []string{"fake_thing.d[1]"}, want: []string{"fake_thing.a", "fake_thing.b", "fake_thing.c",
				"fake_thing.d[0]"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			e := newEstate(t)
			e.configure(text)
			parse := func(texts []string) (out []addr.Target) {
				for _, text := range texts {
					target, diags := addr.ParseTarget(text)
					e.clean(diags)
					out = append(out, target)
				}
				return out
			}
			p, diags := e.tryPlan(plan.Options{Targets: parse(c.targets), Excludes: parse(c.excludes)})
			e.clean(diags)
			if !says(diags, "Resource targeting is in effect") {
				t.Errorf("the diagnostics are %v", diags)
			}
			_, diags = e.tryApply(p)
			e.clean(diags)
			if !says(diags, "Applied changes may be incomplete") && len(p.Targets) > 0 {
				t.Errorf("the diagnostics of the apply are %v", diags)
			}
			e.equal("state", existing(e.state()), c.want)
		})
	}
}

// An output about all instances of a resource was unknown until the apply, and one of an instance that does not exist
// was not refused, because instances that a target leaves out counted as instances to come.
func TestInstancesThatATargetLeavesOutAreNotThere(t *testing.T) {
	const text = `
resource "fake_thing" "c" {
  count = 3
  name  = "c${count.index}"
}
resource "fake_thing" "f" {
  for_each = toset(["x", "y"])
  name     = each.key
}
output "count" { value = length(fake_thing.c) }
output "keys" { value = keys(fake_thing.f) }
`
	target := func(name string) []addr.Target {
		at, diags := addr.ParseTarget(name)
		if diags.HasErrors() {
			t.Fatal(diags.Err())
		}
		return []addr.Target{at}
	}
	e := newEstate(t)
	e.configure(text)
	for _, step := range []struct {
		targets []addr.Target
		count   int64
		keys    []string
	}{
		{target("fake_thing.c[0]"), 1, nil},
		{target("fake_thing.c[1]"), 2, nil},
		{target(`fake_thing.f["y"]`), 2, []string{"y"}},
		{nil, 3, []string{"x", "y"}},
	} {
		p, diags := e.tryPlan(plan.Options{Targets: step.targets})
		e.clean(diags)
		for _, o := range p.Outputs {
			switch o.Name {
			case "count":
				if !o.After.RawEquals(cty.NumberIntVal(step.count)) {
					t.Errorf("with %v, the count is %#v", step.targets, o.After)
				}
			case "keys":
				if !o.After.IsWhollyKnown() || o.After.LengthInt() != len(step.keys) {
					t.Errorf("with %v, the keys are %#v", step.targets, o.After)
				}
			}
		}
		_, diags = e.tryApply(p)
		e.clean(diags)
	}
	// An instance that has no place any more stays if the target leaves it out, and counts.
	e.configure(strings.Replace(strings.Replace(text, "count = 3", "count = 1", 1), `"x", "y"`, `"y"`, 1))
	p, diags := e.tryPlan(plan.Options{Targets: target("fake_thing.c[2]")})
	e.clean(diags)
	e.equal("plan", changes(p), []string{"delete fake_thing.c[2]"})
	_, diags = e.tryApply(p)
	e.clean(diags)
	if n := e.state().Outputs["count"].Value; !n.RawEquals(cty.NumberIntVal(2)) {
		t.Errorf("the count is %#v while c[1] exists", n)
	}
	if keys := e.state().Outputs["keys"].Value; keys.LengthInt() != 2 {
		t.Errorf("the keys are %#v", keys)
	}
	missing := newEstate(t)
	missing.configure(text + `output "missing" { value = fake_thing.c[2].id }`)
	_, diags = missing.tryPlan(plan.Options{Targets: target("fake_thing.c[0]")})
	if !says(diags, "Invalid index") {
		t.Errorf("a reference to an instance that does not exist is accepted: %v", diags)
	}
}
