package planning_test

import (
	"slices"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/provider"
)

// invoked lists the invocations of a plan, sorted.
func invoked(p *plan.Plan) (out []string) {
	for _, i := range p.Invocations {
		text := i.Addr.String()
		if i.Trigger != nil {
			text += " " + i.Trigger.Event + " " + i.Trigger.Resource.String()
		}
		out = append(out, text)
	}
	slices.Sort(out)
	return out
}

// sends is a life cycle that triggers an action; send is the action.
func sends(event, action string) string {
	return "lifecycle {\naction_trigger {\nevents = [" + event + "]\nactions = [" + action + "]\n}\n}"
}

func send(message string, lines ...string) string {
	text := "action \"fake_send\" \"m\" {\n"
	for _, l := range lines {
		text += l + "\n"
	}
	return text + "config {\nmessage = " + message + "\n}\n}\n"
}

// An action was invoked in the round that deferred the change which triggers it, and again in the round of the change.
func TestAnActionIsInvokedInTheRoundOfTheChangeThatTriggersIt(t *testing.T) {
	unknown := block("a", `name = "a"`) + block("b", `count = length(fake_thing.a.id) > 0 ? 1 : 0`, `name = "b"`)
	once := sends("after_create", "action.fake_send.m")
	for claim, c := range map[string]struct {
		text  string
		first []string // the changes of the first round
		left  []string // what it defers
	}{
		"the change depends on something that is deferred": {
			unknown + block("c", `name = length(fake_thing.b) > 0 ? "c" : "d"`, once) + send(`"m"`),
			[]string{"create fake_thing.a"},
			[]string{"fake_thing.b[*] instance_count_unknown on fake_thing.a", "fake_thing.c deferred_prereq on fake_thing.b"}},
		"the action depends on something that is deferred": {
			unknown + block("c", `name = "c"`, once) + send("fake_thing.b[0].id"),
			[]string{"create fake_thing.a"},
			[]string{"fake_thing.b[*] instance_count_unknown on fake_thing.a",
				"fake_thing.c deferred_prereq on action.fake_send.m"}},
		"the instances of the action are not known": {
			block("a", `name = "a"`) + block("c", `name = "c"`, sends("after_create", `action.fake_send.m["k"]`)) +
				send("each.key", `for_each = length(fake_thing.a.id) > 0 ? { k = 1 } : {}`),
			[]string{"create fake_thing.a"},
			[]string{"fake_thing.c deferred_prereq on action.fake_send.m"}},
		"its provider has put off the action": {
			block("a", `name = "a"`) + block("c", `name = "c"`, once) + send("fake_thing.a.id") +
				block("d", `name = fake_thing.c.id`),
			[]string{"create fake_thing.a"},
			[]string{"fake_thing.c absent_prereq on action.fake_send.m", "fake_thing.d deferred_prereq on fake_thing.c"}},
	} {
		t.Run(claim, func(t *testing.T) {
			s := newStage(t)
			s.cloud.defersActions = func(config cty.Value) provider.DeferralReason {
				if claim != "its provider has put off the action" || config.GetAttr("message").IsKnown() {
					return provider.NoDeferral
				}
				return provider.AbsentPrerequisite
			}
			s.configure(c.text)
			p := s.plan(deferring)
			s.equal("first round", changes(p), c.first)
			s.equal("first deferred", left(p), c.left)
			s.equal("first invocations", invoked(p), nil)
			p, _ = s.round(p, nil)
			s.equal("second deferred", left(p), nil)
			if got := invoked(p); len(got) != 1 || !slices.Contains(changes(p), "create fake_thing.c") {
				t.Errorf("the second round has %v and invokes %v", changes(p), got)
			}
		})
	}
}

