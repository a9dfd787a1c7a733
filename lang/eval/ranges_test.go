package eval

import (
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/diag"
)

func TestAPathLeadsToItsSourceLine(t *testing.T) {
	src := `name = "x"
tags = {
  a = 1
  "b c" = 2
}
list = [
  "one",
  "two",
]
rows {
  must = "r0"
}
rows {
  must = "r1"
  inner {
    must = "i0"
  }
}
map "k" {
  must = "m"
}
dynamic "set" {
  for_each = ["x"]
  content {
    must = set.value
  }
}
list_obj = [
  { x = "a" },
  { x = "b" },
]
`
	_, body, diags := testScope(sinkData()).Body(parseBody(t, src), sink(), sinkRep, cty.NilVal)
	noErrors(t, diags)
	native := parseBody(t, src)
	for name, tc := range map[string]struct {
		path cty.Path
		line int
	}{
		"attribute":                   {cty.GetAttrPath("name"), 1},
		"element of a map":            {cty.GetAttrPath("tags").IndexString("a"), 3},
		"element with a quoted key":   {cty.GetAttrPath("tags").IndexString("b c"), 4},
		"element that is not written": {cty.GetAttrPath("tags").IndexString("z"), 2},
		"element of a list":           {cty.GetAttrPath("list").IndexInt(1), 8},
		"element behind the end":      {cty.GetAttrPath("list").IndexInt(7), 6},
		"block":                       {cty.GetAttrPath("rows").IndexInt(1), 13},
		"attribute of a block":        {cty.GetAttrPath("rows").IndexInt(1).GetAttr("must"), 14},
		"attribute of a block in a block": {cty.GetAttrPath("rows").IndexInt(1).GetAttr("inner").Index(
			obj("must", "i0")).GetAttr("must"), 16},
		"attribute of a keyed block":      {cty.GetAttrPath("map").IndexString("k").GetAttr("must"), 20},
		"attribute of a dynamic block":    {cty.GetAttrPath("set").Index(obj("must", "x")).GetAttr("must"), 25},
		"attribute of a nested attribute": {cty.GetAttrPath("list_obj").IndexInt(1).GetAttr("x"), 30},
		"missing attribute":               {cty.GetAttrPath("size"), native.MissingItemRange().Start.Line},
		"missing attribute of a block":    {cty.GetAttrPath("rows").IndexInt(0).GetAttr("a"), 10},
		"the whole":                       {nil, native.MissingItemRange().Start.Line},
	} {
		got := ConfigRange(body, tc.path)
		if got == nil || got.Start.Line != tc.line {
			t.Errorf("%s: %v, want line %d", name, got, tc.line)
		}
	}
	if ConfigRange(nil, cty.GetAttrPath("name")) != nil {
		t.Error("no body has a range")
	}
}

func TestAtSourceKeepsTheRangesThatAreThere(t *testing.T) {
	body := parseBody(t, "name = 1\n")
	elsewhere := &hcl.Range{Filename: "other.tf"}
	in := diag.List{
		{Severity: diag.Error, Summary: "a", Path: cty.GetAttrPath("name")},
		{Severity: diag.Error, Summary: "b", Path: cty.GetAttrPath("name"), Subject: elsewhere},
		{Severity: diag.Error, Summary: "c"},
	}
	out := AtSource(in, body)
	if out[0].Subject == nil || out[0].Subject.Filename != "test.tf" || out[1].Subject != elsewhere ||
		out[2].Subject != nil {
		t.Errorf("got %v", out)
	}
	if in[0].Subject != nil {
		t.Error("the input has been changed")
	}
}
