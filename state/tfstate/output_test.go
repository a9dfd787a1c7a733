package tfstate

import (
	"fmt"
	"strings"
	"testing"
)

// The JSON of a list or a map of any type may have values of several types, which no list or map can have: the library
// for values panicked, and `state list`, `show` and `output` crashed.
func TestAnOutputWhoseTypeAndValueDisagreeIsAProblemOfTheFile(t *testing.T) {
	for _, disagree := range []struct{ typ, value string }{
		{`["list","dynamic"]`, `[{"value":1,"type":"number"},{"value":"a","type":"string"}]`},
		{`["map","dynamic"]`, `{"a":{"value":1,"type":"number"},"b":{"value":"a","type":"string"}}`},
		{`["set","dynamic"]`, `[{"value":1,"type":"number"},{"value":"a","type":"string"}]`},
		{`["list","dynamic"]`, `[1,"a"]`},
		{`["list",["object",{"a":"dynamic"}]]`,
			`[{"a":{"value":1,"type":"number"}},{"a":{"value":true,"type":"bool"}}]`},
		{`["object",{"a":"string"},["b"]]`, `{"a":"x"}`},
		{`["object",{"a":"string"}]`, `["x"]`},
		{`["tuple",["string","string"]]`, `["x"]`},
		{`["tuple",["string"]]`, `["x","y"]`},
		{`"string"`, `["x"]`},
		{`"string"`, ``},
		{`"number"`, `"many"`},
		{`["list","string"]`, `{"a":"x"}`},
		{`"dynamic"`, `"x"`},
		{`"dynamic"`, `{"value":"x","type":["list","string"]}`},
		{`["list"]`, `[]`},
		{`null`, `"x"`},
	} {
		output := fmt.Sprintf(`"type": %s`, disagree.typ)
		if disagree.value != "" {
			output += fmt.Sprintf(`, "value": %s`, disagree.value)
		}
		s, diags := Parse(fmt.Appendf(nil, `{"version": 4, "terraform_version": "1.12.6", "serial": 1, "lineage": "l",
			"outputs": {"odd": {%s}, "even": {"type": "string", "value": "x"}}, "resources": []}`, output))
		if !diags.HasErrors() {
			t.Errorf("%s as %s is accepted: %#v", disagree.value, disagree.typ, s.Outputs["odd"])
			continue
		}
		if text := diags[0].Detail; !strings.Contains(text, `"odd"`) {
			t.Errorf("%s as %s: the problem does not name the output: %s", disagree.value, disagree.typ, text)
		}
		if s == nil || s.Outputs["odd"] != nil || s.Outputs["even"] == nil {
			t.Errorf("%s as %s: %v", disagree.value, disagree.typ, s)
		}
	}
}
