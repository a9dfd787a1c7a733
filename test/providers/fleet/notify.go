package fleet

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/millipede-iac/millipede/test/providers/act"
	"github.com/millipede-iac/millipede/test/providers/record"
)

// notify is an action that leaves nothing but two lines in the record.
type notify struct{ *site }

type notifyModel struct {
	Message  types.String `tfsdk:"message"`
	Region   types.String `tfsdk:"region"`
	Secret   types.String `tfsdk:"secret"`
	Steps    types.Int64  `tfsdk:"steps"`
	StepMS   types.Int64  `tfsdk:"step_ms"`
	InvokeMS types.Int64  `tfsdk:"invoke_ms"`
	FailOn   types.Set    `tfsdk:"fail_on"`
	CrashOn  types.Set    `tfsdk:"crash_on"`
	HangOn   types.Set    `tfsdk:"hang_on"`
	Times    types.Int64  `tfsdk:"times"`
}

// Metadata names the action.
func (*notify) Metadata(_ context.Context, req action.MetadataRequest, resp *action.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_notify"
}

// Schema describes the config block of the action.
func (*notify) Schema(_ context.Context, _ action.SchemaRequest, resp *action.SchemaResponse) {
	trouble := func(what string) schema.SetAttribute {
		return schema.SetAttribute{Optional: true, ElementType: types.StringType,
			Description: "Which of invoke and invoke_after " + what + "."}
	}
	resp.Schema = schema.Schema{
		Description: "Writes itself into the record.",
		Attributes: map[string]schema.Attribute{
			"message": schema.StringAttribute{Required: true, Description: "The name in the record."},
			"region":  schema.StringAttribute{Optional: true, Description: "The region; `nowhere` is refused."},
			"secret": schema.StringAttribute{Optional: true, WriteOnly: true,
				Description: "The private data in the record."},
			"steps":     schema.Int64Attribute{Optional: true, Description: "How often it reports progress."},
			"step_ms":   schema.Int64Attribute{Optional: true, Description: "How long it waits after each report."},
			"invoke_ms": schema.Int64Attribute{Optional: true, Description: "How long it takes before the first report."},
			"times":     schema.Int64Attribute{Optional: true, Description: "How often each kind of trouble happens."},
			"fail_on":   trouble("fail"), "crash_on": trouble("end the process"), "hang_on": trouble("last until cancelled"),
		},
	}
}

// ValidateConfig refuses the region nowhere.
func (*notify) ValidateConfig(ctx context.Context, req action.ValidateConfigRequest,
	resp *action.ValidateConfigResponse) {
	var region types.String
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("region"), &region)...)
	if region.ValueString() == "nowhere" {
		resp.Diagnostics.AddAttributeError(path.Root("region"), "No such region", `There is no region "nowhere".`)
	}
}

// ModifyPlan refuses the message unplannable, and puts the action off while the message is unknown, if that is allowed.
func (*notify) ModifyPlan(ctx context.Context, req action.ModifyPlanRequest, resp *action.ModifyPlanResponse) {
	var message types.String
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("message"), &message)...)
	if message.ValueString() == "unplannable" {
		resp.Diagnostics.AddAttributeError(path.Root("message"), "Not possible", "This message cannot be sent.")
	}
	if message.IsUnknown() && req.ClientCapabilities.DeferralAllowed {
		resp.Deferred = &action.Deferred{Reason: action.DeferredReasonUnknown}
	}
}

// Configure takes the provider's site over.
func (n *notify) Configure(_ context.Context, req action.ConfigureRequest, _ *action.ConfigureResponse) {
	if s, ok := req.ProviderData.(*site); ok {
		n.site = s
	}
}

// Invoke reports its progress step by step. The record has the message as the name, and the secret as private data.
func (n *notify) Invoke(ctx context.Context, req action.InvokeRequest, resp *action.InvokeResponse) {
	var m notifyModel
	if resp.Diagnostics.Append(req.Config.Get(ctx, &m)...); resp.Diagnostics.HasError() {
		return
	}
	script := act.Script{
		Last: map[record.Op]time.Duration{record.Invoke: milliseconds(m.InvokeMS)},
		Fail: texts(m.FailOn), Crash: texts(m.CrashOn), Hang: texts(m.HangOn), Times: int(m.Times.ValueInt64()),
	}
	e := record.Entry{Op: record.Invoke, Type: n.provider + "_notify", Name: m.Message.ValueString(),
		Region: m.Region.ValueString(), Private: m.Secret.ValueString()}
	err := n.stage.Do(ctx, e, script, func(*record.Entry) error {
		steps := m.Steps.ValueInt64()
		for i := range steps {
			resp.SendProgress(action.InvokeProgressEvent{Message: fmt.Sprintf("step %d of %d of %s", i+1, steps,
				m.Message.ValueString())})
			select {
			case <-time.After(milliseconds(m.StepMS)):
			case <-ctx.Done():
				return fmt.Errorf("the invocation was cancelled: %w", context.Cause(ctx))
			}
		}
		return nil
	})
	if err != nil {
		resp.Diagnostics.AddError("The notification failed", err.Error())
	}
}

var (
	_ action.ActionWithConfigure      = (*notify)(nil)
	_ action.ActionWithValidateConfig = (*notify)(nil)
	_ action.ActionWithModifyPlan     = (*notify)(nil)
)
