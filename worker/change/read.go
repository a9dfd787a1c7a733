package change

import (
	"context"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/wire"
)

// ReadData validates the configuration of a data source and reads it. The result is the encoded object.
func ReadData(ctx context.Context, h Host, t *wire.ReadDataTask) ([]byte, diag.List) {
	k, diags := h.data(t.Type)
	if diags.HasErrors() {
		return nil, diags
	}
	config, diags := h.decode(t.Config, k.ty, "configuration")
	meta, more := h.decodeMeta(t.Meta)
	if diags = append(diags, more...); diags.HasErrors() {
		return nil, diags
	}
	diags = append(diags, h.Provider.ValidateDataConfig(ctx, k.name, config).WithAddress(h.Address)...)
	if diags.HasErrors() {
		return nil, diags
	}
	v, more := h.Provider.ReadDataSource(ctx, k.name, config, meta)
	if diags = append(diags, more.WithAddress(h.Address)...); diags.HasErrors() || putOff(ctx) {
		return nil, diags
	}
	if diags = append(diags, h.checkWhole(k, v, "reading")...); diags.HasErrors() {
		return nil, diags
	}
	return encodeValue(v, k.ty), diags
}

// putOff reports whether the provider has put off a call of the operation.
func putOff(ctx context.Context) bool {
	return provider.DeferralOf(ctx).Reason() != provider.NoDeferral
}

// checkWhole checks an answer that must be a complete object: not null, of the right type, and wholly known.
func (h Host) checkWhole(k kind, v cty.Value, doing string) diag.List {
	i := instance{Host: h, kind: k}
	if found := k.conforms(v); len(found) > 0 {
		return i.blameEach(invalidObject, i.answer(doing), found)
	}
	if v.IsNull() {
		return diag.List{h.blame(nullObject, "Provider %q answered with null to %s %s.", h.Name, doing, h.Address)}
	}
	return i.blameEach(invalidObject, i.answer(doing), unknowns(v))
}

// Ephemeral opens, renews or closes an ephemeral object. The caller must close an opened object, unless there are
// errors: then it is already closed.
func Ephemeral(ctx context.Context, h Host, t *wire.EphemeralTask) (*wire.EphemeralResult, diag.List) {
	k, diags := h.ephemeral(t.Type)
	if diags.HasErrors() {
		return nil, diags
	}
	switch t.Op {
	case "open":
		return h.open(ctx, k, t)
	case "renew":
		renewed, diags := h.Provider.RenewEphemeral(ctx, k.name, t.Private)
		return &wire.EphemeralResult{Private: renewed.Private, RenewAt: renewed.RenewAt}, diags.WithAddress(h.Address)
	case "close":
		return &wire.EphemeralResult{}, h.Provider.CloseEphemeral(ctx, k.name, t.Private).WithAddress(h.Address)
	default:
		return nil, diag.List{h.unknownOperation("an ephemeral object", t.Op)}
	}
}

func (h Host) open(ctx context.Context, k kind, t *wire.EphemeralTask) (*wire.EphemeralResult, diag.List) {
	config, diags := h.decode(t.Config, k.ty, "configuration")
	if diags.HasErrors() {
		return nil, diags
	}
	diags = append(diags, h.Provider.ValidateEphemeralConfig(ctx, k.name, config).WithAddress(h.Address)...)
	if diags.HasErrors() {
		return nil, diags
	}
	opened, more := h.Provider.OpenEphemeral(ctx, k.name, config)
	if diags = append(diags, more.WithAddress(h.Address)...); diags.HasErrors() || putOff(ctx) {
		return nil, diags
	}
	if diags = append(diags, h.checkWhole(k, opened.Object, "opening")...); diags.HasErrors() {
		closing := h.Provider.CloseEphemeral(ctx, k.name, opened.Private)
		return nil, append(diags, closing.WithAddress(h.Address)...)
	}
	return &wire.EphemeralResult{
		Object:  encodeValue(opened.Object, k.ty),
		Private: opened.Private,
		RenewAt: opened.RenewAt,
	}, diags
}

// Validate executes one of the provider's validations of a configuration. For the provider's own configuration the
// result is the encoded value to configure it with, which may differ from the argument.
func Validate(ctx context.Context, h Host, t *wire.ValidateTask) ([]byte, diag.List) {
	if t.Kind == "provider" {
		return h.validateProvider(ctx, t)
	}
	if t.Kind == "list" {
		return nil, h.validateList(ctx, t)
	}
	find, check := h.managed, h.Provider.ValidateResourceConfig
	switch t.Kind {
	case "managed":
	case "data":
		find, check = h.data, h.Provider.ValidateDataConfig
	case "action":
		find, check = h.action, h.Provider.ValidateActionConfig
	case "ephemeral":
		find, check = h.ephemeral, h.Provider.ValidateEphemeralConfig
	default:
		return nil, diag.List{h.unknownOperation("a validation", t.Kind)}
	}
	k, diags := find(t.Type)
	if diags.HasErrors() {
		return nil, diags
	}
	config, diags := h.decode(t.Config, k.ty, "configuration")
	if diags.HasErrors() {
		return nil, diags
	}
	return nil, append(diags, check(ctx, k.name, config).WithAddress(h.Address)...)
}

func (h Host) validateProvider(ctx context.Context, t *wire.ValidateTask) ([]byte, diag.List) {
	ty := h.Schemas.Provider.Block.ImpliedType()
	config, diags := h.decode(t.Config, ty, "configuration")
	if diags.HasErrors() {
		return nil, diags
	}
	prepared, more := h.Provider.ValidateProviderConfig(ctx, config)
	if diags = append(diags, more.WithAddress(h.Address)...); diags.HasErrors() {
		return nil, diags
	}
	if found := conforms(prepared, ty); len(found) > 0 {
		return nil, append(diags, h.blameEach(invalidObject, "Provider "+quoted(h.Name)+" prepared an invalid "+
			"configuration for", found)...)
	}
	return encodeValue(prepared, ty), diags
}

func (h Host) unknownOperation(of, name string) *diag.Diagnostic {
	return h.problem("Unknown operation",
		"The task for %s asks for %s of the kind %q, which this worker does not know.", h.Address, of, name)
}
