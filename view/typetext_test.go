package view_test

import (
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/view"
)

func TestTypesReadMuchAsTheyAreDeclared(t *testing.T) {
	object := cty.Object(map[string]cty.Type{"b": cty.Bool, "a": cty.List(cty.String)})
	for _, c := range []struct {
		name string
		ty   cty.Type
		want string
	}{
		{"a primitive type", cty.Number, "number"},
		{"any type", cty.DynamicPseudoType, "dynamic"},
		{"an empty object", cty.EmptyObject, "object({})"},
		{"an empty tuple", cty.EmptyTuple, "tuple([])"},
		{"collections", cty.Map(cty.Set(cty.List(cty.String))), "map(set(list(string)))"},
		{"an object", object, "object({\n    a: list(string),\n    b: bool,\n})"},
		{"a tuple", cty.Tuple([]cty.Type{cty.String, object}), "tuple([\n    string,\n    object({\n        a: " +
			"list(string),\n        b: bool,\n    }),\n])"},
		{"a list of objects", cty.List(object),
			"list(\n    object({\n        a: list(string),\n        b: bool,\n    }),\n)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := view.TypeText(c.ty); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}
