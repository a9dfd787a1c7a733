package planning_test

import (
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/state"
)

// left lists what a plan has deferred.
func left(p *plan.Plan) (out []string) {
	for _, d := range p.Deferred {
		text := d.Addr.String() + " " + string(d.Reason)
		if len(d.On) > 0 {
			text += " on " + strings.Join(d.On, ", ")
		}
		out = append(out, text)
	}
	return out
}

var deferring = plan.Options{Defers: true}

// round applies a plan and plans the next round.
func (s *stage) round(p *plan.Plan, earlier *plan.Round) (*plan.Plan, *plan.Round) {
	s.t.Helper()
	s.record(p)
	after := p.Left(earlier)
	return s.plan(plan.Options{Defers: true, After: after}), after
}

func TestUnknownInstancesAreAnErrorUnlessTheyMayBeDeferred(t *testing.T) {
	s := newStage(t)
	s.configure(block("a", `name = "a"`) + block("b", `for_each = toset([fake_thing.a.id])`, `name = each.key`))
	_, diags := s.tryPlan(plan.Options{})
	if !diags.HasErrors() || diags[0].Summary != "Invalid for_each argument" {
		t.Errorf("got %v", diags)
	}
	p := s.plan(deferring)
	s.equal("changes", changes(p), []string{"create fake_thing.a"})
	s.equal("deferred", left(p), []string{"fake_thing.b[*] instance_count_unknown on fake_thing.a"})
	if c := p.Deferred[0].Change; c.Action != plan.Create || c.After.GetAttr("name").IsKnown() {
		t.Errorf("the change that stands for the instances is %+v", c)
	}
}

func TestEachRoundPlansWhatTheLastOneHasDeferred(t *testing.T) {
	s := newStage(t)
	s.configure(block("a", `name = "a"`)+
		"module \"m\" {\nsource = \"./child\"\ncount = length(fake_thing.a.id) > 0 ? 2 : 0\n}\n"+
		block("c", `name = module.m[1].id`)+block("d", `name = "d"`),
		block("x", `name = "x"`)+block("y", `count = length(fake_thing.x.id) > 0 ? 1 : 0`, `name = "y"`)+
			"output \"id\" {\nvalue = fake_thing.x.id\n}\n")
	p := s.plan(deferring)
	s.equal("first round", changes(p), []string{"create fake_thing.a", "create fake_thing.d"})
	s.equal("first deferred", left(p), []string{
		"fake_thing.c deferred_prereq on fake_thing.a, module.m, module.m.fake_thing.x",
		"module.m[*].fake_thing.x instance_count_unknown on fake_thing.a, module.m",
		"module.m[*].fake_thing.y[*] instance_count_unknown on fake_thing.a, module.m, module.m.fake_thing.x"})

	p, after := s.round(p, nil)
	s.equal("second round", changes(p), []string{"create fake_thing.c", "create module.m[0].fake_thing.x",
		"create module.m[1].fake_thing.x"})
	s.equal("second deferred", left(p), []string{
		"module.m[0].fake_thing.y[*] instance_count_unknown on module.m.fake_thing.x",
		"module.m[1].fake_thing.y[*] instance_count_unknown on module.m.fake_thing.x"})

	p, _ = s.round(p, after)
	s.equal("third round", changes(p), []string{"create module.m[0].fake_thing.y[0]",
		"create module.m[1].fake_thing.y[0]"})
	s.equal("third deferred", left(p), nil)
}

func TestAProviderPutsOffAnInstanceAndWhatDependsOnIt(t *testing.T) {
	s := newStage(t)
	s.cloud.defers = func(config cty.Value) provider.DeferralReason {
		if n := config.GetAttr("note"); !n.IsKnown() {
			return provider.ResourceConfigUnknown
		}
		return provider.NoDeferral
	}
	s.configure(block("a", `name = "a"`) + block("b", `for_each = { x = fake_thing.a.id, y = "known" }`,
		`name = each.key`, `note = each.value`) + block("c", `name = fake_thing.b["y"].id`) +
		"output \"o\" {\nvalue = fake_thing.c.id\n}\noutput \"a\" {\nvalue = fake_thing.a.id\n}\n")
	s.equal("without deferral", changes(s.plan(plan.Options{})), []string{"create fake_thing.a",
		"create fake_thing.b[\"x\"]", "create fake_thing.b[\"y\"]", "create fake_thing.c"})
	p := s.plan(deferring)
	s.equal("changes", changes(p), []string{"create fake_thing.a", `create fake_thing.b["y"]`})
	s.equal("deferred", left(p), []string{`fake_thing.b["x"] resource_config_unknown on fake_thing.a`,
		"fake_thing.c deferred_prereq on fake_thing.b"})
	if len(p.Outputs) != 1 || p.Outputs[0].Name != "a" {
		t.Errorf("the outputs are %v", p.Outputs)
	}
	for _, v := range p.Graph.Vertices {
		if v.Kind == plan.EvalOutput && v.Address == "output.o" {
			t.Error("an output is evaluated that depends on a deferred object")
		}
	}
	p, _ = s.round(p, nil)
	s.equal("second round", changes(p), []string{`create fake_thing.b["x"]`, "create fake_thing.c"})
	s.equal("second deferred", left(p), nil)
}

