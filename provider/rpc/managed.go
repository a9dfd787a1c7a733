package rpc

import (
	"context"
	"fmt"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/provider/tfplugin6"
)

// ValidateResourceConfig implements provider.Managed.
func (p *Provider) ValidateResourceConfig(ctx context.Context, typeName string, config cty.Value) diag.List {
	_, s, diags := p.shape(ctx, managed, typeName)
	if diags.HasErrors() {
		return diags
	}
	var e encoder
	req := &tfplugin6.ValidateResourceConfig_Request{
		TypeName:           typeName,
		Config:             e.value(config, s.ty),
		ClientCapabilities: allowed(ctx),
	}
	if diags := e.failed(typeName); diags != nil {
		return diags
	}
	resp, err := p.stub.ValidateResourceConfig(ctx, req)
	if err != nil {
		return p.lost(ctx, "ValidateResourceConfig", err)
	}
	return problems(resp.Diagnostics)
}

// UpgradeResourceState implements provider.Managed.
func (p *Provider) UpgradeResourceState(ctx context.Context, r provider.UpgradeRequest) (cty.Value, diag.List) {
	_, s, diags := p.shape(ctx, managed, r.TypeName)
	if diags.HasErrors() {
		return cty.NilVal, diags
	}
	resp, err := p.stub.UpgradeResourceState(ctx, &tfplugin6.UpgradeResourceState_Request{
		TypeName: r.TypeName,
		Version:  r.Version,
		RawState: &tfplugin6.RawState{Json: r.JSON, Flatmap: r.Flatmap},
	})
	if err != nil {
		return cty.NullVal(s.ty), p.lost(ctx, "UpgradeResourceState", err)
	}
	d := p.decode("UpgradeResourceState", r.TypeName, resp.Diagnostics)
	v := d.value(resp.UpgradedState, s.ty)
	d.noWriteOnly(s.block, v)
	return v, d.diags
}

// UpgradeResourceIdentity implements provider.Managed.
func (p *Provider) UpgradeResourceIdentity(ctx context.Context, typeName string, version int64,
	json []byte) (cty.Value, diag.List) {
	_, s, diags := p.shape(ctx, managed, typeName)
	if diags.HasErrors() {
		return cty.NilVal, diags
	}
	if s.identity == cty.NilType {
		return cty.NilVal, noIdentity(typeName)
	}
	resp, err := p.stub.UpgradeResourceIdentity(ctx, &tfplugin6.UpgradeResourceIdentity_Request{
		TypeName:    typeName,
		Version:     version,
		RawIdentity: &tfplugin6.RawState{Json: json},
	})
	if err != nil {
		return cty.NilVal, p.lost(ctx, "UpgradeResourceIdentity", err)
	}
	d := p.decode("UpgradeResourceIdentity", typeName, resp.Diagnostics)
	v := d.identity(resp.UpgradedIdentity, s.identity)
	if v == cty.NilVal && !d.diags.HasErrors() {
		d.diags = d.diags.Append(diag.New(diag.Error, "Provider returned no identity after upgrade", fmt.Sprintf(
			"Provider %s was asked to upgrade an identity of %q. It answered with none, and reported no "+
				"error.\n\nThis is a bug in the provider.",
			p.options.Name, typeName), nil))
	}
	return v, d.diags
}

// ReadResource implements provider.Managed.
func (p *Provider) ReadResource(ctx context.Context, r provider.ReadRequest) (provider.ReadResponse, diag.List) {
	all, s, diags := p.shape(ctx, managed, r.TypeName)
	if diags.HasErrors() {
		return provider.ReadResponse{}, diags
	}
	var e encoder
	req := &tfplugin6.ReadResource_Request{
		TypeName:           r.TypeName,
		CurrentState:       e.value(r.Prior, s.ty),
		Private:            r.Private,
		ProviderMeta:       e.meta(r.ProviderMeta, all.meta),
		ClientCapabilities: allowed(ctx),
		CurrentIdentity:    e.identity(r.Identity, s.identity),
	}
	if diags := e.failed(r.TypeName); diags != nil {
		return provider.ReadResponse{}, diags
	}
	resp, err := p.stub.ReadResource(ctx, req)
	if err != nil {
		return provider.ReadResponse{}, p.lost(ctx, "ReadResource", err)
	}
	d := p.decode("ReadResource", r.TypeName, resp.Diagnostics)
	d.deferral(ctx, resp.Deferred)
	out := provider.ReadResponse{
		Object:   d.value(resp.NewState, s.ty),
		Private:  resp.Private,
		Identity: d.identity(resp.NewIdentity, s.identity),
	}
	d.noWriteOnly(s.block, out.Object)
	return out, d.diags
}

