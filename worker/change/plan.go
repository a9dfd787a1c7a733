package change

import (
	"context"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/wire"
)

// Plan refreshes the prior object and plans its change. After errors the result contains the findings before them, and
// no action.
func Plan(ctx context.Context, h Host, t *wire.PlanTask) (*wire.PlanResult, diag.List) {
	i, diags := h.managedInstance(t.Type, t.Meta, t.Sensitive)
	if diags.HasErrors() {
		return &wire.PlanResult{}, diags
	}
	if t.IfChanged && t.Refresh && t.Prior != nil && t.Import == nil && !t.Destroy && !t.SkipPlan {
		if out, diags := i.planUnread(ctx, h, t); out != nil {
			return out, diags
		}
	}
	out := &wire.PlanResult{SchemaVersion: i.version, IdentityVersion: i.identityVersion}

	prior, more := i.priorObject(ctx, t, out)
	if diags = append(diags, more...); diags.HasErrors() {
		return out, diags
	}
	out.Prior, out.PriorPrivate, out.PriorIdentity = i.encodeObject(prior)

	switch {
	case t.SkipPlan:
		out.Action = plan.NoOp
	case t.Destroy:
		p, more := i.planDestroy(ctx, prior)
		diags = append(diags, more...)
		i.answerPlan(out, p, diags)
	default:
		p, more := i.planConfigured(ctx, h, t, prior)
		diags = append(diags, more...)
		i.answerPlan(out, p, diags)
	}
	return out, diags
}

// planConfigured plans the step from the prior object to the configuration of a task.
func (i instance) planConfigured(ctx context.Context, h Host, t *wire.PlanTask, prior object) (planned, diag.List) {
	config, diags := h.decode(t.Config, i.ty, "configuration")
	ignore, more := h.decodeIgnored(t.IgnorePaths, t.IgnoreAll)
	if diags = append(diags, more...); diags.HasErrors() {
		return planned{}, diags
	}
	p, more := i.planChange(ctx, prior, config, ignore, t.Replace)
	return p, append(diags, more...)
}

// planUnread plans against the stored object, without reading it. It returns nil unless nothing has to change:
// otherwise the object must be read first, and this plan is discarded.
func (i instance) planUnread(ctx context.Context, h Host, t *wire.PlanTask) (*wire.PlanResult, diag.List) {
	prior, diags := i.current(ctx, t.Prior, t.MovedFrom)
	if diags.HasErrors() {
		return nil, nil
	}
	p, more := i.planConfigured(ctx, h, t, prior)
	if diags = append(diags, more...); diags.HasErrors() || p.action != plan.NoOp {
		return nil, nil
	}
	out := &wire.PlanResult{SchemaVersion: i.version, IdentityVersion: i.identityVersion, Unread: true}
	out.Upgraded = encodeValue(withoutWriteOnly(i.block, prior.value), i.ty)
	out.Prior, out.PriorPrivate, out.PriorIdentity = i.encodeObject(prior)
	i.answerPlan(out, p, diags)
	return out, diags
}

// priorObject returns the current object: imported, or upgraded and refreshed as far as the task requests.
func (i instance) priorObject(ctx context.Context, t *wire.PlanTask, out *wire.PlanResult) (object, diag.List) {
	if t.Import != nil {
		return i.importOne(ctx, t.Import)
	}
	if t.Prior == nil {
		return i.absent(), nil
	}
	prior, diags := i.current(ctx, t.Prior, t.MovedFrom)
	if diags.HasErrors() {
		return prior, diags
	}
	out.Upgraded = encodeValue(withoutWriteOnly(i.block, prior.value), i.ty)
	if !t.Refresh {
		return prior, diags
	}
	prior, more := i.refresh(ctx, prior)
	return prior, append(diags, more...)
}

// planned is a change planned by the provider.
type planned struct {
	object
	action  plan.Action
	reason  string
	replace []cty.Path
	legacy  bool
}

func (i instance) answerPlan(out *wire.PlanResult, p planned, diags diag.List) {
	if diags.HasErrors() {
		return
	}
	out.Planned, out.PlannedPrivate, out.PlannedIdentity = i.encodeObject(p.object)
	out.Action, out.Reason, out.Legacy = p.action, p.reason, p.legacy
	out.ReplacePaths = encodePaths(p.replace)
}

