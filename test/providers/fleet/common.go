package fleet

import (
	"context"
	"maps"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/millipede-iac/millipede/test/providers/act"
	"github.com/millipede-iac/millipede/test/providers/cloud"
	"github.com/millipede-iac/millipede/test/providers/record"
)

// common has the fields of all resource types: identity, and the knobs.
type common struct {
	Name     types.String `tfsdk:"name"`
	Region   types.String `tfsdk:"region"`
	ID       types.String `tfsdk:"id"`
	IP       types.String `tfsdk:"ip"`
	Serial   types.Int64  `tfsdk:"serial"`
	Revision types.Int64  `tfsdk:"revision"`

	PlanMS   types.Int64 `tfsdk:"plan_ms"`
	CreateMS types.Int64 `tfsdk:"create_ms"`
	ReadMS   types.Int64 `tfsdk:"read_ms"`
	UpdateMS types.Int64 `tfsdk:"update_ms"`
	DeleteMS types.Int64 `tfsdk:"delete_ms"`
	FailOn   types.Set   `tfsdk:"fail_on"`
	WarnOn   types.Set   `tfsdk:"warn_on"`
	CrashOn  types.Set   `tfsdk:"crash_on"`
	HangOn   types.Set   `tfsdk:"hang_on"`
	Times    types.Int64 `tfsdk:"times"`
	Deaf     types.Bool  `tfsdk:"deaf"`
}

// base gives the generic code its way into each model.
func (c *common) base() *common { return c }

// home is the type that the object has in the cloud.
func (c *common) home(typeName string) string { return typeName }

// operations are those that the knobs of resources speak of.
var operations = []record.Op{record.Plan, record.Create, record.Read, record.Update, record.Delete}

// withCommon returns the attributes of common, and more.
func withCommon(more map[string]schema.Attribute) map[string]schema.Attribute {
	knownOnce := []planmodifier.String{stringplanmodifier.UseStateForUnknown()}
	all := map[string]schema.Attribute{
		"name": schema.StringAttribute{
			Required: true, Description: "The name; another one needs another object.",
			PlanModifiers: []planmodifier.String{stringplanmodifier.RequiresReplace()},
		},
		"region": schema.StringAttribute{
			Optional: true, Computed: true, Description: "The region, by default the provider's; another one needs " +
				"another object.",
			PlanModifiers: []planmodifier.String{
				stringplanmodifier.UseStateForUnknown(), stringplanmodifier.RequiresReplaceIfConfigured(),
			},
		},
		"id": schema.StringAttribute{Computed: true, Description: "The name and a random suffix.",
			PlanModifiers: knownOnce},
		"ip": schema.StringAttribute{Computed: true, Description: "An address by chance.", PlanModifiers: knownOnce},
		"serial": schema.Int64Attribute{
			Computed: true, Description: "A number by chance.",
			PlanModifiers: []planmodifier.Int64{int64planmodifier.UseStateForUnknown()},
		},
		"revision": schema.Int64Attribute{Computed: true, Description: "1 when created; unknown in plans of updates, " +
			"which add 1."},
		"deaf": schema.BoolAttribute{Optional: true, Description: "Sleep and hang on when asked to stop."},
		"times": schema.Int64Attribute{
			Optional: true, Description: "How often each kind of trouble happens at each moment; always, if not set.",
			Validators: []validator.Int64{int64validator.AtLeast(1)},
		},
	}
	for _, op := range operations {
		all[string(op)+"_ms"] = schema.Int64Attribute{
			Optional: true, Description: "How long a " + string(op) + " lasts, in milliseconds.",
			Validators: []validator.Int64{int64validator.AtLeast(0)},
		}
	}
	for kind, what := range map[string]string{
		"fail_on": "fail", "warn_on": "warn", "crash_on": "end the process", "hang_on": "last until cancelled",
	} {
		all[kind] = schema.SetAttribute{
			Optional: true, ElementType: types.StringType, Description: "Operations that " + what +
				": plan, create, read, update, delete, or these with the suffix _after.",
			Validators: []validator.Set{setvalidator.ValueStringsAre(moment{})},
		}
	}
	maps.Copy(all, more)
	return all
}

// moment accepts the moments of the knobs.
type moment struct{}

func (moment) Description(context.Context) string         { return "a moment of an operation" }
func (moment) MarkdownDescription(context.Context) string { return "a moment of an operation" }

func (moment) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	if err := act.CheckMoments([]string{req.ConfigValue.ValueString()}, operations...); err != nil {
		resp.Diagnostics.AddAttributeError(req.Path, "No such moment", err.Error())
	}
}

// script reads the knobs. Those that are unknown yet do nothing.
func (c *common) script() act.Script {
	return act.Script{
		Last: map[record.Op]time.Duration{
			record.Plan: milliseconds(c.PlanMS), record.Create: milliseconds(c.CreateMS),
			record.Read:   milliseconds(c.ReadMS),
			record.Update: milliseconds(c.UpdateMS), record.Delete: milliseconds(c.DeleteMS),
		},
		Fail: texts(c.FailOn), Warn: texts(c.WarnOn), Crash: texts(c.CrashOn), Hang: texts(c.HangOn),
		Times: int(c.Times.ValueInt64()), Deaf: c.Deaf.ValueBool(),
	}
}

// texts returns the known elements of a set of strings.
func texts(set types.Set) []string {
	var all []string
	for _, v := range set.Elements() {
		if s, ok := v.(types.String); ok && !s.IsUnknown() {
			all = append(all, s.ValueString())
		}
	}
	return all
}

// object has the model's data about its object in the cloud.
func (c *common) object(typeName string) cloud.Object {
	return cloud.Object{
		Type: typeName, Name: c.Name.ValueString(), ID: c.ID.ValueString(), Region: c.Region.ValueString(),
		IP: c.IP.ValueString(), Serial: c.Serial.ValueInt64(), Revision: c.Revision.ValueInt64(),
	}
}

// take takes the object's properties over.
func (c *common) take(o cloud.Object) {
	c.Name, c.ID, c.Region = types.StringValue(o.Name), types.StringValue(o.ID), types.StringValue(o.Region)
	c.IP, c.Serial, c.Revision = types.StringValue(o.IP), types.Int64Value(o.Serial), types.Int64Value(o.Revision)
}