// PlanResourceChange implements provider.Managed. A planned destroy is answered here unless the plugin declares
// that it handles it.
func (p *Provider) PlanResourceChange(ctx context.Context, r provider.PlanRequest) (provider.PlanResponse, diag.List) {
	all, s, diags := p.shape(ctx, managed, r.TypeName)
	if diags.HasErrors() {
		return provider.PlanResponse{}, diags
	}
	if (r.Proposed == cty.NilVal || r.Proposed.IsNull()) && !all.schemas.Capabilities.PlanDestroy {
		return provider.PlanResponse{Planned: cty.NullVal(s.ty), Private: r.PriorPrivate, Identity: r.PriorIdentity},
			nil
	}
	var e encoder
	req := &tfplugin6.PlanResourceChange_Request{
		TypeName:           r.TypeName,
		PriorState:         e.value(r.Prior, s.ty),
		ProposedNewState:   e.value(r.Proposed, s.ty),
		Config:             e.value(r.Config, s.ty),
		PriorPrivate:       r.PriorPrivate,
		ProviderMeta:       e.meta(r.ProviderMeta, all.meta),
		ClientCapabilities: allowed(ctx),
		PriorIdentity:      e.identity(r.PriorIdentity, s.identity),
	}
	if diags := e.failed(r.TypeName); diags != nil {
		return provider.PlanResponse{}, diags
	}
	resp, err := p.stub.PlanResourceChange(ctx, req)
	if err != nil {
		return provider.PlanResponse{}, p.lost(ctx, "PlanResourceChange", err)
	}
	d := p.decode("PlanResourceChange", r.TypeName, resp.Diagnostics)
	d.deferral(ctx, resp.Deferred)
	out := provider.PlanResponse{
		Planned:          d.value(resp.PlannedState, s.ty),
		Private:          resp.PlannedPrivate,
		Identity:         d.identity(resp.PlannedIdentity, s.identity),
		LegacyTypeSystem: resp.LegacyTypeSystem,
	}
	for _, at := range resp.RequiresReplace {
		out.RequiresReplace = append(out.RequiresReplace, path(at))
	}
	d.noWriteOnly(s.block, out.Planned)
	return out, d.diags
}

// ApplyResourceChange implements provider.Managed. An answer whose object cannot be decoded counts as lost: an
// unknown object may exist now.
func (p *Provider) ApplyResourceChange(ctx context.Context, r provider.ApplyRequest) (provider.ApplyResponse,
	diag.List) {
	all, s, diags := p.shape(ctx, managed, r.TypeName)
	if diags.HasErrors() {
		return provider.ApplyResponse{}, notBegun(diags)
	}
	var e encoder
	req := &tfplugin6.ApplyResourceChange_Request{
		TypeName:        r.TypeName,
		PriorState:      e.value(r.Prior, s.ty),
		PlannedState:    e.value(r.Planned, s.ty),
		Config:          e.value(r.Config, s.ty),
		PlannedPrivate:  r.PlannedPrivate,
		ProviderMeta:    e.meta(r.ProviderMeta, all.meta),
		PlannedIdentity: e.identity(r.PlannedIdentity, s.identity),
	}
	if diags := e.failed(r.TypeName); diags != nil {
		return provider.ApplyResponse{}, diags
	}
	resp, err := p.stub.ApplyResourceChange(ctx, req)
	if err != nil {
		return provider.ApplyResponse{}, p.lost(ctx, "ApplyResourceChange", err)
	}
	d := p.decode("ApplyResourceChange", r.TypeName, resp.Diagnostics)
	out := provider.ApplyResponse{
		Object:           d.value(resp.NewState, s.ty),
		Private:          resp.Private,
		LegacyTypeSystem: resp.LegacyTypeSystem,
	}
	if d.unread {
		d.diags[len(d.diags)-1].Extra = &provider.Lost{Reason: "the answer could not be read", Answer: &provider.Answer{
			Attributes: readable(resp.NewState, s.ty), Private: resp.Private, Raw: raw(resp.NewState),
		}}
		return provider.ApplyResponse{}, d.diags
	}
	out.Identity = d.identity(resp.NewIdentity, s.identity)
	d.noWriteOnly(s.block, out.Object)
	return out, d.diags
}

