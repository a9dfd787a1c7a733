package generate

import (
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/schema"
)

var thing = &schema.Block{
	Attributes: map[string]*schema.Attribute{
		"id":     {Type: cty.String, Optional: true, Computed: true},
		"name":   {Type: cty.String, Required: true},
		"policy": {Type: cty.String, Optional: true},
		"secret": {Type: cty.String, Optional: true, Sensitive: true},
		"made":   {Type: cty.String, Computed: true},
		"old":    {Type: cty.String, Optional: true, Deprecated: true},
		"rules": {Optional: true, Nested: &schema.Object{Nesting: schema.NestingList,
			Attributes: map[string]*schema.Attribute{
				"port": {Type: cty.Number, Optional: true}, "seen": {Type: cty.Number, Computed: true},
			}}},
		"by": {Optional: true, Nested: &schema.Object{Nesting: schema.NestingMap,
			Attributes: map[string]*schema.Attribute{
				"x": {Type: cty.Bool, Optional: true},
			}}},
	},
	Blocks: map[string]*schema.NestedBlock{
		"disk": {Nesting: schema.NestingSet,
			Block: schema.Block{Attributes: map[string]*schema.Attribute{"size": {Type: cty.Number, Required: true}}}},
		"tag": {Nesting: schema.NestingMap,
			Block: schema.Block{Attributes: map[string]*schema.Attribute{"v": {Type: cty.String, Optional: true}}}},
		"one": {Nesting: schema.NestingSingle,
			Block: schema.Block{Attributes: map[string]*schema.Attribute{"v": {Type: cty.String, Optional: true}}}},
	},
}

func object(t *testing.T, set map[string]cty.Value) cty.Value {
	t.Helper()
	attrs := map[string]cty.Value{}
	for name, ty := range thing.ImpliedType().AttributeTypes() {
		attrs[name] = cty.NullVal(ty)
		if v, ok := set[name]; ok {
			attrs[name] = v
		}
	}
	return cty.ObjectVal(attrs)
}

func TestTheBlockOfAnObject(t *testing.T) {
	v := object(t, map[string]cty.Value{
		"id": cty.StringVal("i"), "name": cty.StringVal("a ${b} \"c\""), "policy": cty.StringVal(`{"a": [1, true]}`),
		"secret": cty.StringVal("hunter2"), "made": cty.StringVal("m"), "old": cty.StringVal("o"),
		"rules": cty.ListVal([]cty.Value{cty.ObjectVal(map[string]cty.Value{"port": cty.NumberIntVal(80),
			"seen": cty.Zero})}),
		"by":   cty.MapVal(map[string]cty.Value{"a b": cty.ObjectVal(map[string]cty.Value{"x": cty.True})}),
		"disk": cty.SetVal([]cty.Value{cty.ObjectVal(map[string]cty.Value{"size": cty.NumberIntVal(5)})}),
		"tag": cty.MapVal(map[string]cty.Value{
			"k": cty.ObjectVal(map[string]cty.Value{"v": cty.NullVal(cty.String)})}),
	})
	const want = `resource "my_thing" "a" {
  provider = my.eu
  by = {
    "a b" = {
      x = true
    }
  }
  name = "a $${b} \"c\""
  policy = jsonencode({
    a = [1, true]
  })
  rules = [
    {
      port = 80
    },
  ]
  secret = null # sensitive
  disk {
    size = 5
  }
  tag "k" {
    v = null
  }
}`
	r := addr.Resource{Mode: addr.Managed, Type: "my_thing", Name: "a"}
	if got := Resource(r, Provider(r, addr.LocalProvider{Name: "my", Alias: "eu"}, addr.NoKey), thing, v); got != want {
		t.Errorf("%s", got)
	}
}

func TestTheImpliedProviderIsNotNamed(t *testing.T) {
	v := object(t, map[string]cty.Value{"name": cty.StringVal("n"),
		"disk": cty.SetValEmpty(cty.Object(map[string]cty.Type{"size": cty.Number})),
		"tag":  cty.MapValEmpty(cty.Object(map[string]cty.Type{"v": cty.String}))})
	const want = `resource "my_thing" "a" {
  by     = null
  name   = "n"
  policy = null
  rules  = null
  secret = null # sensitive
}`
	r := addr.Resource{Mode: addr.Managed, Type: "my_thing", Name: "a"}
	if got := Resource(r, Provider(r, addr.LocalProvider{Name: "my"}, addr.NoKey), thing, v); got != want {
		t.Errorf("%s", got)
	}
}
