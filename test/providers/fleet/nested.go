package fleet

import (
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/mapplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/millipede-iac/millipede/test/providers/cloud"
)

// nestedModel is an object of fleet_nested, which protocol 5 cannot describe.
type nestedModel struct {
	common
	Disk      types.List    `tfsdk:"disk"`
	Rule      types.Set     `tfsdk:"rule"`
	Network   types.Object  `tfsdk:"network"`
	Owner     types.Object  `tfsdk:"owner"`
	Volumes   types.List    `tfsdk:"volumes"`
	Listeners types.Set     `tfsdk:"listeners"`
	Users     types.Map     `tfsdk:"users"`
	Profiles  types.Map     `tfsdk:"profiles"`
	Anything  types.Dynamic `tfsdk:"anything"`
}

func newNested() resource.Resource {
	once := []planmodifier.String{stringplanmodifier.UseStateForUnknown()}
	return &kind[nestedModel, *nestedModel]{suffix: "nested", schema: schema.Schema{
		Description: "An object with blocks and nested attributes in every nesting mode.",
		Blocks:      blocks(),
		Attributes: withCommon(map[string]schema.Attribute{
			"owner": schema.SingleNestedAttribute{Optional: true, Attributes: map[string]schema.Attribute{
				"email": schema.StringAttribute{Required: true},
				"team":  schema.StringAttribute{Optional: true},
				"badge": schema.StringAttribute{Computed: true, PlanModifiers: once},
			}},
			"volumes": schema.ListNestedAttribute{
				Optional: true, Validators: []validator.List{listvalidator.SizeBetween(1, 5)},
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"name": schema.StringAttribute{Required: true},
					"size_gb": schema.Int64Attribute{Optional: true, Computed: true,
						Default: int64default.StaticInt64(10)},
					"device": schema.StringAttribute{Computed: true, PlanModifiers: once},
				}},
			},
			"listeners": schema.SetNestedAttribute{
				Optional: true,
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"port":     schema.Int64Attribute{Required: true},
					"protocol": schema.StringAttribute{Optional: true},
					"etag":     schema.StringAttribute{Computed: true},
				}},
			},
			"users": schema.MapNestedAttribute{
				Optional: true, Validators: []validator.Map{mapvalidator.SizeAtMost(10)},
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"role":  schema.StringAttribute{Required: true},
					"token": schema.StringAttribute{Computed: true, Sensitive: true, PlanModifiers: once},
					"keys": schema.ListNestedAttribute{Optional: true, NestedObject: schema.NestedAttributeObject{
						Attributes: map[string]schema.Attribute{
							"kind":     schema.StringAttribute{Required: true},
							"material": schema.StringAttribute{Optional: true, Sensitive: true},
						},
					}},
				}},
			},
			"profiles": schema.MapNestedAttribute{
				Description: "Computed as a whole.", Optional: true, Computed: true,
				PlanModifiers: []planmodifier.Map{mapplanmodifier.UseStateForUnknown()},
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"level": schema.Int64Attribute{Required: true},
				}},
			},
			"anything": schema.DynamicAttribute{Optional: true, Description: "A value of any type."},
		}),
	}}
}

func (m *nestedModel) plan(*site, *nestedModel)               {}
func (m *nestedModel) attributes(*nestedModel) map[string]any { return nil }
func (m *nestedModel) take(o cloud.Object)                    { m.common.take(o) }
