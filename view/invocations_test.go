package view_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/view"
	"github.com/millipede-iac/millipede/view/document"
	"github.com/millipede-iac/millipede/wire"
)

// invoking is a plan that invokes an action because of an object, and another one by the option -invoke.
func invoking() (*plan.Plan, *values.Schemas) {
	p := addr.DefaultProvider("a")
	text := &schema.Attribute{Type: cty.String, Optional: true}
	schemas := values.NewSchemas(map[addr.Provider]*provider.Schemas{p: {Actions: map[string]schema.Schema{
		"a_send": {Block: &schema.Block{Attributes: map[string]*schema.Attribute{"text": text, "key": text}}}}}})
	at := func(m addr.Mode, t, name string, k addr.Key) addr.Instance {
		return addr.Resource{Mode: m, Type: t, Name: name}.Absolute(addr.RootInstance).Instance(k)
	}
	served := addr.ProviderConfig{Provider: p}.Instance(addr.RootInstance, addr.NoKey)
	return &plan.Plan{Prior: state.Empty(), Invocations: []*plan.Invocation{
		{Addr: at(addr.Action, "a_send", "m", addr.StringKey("k")), Provider: served,
			Config: cty.ObjectVal(map[string]cty.Value{"text": cty.UnknownVal(cty.String),
				"key": cty.StringVal("hush").Mark(marks.Sensitive)}),
			Trigger: &plan.Trigger{Resource: at(addr.Managed, "a_b", "c", addr.NoKey), Event: string(config.AfterCreate),
				Block: 1, Index: 2, Conditional: true}},
		{Addr: at(addr.Action, "a_send", "n", addr.NoKey), Provider: served,
			Config: cty.ObjectVal(map[string]cty.Value{"text": cty.StringVal("t"), "key": cty.NullVal(cty.String)})},
	}}, schemas
}

func TestThePlanShowsTheInvocationsAndCountsThem(t *testing.T) {
	p, schemas := invoking()
	var out bytes.Buffer
	if err := view.PlanText(&out, p, schemas, view.TextOptions{}); err != nil {
		t.Fatal(err)
	}
	_, got, _ := strings.Cut(out.String(), "OpenTofu will invoke")
	const want = ` the following actions:

  # action.a_send.m["k"] will be invoked
  # (after a_b.c was created, if the condition holds then)
    action "a_send" "m" {
        key  = (sensitive value)
        text = (known after apply)
    }

  # action.a_send.n will be invoked
  # (because of the option -invoke)
    action "a_send" "n" {
        text = "t"
    }

Plan: 0 to add, 0 to change, 0 to destroy. Actions: 2 to invoke.
`
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}

func TestTheJSONOfAPlanHasTheInvocations(t *testing.T) {
	p, schemas := invoking()
	tree, diags := config.NewLoader(config.OS{Base: t.TempDir()}).LoadTree(config.TreeOptions{})
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	text, err := document.PlanJSON(p, tree, schemas)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Invocations json.RawMessage `json:"action_invocations"`
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	const want = `[{"address":"action.a_send.m[\"k\"]","type":"a_send","name":"m","config_values":{"key":"hush"},` +
		`"config_sensitive":{"key":true},"config_unknown":{"text":true},` +
		`"provider_name":"registry.opentofu.org/hashicorp/a","lifecycle_action_trigger":{` +
		`"triggering_resource_address":"a_b.c","action_trigger_event":"after_create","action_trigger_block_index":1,` +
		`"actions_list_index":2,"millipede_conditional":true}},` +
		`{"address":"action.a_send.n","type":"a_send","name":"n","config_values":{"key":null,"text":"t"},` +
		`"config_sensitive":{},"config_unknown":{},"provider_name":"registry.opentofu.org/hashicorp/a",` +
		`"invoke_action_trigger":{}}]`
	if d := cmp.Diff(want, string(got.Invocations)); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
	p.Invocations = nil
	if text, err = document.PlanJSON(p, tree, schemas); err != nil || bytes.Contains(text, []byte("action_inv")) {
		t.Errorf("a plan without actions is %s, %v", text, err)
	}
}

func TestMessagesAboutActionsHaveTheFieldsThatProgramsRead(t *testing.T) {
	p, _ := invoking()
	var out bytes.Buffer
	s := document.NewStream(document.StreamOptions{Out: &out, EngineVersion: "1.12.6", Now: time.Now})
	s.Plan(p)
	d := program.Description{Address: `action.a_send.m["k"]`, Class: "a_send", Action: "invoke"}
	s.Started(1, d, "", time.Now())
	s.Event(wire.Event{Address: d.Address, Kind: "progress", Name: "a_send", Text: "half"})
	s.Finished(1, d, program.Notes{Action: "invoke"}, time.Second)
	if err := s.Settle(); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	var last map[string]any
	for _, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, m["type"].(string))
		if m["type"] == "planned_action_invocation" && last == nil {
			last = m["invocation"].(map[string]any)
		}
		if m["type"] == "change_summary" && m["changes"].(map[string]any)["action_invocation"] != 2.0 {
			t.Errorf("the summary is %v", m)
		}
	}
	want := []string{"version", "planned_action_invocation", "planned_action_invocation", "change_summary", "action_start",
		"action_progress", "action_complete"}
	if !slices.Equal(kinds, want) {
		t.Errorf("the messages are %q, want %q", kinds, want)
	}
	if a := last["action"].(map[string]any); a["addr"] != d.Address || a["action_type"] != "a_send" ||
		a["action_key"] != "k" || last["lifecycle_trigger"].(map[string]any)["actions_list_index"] != 2.0 {
		t.Errorf("the first invocation is %v", last)
	}
}
