package fleet

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/millipede-iac/millipede/test/providers/record"
)

// lookup is the data source that finds a machine by its name.
type lookup struct{ *site }

type lookupModel struct {
	Name    types.String `tfsdk:"name"`
	Must    types.Bool   `tfsdk:"must_exist"`
	Found   types.Bool   `tfsdk:"found"`
	Count   types.Int64  `tfsdk:"machines"`
	ID      types.String `tfsdk:"id"`
	Region  types.String `tfsdk:"region"`
	IP      types.String `tfsdk:"ip"`
	Serial  types.Int64  `tfsdk:"serial"`
	Size    types.String `tfsdk:"size"`
	Labels  types.Map    `tfsdk:"labels"`
	Secret  types.String `tfsdk:"password"`
	ReadMS  types.Int64  `tfsdk:"read_ms"`
	FailOn  types.Set    `tfsdk:"fail_on"`
	WarnOn  types.Set    `tfsdk:"warn_on"`
	CrashOn types.Set    `tfsdk:"crash_on"`
	HangOn  types.Set    `tfsdk:"hang_on"`
	Times   types.Int64  `tfsdk:"times"`
}

// Metadata names the data source.
func (*lookup) Metadata(_ context.Context, req datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_lookup"
}

// Schema describes the data source.
func (*lookup) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	trouble := func(what string) schema.SetAttribute {
		return schema.SetAttribute{
			Optional: true, ElementType: types.StringType, Description: "[\"read\"] to " + what + ".",
			Validators: []validator.Set{setvalidator.ValueStringsAre(moment{})},
		}
	}
	resp.Schema = schema.Schema{
		Description: "The machine with a name; of several, the one whose id comes first.",
		Attributes: map[string]schema.Attribute{
			"name":       schema.StringAttribute{Required: true, Description: "The name."},
			"must_exist": schema.BoolAttribute{Optional: true, Description: "False: no such machine is no error."},
			"found":      schema.BoolAttribute{Computed: true},
			"machines":   schema.Int64Attribute{Computed: true, Description: "How many machines have the name."},
			"id":         schema.StringAttribute{Computed: true},
			"region":     schema.StringAttribute{Computed: true},
			"ip":         schema.StringAttribute{Computed: true},
			"serial":     schema.Int64Attribute{Computed: true},
			"size":       schema.StringAttribute{Computed: true},
			"labels":     schema.MapAttribute{Computed: true, ElementType: types.StringType},
			"password":   schema.StringAttribute{Computed: true, Sensitive: true},
			"read_ms":    schema.Int64Attribute{Optional: true, Description: "How long it lasts, in milliseconds."},
			"times": schema.Int64Attribute{Optional: true, Description: "How often each kind of trouble " +
				"happens; always, if not set."},
			"fail_on": trouble("fail"), "warn_on": trouble("warn"),
			"crash_on": trouble("end the process"), "hang_on": trouble("last until cancelled"),
		},
	}
}

// Configure takes the provider's site over.
func (l *lookup) Configure(_ context.Context, req datasource.ConfigureRequest, _ *datasource.ConfigureResponse) {
	if s, ok := req.ProviderData.(*site); ok {
		l.site = s
	}
}

// Read finds the machine. It goes on the record as a lookup; the moments of its knobs are called read.
func (l *lookup) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var m lookupModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	script := (&common{
		ReadMS: m.ReadMS, FailOn: m.FailOn, WarnOn: m.WarnOn, CrashOn: m.CrashOn, HangOn: m.HangOn, Times: m.Times,
	}).script()
	e := record.Entry{
		Op: record.Lookup, Type: l.provider + "_lookup", Name: m.Name.ValueString(),
		Meta: readMeta(ctx, req.ProviderMeta),
	}
	err := l.stage.Do(ctx, e, script.As(record.Read, record.Lookup), func(e *record.Entry) error {
		machines, err := l.stage.Cloud.ByName(l.provider+"_machine", e.Name)
		if err != nil {
			return err
		}
		m.Found, m.Count = types.BoolValue(len(machines) > 0), types.Int64Value(int64(len(machines)))
		m.Labels = types.MapNull(types.StringType)
		if len(machines) == 0 {
			if req.ClientCapabilities.DeferralAllowed && !m.Must.Equal(types.BoolValue(false)) {
				resp.Deferred = &datasource.Deferred{Reason: datasource.DeferredReasonAbsentPrereq}
				return nil
			}
			if m.Must.IsNull() || m.Must.ValueBool() {
				return fmt.Errorf("there is no machine %q", e.Name)
			}
			return nil
		}
		o := machines[0]
		e.ID, e.Region = o.ID, o.Region
		m.ID, m.Region, m.IP, m.Serial = types.StringValue(o.ID), types.StringValue(o.Region), types.StringValue(o.IP),
			types.Int64Value(o.Serial)
		var machine machineModel
		machine.take(o)
		m.Size, m.Labels, m.Secret = machine.Size, machine.Labels, machine.Password
		return nil
	})
	report(&resp.Diagnostics, record.Read, script, err)
	if err == nil && resp.Deferred == nil {
		resp.Diagnostics.Append(resp.State.Set(ctx, &m)...)
	}
}

var _ datasource.DataSourceWithConfigure = (*lookup)(nil)
