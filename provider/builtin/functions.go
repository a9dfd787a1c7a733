package builtin

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/syntax"
	"github.com/millipede-iac/millipede/provider"
)

// functions are the provider's functions, which convert between values and the native syntax.
var functions = map[string]struct {
	signature provider.Function
	call      func(arg cty.Value) (cty.Value, error)
}{
	"decode_tfvars": {
		signature: provider.Function{
			Parameters: []provider.Parameter{{Name: "content", Type: cty.String, Description: "The content of a " +
				".tfvars file."}},
			Return:      cty.DynamicPseudoType,
			Summary:     "Decode the content of a .tfvars file",
			Description: "Returns the values that a .tfvars file assigns, as an object.",
		},
		call: decodeTFVars,
	},
	"encode_tfvars": {
		signature: provider.Function{
			Parameters: []provider.Parameter{{Name: "input", Type: cty.DynamicPseudoType,
				Description: "An object whose attribute names are identifiers."}},
			Return:      cty.String,
			Summary:     "Encode an object as the content of a .tfvars file",
			Description: "Returns the content of a .tfvars file that assigns the attributes of the object.",
		},
		call: encodeTFVars,
	},
	"encode_expr": {
		signature: provider.Function{
			Parameters:  []provider.Parameter{{Name: "expr", Type: cty.DynamicPseudoType, Description: "Any value."}},
			Return:      cty.String,
			Summary:     "Encode a value as an expression",
			Description: "Returns an expression, in the native syntax, whose value is the given one.",
		},
		call: encodeExpr,
	},
}

func functionSignatures() map[string]provider.Function {
	signatures := make(map[string]provider.Function, len(functions))
	for name, f := range functions {
		signatures[name] = f.signature
	}
	return signatures
}

// CallFunction implements provider.Functions.
func (b *builtin) CallFunction(_ context.Context, name string, args []cty.Value) (cty.Value, error) {
	f, ok := functions[name]
	if !ok {
		return cty.NilVal, fmt.Errorf("the built-in provider has no function %q", name)
	}
	if call, err := f.signature.Admit(args); err != nil || !call {
		return cty.UnknownVal(f.signature.Return), err
	}
	return f.call(args[0])
}

func decodeTFVars(content cty.Value) (cty.Value, error) {
	failed := func(diags hcl.Diagnostics) (cty.Value, error) {
		return cty.NilVal, errors.Join(append([]error{errors.New("failed to decode tfvars content")},
			diags.Errs()...)...)
	}
	file, diags := syntax.ParseConfig([]byte(content.AsString()), "", hcl.InitialPos)
	if diags.HasErrors() {
		return failed(diags)
	}
	attrs, diags := file.Body.JustAttributes()
	if diags.HasErrors() {
		return failed(diags)
	}
	values := make(map[string]cty.Value, len(attrs))
	for name, attr := range attrs {
		if values[name], diags = attr.Expr.Value(nil); diags.HasErrors() {
			return failed(diags)
		}
	}
	return cty.ObjectVal(values), nil
}

func encodeTFVars(input cty.Value) (cty.Value, error) {
	if !input.Type().IsObjectType() {
		return cty.NilVal, errors.New("invalid input: must be an object")
	}
	file := hclwrite.NewEmptyFile()
	for it := input.ElementIterator(); it.Next(); {
		key, v := it.Element()
		name := key.AsString()
		if !hclsyntax.ValidIdentifier(name) {
			return cty.NilVal, fmt.Errorf("invalid input: object key: %s - must be a valid identifier", name)
		}
		file.Body().SetAttributeValue(name, v)
	}
	return cty.StringVal(string(file.Bytes())), nil
}

func encodeExpr(expr cty.Value) (cty.Value, error) {
	file := hclwrite.NewEmptyFile()
	file.Body().AppendUnstructuredTokens(hclwrite.TokensForValue(expr))
	return cty.StringVal(string(file.Bytes())), nil
}
