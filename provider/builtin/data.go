package builtin

import (
	"context"
	"fmt"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/schema"
	"github.com/millipede-iac/millipede/provider"
)

// dataType is the resource type that stores its input, and is replaced when its triggers change.
const dataType = "terraform_data"

var dataBlock = &schema.Block{Attributes: map[string]*schema.Attribute{
	"input":            {Type: cty.DynamicPseudoType, Optional: true},
	"output":           {Type: cty.DynamicPseudoType, Computed: true},
	"triggers_replace": {Type: cty.DynamicPseudoType, Optional: true},
	"id":               {Type: cty.String, Computed: true},
}}

var dataObject = dataBlock.ImpliedType()

// ValidateResourceConfig implements provider.Managed.
func (b *builtin) ValidateResourceConfig(_ context.Context, typeName string, config cty.Value) diag.List {
	if typeName != dataType {
		return unknownType("resource type", typeName)
	}
	if config.IsNull() {
		return nil
	}
	var diags diag.List
	for _, name := range []string{"id", "output"} {
		if !config.GetAttr(name).IsNull() {
			diags = diags.Append(diag.New(diag.Error, fmt.Sprintf("%q attribute is read-only", name), "", nil))
		}
	}
	return diags
}

// UpgradeResourceState implements provider.Managed. There has been only one version.
func (b *builtin) UpgradeResourceState(_ context.Context, r provider.UpgradeRequest) (cty.Value, diag.List) {
	if r.TypeName != dataType {
		return cty.NilVal, unknownType("resource type", r.TypeName)
	}
	v, err := coding.UnmarshalJSON(r.JSON, dataObject)
	if err != nil {
		return cty.NullVal(dataObject), diag.Errors("Invalid stored object",
			fmt.Sprintf("A stored object of type %s cannot be read: %s.", dataType, err), nil)
	}
	return v, nil
}

// UpgradeResourceIdentity implements provider.Managed. No type has an identity.
func (b *builtin) UpgradeResourceIdentity(_ context.Context, typeName string, _ int64,
	_ []byte) (cty.Value, diag.List) {
	return cty.NilVal, diag.Errors("No identity schema found", fmt.Sprintf("Resource type %q declares no identity.",
		typeName), nil)
}

// ReadResource implements provider.Managed. The object exists only in the state.
func (b *builtin) ReadResource(_ context.Context, r provider.ReadRequest) (provider.ReadResponse, diag.List) {
	if r.TypeName != dataType {
		return provider.ReadResponse{}, unknownType("resource type", r.TypeName)
	}
	return provider.ReadResponse{Object: r.Prior, Private: r.Private}, nil
}

// PlanResourceChange implements provider.Managed. The output gets the type of the input when planned, and its value
// when the change is applied.
func (b *builtin) PlanResourceChange(_ context.Context, r provider.PlanRequest) (provider.PlanResponse, diag.List) {
	if r.TypeName != dataType {
		return provider.PlanResponse{}, unknownType("resource type", r.TypeName)
	}
	if r.Proposed == cty.NilVal || r.Proposed.IsNull() {
		return provider.PlanResponse{Planned: cty.NullVal(dataObject)}, nil
	}
	var resp provider.PlanResponse
	planned := r.Proposed.AsValueMap()
	input, triggers := planned["input"], planned["triggers_replace"]
	create := r.Prior == cty.NilVal || r.Prior.IsNull()
	replace := !create && !r.Prior.GetAttr("triggers_replace").RawEquals(triggers)
	if replace {
		resp.RequiresReplace = []cty.Path{cty.GetAttrPath("triggers_replace")}
	}
	if create || replace {
		planned["id"] = cty.UnknownVal(cty.String).RefineNotNull()
		if planned["output"] = input; !input.IsNull() {
			planned["output"] = cty.UnknownVal(input.Type())
		}
	} else if !r.Prior.GetAttr("input").RawEquals(input) {
		planned["output"] = cty.UnknownVal(input.Type())
	}
	resp.Planned = cty.ObjectVal(planned)
	return resp, nil
}

// ApplyResourceChange implements provider.Managed.
func (b *builtin) ApplyResourceChange(_ context.Context, r provider.ApplyRequest) (provider.ApplyResponse, diag.List) {
	if r.TypeName != dataType {
		return provider.ApplyResponse{}, unknownType("resource type", r.TypeName)
	}
	if r.Planned == cty.NilVal || r.Planned.IsNull() {
		return provider.ApplyResponse{Object: cty.NullVal(dataObject)}, nil
	}
	object := r.Planned.AsValueMap()
	if !object["output"].IsKnown() {
		object["output"] = object["input"]
	}
	if !object["id"].IsKnown() {
		object["id"] = cty.StringVal(b.options.NewID())
	}
	return provider.ApplyResponse{Object: cty.ObjectVal(object), Private: r.PlannedPrivate}, nil
}

// ImportResourceState implements provider.Managed. Only the id of the object is known.
func (b *builtin) ImportResourceState(_ context.Context, r provider.ImportRequest) ([]provider.Imported, diag.List) {
	if r.TypeName != dataType {
		return nil, unknownType("resource type", r.TypeName)
	}
	if r.Identity != cty.NilVal {
		return nil, diag.Errors("No identity schema found", fmt.Sprintf("Resource type %q declares no identity.",
			r.TypeName), nil)
	}
	return []provider.Imported{{TypeName: dataType, Object: newData(map[string]cty.Value{"id": cty.StringVal(r.ID)})}},
		nil
}

// nullObject is the type of a null_resource's object.
var nullObject = cty.Object(map[string]cty.Type{"id": cty.String, "triggers": cty.Map(cty.String)})

// MoveResourceState implements provider.Managed. A null_resource can become a terraform_data: its triggers, as an
// object, become the triggers of the other.
func (b *builtin) MoveResourceState(_ context.Context, r provider.MoveRequest) (provider.MoveResponse, diag.List) {
	if r.SourceType != "null_resource" || r.TargetType != dataType {
		return provider.MoveResponse{}, diag.Errors(
			fmt.Sprintf("unsupported move: %s -> %s; only move from null_resource to terraform_data is supported",
				r.SourceType, r.TargetType), "", nil)
	}
	old, err := coding.UnmarshalJSON(r.SourceJSON, nullObject)
	if err != nil {
		return provider.MoveResponse{}, diag.Errors("Invalid stored object",
			fmt.Sprintf("A stored object of type %s cannot be read: %s.", r.SourceType, err), nil)
	}
	object := map[string]cty.Value{}
	if !old.IsNull() {
		object["id"] = old.GetAttr("id")
		if triggers := old.GetAttr("triggers"); !triggers.IsNull() {
			object["triggers_replace"] = cty.ObjectVal(triggers.AsValueMap())
		}
	}
	return provider.MoveResponse{Object: newData(object), Private: r.SourcePrivate}, nil
}

// newData returns an object of terraform_data with these attributes; the others are null.
func newData(attrs map[string]cty.Value) cty.Value {
	object := dataBlock.EmptyValue().AsValueMap()
	for name, v := range attrs {
		object[name] = v
	}
	return cty.ObjectVal(object)
}
