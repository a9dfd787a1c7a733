package planning

import (
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/millipede-iac/millipede/state"
)

func TestAnOutputChangesByItsStoredAndItsNewValue(t *testing.T) {
	text, none := cty.StringVal, cty.NullVal(cty.String)
	for sentence, c := range map[string]struct {
		stored    cty.Value // cty.NilVal if it is not stored
		after     cty.Value
		sensitive bool
		mode      plan.Mode
		want      plan.Action // empty if there is no change at all
	}{
		"it is new":                    {cty.NilVal, text("a"), false, plan.Normal, plan.Create},
		"it is new, and null":          {cty.NilVal, none, false, plan.Normal, plan.NoOp},
		"it is new, and not known yet": {cty.NilVal, cty.UnknownVal(cty.String), false, plan.Normal, plan.Create},
		"it stays":                     {text("a"), text("a"), false, plan.Normal, plan.NoOp},
		"it changes":                   {text("a"), text("b"), false, plan.Normal, plan.Update},
		"it becomes null":              {text("a"), none, false, plan.Normal, plan.Update},
		"it is not known yet":          {text("a"), cty.UnknownVal(cty.String), false, plan.Normal, plan.Update},
		"it becomes sensitive":         {text("a"), text("a"), true, plan.Normal, plan.Update},
		"only a mark of its value is new": {
			text("a"), text("a").Mark(marks.Sensitive), false, plan.Normal, plan.NoOp,
		},
		"it is destroyed": {text("a"), text("a"), false, plan.Destroy, plan.Delete},
		"it is destroyed without having been stored, but refreshing stores it": {
			cty.NilVal, text("a"), false, plan.Destroy, plan.Delete,
		},
		"it is destroyed, not stored and not known": {
			cty.NilVal, cty.UnknownVal(cty.String), false, plan.Destroy, "",
		},
		"it is destroyed, not stored and null": {cty.NilVal, none, false, plan.Destroy, ""},
	} {
		prior := state.Empty()
		prior.Apply(state.SetObject{Addr: located(t, "t.a"), Object: &state.Object{Status: state.Ready}})
		if c.stored != cty.NilVal {
			prior.Apply(state.SetOutput{Name: "o", Output: &state.Output{Value: c.stored}})
		}
		p := &Planner{Options: Options{Options: plan.Options{Mode: c.mode}, Prior: prior}}
		got := p.outputChange("o", c.sensitive, c.after)
		switch {
		case got == nil && c.want == "":
		case got == nil || got.Action != c.want:
			t.Errorf("%s: the change is %+v, want %q", sentence, got, c.want)
		case got.After.IsMarked() || c.mode == plan.Destroy && !got.After.IsNull():
			t.Errorf("%s: the value afterwards is %#v", sentence, got.After)
		}
	}
}

func located(t *testing.T, text string) addr.Instance {
	t.Helper()
	at, diags := addr.ParseInstance(text)
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	return at
}
