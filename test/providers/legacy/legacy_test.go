package legacy

import (
	"crypto/rand"
	"path/filepath"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-sdk/v2/helper/schema"

	"github.com/millipede-iac/millipede/test/providers/act"
)

func newProvider(t *testing.T) (*schema.Provider, act.Env, *act.Stage) {
	t.Helper()
	dir := t.TempDir()
	env := act.Env{Record: filepath.Join(dir, "record"), Cloud: filepath.Join(dir, "cloud")}
	stage, err := env.Open("legacy", rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := stage.Log.Close(); err != nil {
			t.Error(err)
		}
	})
	return New(env, stage), env, stage
}

func TestTheSDKFindsNoFault(t *testing.T) {
	p, env, stage := newProvider(t)
	if err := p.InternalValidate(); err != nil {
		t.Error(err)
	}
	all, err := Server(env, stage).GetProviderSchema(t.Context(), &tfprotov5.GetProviderSchemaRequest{})
	if err != nil || len(all.Diagnostics) > 0 || all.ResourceSchemas["legacy_item"].Version != 2 {
		t.Errorf("%v, %+v", err, all)
	}
}

func TestAnItemIsMangled(t *testing.T) {
	_, _, stage := newProvider(t)
	meta := &site{stage: stage, region: "r"}
	d := schema.TestResourceDataRaw(t, item().Schema, map[string]any{
		"name": "a", "mangled": "abc", "disk": []any{map[string]any{"size": 1}},
	})
	if diags := create(t.Context(), d, meta); diags.HasError() {
		t.Fatal(diags)
	}
	for key, want := range map[string]any{"mangled": "ABC", "kind": "plain", "blank": "", "region": "r", "revision": 1,
		"size": "small"} {
		if got := d.Get(key); got != want {
			t.Errorf("%s is %v, want %v", key, got, want)
		}
	}
	if d.Get("disk.0.uuid") == "" || d.Get("route.0.via") != "default" {
		t.Errorf("the computed parts are %v and %v", d.Get("disk"), d.Get("route"))
	}
	if diags := remove(t.Context(), d, meta); diags.HasError() {
		t.Fatal(diags)
	}
	if diags := read(t.Context(), d, meta); diags.HasError() || d.Id() != "" {
		t.Errorf("the deleted item has the id %q (%v)", d.Id(), diags)
	}
}

func TestOlderItemsAreUpgradedStepByStep(t *testing.T) {
	raw := map[string]any{"title": "a", "size": "s"}
	for _, upgrader := range item().StateUpgraders {
		var err error
		if raw, err = upgrader.Upgrade(t.Context(), raw, nil); err != nil {
			t.Fatal(err)
		}
	}
	if len(raw) != 2 || raw["name"] != "a" {
		t.Errorf("upgraded to %v", raw)
	}
}
