package rebase_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/rebase"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
)

func at(t *testing.T, text string) addr.Instance {
	t.Helper()
	a, diags := addr.ParseInstance(text)
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	return a
}

func list(t *testing.T, texts ...string) []addr.Instance {
	t.Helper()
	var out []addr.Instance
	for _, text := range texts {
		out = append(out, at(t, text))
	}
	return addr.SortedInstances(out)
}

var provider = addr.ProviderInstance{Provider: addr.DefaultProvider("t")}

// stored parses lines such as "t.a 1: t.b": an address, the content, and the dependencies.
func stored(t *testing.T, lines ...string) *state.State {
	t.Helper()
	s := state.Empty()
	s.Lineage, s.Serial = "l", 1
	for _, line := range lines {
		what, on, _ := strings.Cut(line, ":")
		where, text, _ := strings.Cut(what, " ")
		var deps []state.Dependency
		for _, d := range strings.Fields(on) {
			deps = append(deps, state.DependOn(at(t, d).Config()))
		}
		s.Apply(state.SetObject{Addr: at(t, where), Provider: provider, Object: &state.Object{
			Status: state.Ready, Attrs: []byte(`{"x":"` + text + `"}`), Dependencies: state.DependenciesOn(deps...),
		}})
	}
	return s
}

func since(then, now *state.State) []journal.Difference {
	var out []journal.Difference
	for _, d := range state.Differences(then, now) {
		out = append(out, journal.Difference{Difference: d})
	}
	return out
}

// Without one of the three sets, the cases for that set would fail.
func TestAPlanIsInConflictWithChangesOfWhatItRestsOn(t *testing.T) {
	then := []string{"t.w 1: t.r", "t.r 1", "t.u 1", "data.t.d 1", "data.t.e 1"}
	// The plan updates w, which is computed from r and d; it replaces k, and reads e when it is applied.
	rests := &plan.Dependencies{
		Writes: list(t, "t.w", "t.new", "t.k", "data.t.e"), Reads: list(t, "t.r", "data.t.d"), Outputs: []string{"o"},
		Keeps: []addr.ConfigResource{at(t, "t.k").Config()},
	}
	for sentence, c := range map[string]struct {
		then, now []string
		outputs   []string
		want      string
	}{
		"nothing has changed":                       {now: then},
		"something else was changed":                {now: replace(then, "t.u 1", "t.u 2")},
		"something else was removed":                {now: replace(then, "t.u 1", "")},
		"something else was added":                  {now: append(then, "t.v 1: t.w")},
		"what a write depends on was noted anew":    {now: replace(then, "t.w 1: t.r", "t.w 1: t.r t.u")},
		"data that is read anew was read meanwhile": {now: replace(then, "data.t.e 1", "data.t.e 2")},
		"another output was changed":                {now: then, outputs: []string{"p"}},
		"writes: it was changed": {
			now: replace(then, "t.w 1: t.r", "t.w 2: t.r"), want: "t.w, which the plan changes, was changed",
		},
		"writes: it was removed": {
			now: replace(then, "t.w 1: t.r", ""), want: "t.w, which the plan changes, was removed",
		},
		"writes: it is there already": {
			now: append(then, "t.new 1"), want: "t.new, which the plan changes, was added",
		},
		"writes: an output was changed": {
			now: then, outputs: []string{"o"}, want: "output.o, which the plan changes, was changed",
		},
		"reads: an object was changed": {
			now: replace(then, "t.r 1", "t.r 2"), want: "t.r, which the plan depends on, was changed",
		},
		"reads: data was read anew": {
			now: replace(then, "data.t.d 1", "data.t.d 2"), want: "data.t.d, which the plan depends on, was changed",
		},
		"keeps: something new depends on what goes": {
			now:  append(then, "t.v 1: t.k"),
			want: "t.v, which depends on t.k, of which the plan destroys objects, was added",
		},
		"keeps: something began to depend on what goes": {
			now:  replace(then, "t.u 1", "t.u 1: t.k"),
			want: "t.u, which depends on t.k, of which the plan destroys objects, was changed",
		},
		// An object that had depended on another one by one attribute was changed to refer to its ID. A plan to replace the
		// other object, which had not needed to change the dependent, was applied, and the reference became invalid.
		"keeps: what depended on it already was changed": {
			then: replace(then, "t.u 1", "t.u 1: t.k"), now: replace(then, "t.u 1", "t.u 2: t.k"),
			want: "t.u, which depends on t.k, of which the plan destroys objects, was changed",
		},
		"what depended on it already was noted anew": {
			then: replace(then, "t.u 1", "t.u 1: t.k"), now: replace(then, "t.u 1", "t.u 1: t.k t.r"),
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			if c.then == nil {
				c.then = then
			}
			before, now := stored(t, c.then...), stored(t, c.now...)
			for _, name := range c.outputs {
				now.Outputs[name] = &state.Output{Value: cty.True}
			}
			p := &plan.Plan{Dependencies: rests, Prior: before}
			for how, changed := range map[string][]journal.Difference{
				"by the store's versions": since(before, now), "by comparing": rebase.Compare(p, now),
			} {
				var got []string
				for _, conflict := range rebase.Conflicts(p, changed) {
					got = append(got, conflict.String())
				}
				if text := strings.Join(got, "; "); text != c.want {
					t.Errorf("%s: the conflicts are %q, want %q", how, text, c.want)
				}
			}
		})
	}
}

