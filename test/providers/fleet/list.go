package fleet

import (
	"context"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/list"
	"github.com/hashicorp/terraform-plugin-framework/list/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/millipede-iac/millipede/test/providers/act"
	"github.com/millipede-iac/millipede/test/providers/cloud"
	"github.com/millipede-iac/millipede/test/providers/record"
)

// identityList lists the objects of fleet_identity.
type identityList struct {
	*identityKind
}

func newIdentityList() list.ListResource {
	return &identityList{newIdentity().(*identityKind)}
}

type listModel struct {
	Region  types.String `tfsdk:"region"`
	Prefix  types.String `tfsdk:"prefix"`
	ListMS  types.Int64  `tfsdk:"list_ms"`
	EachMS  types.Int64  `tfsdk:"each_ms"`
	FailOn  types.String `tfsdk:"fail_on"`
	CrashOn types.String `tfsdk:"crash_on"`
}

// ListResourceConfigSchema describes the config block of a list.
func (*identityList) ListResourceConfigSchema(_ context.Context, _ list.ListResourceSchemaRequest,
	resp *list.ListResourceSchemaResponse) {
	resp.Schema = schema.Schema{
		Description: "Objects with an identity.",
		Attributes: map[string]schema.Attribute{
			"region": schema.StringAttribute{Optional: true, Description: "Only objects of this region; `nowhere` is " +
				"refused."},
			"prefix":  schema.StringAttribute{Optional: true, Description: "Only objects whose names begin so."},
			"list_ms": schema.Int64Attribute{Optional: true, Description: "How long the list takes."},
			"each_ms": schema.Int64Attribute{Optional: true, Description: "How long each object takes."},
			"fail_on": schema.StringAttribute{Optional: true, Description: "The name of an object that cannot be read, " +
				"or `list` for all."},
			"crash_on": schema.StringAttribute{Optional: true, Description: "The name of an object at which the process " +
				"ends, once."},
		},
	}
}

// ValidateListResourceConfig refuses the region nowhere.
func (*identityList) ValidateListResourceConfig(ctx context.Context, req list.ValidateConfigRequest,
	resp *list.ValidateConfigResponse) {
	var region types.String
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("region"), &region)...)
	if region.ValueString() == "nowhere" {
		resp.Diagnostics.AddAttributeError(path.Root("region"), "No such region", `There is no region "nowhere".`)
	}
}

// List lists the objects, sorted by ID.
func (l *identityList) List(ctx context.Context, req list.ListRequest, stream *list.ListResultsStream) {
	var m listModel
	if diags := req.Config.Get(ctx, &m); diags.HasError() {
		stream.Results = list.ListResultsStreamDiagnostics(diags)
		return
	}
	stream.Results = func(push func(list.ListResult) bool) {
		e := record.Entry{Op: record.List, Type: l.name, Region: m.Region.ValueString()}
		script := act.Script{Last: map[record.Op]time.Duration{record.List: milliseconds(m.ListMS)}}
		if m.FailOn.ValueString() == string(record.List) {
			script.Fail = []string{string(record.List)}
		}
		err := l.stage.Do(ctx, e, script, func(*record.Entry) error {
			all, err := l.stage.Cloud.All(l.name)
			if err != nil {
				return err
			}
			n := int64(0)
			for _, o := range all {
				if !m.wants(o) {
					continue
				}
				if n++; n > req.Limit || !l.push(ctx, req, m, o, push) {
					return nil
				}
			}
			return nil
		})
		if err != nil {
			result := req.NewListResult(ctx)
			result.Diagnostics.AddError("The list failed", err.Error())
			push(result)
		}
	}
}

func (m *listModel) wants(o cloud.Object) bool {
	return strings.HasPrefix(o.Name, m.Prefix.ValueString()) &&
		(m.Region.IsNull() || o.Region == m.Region.ValueString())
}

// push sends one object. It returns false if no more are wanted.
func (l *identityList) push(ctx context.Context, req list.ListRequest, m listModel, o cloud.Object,
	push func(list.ListResult) bool) bool {
	result := req.NewListResult(ctx)
	each := act.Script{Last: map[record.Op]time.Duration{record.ListOne: milliseconds(m.EachMS)}, Times: 1}
	if m.CrashOn.ValueString() == o.Name {
		each.Crash = []string{string(record.ListOne)}
	}
	e := record.Entry{Op: record.ListOne, Type: l.name, Name: o.Name, ID: o.ID, Region: o.Region}
	err := l.stage.Do(ctx, e, each, func(*record.Entry) error { return nil })
	switch {
	case err != nil:
		result.Diagnostics.AddError("The object cannot be listed", err.Error())
	case m.FailOn.ValueString() == o.Name:
		result.Diagnostics.AddError("The object cannot be listed", "The object "+o.Name+" was told to fail.")
	default:
		result.DisplayName = "The object " + o.Name
		result.Diagnostics.Append(setIdentity(ctx, result.Identity, o.Name, o.Region)...)
		if req.IncludeResource {
			object := identityModel{common: common{
				FailOn: types.SetNull(types.StringType), WarnOn: types.SetNull(types.StringType),
				CrashOn: types.SetNull(types.StringType), HangOn: types.SetNull(types.StringType),
			}}
			object.take(o)
			result.Diagnostics.Append(result.Resource.Set(ctx, &object)...)
		}
	}
	return push(result)
}
