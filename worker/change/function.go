package change

import (
	"context"
	"errors"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/provider"
	"github.com/millipede-iac/millipede/wire"
)

// Function calls a provider's function. An error of the function itself is part of the result, so that it can be
// shown at the call in the configuration; diagnostics mean that the function could not be called.
func Function(ctx context.Context, h Host, t *wire.FunctionTask) (*wire.FunctionResult, diag.List) {
	fn, ok := h.Schemas.Functions[t.Name]
	if !ok {
		return nil, diag.List{h.problem("Unknown provider function", "Provider %q has no function %q.", h.Name, t.Name)}
	}
	args, diags := h.decodeArgs(fn, t)
	if diags.HasErrors() {
		return nil, diags
	}
	v, err := h.Provider.CallFunction(ctx, t.Name, args)
	if err != nil {
		return functionFailure(err)
	}
	if found := conforms(v, fn.Return); len(found) > 0 {
		return nil, h.blameEach("Provider function returned invalid result", "Function "+quoted(t.Name)+" of provider "+
			quoted(h.Name)+" gave an invalid answer to", found)
	}
	return &wire.FunctionResult{Value: encodeValue(v, fn.Return), ErrorArg: -1}, nil
}

func (h Host) decodeArgs(fn provider.Function, t *wire.FunctionTask) ([]cty.Value, diag.List) {
	fixed := len(fn.Parameters)
	if len(t.Args) < fixed || len(t.Args) > fixed && fn.VariadicParameter == nil {
		return nil, diag.List{h.problem("Wrong number of arguments",
			"Function %q of provider %q takes %d arguments, but was called with %d.", t.Name, h.Name,
			fixed, len(t.Args))}
	}
	args := make([]cty.Value, len(t.Args))
	var diags diag.List
	for i, data := range t.Args {
		p := fn.VariadicParameter
		if i < fixed {
			p = &fn.Parameters[i]
		}
		v, more := h.decode(data, p.Type, "argument "+quoted(p.Name)+" of function "+quoted(t.Name))
		args[i], diags = v, append(diags, more...)
	}
	return args, diags
}

// functionFailure classifies an error: a diagnostic list comes from the transport, anything else from the function.
func functionFailure(err error) (*wire.FunctionResult, diag.List) {
	if diags, ok := diag.As(err); ok {
		return nil, diags
	}
	out := &wire.FunctionResult{Error: err.Error(), ErrorArg: -1}
	var arg function.ArgError
	if errors.As(err, &arg) {
		out.Error, out.ErrorArg = arg.Error(), arg.Index
	}
	return out, nil
}