// Instances that the state has, and that are not known, must not count as superfluous.
func TestStoredObjectsOfUnknownInstancesStay(t *testing.T) {
	s := newStage(t)
	before := block("a", `name = "a"`) + block("b", `for_each = toset(["x", "y"])`, `name = each.key`)
	s.apply(before+"module \"m\" {\nsource = \"./child\"\nfor_each = toset([\"k\"])\n}\n", block("in", `name = "in"`))
	s.configure(block("a", `name = "new"`)+block("b", `for_each = toset([fake_thing.a.id])`, `name = each.key`)+
		"module \"m\" {\nsource = \"./child\"\nfor_each = toset([fake_thing.a.id])\n}\n", block("in", `name = "in"`))
	p := s.plan(deferring)
	s.equal("changes", changes(p), []string{"delete-create fake_thing.a"})
	s.equal("deferred", left(p), []string{"fake_thing.b[*] instance_count_unknown on fake_thing.a",
		"module.m[*].fake_thing.in instance_count_unknown on fake_thing.a, module.m"})
	p, _ = s.round(p, nil)
	s.equal("second round", changes(p), []string{`create fake_thing.b["new fake_thing.a"]`,
		`create module.m["new fake_thing.a"].fake_thing.in`, `delete fake_thing.b["x"]`, `delete fake_thing.b["y"]`,
		`delete module.m["k"].fake_thing.in`})
}

// What a plan has planned is not planned again in the next round: a resource that changes in each plan would change in
// each round.
func TestAChangeThatRecursIsMadeOnceForAllRounds(t *testing.T) {
	s := newStage(t)
	s.configure(block("a", `name = timestamp()`) + block("b", `count = length(fake_thing.a.id) > 0 ? 1 : 0`, `name = "b"`))
	p, after := s.round(s.plan(deferring), nil)
	s.equal("second round", changes(p), []string{"create fake_thing.b[0]"})
	if !after.Progress(p) {
		t.Error("the second round counts as bringing nothing new")
	}
}

func TestARoundInWhichNothingIsPlannedBringsNothingNew(t *testing.T) {
	s := newStage(t)
	s.cloud.defers = func(cty.Value) provider.DeferralReason { return provider.AbsentPrerequisite }
	s.configure(block("a", `name = "a"`))
	p := s.plan(deferring)
	s.equal("deferred", left(p), []string{"fake_thing.a absent_prereq"})
	if (*plan.Round)(nil).Progress(p) {
		t.Error("a plan that changes nothing counts as progress")
	}
}

// A resource that an earlier round has replaced triggers the replacement of one that was deferred then.
func TestATriggerOfAnEarlierRoundReplacesADeferredObject(t *testing.T) {
	s := newStage(t)
	config := func(size, name string) string {
		return block("a", `name = "a"`, "size = "+size) + block("c", `name = "`+name+`"`) +
			block("b", `count = length(fake_thing.c.id) > 0 ? 1 : 0`, `name = "b"`, "lifecycle {",
				"replace_triggered_by = [fake_thing.a.size]", "}")
	}
	s.configure(config("1", "c"))
	made, _ := s.round(s.plan(deferring), nil)
	s.record(made)
	s.configure(config("2", "d"))
	p := s.plan(deferring)
	s.equal("first round", changes(p), []string{"delete-create fake_thing.c", "update fake_thing.a"})
	p, _ = s.round(p, nil)
	s.equal("second round", changes(p), []string{"delete-create fake_thing.b[0]"})
}

// A provider that knows nothing of deferral fails as long as its configuration is not known.
func TestAnErrorOfAProviderThatIsNotConfiguredYetDefers(t *testing.T) {
	s := newStage(t)
	s.cloud.down = true
	config := func(endpoint string) string {
		return "provider \"fake\" {\nendpoint = " + endpoint + "\n}\n" + block("b", `name = "b"`) +
			"variable \"later\" {\ndefault = \"x\"\n}\n"
	}
	s.configure(config("var.later"))
	if _, diags := s.tryPlan(deferring); !says(diags, "cannot connect") {
		t.Errorf("with a known configuration: %v", diags)
	}
	s.inputs = map[string]values.Input{"later": {Value: cty.UnknownVal(cty.String)}}
	if _, diags := s.tryPlan(plan.Options{}); !says(diags, "cannot connect") {
		t.Errorf("without deferral: %v", diags)
	}
	p := s.plan(deferring)
	s.equal("changes", changes(p), nil)
	s.equal("deferred", left(p), []string{"fake_thing.b provider_config_unknown"})
	if d := p.Deferred[0]; d.Detail != "cannot connect" || d.Change.Action != plan.Create {
		t.Errorf("got %+v with %+v", d, d.Change)
	}
}

// An object that a deferred one still uses is not deleted before: the deferred one has to let go of it first.
func TestWhatADeferredObjectUsesIsNotDeletedBefore(t *testing.T) {
	s := newStage(t)
	used := block("used", `name = "used"`)
	s.apply(block("a", `name = "a"`) + used + block("b", `name = "b"`, "note = fake_thing.used.id"))
	for abs, r := range s.state.Resources {
		if abs.Resource.Name == "b" {
			r.Instances[addr.NoKey].Current.Dependencies = state.DependenciesOn(state.DependOn(
				addr.Resource{Mode: addr.Managed, Type: "fake_thing", Name: "used"}.In(addr.RootModule)))
		}
	}
	s.cloud.defers = func(config cty.Value) provider.DeferralReason {
		if !config.GetAttr("note").IsKnown() {
			return provider.ResourceConfigUnknown
		}
		return provider.NoDeferral
	}
	s.configure(block("a", `name = "other"`) + block("b", `name = "b"`, "note = fake_thing.a.id"))
	p := s.plan(deferring)
	s.equal("changes", changes(p), []string{"delete-create fake_thing.a"})
	s.equal("deferred", left(p), []string{"fake_thing.b resource_config_unknown on fake_thing.a",
		"fake_thing.used deferred_prereq"})
	p, _ = s.round(p, nil)
	s.equal("second round", changes(p), []string{"delete fake_thing.used", "update fake_thing.b"})
}