// The trigger of a resource waits for all its instances; one that is put off must not hold back what others trigger.
func TestAnActionOfOneInstanceDoesNotWaitForAnother(t *testing.T) {
	s := newStage(t)
	s.cloud.defers = func(config cty.Value) provider.DeferralReason {
		if n := config.GetAttr("note"); !n.IsKnown() {
			return provider.ResourceConfigUnknown
		}
		return provider.NoDeferral
	}
	s.configure(block("a", `name = "a"`) + block("b", `for_each = { x = fake_thing.a.id, y = "known" }`,
		`name = each.key`, `note = each.value`, sends("before_create", "action.fake_send.m")) + send("caller.name"))
	p := s.plan(deferring)
	s.equal("changes", changes(p), []string{"create fake_thing.a", `create fake_thing.b["y"]`})
	s.equal("invocations", invoked(p), []string{`action.fake_send.m before_create fake_thing.b["y"]`})
	p, _ = s.round(p, nil)
	s.equal("second round", invoked(p), []string{`action.fake_send.m before_create fake_thing.b["x"]`})
}

// A deletion that triggers an action waits for the action, too.
func TestADeletionWaitsForItsAction(t *testing.T) {
	s := newStage(t)
	two := func(count string, rest string) string {
		return block("c", "count = "+count, `name = "c"`, sends("before_destroy", "action.fake_send.m")) + rest
	}
	s.apply(two("2", send(`"m"`)))
	s.configure(two("1", block("a", `name = "a"`)+
		block("b", `count = length(fake_thing.a.id) > 0 ? 1 : 0`, `name = "b"`)+send("fake_thing.b[0].id")))
	p := s.plan(deferring)
	s.equal("changes", changes(p), []string{"create fake_thing.a"})
	s.equal("invocations", invoked(p), nil)
	p, _ = s.round(p, nil)
	s.equal("second round", changes(p), []string{"create fake_thing.b[0]", "delete fake_thing.c[1]"})
	s.equal("second invocations", invoked(p), []string{"action.fake_send.m before_destroy fake_thing.c[1]"})
}

func TestTheOptionInvokeIsForTheFirstRound(t *testing.T) {
	s := newStage(t)
	s.configure(block("a", `name = "a"`) + block("b", `count = length(fake_thing.a.id) > 0 ? 1 : 0`, `name = "b"`) +
		send(`"m"`))
	o := plan.Options{Defers: true, Targets: []addr.Target{s.target("fake_thing.b")},
		Invoke: []addr.Target{s.target("action.fake_send.m")}}
	p := s.plan(o)
	s.equal("first round", invoked(p), []string{"action.fake_send.m"})
	s.equal("first deferred", left(p), []string{"fake_thing.b[*] instance_count_unknown on fake_thing.a"})
	s.record(p)
	o.After = p.Left(nil)
	p = s.plan(o)
	s.equal("second changes", changes(p), []string{"create fake_thing.b[0]"})
	s.equal("second round", invoked(p), nil)
}

func TestAnActionThatHasToWaitCannotBeInvokedByTheOption(t *testing.T) {
	for claim, text := range map[string]string{
		"its provider has put it off": send(`"m"`),
		"it refers to something that is deferred": block("a", `name = "a"`) +
			block("b", `count = length(fake_thing.a.id) > 0 ? 1 : 0`, `name = "b"`) + send("fake_thing.b[0].id"),
	} {
		t.Run(claim, func(t *testing.T) {
			s := newStage(t)
			if claim == "its provider has put it off" {
				s.cloud.defersActions = func(cty.Value) provider.DeferralReason { return provider.AbsentPrerequisite }
			}
			s.configure(text)
			_, diags := s.tryPlan(plan.Options{Defers: true, Invoke: []addr.Target{s.target("action.fake_send.m")},
				Targets: []addr.Target{s.target("fake_thing.b")}})
			if !says(diags, "Action cannot be invoked yet") {
				t.Errorf("got %v", diags)
			}
		})
	}
}

// target parses the address of an option.
func (s *stage) target(text string) addr.Target {
	s.t.Helper()
	out, diags := addr.ParseTarget(text)
	s.clean(diags)
	return out
}
