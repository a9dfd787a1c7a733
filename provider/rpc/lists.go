package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/provider/tfplugin6"
)

// ValidateListConfig implements provider.Lister.
func (p *Provider) ValidateListConfig(ctx context.Context, r provider.ListRequest) diag.List {
	_, s, diags := p.shape(ctx, list, r.TypeName)
	if diags.HasErrors() {
		return diags
	}
	limit := cty.UnknownVal(cty.Number)
	if r.Limit > 0 {
		limit = cty.NumberIntVal(r.Limit)
	}
	var e encoder
	req := &tfplugin6.ValidateListResourceConfig_Request{
		TypeName: r.TypeName, Config: e.value(r.Config, s.ty),
		IncludeResourceObject: e.value(cty.BoolVal(r.IncludeObject), cty.Bool), Limit: e.value(limit, cty.Number),
	}
	if diags := e.failed(r.TypeName); diags != nil {
		return diags
	}
	resp, err := p.stub.ValidateListResourceConfig(ctx, req)
	if err != nil {
		return p.lost(ctx, "ValidateListResourceConfig", err)
	}
	return problems(resp.Diagnostics)
}

// ListResource implements provider.Lister.
func (p *Provider) ListResource(ctx context.Context, r provider.ListRequest, found func(provider.Listed) error) (
	diags diag.List) {
	_, s, diags := p.shape(ctx, list, r.TypeName)
	if diags.HasErrors() {
		return diags
	}
	_, object, diags := p.shape(ctx, managed, r.TypeName)
	if diags.HasErrors() {
		return diags
	}
	if object.identity == cty.NilType {
		return diag.Errors("Resource type without identity", fmt.Sprintf("Provider %s can list objects of type %q, "+
			"but declares no identity for them, so they could not be told apart.\n\nThis is a bug in the provider.",
			p.options.Name, r.TypeName), nil)
	}
	var e encoder
	req := &tfplugin6.ListResource_Request{TypeName: r.TypeName, Config: e.value(r.Config, s.ty),
		IncludeResourceObject: r.IncludeObject, Limit: r.Limit}
	if diags := e.failed(r.TypeName); diags != nil {
		return diags
	}
	ctx, end := context.WithCancel(ctx) // ends the stream, also if it has not been read to its end
	defer end()
	stream, err := p.stub.ListResource(ctx, req)
	if err != nil {
		return p.lost(ctx, "ListResource", err)
	}
	for n := int64(0); n < r.Limit; {
		event, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return diags
		}
		if err != nil {
			return append(diags, p.lost(ctx, "ListResource", err)...)
		}
		one := p.listed(r, object, event)
		if !one.Diagnostics.HasErrors() {
			n++
		}
		if found(one) != nil {
			return diags
		}
	}
	return diags
}

// listed decodes one object of a list.
func (p *Provider) listed(r provider.ListRequest, object *shape, event *tfplugin6.ListResource_Event) provider.Listed {
	d := p.decode("ListResource", r.TypeName, event.Diagnostic)
	if d.diags.HasErrors() {
		return provider.Listed{Diagnostics: d.diags}
	}
	out := provider.Listed{DisplayName: event.DisplayName, Identity: d.identity(event.Identity, object.identity)}
	if out.Identity == cty.NilVal || out.Identity.IsNull() {
		d.diags = d.diags.Append(diag.New(diag.Error, invalidResponse, fmt.Sprintf("Provider %s listed an object of "+
			"type %q without its identity.\n\nThis is a bug in the provider.", p.options.Name, r.TypeName), nil))
	}
	if r.IncludeObject {
		out.Object = d.value(event.ResourceObject, object.ty)
		d.noWriteOnly(object.block, out.Object)
	}
	if out.Diagnostics = d.diags; d.diags.HasErrors() {
		return provider.Listed{Diagnostics: d.diags}
	}
	return out
}

// GenerateConfig implements provider.Lister.
func (p *Provider) GenerateConfig(ctx context.Context, typeName string, object cty.Value) (cty.Value, diag.List) {
	_, s, diags := p.shape(ctx, managed, typeName)
	if diags.HasErrors() {
		return cty.NilVal, diags
	}
	var e encoder
	req := &tfplugin6.GenerateResourceConfig_Request{TypeName: typeName, State: e.value(object, s.ty)}
	if diags := e.failed(typeName); diags != nil {
		return cty.NilVal, diags
	}
	resp, err := p.stub.GenerateResourceConfig(ctx, req)
	if err != nil {
		return cty.NilVal, p.lost(ctx, "GenerateResourceConfig", err)
	}
	d := p.decode("GenerateResourceConfig", typeName, resp.Diagnostics)
	return d.value(resp.Config, s.ty), d.diags
}
