package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/millipede-iac/millipede/test/providers/act"
	"github.com/millipede-iac/millipede/test/providers/cloud"
	"github.com/millipede-iac/millipede/test/providers/record"
)

// movedModel is an object of fleet_moved, in version 1 of its schema.
type movedModel struct {
	common
	Grade types.String `tfsdk:"grade"`
	From  types.String `tfsdk:"from"`
}

// movedKind is a resource type that takes over objects of fleet_machine and those of its own version 0, which said
// "title" for name and "size" for grade.
type movedKind struct {
	kind[movedModel, *movedModel]
}

func newMoved() resource.Resource {
	return &movedKind{kind[movedModel, *movedModel]{suffix: "moved", schema: schema.Schema{
		Version:     1,
		Description: "An object that was a machine, or of an older version, perhaps.",
		Attributes: withCommon(map[string]schema.Attribute{
			"grade": schema.StringAttribute{Optional: true, Description: "Changed in place; a machine's size."},
			"from": schema.StringAttribute{
				Computed: true, PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
				Description: "What the object was: `created`, the type of the machine, or `imported` or `version 0`.",
			},
		}),
	}}}
}

func (m *movedModel) plan(*site, *movedModel) {
	if m.From.IsUnknown() {
		m.From = types.StringValue("created")
	}
}

func (m *movedModel) attributes(*movedModel) map[string]any {
	return map[string]any{"grade": m.Grade.ValueStringPointer()}
}

func (m *movedModel) take(o cloud.Object) {
	m.common.take(o)
	grade, ok := o.Attributes["grade"]
	if !ok {
		grade = o.Attributes["size"] // a machine that was not updated since
	}
	m.Grade = textOf(grade)
	if m.From.IsNull() {
		m.From = types.StringValue("imported")
	}
}

// home returns the machines' part of the cloud for an object that was a machine: moving a state does not change the
// cloud.
func (m *movedModel) home(typeName string) string {
	if strings.HasSuffix(m.From.ValueString(), "_machine") {
		return m.From.ValueString()
	}
	return typeName
}

// predecessor has the fields that fleet_moved takes from an older object.
type predecessor struct {
	Name     string `json:"name"`
	Title    string `json:"title"`
	Size     string `json:"size"`
	ID       string `json:"id"`
	IP       string `json:"ip"`
	Region   string `json:"region"`
	Serial   int64  `json:"serial"`
	Revision int64  `json:"revision"`
}

// succeed writes the successor of an older object into a response.
func (k *movedKind) succeed(ctx context.Context, op record.Op, from string, text []byte, state *tfsdk.State) (
	diags diag.Diagnostics) {
	var old predecessor
	if err := json.Unmarshal(text, &old); err != nil {
		diags.AddError("Unreadable object", err.Error())
		return diags
	}
	m := movedModel{common: bare(), From: types.StringValue(from)}
	o := cloud.Object{
		Name: cmp.Or(old.Name, old.Title), ID: old.ID, Region: old.Region, IP: old.IP, Serial: old.Serial,
		Revision:   old.Revision,
		Attributes: map[string]any{"grade": old.Size},
	}
	m.take(o)
	diags.Append(k.store(ctx, &m, state, nil)...)
	if k.site == nil { // states are upgraded for display, too, without a provider's configuration
		return diags
	}
	e := record.Entry{Op: op, Type: k.name, Name: o.Name, ID: o.ID, Region: o.Region}
	report(&diags, op, act.Script{}, k.stage.Do(ctx, e, act.Script{}, func(*record.Entry) error { return nil }))
	return diags
}

// bare is a common without a knob.
func bare() common {
	none := types.SetNull(types.StringType)
	return common{FailOn: none, WarnOn: none, CrashOn: none, HangOn: none}
}

// MoveState takes over machines of any provider that is called fleet or fleet5.
func (k *movedKind) MoveState(context.Context) []resource.StateMover {
	return []resource.StateMover{{StateMover: func(ctx context.Context, req resource.MoveStateRequest,
		resp *resource.MoveStateResponse) {
		provider, isMachine := strings.CutSuffix(req.SourceTypeName, "_machine")
		if !isMachine || !strings.HasSuffix(req.SourceProviderAddress, "/"+provider) ||
			!strings.HasPrefix(provider, "fleet") {
			return
		}
		resp.Diagnostics.Append(k.succeed(ctx, record.Move, req.SourceTypeName, req.SourceRawState.JSON,
			&resp.TargetState)...)
		note := "moved from " + req.SourceTypeName
		if req.SourcePrivate != nil {
			note += ", " + readPrivate(ctx, req.SourcePrivate)
		}
		resp.Diagnostics.Append(resp.TargetPrivate.SetKey(ctx, privateKey, quoted(note))...)
	}}}
}

// UpgradeState takes over objects of version 0.
func (k *movedKind) UpgradeState(context.Context) map[int64]resource.StateUpgrader {
	return map[int64]resource.StateUpgrader{0: {
		StateUpgrader: func(ctx context.Context, req resource.UpgradeStateRequest,
			resp *resource.UpgradeStateResponse) {
			resp.Diagnostics.Append(k.succeed(ctx, record.Upgrade, "version 0", req.RawState.JSON, &resp.State)...)
		},
	}}
}
