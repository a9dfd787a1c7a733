package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/millipede-iac/millipede/test/providers/act"
	"github.com/millipede-iac/millipede/test/providers/record"
)

// token is the ephemeral resource type: opened, renewed as often as it asks for, closed.
type token struct{ *site }

type tokenModel struct {
	Name    types.String `tfsdk:"name"`
	RenewMS types.Int64  `tfsdk:"renew_ms"`
	OpenMS  types.Int64  `tfsdk:"open_ms"`
	CloseMS types.Int64  `tfsdk:"close_ms"`
	FailOn  types.Set    `tfsdk:"fail_on"`
	WarnOn  types.Set    `tfsdk:"warn_on"`
	CrashOn types.Set    `tfsdk:"crash_on"`
	HangOn  types.Set    `tfsdk:"hang_on"`
	Token   types.String `tfsdk:"token"`
	Serial  types.Int64  `tfsdk:"serial"`
}

// lease is the private data of an open token.
type lease struct {
	Name     string        `json:"name"`
	ID       string        `json:"id"`
	Renewals int           `json:"renewals"`
	Every    time.Duration `json:"every"` // 0 for a token that needs no renewal
	Script   act.Script    `json:"script"`
}

// leaseKey is the member of private data that holds the lease.
const leaseKey = "lease"

// Metadata names the ephemeral resource type.
func (*token) Metadata(_ context.Context, req ephemeral.MetadataRequest, resp *ephemeral.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_token"
}

// Schema describes the ephemeral resource type.
func (*token) Schema(_ context.Context, _ ephemeral.SchemaRequest, resp *ephemeral.SchemaResponse) {
	trouble := func(what string) schema.SetAttribute {
		return schema.SetAttribute{
			Optional: true, ElementType: types.StringType, Description: "Which of open, renew and close " + what + ".",
			Validators: []validator.Set{setvalidator.ValueStringsAre(stringvalidator.OneOf(
				"open", "renew", "close", "open_after", "renew_after", "close_after",
			))},
		}
	}
	resp.Schema = schema.Schema{
		Description: "A token.",
		Attributes: map[string]schema.Attribute{
			"name": schema.StringAttribute{Required: true, Description: "The name."},
			"renew_ms": schema.Int64Attribute{Optional: true, Description: "After how many milliseconds it must be " +
				"renewed; never, if not set."},
			"open_ms":  schema.Int64Attribute{Optional: true, Description: "How long opening lasts, in milliseconds."},
			"close_ms": schema.Int64Attribute{Optional: true, Description: "How long closing lasts, in milliseconds."},
			"fail_on":  trouble("fail"), "warn_on": trouble("warn"),
			"crash_on": trouble("end the process"), "hang_on": trouble("last until cancelled"),
			"token": schema.StringAttribute{Computed: true, Sensitive: true,
				Description: "`token-` and an id by chance."},
			"serial": schema.Int64Attribute{Computed: true, Description: "A number by chance."},
		},
	}
}

// Configure takes the provider's site over.
func (t *token) Configure(_ context.Context, req ephemeral.ConfigureRequest, _ *ephemeral.ConfigureResponse) {
	if s, ok := req.ProviderData.(*site); ok {
		t.site = s
	}
}

// Open makes a token. It is in the cloud until it is closed.
func (t *token) Open(ctx context.Context, req ephemeral.OpenRequest, resp *ephemeral.OpenResponse) {
	var m tokenModel
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	if resp.Diagnostics.HasError() {
		return
	}
	l := lease{Name: m.Name.ValueString(), Every: milliseconds(m.RenewMS), Script: act.Script{
		Last: map[record.Op]time.Duration{record.Open: milliseconds(m.OpenMS), record.Close: milliseconds(m.CloseMS)},
		Fail: texts(m.FailOn), Warn: texts(m.WarnOn), Crash: texts(m.CrashOn), Hang: texts(m.HangOn),
	}}
	err := t.stage.Do(ctx, t.entry(record.Open, l), l.Script, func(e *record.Entry) error {
		o, err := t.stage.Cloud.Create(e.Type, l.Name, "", nil)
		if err != nil {
			return err
		}
		l.ID, e.ID = o.ID, o.ID
		m.Token, m.Serial = types.StringValue("token-"+o.ID), types.Int64Value(o.Serial)
		resp.Diagnostics.Append(resp.Result.Set(ctx, &m)...)
		resp.RenewAt = l.renewAt()
		return l.save(ctx, resp.Private)
	})
	report(&resp.Diagnostics, record.Open, l.Script, err)
}

// Renew counts the renewals.
func (t *token) Renew(ctx context.Context, req ephemeral.RenewRequest, resp *ephemeral.RenewResponse) {
	l, err := loadLease(ctx, req.Private)
	if err == nil {
		err = t.stage.Do(ctx, t.entry(record.Renew, l), l.Script, func(e *record.Entry) error {
			if _, err := t.stage.Cloud.Get(e.Type, l.ID); err != nil && !t.stage.Cloud.Forgets() {
				return err
			}
			l.Renewals++
			resp.RenewAt = l.renewAt()
			return l.save(ctx, resp.Private)
		})
	}
	report(&resp.Diagnostics, record.Renew, l.Script, err)
}

// Close ends the token. Its line in the record says how often it was renewed, as private.
func (t *token) Close(ctx context.Context, req ephemeral.CloseRequest, resp *ephemeral.CloseResponse) {
	l, err := loadLease(ctx, req.Private)
	if err == nil {
		err = t.stage.Do(ctx, t.entry(record.Close, l), l.Script, func(e *record.Entry) error {
			return t.stage.Cloud.Delete(e.Type, l.ID)
		})
	}
	report(&resp.Diagnostics, record.Close, l.Script, err)
}

func (t *token) entry(op record.Op, l lease) record.Entry {
	return record.Entry{Op: op, Type: t.provider + "_token", Name: l.Name, ID: l.ID,
		Private: fmt.Sprintf("%d renewals", l.Renewals)}
}

// renewAt returns the time of the next renewal; the zero time if there is none.
func (l lease) renewAt() time.Time {
	if l.Every == 0 {
		return time.Time{}
	}
	return time.Now().Add(l.Every)
}

func (l lease) save(ctx context.Context, private interface {
	SetKey(context.Context, string, []byte) diag.Diagnostics
}) error {
	text, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("encoding the lease: %w", err)
	}
	if diags := private.SetKey(ctx, leaseKey, text); diags.HasError() {
		return fmt.Errorf("keeping the lease: %s", diags.Errors()[0].Detail())
	}
	return nil
}

func loadLease(ctx context.Context, private interface {
	GetKey(context.Context, string) ([]byte, diag.Diagnostics)
}) (l lease, err error) {
	text, diags := private.GetKey(ctx, leaseKey)
	if diags.HasError() {
		return l, fmt.Errorf("reading the lease: %s", diags.Errors()[0].Detail())
	}
	if err := json.Unmarshal(text, &l); err != nil {
		return l, fmt.Errorf("the private data of the token is lost: %w", err)
	}
	return l, nil
}

var (
	_ ephemeral.EphemeralResourceWithConfigure = (*token)(nil)
	_ ephemeral.EphemeralResourceWithRenew     = (*token)(nil)
	_ ephemeral.EphemeralResourceWithClose     = (*token)(nil)
)
