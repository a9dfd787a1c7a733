package change

import (
	"context"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/wire"
)

// action returns the action type of the given name.
func (h Host) action(name string) (kind, diag.List) {
	s, ok := h.Schemas.Actions[name]
	if !ok {
		return kind{}, h.unsupported("action", name)
	}
	return kind{name: name, block: s.Block, ty: s.Block.ImpliedType(), version: s.Version}, nil
}

// PlanAction validates the configuration of an action, and asks the provider whether it can be invoked.
func PlanAction(ctx context.Context, h Host, t *wire.ActionTask) diag.List {
	k, config, diags := h.validAction(ctx, t)
	if diags.HasErrors() {
		return diags
	}
	return append(diags, h.Provider.PlanAction(ctx, k.name, config).WithAddress(h.Address)...)
}

// Invoke validates the configuration of an action, asks again whether it can be invoked, and invokes it. If the
// provider did not say how it ended, the result says that it is in doubt. progress is called for each message of the
// provider, in order, and not after Invoke has returned.
func Invoke(ctx context.Context, h Host, t *wire.ActionTask, progress func(string)) *wire.Result {
	out := &wire.Result{}
	k, config, diags := h.validAction(ctx, t)
	if !diags.HasErrors() && !config.IsWhollyKnown() {
		diags = append(diags, h.problem("Configuration of an action is not known", "The configuration of %s has parts "+
			"that are not known, so it cannot be invoked.", h.Address))
	}
	if !diags.HasErrors() { // parts of the configuration may have been unknown when it was planned
		diags = append(diags, h.Provider.PlanAction(ctx, k.name, config).WithAddress(h.Address)...)
	}
	if !diags.HasErrors() {
		more := h.Provider.InvokeAction(ctx, k.name, config, progress).WithAddress(h.Address)
		if lost := lostIn(more); lost != nil {
			out.Doubt = lost.Reason
		}
		diags = append(diags, more...)
	}
	out.Diagnostics = wire.DiagsToWire(diags)
	return out
}

// validAction returns the type and the configuration of an action that the provider has checked.
func (h Host) validAction(ctx context.Context, t *wire.ActionTask) (kind, cty.Value, diag.List) {
	k, diags := h.action(t.Type)
	if diags.HasErrors() {
		return k, cty.NilVal, diags
	}
	config, diags := h.decode(t.Config, k.ty, "configuration")
	if diags.HasErrors() {
		return k, cty.NilVal, diags
	}
	return k, config, append(diags, h.Provider.ValidateActionConfig(ctx, k.name, config).WithAddress(h.Address)...)
}