func replace(list []string, old, by string) []string {
	out := slices.Clone(list)
	i := slices.Index(out, old)
	if by == "" {
		return slices.Delete(out, i, i+1)
	}
	out[i] = by
	return out
}

func TestAConflictSaysWhoIsBehindIt(t *testing.T) {
	c := rebase.Conflict{What: "t.a", Role: "the plan changes", Event: "removed",
		By: journal.VersionInfo{Serial: 7, Cause: "apply", Run: "r1", Who: "eve@there"}}
	if got, want := c.String(),
		"t.a, which the plan changes, was removed: apply, run r1, by eve@there, serial 7"; got != want {
		t.Errorf("the message is %q, want %q", got, want)
	}
}

// The result of the refresh differs from the stored content, so a comparison with the plan's state would take it for a
// change.
func TestWhatThePlanFoundOtherwiseIsComparedWithWhatWasStored(t *testing.T) {
	before, found := stored(t, "t.a 1", "t.gone 1", "t.old 1"), stored(t, "t.a 2", "t.new 1")
	p := &plan.Plan{Prior: found, BaseLineage: "l", BaseSerial: 1, Dependencies: &plan.Dependencies{}}
	for _, name := range []string{"t.a", "t.gone", "t.new", "t.old"} {
		p.Dependencies.Found = append(p.Dependencies.Found, plan.Found{Addr: at(t, name),
			Stored: before.Instance(at(t, name)).Digest()})
	}
	if changed := rebase.Compare(p, before); len(changed) > 0 {
		t.Errorf("nothing has changed, but the reported changes are %+v", changed)
	}
	for name, now := range map[string]*state.State{
		"t.a": stored(t, "t.a 2", "t.gone 1", "t.old 1"), "t.gone": stored(t, "t.a 1", "t.old 1"),
		"t.new": stored(t, "t.a 1", "t.gone 1", "t.old 1", "t.new 1"), "t.old": stored(t, "t.a 1", "t.gone 1", "t.old 2"),
	} {
		changed := rebase.Compare(p, now)
		if len(changed) != 1 || changed[0].Instance.String() != name || !changed[0].Matters() {
			t.Errorf("%s has changed, but the reported changes are %+v", name, changed)
		}
	}
}

func TestAPlanThatIsCarriedOverLeavesAloneWhatHasChanged(t *testing.T) {
	before := stored(t, "t.w 1", "t.u 1", "t.drift 1", "t.lost 1")
	found := stored(t, "t.w 1", "t.u 1", "t.drift 2", "t.lost 2")
	now := stored(t, "t.w 1", "t.u 2", "t.drift 1", "t.lost 3", "t.more 1")
	now.Serial = 4
	node := func(kind, name string) plan.Node { return plan.Node{Kind: kind, Name: name} }
	p := &plan.Plan{
		Prior: found, BaseLineage: "l", BaseSerial: 1,
		Dependencies: &plan.Dependencies{Writes: list(t, "t.w"), Found: []plan.Found{{Addr: at(t, "t.drift")},
			{Addr: at(t, "t.lost")}}},
		Changes: []*plan.Change{{Addr: at(t, "t.w"), Action: plan.Update}, {Addr: at(t, "t.u"), Action: plan.NoOp}},
		Checks:  []state.CheckResult{{Config: "check.u"}, {Config: "check.w"}},
		Graph: plan.Graph{
			Vertices: []plan.Vertex{
				{Kind: plan.EvalOutput, Change: -1, Address: "output.u", Node: node("output", "output.u")},
				{Kind: plan.EvalCheck, Change: -1, Address: "check.u", Node: node("check", "check.u")},
				{Kind: plan.EvalCheck, Change: -1, Address: "check.w", Node: node("check", "check.w")},
				{Kind: plan.ApplyObject, Change: 0, Address: "t.w"},
				{Kind: plan.ApplyObject, Change: 1, Address: "t.u"},
				{Kind: plan.Sync, Change: -1, Address: "local.u", Node: node("local", "local.u")},
			},
			// The last edge is only an order; the plan does not use a value of its end.
			Edges: [][2]int32{{4, 5}, {5, 0}, {5, 1}, {3, 2}, {4, 3}}, Values: 4,
		},
	}
	out := rebase.Onto(p, now, since(before, now))
	if out.BaseSerial != 4 || p.BaseSerial != 1 {
		t.Errorf("the adapted plan is for serial %d, the plan for %d", out.BaseSerial, p.BaseSerial)
	}
	if want := stored(t, "t.w 1", "t.u 2", "t.drift 2", "t.lost 3", "t.more 1"); !out.Prior.SameContent(want) {
		t.Errorf("the plan's prior state differs in %+v", state.Differences(want, out.Prior))
	}
	for v, x := range out.Graph.Vertices {
		if passed := x.Kind == plan.Sync && x.Node == (plan.Node{}); passed != (v != 2 && v != 3) {
			t.Errorf("%s is passed: %v", x.Address, passed)
		}
	}
	if !slices.Equal(out.Untouched, []string{"check.u"}) {
		t.Errorf("the untouched objects are %q", out.Untouched)
	}
	if p.Graph.Vertices[1].Kind != plan.EvalCheck {
		t.Error("the plan itself was changed")
	}
}

