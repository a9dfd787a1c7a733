package mock_test

import (
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/provider/mock"
)

var block = &schema.Block{
	Attributes: map[string]*schema.Attribute{
		"required": {Type: cty.String, Required: true},
		"optional": {Type: cty.String, Optional: true},
		"either":   {Type: cty.String, Optional: true, Computed: true},
		"text":     {Type: cty.String, Computed: true},
		"number":   {Type: cty.Number, Computed: true},
		"bool":     {Type: cty.Bool, Computed: true},
		"list":     {Type: cty.List(cty.String), Computed: true},
		"object":   {Type: cty.Object(map[string]cty.Type{"n": cty.Number, "s": cty.Set(cty.Bool)}), Computed: true},
		"any":      {Type: cty.DynamicPseudoType, Computed: true},
		"secret":   {Type: cty.String, Optional: true, WriteOnly: true},
	},
	Blocks: map[string]*schema.NestedBlock{
		"inner": {Nesting: schema.NestingList, Block: schema.Block{Attributes: map[string]*schema.Attribute{
			"name": {Type: cty.String, Required: true},
			"id":   {Type: cty.String, Computed: true},
		}}},
	},
}

// config returns a configuration of block with some attributes set.
func config(set map[string]cty.Value) cty.Value {
	attrs := block.EmptyValue().AsValueMap()
	attrs["required"] = cty.StringVal("r")
	for name, v := range set {
		attrs[name] = v
	}
	return cty.ObjectVal(attrs)
}

func planned(t *testing.T, set, given map[string]cty.Value) (cty.Value, diag.List) {
	t.Helper()
	p := mock.New(nil, &provider.Schemas{Managed: map[string]schema.Schema{"x_y": {Block: block}}}, given)
	c := config(set)
	r, diags := p.PlanResourceChange(t.Context(), provider.PlanRequest{
		TypeName: "x_y", Prior: cty.NullVal(c.Type()), Proposed: c, Config: c,
	})
	return r.Planned, diags
}

func TestWhatAProviderComputesIsMadeUpByItsType(t *testing.T) {
	v, diags := planned(t, map[string]cty.Value{"secret": cty.StringVal("s")}, nil)
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	for name, want := range map[string]cty.Value{
		"required": cty.StringVal("r"), "optional": cty.NullVal(cty.String), "secret": cty.NullVal(cty.String),
		"number": cty.Zero, "bool": cty.False, "list": cty.ListValEmpty(cty.String),
		"any":    cty.NullVal(cty.DynamicPseudoType),
		"object": cty.ObjectVal(map[string]cty.Value{"n": cty.Zero, "s": cty.SetValEmpty(cty.Bool)}),
		"inner":  cty.ListValEmpty(cty.Object(map[string]cty.Type{"name": cty.String, "id": cty.String})),
	} {
		if got := v.GetAttr(name); !got.RawEquals(want) {
			t.Errorf("%s is %#v, want %#v", name, got, want)
		}
	}
	for _, name := range []string{"either", "text"} {
		if s := v.GetAttr(name).AsString(); len(s) < 4 || len(s) > 15 ||
			strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") != "" {
			t.Errorf("%s is %q", name, s)
		}
	}
}

func TestTheSameIsMadeUpEachTime(t *testing.T) {
	a, _ := planned(t, nil, nil)
	b, _ := planned(t, nil, nil)
	if !a.RawEquals(b) {
		t.Errorf("%#v is not %#v", a, b)
	}
}

func TestGivenValuesTakeThePlaceOfWhatIsMadeUp(t *testing.T) {
	inner := func(id cty.Value) cty.Value {
		return cty.ListVal([]cty.Value{cty.ObjectVal(map[string]cty.Value{"name": cty.StringVal("n"), "id": id})})
	}
	v, diags := planned(t, map[string]cty.Value{"inner": inner(cty.NullVal(cty.String))}, map[string]cty.Value{
		"text": cty.NumberIntVal(7), "either": cty.StringVal("e"),
		"inner": cty.ObjectVal(map[string]cty.Value{"id": cty.StringVal("given")}),
	})
	if diags.HasErrors() {
		t.Fatal(diags.Err())
	}
	for name, want := range map[string]cty.Value{
		"text": cty.StringVal("7"), "either": cty.StringVal("e"), "inner": inner(cty.StringVal("given")),
	} {
		if got := v.GetAttr(name); !got.RawEquals(want) {
			t.Errorf("%s is %#v, want %#v", name, got, want)
		}
	}
}

func TestGivenValuesThatDoNotFitAreErrors(t *testing.T) {
	for sentence, c := range map[string]struct {
		set, given map[string]cty.Value
		says       string
	}{
		"what is configured": {
			map[string]cty.Value{"either": cty.StringVal("c")}, map[string]cty.Value{"either": cty.StringVal("g")},
			"Invalid mock/override field `either`",
		},
		"what is never computed": {nil, map[string]cty.Value{"optional": cty.StringVal("g")},
			"Non-computed field `optional` is not allowed to be overridden"},
		"of another type": {nil, map[string]cty.Value{"list": cty.True}, "Invalid mock/override field `list`"},
		"of no attribute": {nil, map[string]cty.Value{"none": cty.True},
			"Invalid override for block field `none`"},
		"of a block that is not configured": {
			nil, map[string]cty.Value{"inner": cty.EmptyObjectVal}, "Invalid override for block field `inner`",
		},
		"no object for a block": {nil, map[string]cty.Value{"inner": cty.True},
			"Invalid override for block field `inner`"},
	} {
		t.Run(sentence, func(t *testing.T) {
			_, diags := planned(t, c.set, c.given)
			if !diags.HasErrors() || diags[0].Summary != c.says {
				t.Errorf("the diagnostics are %v", diags)
			}
		})
	}
}

func TestADeletionIsPlannedAsItIsProposed(t *testing.T) {
	p := mock.New(nil, &provider.Schemas{Managed: map[string]schema.Schema{"x_y": {Block: block}}}, nil)
	null := cty.NullVal(block.ImpliedType())
	r, diags := p.PlanResourceChange(t.Context(), provider.PlanRequest{TypeName: "x_y", Prior: config(nil),
		Proposed: null, Config: null})
	if diags.HasErrors() || !r.Planned.IsNull() {
		t.Errorf("planned %#v, %v", r.Planned, diags)
	}
}

func TestImportingAndMovingAreRefused(t *testing.T) {
	p := mock.New(nil, &provider.Schemas{}, nil)
	if _, diags := p.ImportResourceState(t.Context(), provider.ImportRequest{TypeName: "x_y"}); !diags.HasErrors() {
		t.Error("an import is accepted")
	}
	if _, diags := p.MoveResourceState(t.Context(), provider.MoveRequest{TargetType: "x_y"}); !diags.HasErrors() {
		t.Error("a move is accepted")
	}
}
