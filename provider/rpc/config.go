package rpc

import (
	"context"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider/tfplugin6"
)

// ValidateProviderConfig implements provider.Configurer. It returns the value that it was given: version 5 lets the
// plugin prepare another, which engines have never used to configure with since 0.12.
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
		ClientCapabilities: clientCapabilities,
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
