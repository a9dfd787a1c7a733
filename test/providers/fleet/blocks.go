package fleet

import (
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/millipede-iac/millipede/test/providers/cloud"
)

// blocksModel is an object of fleet_blocks. The nested parts stay as the plan has them; the cloud does not keep them.
type blocksModel struct {
	common
	Disk    types.List   `tfsdk:"disk"`
	Rule    types.Set    `tfsdk:"rule"`
	Network types.Object `tfsdk:"network"`
}

func newBlocks() resource.Resource {
	return &kind[blocksModel, *blocksModel]{suffix: "blocks", schema: schema.Schema{
		Description: "An object with blocks in every nesting mode that the framework has.",
		Attributes:  withCommon(nil),
		Blocks:      blocks(),
	}}
}

func blocks() map[string]schema.Block {
	return map[string]schema.Block{
		"disk": schema.ListNestedBlock{
			Description: "Up to 3 disks, in order.",
			Validators:  []validator.List{listvalidator.SizeAtMost(3)},
			NestedObject: schema.NestedBlockObject{
				Attributes: map[string]schema.Attribute{
					"name": schema.StringAttribute{Required: true},
					"size_gb": schema.Int64Attribute{Optional: true, Computed: true,
						Default: int64default.StaticInt64(10)},
					"uuid": schema.StringAttribute{
						Computed: true, PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
					},
				},
				Blocks: map[string]schema.Block{
					"mount": schema.SetNestedBlock{NestedObject: schema.NestedBlockObject{Attributes: map[string]schema.Attribute{
						"path":    schema.StringAttribute{Required: true},
						"options": schema.ListAttribute{Optional: true, ElementType: types.StringType},
					}}},
				},
			},
		},
		"rule": schema.SetNestedBlock{
			Description: "At most 4 rules, in no order.",
			Validators:  []validator.Set{setvalidator.SizeAtMost(4)},
			NestedObject: schema.NestedBlockObject{Attributes: map[string]schema.Attribute{
				"port":     schema.Int64Attribute{Required: true},
				"protocol": schema.StringAttribute{Optional: true},
				"etag":     schema.StringAttribute{Computed: true},
			}},
		},
		"network": schema.SingleNestedBlock{
			Description: "The network.",
			Attributes: map[string]schema.Attribute{
				"cidr": schema.StringAttribute{
					Optional: true, PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
				},
				"key": schema.StringAttribute{Optional: true, Sensitive: true},
			},
			Blocks: map[string]schema.Block{
				"route": schema.ListNestedBlock{NestedObject: schema.NestedBlockObject{Attributes: map[string]schema.Attribute{
					"to":  schema.StringAttribute{Required: true},
					"via": schema.StringAttribute{Optional: true},
				}}},
			},
		},
	}
}

func (m *blocksModel) plan(*site, *blocksModel)               {}
func (m *blocksModel) attributes(*blocksModel) map[string]any { return nil }
func (m *blocksModel) take(o cloud.Object)                    { m.common.take(o) }
