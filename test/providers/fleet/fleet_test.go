package fleet

import (
	"context"
	"maps"
	"path/filepath"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov5"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/millipede-iac/millipede/test/providers/act"
	"github.com/millipede-iac/millipede/test/providers/record"
)

func newFleet(t *testing.T, name string, nested bool) (*Fleet, act.Env) {
	t.Helper()
	dir := t.TempDir()
	env := act.Env{Record: filepath.Join(dir, "record"), Cloud: filepath.Join(dir, "cloud")}
	f, err := New(name, nested, env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.before.Log.Close(); err != nil {
			t.Error(err)
		}
	})
	return f, env
}

func TestBothProtocolsDescribeTheProvider(t *testing.T) {
	six, _ := newFleet(t, "fleet", true)
	all6, err := six.Server6().GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{})
	if err != nil || len(all6.Diagnostics) > 0 {
		t.Fatalf("protocol 6: %v, %+v", err, all6.Diagnostics)
	}
	five, _ := newFleet(t, "fleet5", false)
	all5, err := five.Server5().GetProviderSchema(t.Context(), &tfprotov5.GetProviderSchemaRequest{})
	if err != nil || len(all5.Diagnostics) > 0 {
		t.Fatalf("protocol 5: %v, %+v", err, all5.Diagnostics)
	}
	for name := range all6.ResourceSchemas {
		if _, ok := all5.ResourceSchemas["fleet5"+name[len("fleet"):]]; !ok && name != "fleet_nested" {
			t.Errorf("protocol 5 lacks a twin of %s", name)
		}
	}
	if len(all5.ResourceSchemas) != 5 || len(all6.Functions) != len(functions) ||
		len(all5.EphemeralResourceSchemas) != 1 {
		t.Errorf("%d resource types, %d functions, %d ephemeral ones", len(all5.ResourceSchemas), len(all6.Functions),
			len(all5.EphemeralResourceSchemas))
	}
}

// client drives a server as an engine does, as far as these tests need it.
type client struct {
	t      *testing.T
	server tfprotov6.ProviderServer
	types  map[string]tftypes.Type // of resource types; the provider's is ""
}

func newClient(t *testing.T, f *Fleet, config map[string]tftypes.Value) *client {
	t.Helper()
	c := &client{t: t, server: f.Server6(), types: map[string]tftypes.Type{}}
	all, err := c.server.GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		t.Fatal(err)
	}
	c.types[""] = all.Provider.ValueType()
	for name, schema := range all.ResourceSchemas {
		c.types[name] = schema.ValueType()
	}
	resp, err := c.server.ConfigureProvider(t.Context(), &tfprotov6.ConfigureProviderRequest{Config: c.encode("",
		c.object("", config))})
	if err != nil || len(resp.Diagnostics) > 0 {
		t.Fatalf("configuring: %v, %+v", err, resp)
	}
	return c
}

// object returns an object of a type; attributes that are not given are null.
func (c *client) object(typeName string, given map[string]tftypes.Value) tftypes.Value {
	t := c.types[typeName].(tftypes.Object)
	values := map[string]tftypes.Value{}
	for name, t := range t.AttributeTypes {
		values[name] = tftypes.NewValue(t, nil)
	}
	maps.Copy(values, given)
	return tftypes.NewValue(t, values)
}

func (c *client) encode(typeName string, v tftypes.Value) *tfprotov6.DynamicValue {
	c.t.Helper()
	dv, err := tfprotov6.NewDynamicValue(c.types[typeName], v)
	if err != nil {
		c.t.Fatal(err)
	}
	return &dv
}

// text returns an attribute of an encoded object, "?" for one that is unknown.
func (c *client) text(typeName string, dv *tfprotov6.DynamicValue, name string) string {
	c.t.Helper()
	v, err := dv.Unmarshal(c.types[typeName])
	if err != nil {
		c.t.Fatal(err)
	}
	var all map[string]tftypes.Value
	if err := v.As(&all); err != nil {
		c.t.Fatal(err)
	}
	if !all[name].IsKnown() {
		return "?"
	}
	var text *string
	if err := all[name].As(&text); err != nil {
		c.t.Fatal(err)
	}
	if text == nil {
		return ""
	}
	return *text
}

