package outline_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/service/outline"
)

const plan = `{"output_changes":{"o":{"actions":["create"],"after":"x"}},"plan_format_version":"1.2",
"provider_schemas":{"p":{"provider":{"version":0},"resource_schemas":{"fleet_vm":{"version":1,"block":{
 "attributes":{"name":{"type":"string"},"password":{"type":"string","sensitive":true},
  "users":{"nested_type":{"nesting_mode":"map","attributes":{"key":{"type":"string","sensitive":true},"id":{}}}}},
 "block_types":{"disk":{"nesting_mode":"list","block":{"attributes":{"secret":{"sensitive":true}}}}}}}},
 "data_source_schemas":{"fleet_vm":{"block":{"attributes":{"name":{}}}}}}},
"resource_changes":[
 {"address":"fleet_vm.a","mode":"managed","type":"fleet_vm","change":{"actions":["create"],"after":{"name":"a"}}},
 {"address":"module.m[\"x\"].fleet_vm.b[0]","module_address":"module.m[\"x\"]","mode":"managed","type":"fleet_vm",
  "action_reason":"replace_because_tainted","change":{"actions":["delete","create"]}},
 {"address":"fleet_vm.c","mode":"managed","type":"fleet_vm","change":{"actions":["no-op"]}},
 {"address":"fleet_vm.d","previous_address":"fleet_vm.c2","mode":"managed","type":"fleet_vm","change":{"actions":["no-op"]}},
 {"address":"fleet_vm.e","mode":"managed","type":"fleet_vm","deposed":"abc","change":{"actions":["delete"]}}],
"resource_drift":null}`

func TestAPlanIsOutlined(t *testing.T) {
	p, err := outline.ReadPlan(strings.NewReader(plan))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range p.Changes {
		got = append(got, c.Action+" "+c.Address+" in "+c.Module)
		var there struct {
			Address string `json:"address"`
		}
		if err := json.Unmarshal([]byte(plan)[c.Start:c.Start+c.Size], &there); err != nil ||
			!strings.HasPrefix(c.Address, there.Address) {
			t.Errorf("at the position %d is %q, not %s: %v", c.Start, there.Address, c.Address, err)
		}
	}
	want := []string{"create fleet_vm.a in ", `replace module.m["x"].fleet_vm.b[0] in module.m["x"]`,
		"move fleet_vm.d in ", "delete fleet_vm.e (deposed object abc) in "}
	if !reflect.DeepEqual(got, want) || p.Same != 1 || len(p.Drift) != 0 || !strings.Contains(string(p.Outputs), `"o"`) {
		t.Errorf("the differences are %q, and %d objects are the same", got, p.Same)
	}
	text, err := outline.Encode(p)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := outline.DecodePlan(text); err != nil || !reflect.DeepEqual(again.Changes, p.Changes) {
		t.Errorf("%+v, %v", again, err)
	}
}

func TestSensitiveValuesAreHidden(t *testing.T) {
	p, err := outline.ReadPlan(strings.NewReader(plan))
	if err != nil {
		t.Fatal(err)
	}
	instance := `{"attributes":{"name":"shown","number":12345678901234567890,"password":"canary",
	 "users":{"u1":{"key":"canary","id":"shown"},"u2":{"key":"canary"}},"disk":[{"secret":"canary","size":1}],
	 "tags":{"a":"canary"},"list":[["canary"]],"null":null},
	 "sensitive_attributes":[[{"type":"get_attr","value":"tags"},{"type":"index","value":{"value":"a","type":"string"}}],
	  [{"type":"get_attr","value":"list"}]]}`
	masks, known := p.Masks["managed fleet_vm"]
	if !known {
		t.Fatalf("%v", p.Masks)
	}
	shown, err := outline.Attributes([]byte(instance), masks, known)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(shown)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "canary") || strings.Count(string(text), "shown") != 2 ||
		!strings.Contains(string(text), "12345678901234567890") {
		t.Errorf("%s", text)
	}
	// Any attribute of a type without a known schema may be sensitive.
	if shown, err = outline.Attributes([]byte(instance), nil, false); err != nil {
		t.Fatal(err)
	}
	if text, err = json.Marshal(shown); err != nil || strings.Contains(string(text), "shown") {
		t.Errorf("%s, %v", text, err)
	}
}

// The page of an object showed a sensitive value that its provider had copied: a terraform_data has its input as its
// output, and no schema or configuration marks that as sensitive.
func TestASensitiveValueIsHiddenWhereverAProviderHasCopiedIt(t *testing.T) {
	shown, err := outline.Attributes([]byte(`{"attributes":{"input":"canary-4711","output":"canary-4711",
	 "url":["https://u:canary-4711@example.com"],"more":{"deep":"canary-4711","other":"shown"},"zone":"eu","region":"eu"},
	 "sensitive_attributes":[[{"type":"get_attr","value":"input"}],[{"type":"get_attr","value":"zone"}]]}`), nil, true)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(shown)
	if want := `{"input":"(sensitive)","more":{"deep":"(sensitive)","other":"shown"},"output":"(sensitive)",` +
		`"region":"eu","url":["(sensitive)"],"zone":"(sensitive)"}`; err != nil || string(text) != want {
		t.Errorf("%s, %v", text, err)
	}
}

func state(values ...string) string {
	var b strings.Builder
	b.WriteString(`{"version":4,"serial":1,"resources":[{"instances":[`)
	for i, v := range values {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, `{"index_key":%d,"attributes":{"v":%q}}`, i, v)
	}
	b.WriteString(`],"module":"module.m","mode":"managed","type":"fleet_vm","name":"a"}],"outputs":{}}`)
	return b.String()
}

func TestAStateIsOutlinedAndFollowed(t *testing.T) {
	var before *outline.State
	id := ""
	for i, values := range [][]string{{"a", "b"}, {"a", "c", "d"}, {"a", "c", "e"}} {
		s, err := outline.ReadState(strings.NewReader(state(values...)))
		if err != nil {
			t.Fatal(err)
		}
		this := fmt.Sprint("v", i)
		s.Follow(this, before, id)
		before, id = s, this
	}
	var got []string
	for _, o := range before.Objects {
		got = append(got, o.Address+" since "+o.Since)
	}
	want := []string{"module.m.fleet_vm.a[0] since ", "module.m.fleet_vm.a[1] since v1", "module.m.fleet_vm.a[2] since v2"}
	if !reflect.DeepEqual(got, want) || before.Before != "v0" {
		t.Errorf("%q, before %s", got, before.Before)
	}
}

func TestTheLayoutOfAStateMakesNoDifference(t *testing.T) {
	text := state("a")
	var tree any
	if err := json.Unmarshal([]byte(text), &tree); err != nil {
		t.Fatal(err)
	}
	pretty, err := json.MarshalIndent(tree, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	x, err := outline.ReadState(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	y, err := outline.ReadState(strings.NewReader(string(pretty)))
	if err != nil {
		t.Fatal(err)
	}
	if x.Objects[0].Sum != y.Objects[0].Sum || x.Objects[0].Address != y.Objects[0].Address {
		t.Errorf("%+v and %+v", x.Objects[0], y.Objects[0])
	}
}

func TestWhatIsNoDocumentIsAnError(t *testing.T) {
	for _, text := range []string{"", "[]", `{"resources":{}}`, `{"resources":[{"instances":[{`, `{"resources":[1]}`} {
		if _, err := outline.ReadState(strings.NewReader(text)); err == nil {
			t.Errorf("%q is accepted as a state", text)
		}
	}
}