// One run changed an object, and another run changed it back. A plan had read the object in between, and was considered
// valid, because nothing differed from the state that it was made for: it updated the object from a content that it no
// longer had.
func TestWhatWasChangedBackIsInConflictWithAPlanThatSawItInBetween(t *testing.T) {
	now := stored(t, "t.w 1", "t.r 1", "t.u 1: t.k")
	now.Serial = 3
	rests := plan.Dependencies{Writes: list(t, "t.w", "t.new", "t.k"), Reads: list(t, "t.r"),
		Keeps: []addr.ConfigResource{at(t, "t.k").Config()}}
	for sentence, c := range map[string]struct {
		seen    []string
		touched string
		want    string
	}{
		"it saw what it changes": {[]string{"t.w 2", "t.r 1", "t.u 1: t.k"}, "t.w",
			"t.w, which the plan changes, was changed, and changed back"},
		"it saw what it goes by": {[]string{"t.w 1", "t.r 2", "t.u 1: t.k"}, "t.r",
			"t.r, which the plan depends on, was changed, and changed back"},
		"what it creates was there": {[]string{"t.w 1", "t.r 1", "t.new 1", "t.u 1: t.k"}, "t.new",
			"t.new, which the plan changes, was changed, and changed back"},
		// A plan that creates an object was applied, the object was destroyed, and the plan was applied again.
		"what it creates came and went, unseen": {[]string{"t.w 1", "t.r 1", "t.u 1: t.k"}, "t.new",
			"t.new, which the plan changes, was changed, and changed back"},
		"what depends on what goes was another": {[]string{"t.w 1", "t.r 1", "t.u 2: t.k"}, "t.u",
			"t.u, which depends on t.k, of which the plan destroys objects, was changed, and changed back"},
		"what depends on what goes did not": {[]string{"t.w 1", "t.r 1", "t.u 1"}, "t.u",
			"t.u, which depends on t.k, of which the plan destroys objects, was changed, and changed back"},
		"it saw it before, or after":      {[]string{"t.w 1", "t.r 1", "t.u 1: t.k"}, "t.w", ""},
		"it saw what does not concern it": {[]string{"t.w 1", "t.r 1", "t.u 1: t.k", "t.v 2"}, "t.v", ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			seen, a := stored(t, c.seen...), at(t, c.touched)
			p := &plan.Plan{Dependencies: &rests, Prior: seen, BaseLineage: "l", BaseSerial: 1}
			var back []journal.Difference
			for _, d := range state.Differences(now, now, a) {
				back = append(back, journal.Difference{Difference: d})
			}
			conflicts := rebase.Conflicts(p, back)
			if c.want == "" && len(conflicts) > 0 || c.want != "" && (len(conflicts) != 1 ||
				conflicts[0].String() != c.want) {
				t.Errorf("the conflicts are %q, want %q", conflicts, c.want)
			}
			if differs := rebase.Differs(p, back); differs != !seen.Instance(a).Same(now.Instance(a)) {
				t.Errorf("the plan is reported as different: %v", differs)
			}
		})
	}
}