// create plans and applies a new object; it returns the planned and the new one.
func (c *client) create(ctx context.Context, typeName string, config map[string]tftypes.Value) (planned,
	created *tfprotov6.DynamicValue, failures []*tfprotov6.Diagnostic) {
	c.t.Helper()
	null := c.encode(typeName, tftypes.NewValue(c.types[typeName], nil))
	wanted := c.encode(typeName, c.object(typeName, config))
	plan, err := c.server.PlanResourceChange(ctx, &tfprotov6.PlanResourceChangeRequest{
		TypeName: typeName, PriorState: null, ProposedNewState: wanted, Config: wanted,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	if len(plan.Diagnostics) > 0 {
		return plan.PlannedState, nil, plan.Diagnostics
	}
	applied, err := c.server.ApplyResourceChange(ctx, &tfprotov6.ApplyResourceChangeRequest{
		TypeName: typeName, PriorState: null, PlannedState: plan.PlannedState, Config: wanted,
		PlannedPrivate: plan.PlannedPrivate,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return plan.PlannedState, applied.NewState, applied.Diagnostics
}

func text(s string) tftypes.Value { return tftypes.NewValue(tftypes.String, s) }

func moments(all ...string) tftypes.Value {
	var values []tftypes.Value
	for _, m := range all {
		values = append(values, text(m))
	}
	return tftypes.NewValue(tftypes.Set{ElementType: tftypes.String}, values)
}

func TestAMachineTakesTheProvidersRegion(t *testing.T) {
	f, _ := newFleet(t, "fleet", true)
	c := newClient(t, f, map[string]tftypes.Value{"region": text("eu-1")})
	planned, created, failures := c.create(t.Context(), "fleet_machine", map[string]tftypes.Value{"name": text("a")})
	if len(failures) > 0 {
		t.Fatalf("%+v", failures[0])
	}
	for name, want := range map[string]string{"region": "eu-1", "size": "small", "id": "?", "password": "?"} {
		if got := c.text("fleet_machine", planned, name); got != want {
			t.Errorf("the planned %s is %q, want %q", name, got, want)
		}
	}
	if id := c.text("fleet_machine", created, "id"); len(id) != len("a-")+12 {
		t.Errorf("the id is %q", id)
	}
}

func TestAnUnknownRegionOfTheProviderStaysUnknown(t *testing.T) {
	f, env := newFleet(t, "fleet", true)
	c := newClient(t, f, map[string]tftypes.Value{"region": tftypes.NewValue(tftypes.String, tftypes.UnknownValue)})
	null := c.encode("fleet_machine", tftypes.NewValue(c.types["fleet_machine"], nil))
	wanted := c.encode("fleet_machine", c.object("fleet_machine", map[string]tftypes.Value{"name": text("a")}))
	plan, err := c.server.PlanResourceChange(t.Context(), &tfprotov6.PlanResourceChangeRequest{
		TypeName: "fleet_machine", PriorState: null, ProposedNewState: wanted, Config: wanted,
	})
	if err != nil || len(plan.Diagnostics) > 0 {
		t.Fatalf("%v, %+v", err, plan)
	}
	if got := c.text("fleet_machine", plan.PlannedState, "region"); got != "?" {
		t.Errorf("the planned region is %q, want an unknown one", got)
	}
	r, err := record.ReadFile(env.Record)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Calls(record.Ops(record.Configure)); len(got) != 1 || got[0].Region != "(unknown)" {
		t.Errorf("the record has %+v", got)
	}
}

func TestWhatFailsAfterTheEffectIsInTheAnswer(t *testing.T) {
	f, _ := newFleet(t, "fleet", true)
	c := newClient(t, f, nil)
	_, created, failures := c.create(t.Context(), "fleet_machine", map[string]tftypes.Value{
		"name": text("a"), "fail_on": moments("create_after"),
	})
	if len(failures) != 1 || c.text("fleet_machine", created, "id") == "" {
		t.Errorf("%d failures, and the id is %q", len(failures), c.text("fleet_machine", created, "id"))
	}
	_, created, failures = c.create(t.Context(), "fleet_machine", map[string]tftypes.Value{
		"name": text("b"), "fail_on": moments("create"),
	})
	if null, err := created.IsNull(); len(failures) != 1 || err != nil || !null {
		t.Errorf("%d failures, the object is null: %t (%v)", len(failures), null, err)
	}
}

func TestNothingIsLeftUnknownInNestedParts(t *testing.T) {
	unknown := tftypes.NewValue(tftypes.String, tftypes.UnknownValue)
	inner := tftypes.Object{AttributeTypes: map[string]tftypes.Type{"id": tftypes.String, "n": tftypes.Number,
		"on": tftypes.Bool}}
	v := tftypes.NewValue(tftypes.List{ElementType: inner}, []tftypes.Value{
		tftypes.NewValue(inner, map[string]tftypes.Value{
			"id": unknown, "n": tftypes.NewValue(tftypes.Number, tftypes.UnknownValue),
			"on": tftypes.NewValue(tftypes.Bool, tftypes.UnknownValue),
		}),
	})
	first, err := settle(v, "a")
	if err != nil || !first.IsFullyKnown() {
		t.Fatalf("%v, %v", first, err)
	}
	again, err := settle(v, "a")
	if err != nil || !first.Equal(again) {
		t.Errorf("the same object gets other values: %v and %v", first, again)
	}
}
