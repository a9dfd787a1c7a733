package rpc

import (
	"context"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider/tfplugin6"
)

// ValidateProviderConfig implements provider.Configurer. It returns its argument: in version 5 the plugin can
// return another value, but engines since 0.12 have never configured the plugin with it.
func (p *Provider) ValidateProviderConfig(ctx context.Context, config cty.Value) (cty.Value, diag.List) {
	d, diags := p.declared(ctx)
	if diags.HasErrors() {
		return config, diags
	}
	var e encoder
	req := &tfplugin6.ValidateProviderConfig_Request{Config: e.value(config, d.config.ty)}
	if diags := e.failed("the provider's configuration"); diags != nil {
		return config, diags
	}
	resp, err := p.stub.ValidateProviderConfig(ctx, req)
	if err != nil {
		return config, p.lost(ctx, "ValidateProviderConfig", err)
	}
	return config, problems(resp.Diagnostics)
}

// Configure implements provider.Configurer.
func (p *Provider) Configure(ctx context.Context, config cty.Value, engineVersion string) diag.List {
	d, diags := p.declared(ctx)
	if diags.HasErrors() {
		return diags
	}
	var e encoder
	req := &tfplugin6.ConfigureProvider_Request{
		TerraformVersion:   engineVersion,
		Config:             e.value(config, d.config.ty),
		ClientCapabilities: allowed(ctx),
	}
	if diags := e.failed("the provider's configuration"); diags != nil {
		return diags
	}
	resp, err := p.stub.ConfigureProvider(ctx, req)
	if err != nil {
		return p.lost(ctx, "ConfigureProvider", err)
	}
	return problems(resp.Diagnostics)
}
