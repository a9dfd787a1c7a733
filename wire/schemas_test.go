package wire_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/wire"
)

// typesEqual compares types by their content, and schemas without their cached types.
var typesEqual = cmp.Options{
	cmp.Comparer(func(a, b cty.Type) bool {
		return a == cty.NilType && b == cty.NilType || a != cty.NilType && b != cty.NilType && a.Equals(b)
	}),
	cmpopts.IgnoreUnexported(schema.Block{}),
}

// everything has each kind of element that a schema can have.
func everything() *provider.Schemas {
	nested := &schema.Attribute{Optional: true, Computed: true, Nested: &schema.Object{Nesting: schema.NestingMap,
		Attributes: map[string]*schema.Attribute{
			"inner": {Type: cty.Set(cty.Object(map[string]cty.Type{"x": cty.Number})), Required: true, Sensitive: true},
		}}}
	block := &schema.Block{
		Description: "What it is", DescriptionKind: schema.Markdown, Deprecated: true, DeprecationMessage: "use b",
		Attributes: map[string]*schema.Attribute{
			"id": {Type: cty.String, Computed: true, Description: "the id", DescriptionKind: schema.Markdown},
			"n":  {Type: cty.Number, Optional: true, Deprecated: true, DeprecationMessage: "no"},
			"b":  {Type: cty.Bool, Optional: true, WriteOnly: true},
			"d":  {Type: cty.DynamicPseudoType, Optional: true},
			"o": {Type: cty.ObjectWithOptionalAttrs(map[string]cty.Type{"x": cty.String}, []string{"x"}),
				Optional: true},
			"ns": nested,
		},
		Blocks: map[string]*schema.NestedBlock{
			"list": {Nesting: schema.NestingList, MinItems: 1, MaxItems: 2, Block: schema.Block{
				Attributes: map[string]*schema.Attribute{"a": {Type: cty.List(cty.String), Required: true}},
				Blocks:     map[string]*schema.NestedBlock{"group": {Nesting: schema.NestingGroup}},
			}},
		},
	}
	return &provider.Schemas{
		Provider:     schema.Schema{Version: 1, Block: block},
		ProviderMeta: schema.Schema{},
		Managed:      map[string]schema.Schema{"a": {Version: 3, Block: block}, "b": {Block: &schema.Block{}}},
		Data:         map[string]schema.Schema{"a": {Block: block}},
		Ephemeral:    map[string]schema.Schema{"e": {Block: &schema.Block{Ephemeral: true}}},
		Lists:        map[string]schema.Schema{"l": {Version: 2, Block: &schema.Block{Description: "a list"}}},
		Actions:      map[string]schema.Schema{"a": {Block: &schema.Block{Description: "an action"}}},
		Identities: map[string]schema.Identity{"a": {Version: 2, Body: &schema.Object{Nesting: schema.NestingSingle,
			Attributes: map[string]*schema.Attribute{"arn": {Type: cty.String, Required: true}}}}},
		Functions: map[string]provider.Function{"f": {
			Parameters: []provider.Parameter{{Name: "p", Type: cty.String, AllowNullValue: true},
				{Name: "q", Type: cty.List(cty.Bool), AllowUnknownValues: true, Description: "q",
					DescriptionKind: schema.Markdown}},
			VariadicParameter: &provider.Parameter{Name: "rest", Type: cty.DynamicPseudoType},
			Return:            cty.Map(cty.Number), Summary: "s", Description: "d", DescriptionKind: schema.Markdown,
			DeprecationMessage: "old",
		}, "g": {Return: cty.String}},
		Capabilities:    provider.Capabilities{PlanDestroy: true, MoveResourceState: true},
		ProtocolVersion: 6,
	}
}

func TestSchemasTravel(t *testing.T) {
	want := everything()
	got, err := wire.DecodeSchemas(wire.EncodeSchemas(want))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, typesEqual); diff != "" {
		t.Error(diff)
	}
}

func TestEqualSchemasHaveEqualCodings(t *testing.T) {
	if !bytes.Equal(wire.EncodeSchemas(everything()), wire.EncodeSchemas(everything())) {
		t.Error("they differ")
	}
}

func TestAPartOfTheSchemasTravels(t *testing.T) {
	whole := everything()
	part := *whole
	part.Managed = map[string]schema.Schema{"b": whole.Managed["b"]}
	part.Data, part.Ephemeral, part.Identities = nil, nil, nil
	got, err := wire.DecodeSchemas(wire.EncodeSchemas(&part))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&part, got, typesEqual); diff != "" {
		t.Error(diff)
	}
}

func TestBrokenSchemasAreRefused(t *testing.T) {
	whole := wire.EncodeSchemas(everything())
	for n := range whole {
		if _, err := wire.DecodeSchemas(whole[:n]); err == nil {
			t.Errorf("the first %d of %d bytes were accepted", n, len(whole))
		}
	}
}
