package operation_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/wire"
)

// post is what the action fake_send does.
type post struct {
	// during is called, if it is not nil, before a message is sent. If it returns an error, the message is not sent.
	during func(message string) error
	// lost makes the provider end before it answers; the message is sent.
	lost bool
}

var sendConfig = schema.Schema{Block: &schema.Block{Attributes: map[string]*schema.Attribute{
	"message": {Type: cty.String, Required: true},
	"secret":  {Type: cty.String, Optional: true, WriteOnly: true},
}}}

// ValidateActionConfig refuses the message "invalid".
func (c *cloud) ValidateActionConfig(_ context.Context, _ string, config cty.Value) diag.List {
	return refuse(config, "invalid", "Invalid message")
}

// PlanAction refuses the message "impossible".
func (c *cloud) PlanAction(_ context.Context, _ string, config cty.Value) diag.List {
	return refuse(config, "impossible", "Impossible message")
}

func refuse(config cty.Value, message, summary string) diag.List {
	if m := config.GetAttr("message"); m.IsKnown() && m.AsString() == message {
		return diag.List{{Severity: diag.Error, Summary: summary, Path: cty.GetAttrPath("message")}}
	}
	return nil
}

// InvokeAction notes the message among the operations.
func (c *cloud) InvokeAction(_ context.Context, _ string, config cty.Value, progress func(string)) diag.List {
	message := config.GetAttr("message").AsString()
	if s := config.GetAttr("secret"); !s.IsNull() {
		message += " " + s.AsString()
	}
	progress("sending " + message)
	if c.sends.during != nil {
		if err := c.sends.during(message); err != nil {
			return diag.Errors("not sent", err.Error(), nil)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.log = append(c.log, "send "+message)
	if c.sends.lost {
		d := diag.New(diag.Error, "Plugin did not respond", "It ended.", nil)
		d.Extra = &provider.Lost{Reason: "the plugin ended"}
		return diag.List{d}
	}
	return nil
}

func newPost(t *testing.T) *estate {
	t.Helper()
	e := newEstate(t)
	e.cloud.sends = &post{}
	return e
}

// invocations lists the planned invocations of a plan, in order.
func invocations(p *plan.Plan) []string {
	var out []string
	for _, i := range p.Invocations {
		text := i.Addr.String()
		if t := i.Trigger; t != nil {
			text += fmt.Sprintf(" %s %s %d.%d", t.Event, t.Resource, t.Block, t.Index)
		}
		out = append(out, text)
	}
	return out
}

// triggering is a resource whose events trigger messages, and one that depends on it.
const triggering = `
resource "fake_thing" "a" {
  name = "NAME"
  size = SIZE
  lifecycle {
    action_trigger {
      events  = [before_create, before_update, before_destroy]
      actions = [action.fake_send.before]
    }
    action_trigger {
      events  = [after_create, after_update, after_destroy]
      actions = [action.fake_send.after, action.fake_send.last]
    }
    LIFE
  }
}
resource "fake_thing" "b" {
  name = "b"
  note = "${fake_thing.a.id}${fake_thing.a.size}"
}
action "fake_send" "before" {
  config {
    message = "before ${caller.name} ${caller.size}"
  }
}
action "fake_send" "after" {
  config {
    message = "after ${caller.id}"
  }
}
action "fake_send" "last" {
  config {
    message = "last"
  }
}
`

func trigger(name, size, life string) string {
	return strings.NewReplacer("NAME", name, "SIZE", size, "LIFE", life).Replace(triggering)
}

func TestActionsAreInvokedAroundTheChangeThatTriggersThem(t *testing.T) {
	first := trigger("a", "1", "")
	for claim, c := range map[string]struct {
		before, now string
		mode        plan.Mode
		want        []string
	}{
		"a creation": {"", first, plan.Normal,
			[]string{"send before a 1", "create a", "send after id1", "send last", "create b"}},
		"an update": {first, trigger("a", "2", ""), plan.Normal,
			[]string{"send before a 2", "update a", "send after id1", "send last", "update b"}},
		"no change": {first, first, plan.Normal, nil},
		"a destroy": {first, first, plan.Destroy,
			[]string{"delete b", "send before a 1", "delete a", "send after id1", "send last"}},
		"a replacement": {first, trigger("c", "1", ""), plan.Normal, []string{
			"send before a 1", "delete a", "send after id1", "send last",
			"send before c 1", "create c", "send after id3", "send last", "update b"}},
		"a replacement that creates first": {first, trigger("c", "1", "create_before_destroy = true"), plan.Normal, []string{
			"send before c 1", "create c", "send after id3", "send last", "update b",
			"send before a 1", "delete a", "send after id1", "send last"}},
	} {
		t.Run(claim, func(t *testing.T) {
			e := newPost(t)
			if c.before != "" {
				e.apply(c.before)
			}
			e.configure(c.now)
			_, diags := e.tryApply(e.plan(plan.Options{Mode: c.mode}))
			e.clean(diags)
			e.equal("operations", e.cloud.done(), c.want)
			if got := e.state(); len(got.Doubted()) > 0 {
				t.Errorf("in doubt are %v", got.Doubted())
			}
			for abs := range e.state().Resources {
				if abs.Resource.Mode == addr.Action {
					t.Errorf("the state has %s", abs)
				}
			}
		})
	}
}

func TestThePlanHasTheInvocationsInTheirOrderWithTheirConfigurations(t *testing.T) {
	e := newPost(t)
	e.configure(trigger("a", "1", ""))
	p := e.plan(plan.Options{})
	e.equal("invocations", invocations(p), []string{
		"action.fake_send.before before_create fake_thing.a 0.0",
		"action.fake_send.after after_create fake_thing.a 1.0",
		"action.fake_send.last after_create fake_thing.a 1.1"})
	if m := p.Invocations[0].Config.GetAttr("message"); m.AsString() != "before a 1" {
		t.Errorf("the first message is %#v", m)
	}
	if m := p.Invocations[1].Config.GetAttr("message"); m.IsKnown() {
		t.Errorf("the message after the creation is %#v", m)
	}
	e.equal("operations", e.cloud.done(), nil)
}

func TestInstancesTriggerInstances(t *testing.T) {
	e := newPost(t)
	e.configure(`
resource "fake_thing" "a" {
  for_each = toset(["x", "y", "z"])
  name     = each.key
  lifecycle {
    action_trigger {
      events    = [after_create]
      condition = each.key != "y"
      actions   = [action.fake_send.to[each.key]]
    }
  }
}
action "fake_send" "to" {
  for_each = toset(["x", "z", "unused"])
  config {
    message = "${each.key} of ${length(fake_thing.a)}, ${caller.id == fake_thing.a[each.key].id}"
  }
}
`)
	_, diags := e.tryApply(e.plan(plan.Options{}))
	e.clean(diags)
	got := e.cloud.done()
	for _, want := range []string{"send x of 3, true", "send z of 3, true"} {
		if n := slices.Index(got, want); n < 3 { // all three are created before, because the action refers to all of them
			t.Errorf("%q is at the position %d of %q", want, n, got)
		}
	}
	if len(got) != 5 {
		t.Errorf("the operations are %q", got)
	}
}

func TestAConditionThatIsNotKnownIsDecidedByTheApply(t *testing.T) {
	for _, holds := range []bool{true, false} {
		e := newPost(t)
		e.configure(fmt.Sprintf(`
resource "fake_thing" "b" { name = "b" }
resource "fake_thing" "a" {
  name = "a"
  lifecycle {
    action_trigger {
      events    = [before_create]
      condition = (fake_thing.b.id == "id1") == %t
      actions   = [action.fake_send.m]
    }
  }
}
action "fake_send" "m" {
  config { message = "m" }
}
`, holds))
		p := e.plan(plan.Options{})
		if len(p.Invocations) != 1 || !p.Invocations[0].Trigger.Conditional {
			t.Fatalf("planned are %v", invocations(p))
		}
		applied, diags := e.tryApply(p)
		e.clean(diags)
		want := []string{"create b", "create a"}
		if holds {
			want = []string{"create b", "send m", "create a"}
		}
		e.equal("operations", e.cloud.done(), want)
		if n := applied.Counts.Invoked; n != len(want)-2 {
			t.Errorf("%d invocations are counted", n)
		}
	}
}

func TestAFailedInvocationMeansWhatItsTriggerSays(t *testing.T) {
	const text = `
resource "fake_thing" "a" {
  name = "a"
  lifecycle {
    action_trigger {
      events     = [EVENT]
      actions    = [action.fake_send.m]
      on_failure = MODE
    }
  }
}
resource "fake_thing" "b" {
  name = "b"
  note = fake_thing.a.id
}
action "fake_send" "m" {
  config { message = "m" }
}
`
	for claim, c := range map[string]struct {
		event, mode string
		fails       bool
		done, state []string
	}{
		"halt, after":      {"after_create", "halt", true, []string{"create a"}, []string{"fake_thing.a"}},
		"halt, before":     {"before_create", "halt", true, nil, nil},
		"taint":            {"after_create", "taint", true, []string{"create a"}, []string{"fake_thing.a tainted"}},
		"continue, before": {"before_create", "continue", false, []string{"create a", "create b"}, []string{"fake_thing.a", "fake_thing.b"}},
		"continue, after":  {"after_create", "continue", false, []string{"create a", "create b"}, []string{"fake_thing.a", "fake_thing.b"}},
	} {
		t.Run(claim, func(t *testing.T) {
			e := newPost(t)
			e.cloud.sends.during = func(string) error { return errors.New("no post today") }
			e.configure(strings.NewReplacer("EVENT", c.event, "MODE", c.mode).Replace(text))
			_, diags := e.tryApply(e.plan(plan.Options{}))
			if diags.HasErrors() != c.fails || !says(diags, "no post today") {
				t.Errorf("the problems are %v", diags)
			}
			e.equal("operations", e.cloud.done(), c.done)
			e.equal("state", existing(e.state()), c.state)
		})
	}
}

// The outcome of an invocation was not known. It must not take place again before somebody has said whether it has.
func TestAnInvocationInDoubtIsNotRepeatedUntilItIsResolved(t *testing.T) {
	const text = `
resource "fake_thing" "a" {
  name = "a"
  lifecycle {
    action_trigger {
      events  = [after_create]
      actions = [action.fake_send.m]
    }
  }
}
resource "fake_thing" "b" {
  name = "b"
  note = fake_thing.a.id
}
action "fake_send" "m" {
  config {
    message = "m"
  }
}
`
	at, _ := addr.ParseInstance("action.fake_send.m")
	for claim, c := range map[string]struct {
		outcome string
		then    []string
	}{
		"it took place": {"invoked", []string{"create b"}},
		"it did not":    {"", []string{"send m", "create b"}},
	} {
		t.Run(claim, func(t *testing.T) {
			e := newPost(t)
			e.cloud.sends.lost = true
			e.configure(text)
			p := e.plan(plan.Options{})
			_, diags := e.tryApply(p)
			if !says(diags, "runs resolve 'action.fake_send.m' -invoked") || !says(diags, "progress was: sending m") {
				t.Errorf("the problems are %v", diags)
			}
			e.equal("operations", e.cloud.done(), []string{"create a", "send m"})
			st := e.state()
			if got := st.Doubted(); len(got) != 1 || got[0] != at {
				t.Fatalf("in doubt are %v", got)
			}
			e.cloud.sends.lost = false
			e.again()
			if _, diags := e.session.Plan(t.Context(), st, plan.Options{Invoke: []addr.Target{{Kind: addr.TargetResource,
				Resource: at.Resource}}}); !says(diags, "It is not known whether action.fake_send.m was invoked") {
				t.Errorf("a plan that invokes it again has the problems %v", diags)
			}
			tx, diags := e.session.Resolve(t.Context(), st, at, c.outcome, "me")
			e.clean(diags)
			tx.Workspace = "default"
			e.check(e.store.Commit(t.Context(), tx))
			if got := e.state().Doubted(); len(got) > 0 {
				t.Errorf("in doubt are still %v", got)
			}
			e.again()
			runs, err := e.store.Runs(t.Context(), "default")
			e.check(err)
			_, diags = e.session.Resume(t.Context(), runs[0], p, "")
			e.clean(diags)
			e.equal("operations of the resumed run", e.cloud.done(), c.then)
		})
	}
}

func TestTheOptionInvokeChangesNothingElse(t *testing.T) {
	e := newPost(t)
	e.apply(`resource "fake_thing" "a" { name = "a" }`)
	e.configure(`
resource "fake_thing" "a" { name = "other" }
resource "fake_thing" "c" { name = "c" }
action "fake_send" "m" {
  count = 2
  config {
    message = "m ${count.index} ${fake_thing.a.id} ${fake_thing.a.name}"
    secret  = "s"
  }
}
`)
	target := func(text string) addr.Target {
		at, diags := addr.ParseTarget(text)
		e.clean(diags)
		return at
	}
	p := e.plan(plan.Options{Invoke: []addr.Target{target("action.fake_send.m[1]")}})
	e.equal("changes", changes(p), nil)
	if s := p.Invocations[0].Config.GetAttr("secret"); !s.IsNull() {
		t.Errorf("the plan has the write-only argument %#v", s)
	}
	_, diags := e.tryApply(p)
	e.clean(diags)
	e.equal("operations", e.cloud.done(), []string{"send m 1 id1 a s"})

	p = e.plan(plan.Options{Invoke: []addr.Target{target("action.fake_send.m")},
		Targets: []addr.Target{target("fake_thing.c")}})
	_, diags = e.tryApply(p)
	e.clean(diags)
	got := e.cloud.done()
	slices.Sort(got)
	e.equal("operations with a target", got, []string{"create c", "send m 0 id1 a s", "send m 1 id1 a s"})

	for text, want := range map[string]string{"action.fake_send.n": "No such action",
		"action.fake_send.m[2]": "No such instance of an action"} {
		if _, diags := e.session.Plan(t.Context(), e.state(), plan.Options{Invoke: []addr.Target{target(text)}}); len(
			diags) == 0 || diags[0].Summary != want {
			t.Errorf("%s: %v", text, diags)
		}
	}
}

func TestMistakesWithActionsAreReportedWithTheirPlaces(t *testing.T) {
	const lifecycle = "resource \"fake_thing\" \"a\" {\n name = \"a\"\n lifecycle {\n  action_trigger {\n%s\n" +
		"  }\n }\n}\n" +
		"action \"fake_send\" \"m\" {\n config {\n  message = \"m\"\n }\n}\n"
	in := func(text string) string { return fmt.Sprintf(lifecycle, text) }
	action := func(body string) string {
		return in("events=[after_create]\nactions=[action.fake_send.x]") + "action \"fake_send\" \"x\" {\n" + body + "\n}"
	}
	for sentence, c := range map[string]struct{ text, says string }{
		"an unknown type": {`action "fake_nothing" "a" {}`, `does not support action "fake_nothing"`},
		"a refusal of the provider when it validates": {action("config {\n message = \"invalid\"\n}"), "Invalid message"},
		"a refusal of the provider when it plans":     {action("config {\n message = \"impossible\"\n}"), "Impossible message"},
		"a missing argument":                          {action(""), "Missing required argument"},
		"self instead of caller":                      {action("config {\n message = self.name\n}"), `is "caller"`},
		"an undeclared action": {in("events=[after_create]\nactions=[action.fake_send.n]"),
			"action.fake_send.n is not declared"},
		"a key that nothing has": {in("events=[after_create]\nactions=[action.fake_send.m[0]]"), "leave out the key"},
		"the value of an action": {in("events=[after_create]\nactions=[action.fake_send.m]") +
			"output \"o\" {\n value = action.fake_send.m\n}", "An action has no value"},
		"a condition that is null": {in("events=[after_create]\ncondition=null\nactions=[action.fake_send.m]"),
			"it is null"},
		"what is known only after the change, before it": {in("events=[before_create]\nactions=[action.fake_send.x]") +
			"action \"fake_send\" \"x\" {\n config {\n  message = caller.id\n }\n}", "still not known"},
		"what waits for the change itself, before it": {in("events=[before_create]\nactions=[action.fake_send.x]") +
			"resource \"fake_thing\" \"b\" {\n name = fake_thing.a.id\n}\n" +
			"action \"fake_send\" \"x\" {\n config {\n  message = fake_thing.b.id\n }\n}",
			"An action waits for everything"},
	} {
		t.Run(sentence, func(t *testing.T) {
			e := newPost(t)
			e.configure(c.text)
			planned, diags := e.session.Plan(t.Context(), state.Empty(), plan.Options{})
			if !diags.HasErrors() && planned != nil {
				_, diags = e.tryApply(planned.Plan)
			}
			if !says(diags, c.says) {
				t.Errorf("the problems are %v", diags)
			}
			if done := e.cloud.done(); slices.ContainsFunc(done, func(d string) bool { return strings.HasPrefix(d, "send") }) {
				t.Errorf("the operations are %q", done)
			}
		})
	}
}

// A worker was gone while it invoked an action, and nothing said how far that had come. Here the run is left.
func TestTheDoubtOfARunThatWasLeftHasTheLastProgress(t *testing.T) {
	e := newPost(t)
	e.session.Events = func(wire.Event) { e.abandon() }
	goOn := make(chan struct{})
	e.cloud.sends.during = func(string) error { <-goOn; return nil }
	e.configure("action \"fake_send\" \"m\" {\n config {\n  message = \"m\"\n }\n}")
	at, _ := addr.ParseTarget("action.fake_send.m")
	_, diags := e.tryApply(e.plan(plan.Options{Invoke: []addr.Target{at}}))
	close(goOn)
	if !diags.HasErrors() {
		t.Fatal("the run did not end while the action was in progress")
	}
	var reasons []string
	for d := range e.state().Doubts() {
		reasons = append(reasons, d.Reason)
	}
	if len(reasons) != 1 || !strings.HasSuffix(reasons[0], "Its last progress was: sending m") {
		t.Errorf("the doubts are %q", reasons)
	}
}
