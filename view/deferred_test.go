package view_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/view"
	"github.com/millipede-iac/millipede/view/document"
)

// deferring is a plan that has deferred instances that are not known, an object that stays, and an ephemeral object.
func deferring() *plan.Plan {
	a := addr.Resource{Mode: addr.Managed, Type: "fake_thing", Name: "a"}.Absolute(addr.RootInstance)
	change := func(i addr.Instance, action plan.Action) *plan.Change {
		return &plan.Change{Addr: i, Previous: i, Action: action, Before: cty.NullVal(cty.EmptyObject),
			After: cty.UnknownVal(cty.EmptyObject), BeforeIdentity: cty.NilVal, AfterIdentity: cty.NilVal}
	}
	in := addr.RootInstance.Child("m", addr.WildcardKey)
	unknown, stays := a.Resource.Absolute(in).Instance(addr.WildcardKey), a.Instance(addr.StringKey("k"))
	token := addr.Resource{Mode: addr.Ephemeral, Type: "fake_token", Name: "t"}.Absolute(addr.RootInstance)
	return &plan.Plan{Prior: state.Empty(), Defers: true, Deferred: []*plan.Deferred{
		{Addr: unknown, Reason: plan.DeferCountUnknown, On: []string{"fake_thing.b", "module.m"},
			Change: change(unknown, plan.Create)},
		{Addr: stays, Reason: plan.DeferPrerequisite, Change: change(stays, plan.NoOp)},
		{Addr: token.Instance(addr.NoKey), Reason: plan.DeferProviderConfig, Detail: "cannot connect"},
	}}
}

func TestAPlanSaysWhatIsDeferredAndWhy(t *testing.T) {
	var b bytes.Buffer
	if err := view.PlanText(&b, deferring(), values.NewSchemas(nil), view.TextOptions{}); err != nil {
		t.Fatal(err)
	}
	const want = `
Nothing to change yet. The rest of the configuration is deferred.


The following cannot be planned yet, and is deferred:

  # module.m[*].fake_thing.a[*] is deferred
  # (it is not known yet which instances there are; it waits for fake_thing.b, module.m)

  # ephemeral.fake_token.t is deferred
  # (the configuration of its provider is not known yet (cannot connect))

Deferred: 2 to be planned after this plan is applied.
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestTheDocumentOfAPlanHasWhatIsDeferred(t *testing.T) {
	tree := treeOf(t, txtar.Parse([]byte("-- 2.tf --\n")))
	text, err := document.PlanJSON(deferring(), tree, values.NewSchemas(nil))
	if err != nil {
		t.Fatal(err)
	}
	var form struct {
		Applyable, Complete *bool
		Deferred            []struct {
			Reason string
			Change struct{ Address string } `json:"resource_change"`
		} `json:"deferred_changes"`
	}
	if err := json.Unmarshal(text, &form); err != nil {
		t.Fatal(err)
	}
	if form.Applyable == nil || *form.Applyable || form.Complete == nil || *form.Complete || len(form.Deferred) != 2 ||
		form.Deferred[0].Reason != "instance_count_unknown" ||
		form.Deferred[0].Change.Address != "module.m[*].fake_thing.a[*]" {
		t.Errorf("got %+v in %s", form, text)
	}
	text, err = document.PlanJSON(&plan.Plan{Prior: state.Empty()}, tree, values.NewSchemas(nil))
	for _, word := range []string{"deferred_changes", "complete", "applyable"} {
		if err != nil || strings.Contains(string(text), `"`+word+`"`) {
			t.Errorf("a plan without deferral has %q: %v", word, err)
		}
	}
}

func TestARunNamesTheRoundBefore(t *testing.T) {
	var b bytes.Buffer
	r := journal.Run{ID: "02", After: "01", Workspace: "default", Command: "apply", Status: "done",
		Started: time.Unix(9, 0)}
	if err := view.RunText(&b, r, deferring(), nil, state.Empty(), time.Unix(9, 0)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "\nFollows: 01\nDeferred: 2\n") {
		t.Errorf("got\n%s", b.String())
	}
}