// planDestroy plans the deletion of an object. The provider is called only if it declares that it handles this.
func (i instance) planDestroy(ctx context.Context, prior object) (planned, diag.List) {
	none := cty.NullVal(i.ty)
	if prior.value.IsNull() {
		return planned{object: object{value: none}, action: plan.NoOp}, nil
	}
	out := planned{object: object{value: none, private: prior.private, identity: prior.identity}, action: plan.Delete}
	if !i.Schemas.Capabilities.PlanDestroy {
		return out, nil
	}
	resp, diags := i.Provider.PlanResourceChange(ctx, provider.PlanRequest{
		TypeName:      i.name,
		Prior:         prior.value,
		Proposed:      none,
		Config:        none,
		PriorPrivate:  prior.private,
		ProviderMeta:  i.meta,
		PriorIdentity: prior.identity,
	})
	diags = diags.WithAddress(i.Address)
	if diags.HasErrors() {
		return planned{}, diags
	}
	if resp.Planned == cty.NilVal || !resp.Planned.IsNull() {
		return planned{}, append(diags, i.blame(invalidPlan,
			"Asked to plan the deletion of %s, provider %q planned an object. A planned deletion is null.",
			i.Address, i.Name))
	}
	identity, more := i.checkIdentity(resp.Identity, "planning the deletion")
	out.private, out.legacy = resp.Private, resp.LegacyTypeSystem
	if identity != cty.NilVal {
		out.identity = identity
	}
	return out, append(diags, more...)
}

// planChange plans the step from the prior object, perhaps absent, to the configuration.
//
// A tainted object is planned as if it did not exist, and then replaced. A replacement is planned twice: the first
// plan shows that it is necessary, the second, without a prior object, gives the new object.
func (i instance) planChange(ctx context.Context, prior object, config cty.Value, ignore ignored,
	forced string) (planned, diag.List) {
	base := prior
	if prior.tainted {
		base = i.absent()
	}
	diags := i.validate(ctx, config)
	if diags.HasErrors() {
		return planned{}, diags
	}
	p, more := i.askPlan(ctx, base, ignore.inConfig(i.block, base.value, config), ignore)
	if diags = append(diags, more...); diags.HasErrors() {
		return planned{}, diags
	}
	p.replace, more = i.mustReplace(base.value, p.value, p.replace)
	if diags = append(diags, more...); diags.HasErrors() {
		return planned{}, diags
	}
	p.action, p.reason = i.decide(base.value, p.value, p.replace, forced)

	switch {
	case p.action == plan.DeleteThenCreate:
		after, more := i.planAfterDelete(ctx, config, p.private)
		if more.HasErrors() {
			return planned{}, append(diags, more...) // its warnings repeat those of the first plan
		}
		p.object, p.legacy = after.object, after.legacy
	case p.action == plan.Create && !prior.value.IsNull():
		p.action, p.reason = plan.DeleteThenCreate, ReasonTainted
		if forced != "" && forced != ReplaceRequested {
			p.reason = ReasonTriggers
		}
	}
	return p, diags
}

// askPlan calls the provider to plan a change, and checks the answer against the configuration. The replace paths
// of the result are those of the provider.
func (i instance) askPlan(ctx context.Context, prior object, config cty.Value, ignore ignored) (planned, diag.List) {
	p, diags := i.callPlan(ctx, prior, config)
	if diags.HasErrors() {
		return planned{}, diags
	}
	if found := checkPlanned(i.block, prior.value, config, p.value); len(found) > 0 && !p.legacy {
		opening := "Provider " + quoted(i.Name) + " planned an invalid value for"
		return planned{}, append(diags, i.blameEach(invalidPlan, opening, found)...)
	}
	if p.legacy {
		p.value = ignore.inPlan(prior.value, p.value)
	}
	return p, diags
}

// planAfterDelete plans the new object of a replacement. Nothing is ignored, because there is nothing to keep.
func (i instance) planAfterDelete(ctx context.Context, config cty.Value, private []byte) (planned, diag.List) {
	prior := i.absent()
	prior.private = private
	return i.callPlan(ctx, prior, config)
}

// callPlan calls the provider to plan a change. With any type system, the result has the schema's type, is not
// null, and contains no write-only values.
func (i instance) callPlan(ctx context.Context, prior object, config cty.Value) (planned, diag.List) {
	resp, diags := i.Provider.PlanResourceChange(ctx, provider.PlanRequest{
		TypeName:      i.name,
		Prior:         prior.value,
		Proposed:      propose(i.block, prior.value, config),
		Config:        config,
		PriorPrivate:  prior.private,
		ProviderMeta:  i.meta,
		PriorIdentity: prior.identity,
	})
	diags = diags.WithAddress(i.Address)
	if diags.HasErrors() {
		return planned{}, diags
	}
	opening := "Provider " + quoted(i.Name) + " planned an invalid value for"
	found := i.conforms(resp.Planned)
	if len(found) == 0 && resp.Planned.IsNull() {
		found.add(nil, "it is configured, but planned to be absent")
	}
	if len(found) == 0 && !resp.Planned.IsKnown() {
		found.add(nil, "an object cannot be unknown as a whole, only its attributes can")
	}
	if len(found) > 0 {
		return planned{}, append(diags, i.blameEach(invalidPlan, opening, found)...)
	}
	diags = append(diags, i.writeOnlyReturned(resp.Planned)...)
	identity, more := i.checkIdentity(resp.Identity, "planning")
	p := planned{replace: resp.RequiresReplace, legacy: resp.LegacyTypeSystem}
	p.object = object{value: resp.Planned, private: resp.Private, identity: identity}
	return p, append(diags, more...)
}