// With another store it is not known what was changed and changed back. If there was another version meanwhile, every
// difference that the refresh found may be such a change.
func TestWhatRefreshingFoundMayHaveBeenChangedBack(t *testing.T) {
	now := stored(t, "t.w 1", "t.u 1")
	p := &plan.Plan{Prior: stored(t, "t.w 2", "t.u 1"), BaseLineage: "l", BaseSerial: 1, Dependencies: &plan.Dependencies{
		Writes: list(t, "t.w"),
		Found:  []plan.Found{{Addr: at(t, "t.w"), Stored: now.Instance(at(t, "t.w")).Digest()}},
	}}
	for serial, want := range map[uint64]int{1: 0, 2: 1} {
		now.Serial = serial
		if conflicts := rebase.Conflicts(p, rebase.Compare(p, now)); len(conflicts) != want {
			t.Errorf("at serial %d the conflicts are %v", serial, conflicts)
		}
	}
}

// A plan that creates an object was applied on one machine, the object was destroyed, and the plan was applied again on
// another machine, whose store has none of the versions in between.
func TestWhatAPlanCreatesMayHaveComeAndGone(t *testing.T) {
	now := stored(t, "t.u 1")
	p := &plan.Plan{Prior: stored(t, "t.u 1"), BaseLineage: "l", BaseSerial: 1,
		Changes:      []*plan.Change{{Addr: at(t, "t.new"), Action: plan.Create}},
		Dependencies: &plan.Dependencies{Writes: list(t, "t.new")}}
	// One version can create an object or remove it, but not both.
	for serial, want := range map[uint64]int{1: 0, 2: 0, 3: 1} {
		now.Serial = serial
		if conflicts := rebase.Conflicts(p, rebase.Compare(p, now)); len(conflicts) != want {
			t.Errorf("at serial %d the conflicts are %v", serial, conflicts)
		}
	}
}

// The intermediate content that a plan had found was stored when the plan was applied, over the content that had been
// changed back.
func TestWhatWasFoundInBetweenIsNotStored(t *testing.T) {
	now := stored(t, "t.w 1", "t.u 1", "t.drift 1")
	now.Serial = 3
	p := &plan.Plan{Prior: stored(t, "t.w 1", "t.u 2", "t.drift 2"), BaseLineage: "l", BaseSerial: 1,
		Dependencies: &plan.Dependencies{Found: []plan.Found{{Addr: at(t, "t.drift")}, {Addr: at(t, "t.u")}}}}
	var back []journal.Difference
	for _, d := range state.Differences(now, now, at(t, "t.u")) {
		back = append(back, journal.Difference{Difference: d})
	}
	if want, out := stored(t, "t.w 1", "t.u 1", "t.drift 2"), rebase.Onto(p, now, back); !out.Prior.SameContent(want) {
		t.Errorf("the plan's prior state differs in %+v", state.Differences(want, out.Prior))
	}
}

// Each plan that the service stored contained the whole state, and each run stored it once more.
func TestAReducedPlanIsMadeWholeByTheVersionThatItWasMadeFor(t *testing.T) {
	before := stored(t, "t.w 1", "t.u 1: t.w", "t.drift 1", "t.lost 1")
	before.Outputs["o"] = &state.Output{Value: cty.True}
	found := before.Clone()
	found.Apply(state.SetObject{Addr: at(t, "t.lost")}, state.SetObject{Addr: at(t, "t.drift"), Provider: provider,
		Object: &state.Object{Status: state.Ready, Attrs: []byte(`{"x":"2"}`)}})
	p := &plan.Plan{Prior: found, BaseLineage: "l", BaseSerial: 1,
		Dependencies: &plan.Dependencies{Found: []plan.Found{{Addr: at(t, "t.drift")}, {Addr: at(t, "t.lost")}}}}
	reduced, ok := rebase.Reduced(p, before)
	if !ok || len(reduced.Prior.Resources) != 1 || len(reduced.Prior.Outputs) != 0 || p.Prior != found {
		t.Fatalf("%v: the remaining objects are %v", ok, reduced.Prior.Addrs())
	}
	whole := rebase.Complete(reduced, before)
	if !whole.Prior.SameContent(found) || whole.Prior.Serial != 1 || whole.Prior.Lineage != "l" {
		t.Errorf("the plan's prior state differs in %+v", state.Differences(found, whole.Prior))
	}

	other := before.Clone()
	other.Apply(state.SetObject{Addr: at(t, "t.u"), Provider: provider, Object: &state.Object{Status: state.Tainted}})
	if _, ok := rebase.Reduced(p, other); ok {
		t.Error("the plan was reduced with another state than its own")
	}
	later := before.Clone()
	later.Serial = 2
	if _, ok := rebase.Reduced(p, later); ok {
		t.Error("the plan was reduced with a version of another serial")
	}
	p.Dependencies = nil
	if _, ok := rebase.Reduced(p, before); ok {
		t.Error("the plan was reduced although its refreshed objects are not known")
	}
}
