package rpc

import (
	"context"
	"time"

	"github.com/zclconf/go-cty/cty"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/provider/tfplugin6"
)

// ValidateDataConfig implements provider.DataSource.
func (p *Provider) ValidateDataConfig(ctx context.Context, typeName string, config cty.Value) diag.List {
	_, s, diags := p.shape(ctx, data, typeName)
	if diags.HasErrors() {
		return diags
	}
	var e encoder
	req := &tfplugin6.ValidateDataResourceConfig_Request{TypeName: typeName, Config: e.value(config, s.ty)}
	if diags := e.failed(typeName); diags != nil {
		return diags
	}
	resp, err := p.stub.ValidateDataResourceConfig(ctx, req)
	if err != nil {
		return p.lost(ctx, "ValidateDataResourceConfig", err)
	}
	return problems(resp.Diagnostics)
}

// ReadDataSource implements provider.DataSource.
func (p *Provider) ReadDataSource(ctx context.Context, typeName string, config, providerMeta cty.Value) (
	cty.Value, diag.List) {
	all, s, diags := p.shape(ctx, data, typeName)
	if diags.HasErrors() {
		return cty.NilVal, diags
	}
	var e encoder
	req := &tfplugin6.ReadDataSource_Request{
		TypeName:           typeName,
		Config:             e.value(config, s.ty),
		ProviderMeta:       e.meta(providerMeta, all.meta),
		ClientCapabilities: allowed(ctx),
	}
	if diags := e.failed(typeName); diags != nil {
		return cty.NilVal, diags
	}
	resp, err := p.stub.ReadDataSource(ctx, req)
	if err != nil {
		return cty.NilVal, p.lost(ctx, "ReadDataSource", err)
	}
	d := p.decode("ReadDataSource", typeName, resp.Diagnostics)
	d.deferral(ctx, resp.Deferred)
	return d.value(resp.State, s.ty), d.diags
}

// ValidateEphemeralConfig implements provider.Ephemeral.
func (p *Provider) ValidateEphemeralConfig(ctx context.Context, typeName string, config cty.Value) diag.List {
	_, s, diags := p.shape(ctx, ephemeral, typeName)
	if diags.HasErrors() {
		return diags
	}
	var e encoder
	req := &tfplugin6.ValidateEphemeralResourceConfig_Request{TypeName: typeName, Config: e.value(config, s.ty)}
	if diags := e.failed(typeName); diags != nil {
		return diags
	}
	resp, err := p.stub.ValidateEphemeralResourceConfig(ctx, req)
	if err != nil {
		return p.lost(ctx, "ValidateEphemeralResourceConfig", err)
	}
	return problems(resp.Diagnostics)
}

// OpenEphemeral implements provider.Ephemeral.
func (p *Provider) OpenEphemeral(ctx context.Context, typeName string, config cty.Value) (provider.Opened, diag.List) {
	_, s, diags := p.shape(ctx, ephemeral, typeName)
	if diags.HasErrors() {
		return provider.Opened{}, diags
	}
	var e encoder
	req := &tfplugin6.OpenEphemeralResource_Request{
		TypeName:           typeName,
		Config:             e.value(config, s.ty),
		ClientCapabilities: allowed(ctx),
	}
	if diags := e.failed(typeName); diags != nil {
		return provider.Opened{}, diags
	}
	resp, err := p.stub.OpenEphemeralResource(ctx, req)
	if err != nil {
		return provider.Opened{}, p.lost(ctx, "OpenEphemeralResource", err)
	}
	d := p.decode("OpenEphemeralResource", typeName, resp.Diagnostics)
	d.deferral(ctx, resp.Deferred)
	return provider.Opened{
		Object:  d.value(resp.Result, s.ty),
		Private: resp.Private,
		RenewAt: instant(resp.RenewAt),
	}, d.diags
}

// RenewEphemeral implements provider.Ephemeral.
func (p *Provider) RenewEphemeral(ctx context.Context, typeName string, private []byte) (provider.Renewed, diag.List) {
	if _, _, diags := p.shape(ctx, ephemeral, typeName); diags.HasErrors() {
		return provider.Renewed{}, diags
	}
	resp, err := p.stub.RenewEphemeralResource(ctx, &tfplugin6.RenewEphemeralResource_Request{TypeName: typeName,
		Private: private})
	if err != nil {
		return provider.Renewed{}, p.lost(ctx, "RenewEphemeralResource", err)
	}
	return provider.Renewed{Private: resp.Private, RenewAt: instant(resp.RenewAt)}, problems(resp.Diagnostics)
}

// CloseEphemeral implements provider.Ephemeral.
func (p *Provider) CloseEphemeral(ctx context.Context, typeName string, private []byte) diag.List {
	if _, _, diags := p.shape(ctx, ephemeral, typeName); diags.HasErrors() {
		return diags
	}
	resp, err := p.stub.CloseEphemeralResource(ctx, &tfplugin6.CloseEphemeralResource_Request{TypeName: typeName,
		Private: private})
	if err != nil {
		return p.lost(ctx, "CloseEphemeralResource", err)
	}
	return problems(resp.Diagnostics)
}

// instant converts a timestamp; the result is the zero time if there is none.
func instant(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}
