package rpc

import (
	"context"
	"errors"
	"fmt"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/provider/tfplugin6"
)

// CallFunction implements provider.Functions. If an argument is partly unknown and the parameter does not allow
// that, the result is unknown and the function is not called.
func (p *Provider) CallFunction(ctx context.Context, name string, args []cty.Value) (cty.Value, error) {
	f, err := p.function(ctx, name)
	if err != nil {
		return cty.NilVal, err
	}
	if call, err := f.Admit(args); err != nil || !call {
		return cty.UnknownVal(f.Return), err
	}
	var e encoder
	req := &tfplugin6.CallFunction_Request{Name: name, Arguments: make([]*tfplugin6.DynamicValue, len(args))}
	for i, arg := range args {
		req.Arguments[i] = e.value(arg, f.Parameter(i).Type)
		if e.err != nil {
			return cty.NilVal, function.NewArgErrorf(i, "%s", pathError(e.err))
		}
	}
	resp, err := p.stub.CallFunction(ctx, req)
	if err != nil {
		return cty.NilVal, p.lost(ctx, "CallFunction", err).Err()
	}
	if failure := resp.Error; failure != nil {
		if at := failure.FunctionArgument; at != nil && *at >= 0 && *at < int64(len(args)) {
			return cty.NilVal, function.NewArgError(int(*at), errors.New(failure.Text))
		}
		return cty.NilVal, errors.New(failure.Text)
	}
	v, err := decodeValue(resp.Result, f.Return)
	if err != nil {
		return cty.NilVal, p.schemaMismatch("CallFunction", fmt.Sprintf("result of %s", name), err)
	}
	return v, nil
}

// function returns a function's signature. Plugins may have functions that are not in their schema: those that
// depend on the configuration, which GetFunctions lists once the provider is configured.
func (p *Provider) function(ctx context.Context, name string) (provider.Function, error) {
	d, diags := p.declared(ctx)
	if diags.HasErrors() {
		return provider.Function{}, diags.Err()
	}
	if f, ok := d.schemas.Functions[name]; ok {
		return f, nil
	}
	resp, err := p.stub.GetFunctions(ctx, &tfplugin6.GetFunctions_Request{})
	if err != nil {
		return provider.Function{}, p.lost(ctx, "GetFunctions", err).Err()
	}
	if err := problems(resp.Diagnostics).Err(); err != nil {
		return provider.Function{}, err
	}
	from, ok := resp.Functions[name]
	if !ok {
		return provider.Function{}, fmt.Errorf("provider %s has no function %q", p.options.Name, name)
	}
	c := converter{name: p.options.Name, types: map[string]cty.Type{}}
	c.begin(fmt.Sprintf("function %q", name))
	f := c.function(from)
	return f, c.problems.Err()
}
