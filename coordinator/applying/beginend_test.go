package applying

import (
	"slices"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/wire"
)

func targets(t *testing.T, list ...string) (out []addr.Target) {
	t.Helper()
	for _, text := range list {
		parsed, diags := addr.ParseTarget(text)
		if diags.HasErrors() {
			t.Fatal(diags.Err())
		}
		out = append(out, parsed)
	}
	return out
}

func TestADestroyOfAPartKeepsTheDataOfTheRest(t *testing.T) {
	stored := state.Empty()
	for _, at := range []string{"data.t.x", "data.t.y", "t.kept", "t.gone"} {
		o := &state.Object{Status: state.Ready, Attrs: []byte("{}")}
		if at == "t.kept" { // it was made from x
			o.Dependencies = state.DependenciesOn(state.DependOn(located(t, "data.t.x").Config()))
		}
		stored.Apply(state.SetObject{Addr: located(t, at), Provider: ours, Object: o})
	}
	for sentence, c := range map[string]struct {
		targets, excludes, gone []string
	}{
		"everything is destroyed":                             {nil, nil, []string{"data.t.x", "data.t.y"}},
		"one data source is the target":                       {[]string{"data.t.y"}, nil, []string{"data.t.y"}},
		"an object is the target":                             {[]string{"t.gone"}, nil, nil},
		"one data source is excluded":                         {nil, []string{"data.t.y"}, []string{"data.t.x"}},
		"an object that depends on a data source is excluded": {nil, []string{"t.kept"}, []string{"data.t.y"}},
	} {
		p := &plan.Plan{Mode: plan.Destroy, Targets: targets(t, c.targets...), Excludes: targets(t, c.excludes...)}
		a := &Applier{Options: Options{Plan: p}, state: stored}
		var gone []string
		for _, change := range a.dataGone() {
			gone = append(gone, change.(state.SetObject).Addr.String())
		}
		if slices.Sort(gone); !slices.Equal(gone, c.gone) {
			t.Errorf("%s: the data of %v is removed, want %v", sentence, gone, c.gone)
		}
	}
}

// deleted has an applier, with an object that a plan deletes.
func deleted(t *testing.T) (*Applier, *plan.Change, state.SetObject, *state.Object) {
	a, c, _ := created(t)
	c.Action = plan.Delete
	prior := &state.Object{
		Status: state.Tainted, Attrs: []byte(`{"id":"i-1"}`), Private: []byte("old"), CreateBeforeDestroy: true,
	}
	return a, c, state.SetObject{Addr: c.Addr}, prior
}

func TestAnObjectLeavesTheStateOnlyWhenItsProviderSaysThatItIsGone(t *testing.T) {
	ty := thing.Block.ImpliedType()
	still, err := coding.EncodeValue(cty.ObjectVal(map[string]cty.Value{
		"id": cty.StringVal("i-1"), "secret": cty.NullVal(cty.String),
	}), ty)
	if err != nil {
		t.Fatal(err)
	}
	failed := []wire.Diagnostic{{Severity: 'E', Summary: "It is in use"}}
	for sentence, c := range map[string]struct {
		result wire.Result
		// gone: the object is removed from the state. kept: it is stored as in the provider's response. counted: it counts as
		// destroyed.
		gone, kept, counted, doubt bool
	}{
		"gone": {wire.Result{Apply: &wire.ApplyResult{}}, true, false, true, false},
		"gone, but with an error": {
			wire.Result{Apply: &wire.ApplyResult{}, Diagnostics: failed}, true, false, false, false,
		},
		"still there, with an error": {
			wire.Result{Apply: &wire.ApplyResult{Object: still, Private: []byte("new")}, Diagnostics: failed},
			false, true, false, false,
		},
		"an error alone":         {wire.Result{Diagnostics: failed}, false, false, false, false},
		"no answer and no error": {wire.Result{}, false, false, false, true},
		"an answer that cannot be read": {
			wire.Result{Apply: &wire.ApplyResult{Object: []byte{0xc1}}}, false, false, false, true,
		},
	} {
		a, change, gone, prior := deleted(t)
		step := a.destroyed(change, gone, thing, prior, &c.result)
		var set *state.Object
		changed := len(step.Changes) == 1
		if changed {
			set = step.Changes[0].(state.SetObject).Object
		}
		e, counted := step.Value.(*effect)
		if (changed && set == nil) != c.gone || (set != nil) != c.kept || counted != c.counted ||
			(step.Doubt != nil) != c.doubt {
			t.Errorf("%s: %+v", sentence, step)
		}
		if counted && e.counts != (Counts{Destroyed: 1}) {
			t.Errorf("%s: the counts are %+v", sentence, e.counts)
		}
		if set != nil && (string(set.Private) != "new" || set.Status != state.Tainted || set.CreateBeforeDestroy) {
			t.Errorf("%s: the object is stored as %+v", sentence, set)
		}
		if len(c.result.Diagnostics) > 0 != step.Diags.HasErrors() && !c.doubt {
			t.Errorf("%s: its diagnostics are %v", sentence, step.Diags)
		}
	}
}

func TestTheChangesBetweenTwoStatesMakeOneFromTheOther(t *testing.T) {
	object := func(text string) *state.Object { return &state.Object{Status: state.Ready, Attrs: []byte(text)} }
	stored := func(objects map[string]string) *state.State {
		s := state.Empty()
		for at, text := range objects {
			s.Apply(state.SetObject{Addr: located(t, at), Provider: ours, Object: object(text)})
		}
		return s
	}
	from := stored(map[string]string{"t.same": "{}", "t.changed": "{}", "t.gone[0]": "{}", "t.gone[1]": "{}"})
	to := stored(map[string]string{"t.same": "{}", "t.changed": `{"a":1}`, "t.new": "{}", "t.gone[0]": "{}"})
	changes := difference(from, to)
	from.Apply(changes...)
	if !from.SameContent(to) {
		t.Errorf("the states differ by %v", changes)
	}
	if again := difference(to, to.Clone()); len(again) > 0 {
		t.Errorf("a state differs from its copy: %v", again)
	}
}

// A panic during the processing of a result would lose the object in the result, so its operation becomes in doubt.
func TestAPanicOverAResultLeavesTheOperationInDoubt(t *testing.T) {
	a, _, _ := created(t)
	step := a.fold(0, func(*wire.Result) program.Step { panic("a bug") }, &wire.Result{})
	if step.Doubt == nil || !strings.Contains(step.Doubt.Reason, "a bug") {
		t.Errorf("the doubt is %+v", step.Doubt)
	}
	if text := step.Diags.Err(); text == nil || !strings.Contains(text.Error(), "beginend_test.go") {
		t.Errorf("no trace: %v", text)
	}
}
