package operation_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
)

// An operation in progress was recorded as in doubt in the state. When its result arrived, in the same process or in
// the one that resumed the run, the object in doubt was taken for the object from before the operation. So an update
// stayed in doubt although its outcome was known, a replacement recorded the doubt for the old object that it had
// deposed, and operations that had failed or never started stayed in doubt for ever.
func TestAResultThatComesAfterTheRunWasLeftEndsTheDoubt(t *testing.T) {
	const replaced = `
resource "fake_thing" "a" {
  name = "NAME"
  lifecycle { create_before_destroy = true }
}`
	const larger = `
resource "fake_thing" "a" {
  name = "a"
  size = 2
}`
	for claim, c := range map[string]struct {
		before, after string
		deed          string // the one that is in progress when the run is left
		fails         error
		doubtful, end []string // the state while it is in doubt, and when the run was resumed
		failed        bool
		cloud         []string
	}{
		"a creation": {
			after: `resource "fake_thing" "a" { name = "a" }`, deed: "create a",
			doubtful: []string{"fake_thing.a in doubt"}, end: []string{"fake_thing.a"}, cloud: []string{"a"},
		},
		"a creation that failed": {
			after: `resource "fake_thing" "a" { name = "a" }`, deed: "create a", fails: errNoRoom,
			doubtful: []string{"fake_thing.a in doubt"}, failed: true,
		},
		"an update": {
			before: `resource "fake_thing" "a" { name = "a" }`,
			after:  larger, deed: "update a",
			doubtful: []string{"fake_thing.a in doubt"}, end: []string{"fake_thing.a"}, cloud: []string{"a"},
		},
		"an update that failed": {
			before: `resource "fake_thing" "a" { name = "a" }`,
			after:  larger, deed: "update a", fails: errNoRoom,
			doubtful: []string{"fake_thing.a in doubt"}, end: []string{"fake_thing.a"}, failed: true,
			cloud: []string{"a"},
		},
		"a deletion": {
			before: `resource "fake_thing" "a" { name = "a" }`, after: ` `, deed: "delete a",
			doubtful: []string{"fake_thing.a in doubt"},
		},
		"a deletion that failed": {
			before: `resource "fake_thing" "a" { name = "a" }`, after: ` `, deed: "delete a", fails: errNoRoom,
			doubtful: []string{"fake_thing.a in doubt"}, end: []string{"fake_thing.a"}, failed: true,
			cloud: []string{"a"},
		},
		"a replacement": {
			before: strings.Replace(replaced, "NAME", "old", 1), after: strings.Replace(replaced, "NAME", "new", 1),
			deed:     "create new",
			doubtful: []string{"fake_thing.a deposed", "fake_thing.a in doubt"}, end: []string{"fake_thing.a"},
			cloud: []string{"new"},
		},
		"a replacement that failed": {
			before: strings.Replace(replaced, "NAME", "old", 1), after: strings.Replace(replaced, "NAME", "new", 1),
			deed: "create new", fails: errNoRoom,
			doubtful: []string{"fake_thing.a deposed", "fake_thing.a in doubt"}, end: []string{"fake_thing.a"},
			failed: true, cloud: []string{"old"},
		},
		"the deletion of what was replaced": {
			before: strings.Replace(replaced, "NAME", "old", 1), after: strings.Replace(replaced, "NAME", "new", 1),
			deed:     "delete old",
			doubtful: []string{"fake_thing.a", "fake_thing.a deposed"}, end: []string{"fake_thing.a"},
			cloud: []string{"new"},
		},
	} {
		t.Run(claim, func(t *testing.T) {
			e := newEstate(t)
			if c.before != "" {
				e.apply(c.before)
			}
			e.configure(c.after)
			p := e.plan(plan.Options{})
			goOn := make(chan struct{})
			e.cloud.onApply = func(what string) error {
				if what != c.deed {
					return nil
				}
				e.interrupt()
				e.abandon()
				<-goOn
				return c.fails
			}
			left, diags := e.tryApply(p)
			if !diags.HasErrors() {
				t.Fatal("the run did not end while operations were in progress")
			}
			e.equal("state in doubt", existing(e.state()), c.doubtful)
			close(goOn)
			e.cloud.onApply = nil

			e.again()
			runs, err := e.store.Runs(t.Context(), "default")
			e.check(err)
			resumed, diags := e.session.Resume(t.Context(), runs[0], p, "")
			if diags.HasErrors() != c.failed || resumed == nil || len(resumed.Outcome.InDoubt) > 0 ||
				resumed.Run != left.Run {
				t.Fatalf("the resumed run: %v", diags)
			}
			e.equal("state", existing(e.state()), c.end)
			e.equal("cloud", e.cloud.names(), c.cloud)
			for d := range e.state().Doubts() {
				t.Errorf("%s is still in doubt", d.Attempt)
			}
		})
	}
}

