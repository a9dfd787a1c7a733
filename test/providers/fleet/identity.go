package fleet

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/identityschema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/millipede-iac/millipede/test/providers/cloud"
	"github.com/millipede-iac/millipede/test/providers/record"
)

// identityModel is an object of fleet_identity.
type identityModel struct {
	common
	Size types.String `tfsdk:"size"`
}

// identityOf is its identity.
type identityOf struct {
	Name   types.String `tfsdk:"name"`
	Region types.String `tfsdk:"region"`
}

// identityKind is a resource type whose objects have an identity: name and region.
type identityKind struct {
	kind[identityModel, *identityModel]
}

func newIdentity() resource.Resource {
	return &identityKind{kind[identityModel, *identityModel]{suffix: "identity", schema: schema.Schema{
		Description: "An object with an identity.",
		Attributes: withCommon(map[string]schema.Attribute{
			"size": schema.StringAttribute{Optional: true, Description: "Changed in place."},
		}),
	}}}
}

func (m *identityModel) plan(*site, *identityModel) {}

func (m *identityModel) attributes(*identityModel) map[string]any {
	return map[string]any{"size": m.Size.ValueStringPointer()}
}

func (m *identityModel) take(o cloud.Object) {
	m.common.take(o)
	m.Size = textOf(o.Attributes["size"])
}

// IdentitySchema describes identities. Version 0 had the name alone, as "label".
func (k *identityKind) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest,
	resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = identityschema.Schema{Version: 1, Attributes: map[string]identityschema.Attribute{
		"name": identityschema.StringAttribute{RequiredForImport: true, Description: "The name."},
		"region": identityschema.StringAttribute{OptionalForImport: true, Description: "The region; needed where " +
			"several regions have the name."},
	}}
}

// UpgradeIdentity reads identities of version 0.
func (k *identityKind) UpgradeIdentity(context.Context) map[int64]resource.IdentityUpgrader {
	return map[int64]resource.IdentityUpgrader{0: {
		PriorSchema: &identityschema.Schema{Attributes: map[string]identityschema.Attribute{
			"label": identityschema.StringAttribute{RequiredForImport: true},
		}},
		IdentityUpgrader: func(ctx context.Context, req resource.UpgradeIdentityRequest,
			resp *resource.UpgradeIdentityResponse) {
			var old struct {
				Label types.String `tfsdk:"label"`
			}
			resp.Diagnostics.Append(req.Identity.Get(ctx, &old)...)
			resp.Diagnostics.Append(resp.Identity.Set(ctx,
				identityOf{Name: old.Label, Region: types.StringValue(NoRegion)})...)
		},
	}}
}

// ImportState finds an object by its id or by its identity.
func (k *identityKind) ImportState(ctx context.Context, req resource.ImportStateRequest,
	resp *resource.ImportStateResponse) {
	if req.ID != "" {
		k.kind.ImportState(ctx, req, resp)
		return
	}
	var identity identityOf
	resp.Diagnostics.Append(req.Identity.Get(ctx, &identity)...)
	if resp.Diagnostics.HasError() {
		return
	}
	name, region := identity.Name.ValueString(), identity.Region
	e := record.Entry{Op: record.Import, Type: k.name, Name: name, Region: region.ValueString()}
	k.importObject(ctx, resp, e, func() (cloud.Object, error) {
		all, err := k.stage.Cloud.ByName(k.name, name)
		if err != nil {
			return cloud.Object{}, err
		}
		var found []cloud.Object
		for _, o := range all {
			if region.IsNull() || o.Region == region.ValueString() {
				found = append(found, o)
			}
		}
		switch len(found) {
		case 0:
			return cloud.Object{}, cloud.ErrGone
		case 1:
			return found[0], nil
		default:
			return cloud.Object{}, fmt.Errorf("%d objects have the identity %q", len(found), name)
		}
	})
}

// setIdentity writes an identity into a response that has one.
func setIdentity(ctx context.Context, identity *tfsdk.ResourceIdentity, name, region string) diag.Diagnostics {
	if identity == nil {
		return nil
	}
	return identity.Set(ctx, identityOf{Name: types.StringValue(name), Region: types.StringValue(region)})
}
