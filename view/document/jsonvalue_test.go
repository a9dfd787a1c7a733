package document

import (
	"testing"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/millipede-iac/millipede/lang/marks"
)

// Each part of each value was copied without its marks, and then written by way of a value of the same shape: a plan of
// twenty thousand objects took seconds to write.
func TestTheFormsOfAValue(t *testing.T) {
	secret := func(v cty.Value) cty.Value { return v.Mark(marks.Sensitive) }
	text := cty.StringVal
	object := func(attrs map[string]cty.Value) cty.Value { return cty.ObjectVal(attrs) }
	for name, c := range map[string]struct {
		v                       cty.Value
		raw, sensitive, unknown string
	}{
		"text":           {text(`a"<é`), `"a\"\u003cé"`, `false`, `{}`},
		"nothing":        {cty.NullVal(cty.String), `null`, `false`, `{}`},
		"a secret":       {secret(text("s")), `"s"`, `true`, `{}`},
		"unknown":        {cty.UnknownVal(cty.String), `null`, `false`, `true`},
		"unknown object": {cty.UnknownVal(cty.EmptyObject), `null`, `{}`, `true`},
		"unknown list":   {cty.UnknownVal(cty.List(cty.String)), `null`, `[]`, `true`},
		"object": {object(map[string]cty.Value{"b": text("x"), "a": secret(cty.NumberIntVal(1)),
			"u": cty.UnknownVal(cty.Bool),
			"n": cty.NullVal(cty.DynamicPseudoType)}), `{"a":1,"b":"x","n":null}`, `{"a":true}`, `{"u":true}`},
		"object in an object": {object(map[string]cty.Value{"o": object(map[string]cty.Value{"p": text("q")})}),
			`{"o":{"p":"q"}}`, `{"o":{}}`, `{}`},
		"list": {cty.ListVal([]cty.Value{text("a"), secret(text("b")), cty.UnknownVal(cty.String)}),
			`["a","b",null]`, `[false,true,false]`, `[false,false,true]`},
		"list of objects": {cty.ListVal([]cty.Value{object(map[string]cty.Value{"k": secret(text("v"))})}),
			`[{"k":"v"}]`, `[{"k":true}]`, `{}`},
		"set of secrets": {cty.SetVal([]cty.Value{secret(text("a"))}), `["a"]`, `true`, `{}`},
		"map": {cty.MapVal(map[string]cty.Value{"z": text("1"), `q"`: secret(text("2"))}), `{"q\"":"2","z":"1"}`,
			`{"q\"":true}`, `{}`},
		"empty": {object(map[string]cty.Value{"l": cty.ListValEmpty(cty.String), "m": cty.MapValEmpty(cty.String)}),
			`{"l":[],"m":{}}`, `{"l":[],"m":{}}`, `{}`},
		"a secret object": {secret(object(map[string]cty.Value{"a": text("b")})), `{"a":"b"}`, `true`, `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			for _, form := range []struct{ what, got, want string }{
				{"value", string(Raw(c.v)), c.raw}, {"sensitive form", string(sensitiveForm(c.v)), c.sensitive},
				{"unknown form", string(unknownForm(c.v)), c.unknown},
			} {
				if form.got != form.want {
					t.Errorf("the %s is %s, not %s", form.what, form.got, form.want)
				}
			}
			if bare, _ := c.v.UnmarkDeep(); bare.IsWhollyKnown() {
				if want, err := ctyjson.Marshal(bare, bare.Type()); err != nil || string(want) != c.raw {
					t.Errorf("cty writes %s, %v", want, err)
				}
			}
		})
	}
	attributes := attributesOf(object(map[string]cty.Value{"a": secret(text("b")), "u": cty.UnknownVal(cty.String)}))
	if len(attributes) != 1 || string(attributes["a"]) != `"b"` {
		t.Errorf("the attributes are %s", attributes)
	}
}
