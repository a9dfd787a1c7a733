package eval

import (
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/millipede-iac/millipede/provider/schema"
)

func TestObjectsGetTheMarksOfTheirSchema(t *testing.T) {
	secret := map[string]*schema.Attribute{"s": {Type: cty.String, Sensitive: true}, "p": optional(cty.String)}
	block := &schema.Block{
		Attributes: map[string]*schema.Attribute{
			"password": {Type: cty.String, Sensitive: true}, "name": optional(cty.String),
			"old":  {Type: cty.String, Deprecated: true, DeprecationMessage: "use name"},
			"list": {Nested: &schema.Object{Nesting: schema.NestingList, Attributes: secret}},
			"map":  {Nested: &schema.Object{Nesting: schema.NestingMap, Attributes: secret}},
		},
		Blocks: map[string]*schema.NestedBlock{
			"one":  {Nesting: schema.NestingSingle, Block: schema.Block{Attributes: secret}},
			"many": {Nesting: schema.NestingSet, Block: schema.Block{Attributes: secret}},
		},
	}
	inner := obj("s", "x", "p", "y")
	sensitive := func(v cty.Value) cty.Value { return v.Mark(marks.Sensitive) }
	markedInner := obj("s", sensitive(val("x")), "p", "y")
	got := MarkObject(obj(
		"password", cty.NullVal(cty.String), "name", sensitive(val("n")), "old", "o",
		"list", cty.ListVal([]cty.Value{inner}), "map", cty.MapVal(map[string]cty.Value{"k": inner}),
		"one", inner, "many", cty.SetVal([]cty.Value{inner}),
	), block, "a_b.c")
	want := obj(
		"password", sensitive(cty.NullVal(cty.String)), "name", sensitive(val("n")),
		"old", val("o").Mark(marks.Deprecated{Message: "use name", Origin: "a_b.c.old"}),
		"list", cty.ListVal([]cty.Value{markedInner}), "map", cty.MapVal(map[string]cty.Value{"k": markedInner}),
		"one", markedInner, "many", cty.SetVal([]cty.Value{markedInner}),
	)
	if !got.RawEquals(want) {
		t.Errorf("got  %#v\nwant %#v", got, want)
	}
	for _, v := range []cty.Value{cty.NullVal(block.ImpliedType()), cty.UnknownVal(block.ImpliedType()),
		block.EmptyValue()} {
		if got := MarkObject(v, block, ""); got.ContainsMarked() != v.IsKnown() && !v.IsNull() {
			t.Errorf("%#v became %#v", v, got)
		}
	}
}

func TestAnEphemeralObjectIsEphemeralAsAWhole(t *testing.T) {
	block := &schema.Block{Ephemeral: true, Attributes: map[string]*schema.Attribute{"a": optional(cty.String)}}
	if v := MarkObject(cty.UnknownVal(block.ImpliedType()), block, ""); !v.HasMark(marks.Ephemeral) {
		t.Errorf("got %#v", v)
	}
	plain := obj("a", "x")
	if v := MarkObject(plain, &schema.Block{Attributes: block.Attributes}, "a_b.c"); !v.RawEquals(plain) {
		t.Errorf("got %#v", v)
	}
}
