package unruly

import (
	"fmt"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// attribute returns an attribute with its flags.
func attribute(name string, t tftypes.Type, flags ...func(*tfprotov6.SchemaAttribute)) *tfprotov6.SchemaAttribute {
	a := &tfprotov6.SchemaAttribute{Name: name, Type: t}
	for _, set := range flags {
		set(a)
	}
	return a
}

func required(a *tfprotov6.SchemaAttribute)  { a.Required = true }
func optional(a *tfprotov6.SchemaAttribute)  { a.Optional = true }
func computed(a *tfprotov6.SchemaAttribute)  { a.Computed = true }
func writeOnly(a *tfprotov6.SchemaAttribute) { a.WriteOnly = true }
func described(text string) func(*tfprotov6.SchemaAttribute) {
	return func(a *tfprotov6.SchemaAttribute) { a.Description = text }
}

var misbehave = attribute("misbehave", tftypes.String, optional, described("STAGE:FAULT."))

// thing is the schema of unruly_thing.
var thing = &tfprotov6.Schema{Block: &tfprotov6.SchemaBlock{
	Description: "A thing whose answers are unlawful on command.",
	Attributes: []*tfprotov6.SchemaAttribute{
		attribute("name", tftypes.String, required, described("Another name needs another thing.")),
		attribute("value", tftypes.String, optional),
		attribute("size", tftypes.Number, optional, computed),
		attribute("items", tftypes.List{ElementType: tftypes.String}, optional),
		attribute("secret_wo", tftypes.String, optional, writeOnly),
		attribute("legacy", tftypes.Bool, optional, described("Claim to use the old type system.")),
		attribute("id", tftypes.String, computed),
		misbehave,
	},
	BlockTypes: []*tfprotov6.SchemaNestedBlock{part("part", tfprotov6.SchemaNestedBlockNestingModeList, 0, 0)},
}}

// part is a block with a key and a note.
func part(name string, nesting tfprotov6.SchemaNestedBlockNestingMode, least, most int64) *tfprotov6.SchemaNestedBlock {
	return &tfprotov6.SchemaNestedBlock{
		TypeName: name, Nesting: nesting, MinItems: least, MaxItems: most,
		Block: &tfprotov6.SchemaBlock{Attributes: pair()},
	}
}

func pair() []*tfprotov6.SchemaAttribute {
	return []*tfprotov6.SchemaAttribute{
		attribute("key", tftypes.String, optional), attribute("note", tftypes.String, optional),
	}
}

// nested is an attribute with the attributes of a part.
func nested(name string, nesting tfprotov6.SchemaObjectNestingMode) *tfprotov6.SchemaAttribute {
	return &tfprotov6.SchemaAttribute{
		Name: name, Optional: true, NestedType: &tfprotov6.SchemaObject{Nesting: nesting, Attributes: pair()},
	}
}

// shapes is the schema of unruly_shapes: whatever the protocol can describe.
var shapes = &tfprotov6.Schema{Version: 3, Block: &tfprotov6.SchemaBlock{
	Description: "Blocks and nested attributes in every nesting mode of the protocol; the answers are lawful.",
	Attributes: []*tfprotov6.SchemaAttribute{
		attribute("id", tftypes.String, computed),
		attribute("any", tftypes.DynamicPseudoType, optional),
		attribute("tuple", tftypes.Tuple{ElementTypes: []tftypes.Type{tftypes.String, tftypes.Number}}, optional),
		attribute("object", tftypes.Object{AttributeTypes: map[string]tftypes.Type{"a": tftypes.String,
			"b": tftypes.Bool}}, optional),
		nested("one", tfprotov6.SchemaObjectNestingModeSingle),
		nested("some", tfprotov6.SchemaObjectNestingModeList),
		nested("bag", tfprotov6.SchemaObjectNestingModeSet),
		nested("table", tfprotov6.SchemaObjectNestingModeMap),
	},
	BlockTypes: []*tfprotov6.SchemaNestedBlock{
		part("single", tfprotov6.SchemaNestedBlockNestingModeSingle, 0, 0),
		part("group", tfprotov6.SchemaNestedBlockNestingModeGroup, 0, 0),
		part("list", tfprotov6.SchemaNestedBlockNestingModeList, 1, 2),
		part("set", tfprotov6.SchemaNestedBlockNestingModeSet, 0, 2),
		part("map", tfprotov6.SchemaNestedBlockNestingModeMap, 0, 0),
	},
}}

// source is the schema of the data source unruly_data and, as it happens, of the ephemeral resource unruly_token.
var source = &tfprotov6.Schema{Block: &tfprotov6.SchemaBlock{Attributes: []*tfprotov6.SchemaAttribute{
	attribute("name", tftypes.String, required),
	attribute("value", tftypes.String, optional),
	attribute("id", tftypes.String, computed),
	misbehave,
}}}

// configuration is the schema of the provider block.
var configuration = &tfprotov6.Schema{Block: &tfprotov6.SchemaBlock{Attributes: []*tfprotov6.SchemaAttribute{
	attribute("region", tftypes.String, optional), misbehave,
}}}

// misdo is the function unruly::misdo(fault, value).
var misdo = &tfprotov6.Function{
	Summary: "Commits a fault; returns the value if there is none, or if it does not apply to functions",
	Parameters: []*tfprotov6.FunctionParameter{
		{Name: "fault", Type: tftypes.String, AllowNullValue: true}, {Name: "value", Type: tftypes.String},
	},
	Return: &tfprotov6.FunctionReturn{Type: tftypes.String},
}

// schemas are all schemas. With extra, there are that many more resource types, unruly_extra_N, all like unruly_shapes.
func schemas(extra int) *tfprotov6.GetProviderSchemaResponse {
	all := &tfprotov6.GetProviderSchemaResponse{
		ServerCapabilities:       capabilities,
		Provider:                 configuration,
		ResourceSchemas:          map[string]*tfprotov6.Schema{"unruly_thing": thing, "unruly_shapes": shapes},
		DataSourceSchemas:        map[string]*tfprotov6.Schema{"unruly_data": source},
		EphemeralResourceSchemas: map[string]*tfprotov6.Schema{"unruly_token": source},
		Functions:                map[string]*tfprotov6.Function{"misdo": misdo},
	}
	for i := range extra {
		all.ResourceSchemas[fmt.Sprintf("unruly_extra_%d", i)] = shapes
	}
	return all
}

// capabilities are those that the server declares.
var capabilities = &tfprotov6.ServerCapabilities{PlanDestroy: true, GetProviderSchemaOptional: true}

// invalid breaks the rules of schemas in several ways.
func invalid() *tfprotov6.GetProviderSchemaResponse {
	all := schemas(0)
	all.ResourceSchemas["unruly_thing"] = &tfprotov6.Schema{Block: &tfprotov6.SchemaBlock{
		Attributes: []*tfprotov6.SchemaAttribute{
			attribute("both", tftypes.String, required, optional),
			attribute("neither", tftypes.String),
			attribute("Wrong-Name", tftypes.String, optional),
			attribute("twice", tftypes.String, optional),
		},
		BlockTypes: []*tfprotov6.SchemaNestedBlock{
			part("twice", tfprotov6.SchemaNestedBlockNestingModeList, 0, 0),
			part("backwards", tfprotov6.SchemaNestedBlockNestingModeList, 3, 1),
		},
	}}
	return all
}
