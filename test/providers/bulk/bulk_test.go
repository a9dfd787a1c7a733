package bulk

import (
	"context"
	"crypto/rand"
	"path/filepath"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/millipede-iac/millipede/test/providers/act"
	"github.com/millipede-iac/millipede/test/providers/record"
)

func newServer(t testing.TB) (tfprotov6.ProviderServer, act.Env) {
	t.Helper()
	dir := t.TempDir()
	env := act.Env{Record: filepath.Join(dir, "record"), Cloud: filepath.Join(dir, "cloud")}
	stage, err := env.Open("bulk", rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stage.Log.Close(); err != nil {
			t.Error(err)
		}
	})
	return New(stage), env
}

// configured is an item with a value, as configurations have it.
func configured(name, value string) object {
	o := object{}
	for _, a := range item.Block.Attributes {
		o[a.Name] = tftypes.NewValue(a.Type, nil)
	}
	o["name"], o["value"] = tftypes.NewValue(tftypes.String, name), tftypes.NewValue(tftypes.String, value)
	return o
}

// proposed is the object that an engine proposes for a configuration: computed attributes are those of the prior one.
func proposed(config, prior object) object {
	o := config.with(prior.inCloud())
	for _, name := range []string{"name", "value"} {
		o[name] = config[name]
	}
	return o
}

func coded(t testing.TB, o object) *tfprotov6.DynamicValue {
	t.Helper()
	dv, err := o.encode()
	if err != nil {
		t.Fatal(err)
	}
	return dv
}

// change plans and applies a change, and returns the planned object and the new one.
func change(t *testing.T, s tfprotov6.ProviderServer, prior, wanted object) (planned, after object) {
	t.Helper()
	plan, err := s.PlanResourceChange(t.Context(), &tfprotov6.PlanResourceChangeRequest{TypeName: typeName,
		PriorState: coded(t, prior), ProposedNewState: coded(t, wanted)})
	if err != nil || len(plan.Diagnostics) > 0 {
		t.Fatal(err, plan)
	}
	applied, err := s.ApplyResourceChange(t.Context(), &tfprotov6.ApplyResourceChangeRequest{TypeName: typeName,
		PriorState: coded(t, prior), PlannedState: plan.PlannedState})
	if err != nil || len(applied.Diagnostics) > 0 {
		t.Fatal(err, applied)
	}
	planned, err1 := decode(plan.PlannedState)
	after, err2 := decode(applied.NewState)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	return planned, after
}

// read reads an object; nil means that it is gone.
func read(t *testing.T, s tfprotov6.ProviderServer, o object) object {
	t.Helper()
	resp, err := s.ReadResource(t.Context(), &tfprotov6.ReadResourceRequest{TypeName: typeName,
		CurrentState: coded(t, o)})
	if err != nil || len(resp.Diagnostics) > 0 {
		t.Fatal(err, resp)
	}
	found, err := decode(resp.NewState)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestAnItemLivesInTheCloud(t *testing.T) {
	s, env := newServer(t)
	planned, made := change(t, s, nil, configured("a", "1"))
	if planned["id"].IsKnown() || made.text("id") == "" || made.whole("revision") != 1 || made.text("value") != "1" {
		t.Fatalf("planned was %v, and created %v", planned, made)
	}
	planned, changed := change(t, s, made, proposed(configured("a", "2"), made))
	if planned["revision"].IsKnown() || !planned["id"].Equal(made["id"]) || changed.whole("revision") != 2 ||
		changed.text("value") != "2" {
		t.Fatalf("planned was %v, and changed %v", planned, changed)
	}
	if planned, same := change(t, s, changed, proposed(configured("a", "2"), changed)); !planned["revision"].IsKnown() ||
		same.whole("revision") != 3 {
		t.Errorf("what is not changed was planned as %v", planned)
	}
	if found := read(t, s, changed); found.whole("revision") != 3 {
		t.Errorf("found is %v", found)
	}
	if _, gone := change(t, s, changed, nil); gone != nil {
		t.Errorf("%v was left", gone)
	}
	if found := read(t, s, changed); found != nil {
		t.Errorf("found is %v after its deletion", found)
	}
	r, err := record.ReadFile(env.Record)
	if err != nil {
		t.Fatal(err)
	}
	for op, want := range map[record.Op]int{record.Create: 1, record.Update: 2, record.Delete: 1, record.Read: 2,
		record.Plan: 4} {
		if got := r.Count(op); got != want {
			t.Errorf("the record has %d calls of %s, not %d", got, op, want)
		}
	}
}

func TestAnotherNameReplacesAnItem(t *testing.T) {
	s, _ := newServer(t)
	_, made := change(t, s, nil, configured("a", "1"))
	plan, err := s.PlanResourceChange(t.Context(), &tfprotov6.PlanResourceChangeRequest{TypeName: typeName,
		PriorState: coded(t, made), ProposedNewState: coded(t, proposed(configured("b", "1"), made))})
	if err != nil || len(plan.RequiresReplace) != 1 {
		t.Error(err, plan)
	}
}

func TestAnItemIsImportedByItsID(t *testing.T) {
	s, _ := newServer(t)
	_, made := change(t, s, nil, configured("a", "1"))
	resp, err := s.ImportResourceState(t.Context(), &tfprotov6.ImportResourceStateRequest{TypeName: typeName,
		ID: made.text("id")})
	if err != nil || len(resp.ImportedResources) != 1 {
		t.Fatal(err, resp)
	}
	found, err := decode(resp.ImportedResources[0].State)
	if err != nil || found.text("name") != "a" || found.text("value") != "1" || found.whole("revision") != 1 {
		t.Error(err, found)
	}
}

func BenchmarkPlan(b *testing.B) {
	s, _ := newServer(b)
	prior := configured("a", "1")
	prior["id"] = tftypes.NewValue(tftypes.String, "a-1")
	req := &tfprotov6.PlanResourceChangeRequest{TypeName: typeName, PriorState: coded(b, prior),
		ProposedNewState: coded(b, proposed(configured("a", "2"), prior))}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.PlanResourceChange(context.Background(), req); err != nil {
			b.Fatal(err)
		}
	}
}

func TestAStoredItemIsRead(t *testing.T) {
	s, _ := newServer(t)
	upgrade := func(text string) (*tfprotov6.UpgradeResourceStateResponse, error) {
		return s.UpgradeResourceState(t.Context(), &tfprotov6.UpgradeResourceStateRequest{TypeName: typeName,
			RawState: &tfprotov6.RawState{JSON: []byte(text)}})
	}
	resp, err := upgrade(`{"name": "a", "value": null, "id": "a-1", "revision": 7, "read_ms": 20, "other": {}}`)
	if err != nil {
		t.Fatal(err)
	}
	o, err := decode(resp.UpgradedState)
	if err != nil || o.text("id") != "a-1" || o.whole("revision") != 7 || o.whole("read_ms") != 20 ||
		!o["value"].IsNull() || !o["ip"].IsNull() {
		t.Error(err, o)
	}
	for _, text := range []string{"", "[]", `{"name": 1}`} {
		if resp, err := upgrade(text); err == nil {
			t.Errorf("%q is the object %v", text, resp.UpgradedState)
		}
	}
}