// notBegun removes the mark of a lost call from problems that occurred before the decisive call.
func notBegun(diags diag.List) diag.List {
	for i, d := range diags {
		if _, lost := d.Extra.(*provider.Lost); lost {
			c := *d
			c.Extra = nil
			diags[i] = &c
		}
	}
	return diags
}

// ImportResourceState implements provider.Managed.
func (p *Provider) ImportResourceState(ctx context.Context, r provider.ImportRequest) ([]provider.Imported, diag.List) {
	all, s, diags := p.shape(ctx, managed, r.TypeName)
	if diags.HasErrors() {
		return nil, diags
	}
	var e encoder
	req := &tfplugin6.ImportResourceState_Request{
		TypeName:           r.TypeName,
		Id:                 r.ID,
		ClientCapabilities: allowed(ctx),
	}
	if r.Identity != cty.NilVal {
		if s.identity == cty.NilType {
			return nil, noIdentity(r.TypeName)
		}
		req.Identity = e.identity(r.Identity, s.identity)
	}
	if diags := e.failed(r.TypeName); diags != nil {
		return nil, diags
	}
	resp, err := p.stub.ImportResourceState(ctx, req)
	if err != nil {
		return nil, p.lost(ctx, "ImportResourceState", err)
	}
	d := p.decode("ImportResourceState", r.TypeName, resp.Diagnostics)
	d.deferral(ctx, resp.Deferred)
	var out []provider.Imported
	for _, from := range resp.ImportedResources {
		s, ok := all.managed.get(from.TypeName)
		if !ok {
			d.diags = d.diags.Append(diag.Errors(fmt.Sprintf("unknown resource type %q", from.TypeName), fmt.Sprintf(
				"Provider %s imported an object of a type that it does not declare. This is a bug in the provider.",
				p.options.Name), nil))
			continue
		}
		d.typeName, d.unread = from.TypeName, false
		to := provider.Imported{
			TypeName: from.TypeName,
			Object:   d.value(from.State, s.ty),
			Private:  from.Private,
			Identity: d.identity(from.Identity, s.identity),
		}
		if d.unread {
			continue
		}
		d.noWriteOnly(s.block, to.Object)
		out = append(out, to)
	}
	return out, d.diags
}

// MoveResourceState implements provider.Managed.
func (p *Provider) MoveResourceState(ctx context.Context, r provider.MoveRequest) (provider.MoveResponse, diag.List) {
	_, s, diags := p.shape(ctx, managed, r.TargetType)
	if diags.HasErrors() {
		return provider.MoveResponse{}, diags
	}
	req := &tfplugin6.MoveResourceState_Request{
		SourceProviderAddress: r.SourceProvider,
		SourceTypeName:        r.SourceType,
		SourceSchemaVersion:   r.SourceVersion,
		SourceState:           &tfplugin6.RawState{Json: r.SourceJSON},
		TargetTypeName:        r.TargetType,
		SourcePrivate:         r.SourcePrivate,
	}
	if len(r.SourceIdentity) > 0 {
		req.SourceIdentity = &tfplugin6.RawState{Json: r.SourceIdentity}
		req.SourceIdentitySchemaVersion = r.SourceIdentityVersion
	}
	resp, err := p.stub.MoveResourceState(ctx, req)
	if err != nil {
		return provider.MoveResponse{}, p.lost(ctx, "MoveResourceState", err)
	}
	d := p.decode("MoveResourceState", r.TargetType, resp.Diagnostics)
	out := provider.MoveResponse{
		Object:   d.value(resp.TargetState, s.ty),
		Private:  resp.TargetPrivate,
		Identity: d.identity(resp.TargetIdentity, s.identity),
	}
	d.noWriteOnly(s.block, out.Object)
	return out, d.diags
}

func noIdentity(typeName string) diag.List {
	return diag.Errors("No identity schema found",
		fmt.Sprintf("Resource type %q declares no identity.", typeName), nil)
}
