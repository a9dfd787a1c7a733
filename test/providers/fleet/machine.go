package fleet

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/millipede-iac/millipede/test/providers/cloud"
)

// machineModel is an object of fleet_machine.
type machineModel struct {
	common
	Size            types.String `tfsdk:"size"`
	Image           types.String `tfsdk:"image"`
	Labels          types.Map    `tfsdk:"labels"`
	LabelsAll       types.Map    `tfsdk:"labels_all"`
	Password        types.String `tfsdk:"password"`
	SecretWO        types.String `tfsdk:"secret_wo"`
	SecretWOVersion types.Int64  `tfsdk:"secret_wo_version"`
	SecretHash      types.String `tfsdk:"secret_hash"`
}

func newMachine() resource.Resource {
	return &kind[machineModel, *machineModel]{suffix: "machine", schema: schema.Schema{
		Description: "A machine.",
		Attributes: withCommon(map[string]schema.Attribute{
			"size": schema.StringAttribute{
				Optional: true, Computed: true, Default: stringdefault.StaticString("small"),
				Description: "The size, by default small; changed in place.",
			},
			"image": schema.StringAttribute{
				Optional: true, Description: "The image; another one needs another machine.",
				PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
			},
			"labels": schema.MapAttribute{Optional: true, ElementType: types.StringType,
				Description: "Labels; changed in place."},
			"labels_all": schema.MapAttribute{Computed: true, ElementType: types.StringType,
				Description: "The provider's default labels and these."},
			"password": schema.StringAttribute{
				Optional: true, Computed: true, Sensitive: true, Description: "The password, by default one by chance.",
				PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
			},
			"secret_wo": schema.StringAttribute{
				Optional: true, WriteOnly: true, Description: "A secret that no state has.",
			},
			"secret_wo_version": schema.Int64Attribute{Optional: true,
				Description: "Another number sends the secret again."},
			"secret_hash": schema.StringAttribute{
				Computed: true, PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
				Description: "SHA-256 of the last secret sent, in hexadecimal; empty if there is none.",
			},
		}),
	}}
}

func (m *machineModel) plan(s *site, prior *machineModel) {
	if prior != nil && !prior.SecretWOVersion.Equal(m.SecretWOVersion) {
		m.SecretHash = types.StringUnknown()
	}
	all := map[string]attr.Value{}
	for _, labels := range []types.Map{s.labels, m.Labels} {
		if labels.IsUnknown() {
			m.LabelsAll = types.MapUnknown(types.StringType)
			return
		}
		maps.Copy(all, labels.Elements())
	}
	m.LabelsAll = types.MapValueMust(types.StringType, all)
}

func (m *machineModel) attributes(config *machineModel) map[string]any {
	hash := m.SecretHash.ValueString()
	if config != nil && m.SecretHash.IsUnknown() {
		hash = hashed(config.SecretWO)
	}
	return map[string]any{
		"size": m.Size.ValueStringPointer(), "image": m.Image.ValueStringPointer(),
		"password": m.Password.ValueString(),
		"labels":   labelTexts(m.Labels), "labels_all": labelTexts(m.LabelsAll), "secret_hash": hash,
	}
}

func (m *machineModel) take(o cloud.Object) {
	m.common.take(o)
	m.Size, m.Image = textOf(o.Attributes["size"]), textOf(o.Attributes["image"])
	m.Labels, m.LabelsAll = labelsOf(o.Attributes["labels"]), labelsOf(o.Attributes["labels_all"])
	m.SecretHash = textOf(o.Attributes["secret_hash"])
	if m.Password = textOf(o.Attributes["password"]); m.Password.ValueString() == "" {
		sum := sha256.Sum256([]byte(o.ID))
		m.Password = types.StringValue(hex.EncodeToString(sum[:8]))
	}
}

// hashed is the SHA-256 of a secret, or empty.
func hashed(secret types.String) string {
	if secret.ValueString() == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(secret.ValueString()))
	return hex.EncodeToString(sum[:])
}

// labelTexts returns the stored form of labels; nil for null.
func labelTexts(labels types.Map) map[string]string {
	if labels.IsNull() || labels.IsUnknown() {
		return nil
	}
	all := map[string]string{}
	for key, v := range labels.Elements() {
		if s, ok := v.(types.String); ok {
			all[key] = s.ValueString()
		}
	}
	return all
}

// textOf is the attribute of a text in the cloud.
func textOf(v any) types.String {
	switch v := v.(type) {
	case string:
		return types.StringValue(v)
	case *string:
		return types.StringPointerValue(v)
	default:
		return types.StringNull()
	}
}

// labelsOf is the attribute of labels in the cloud, as they were put there or as JSON decodes them.
func labelsOf(v any) types.Map {
	all := map[string]attr.Value{}
	switch v := v.(type) {
	case map[string]string:
		if v == nil {
			return types.MapNull(types.StringType)
		}
		for key, text := range v {
			all[key] = types.StringValue(text)
		}
	case map[string]any:
		for key, text := range v {
			all[key] = textOf(text)
		}
	default:
		return types.MapNull(types.StringType)
	}
	return types.MapValueMust(types.StringType, all)
}