// A creation whose provisioners were in progress was treated as a creation with an unknown outcome: the plan refused
// the object, though it can be read, and resolving it as not created removed it from the state.
func TestAnObjectWhoseProvisionersAreInDoubtIsKnown(t *testing.T) {
	e := newEstate(t)
	const text = `
resource "fake_thing" "a" {
  name = "a"
  provisioner "local-exec" { command = "COMMAND" }
}`
	dir := t.TempDir()
	end := filepath.Join(dir, "end")
	over := func() error { return os.WriteFile(end, nil, 0o600) }
	t.Cleanup(func() { e.check(over()) }) // the worker waits for its command
	e.configure(strings.Replace(text, "COMMAND", "touch "+dir+"/begun; until test -e "+end+"; do sleep 0.05; done", 1))
	p := e.plan(plan.Options{})
	left := make(chan struct{})
	go func() { // the test waits for it
		defer close(left)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for range tick.C {
			if _, err := os.Stat(filepath.Join(dir, "begun")); err == nil || t.Context().Err() != nil {
				break
			}
		}
		e.interrupt()
		e.abandon()
	}()
	if _, diags := e.tryApply(p); !diags.HasErrors() {
		t.Fatal("the run did not end while operations were in progress")
	}
	<-left
	o := e.object("fake_thing.a")
	if o.Doubt == nil || o.Doubt.Operation != "provision" || o.Attrs == nil {
		t.Fatalf("the object is %+v", o)
	}
	e.again()
	e.check(over())
	e.equal("the next plan", changes(e.plan(plan.Options{})), []string{"delete-create fake_thing.a"})
}

// An update in doubt that had taken effect stayed in doubt in a workspace of a service: the plan that read the object
// found nothing to change, so nothing was applied, and nothing recorded what the plan had found.
func TestAPlanThatEndsADoubtIsApplied(t *testing.T) {
	const text = `
resource "fake_thing" "a" {
  name = "a"
  size = 2
}`
	e := newEstate(t)
	e.apply(text)
	doubtful := *e.object("fake_thing.a")
	doubtful.Status = state.InDoubt
	doubtful.Doubt = &state.Doubt{Operation: "update", Attempt: "a1", Pool: "default", Run: "r1"}
	at, diags := addr.ParseInstance("fake_thing.a")
	e.clean(diags)
	e.check(e.store.Commit(t.Context(), journal.Commit{Workspace: "default", EndVersion: true, Changes: []state.Change{
		state.SetObject{Addr: at, Provider: e.state().ProviderOf(at), Object: &doubtful}}}))
	e.equal("state", existing(e.state()), []string{"fake_thing.a in doubt"})
	p := e.plan(plan.Options{})
	if p.HasChanges() || !p.EndsDoubts || !p.Pending() {
		t.Errorf("the plan changes something: %v; it ends a doubt: %v", p.HasChanges(), p.EndsDoubts)
	}
	_, diags = e.tryApply(p)
	e.clean(diags)
	e.equal("state", existing(e.state()), []string{"fake_thing.a"})
	if p := e.plan(plan.Options{}); p.EndsDoubts || p.Pending() {
		t.Error("another plan ends the doubt again")
	}
}
