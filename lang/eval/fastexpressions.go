package eval

import (
	"math/big"
	"strconv"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/syntax"
)

// quick returns an expression that evaluates faster to the same value, for the fast decoder. Its diagnostics need
// not be accurate, because if there are any, the original is evaluated.
//
// Two cases are slow: whole numbers in templates, as in "web-${count.index}", because go-cty formats them from a
// big.Float digit by digit (half the time of a typical block); and strings in JSON, which HCL parses at every
// evaluation.
func quick(expr hcl.Expression) hcl.Expression {
	if native, ok := expr.(hclsyntax.Expression); ok {
		return quickNative(native)
	}
	if json.IsJSONExpression(expr) {
		if native := jsonTemplate(expr); native != nil {
			return quickNative(native)
		}
	}
	return expr
}

func quickNative(expr hclsyntax.Expression) hclsyntax.Expression {
	switch e := expr.(type) {
	case *hclsyntax.TemplateExpr:
		c := *e
		c.Parts = quickAll(e.Parts)
		for i, part := range c.Parts {
			if t, ok := part.(*hclsyntax.ScopeTraversalExpr); ok {
				c.Parts[i] = inTemplate{t}
			}
		}
		return &c
	case syntax.Template:
		if t, ok := quickNative(e.TemplateExpr).(*hclsyntax.TemplateExpr); ok {
			return syntax.Template{TemplateExpr: t}
		}
		return e
	case syntax.Measured:
		c := *e.ParenthesesExpr
		c.Expression = quickNative(e.Expression)
		return syntax.Measured{ParenthesesExpr: &c}
	case syntax.Operand:
		return e.Around(quickNative(e.Expression))
	case *hclsyntax.ConditionalExpr:
		c := *e
		c.TrueResult, c.FalseResult = quickNative(e.TrueResult), quickNative(e.FalseResult)
		return &c
	case *hclsyntax.ParenthesesExpr:
		c := *e
		c.Expression = quickNative(e.Expression)
		return &c
	case *hclsyntax.TupleConsExpr:
		c := *e
		c.Exprs = quickAll(e.Exprs)
		return &c
	case *hclsyntax.FunctionCallExpr:
		c := *e
		c.Args = quickAll(e.Args)
		return &c
	case *hclsyntax.ObjectConsExpr:
		c := *e
		c.Items = make([]hclsyntax.ObjectConsItem, len(e.Items))
		for i, item := range e.Items {
			c.Items[i] = hclsyntax.ObjectConsItem{KeyExpr: item.KeyExpr, ValueExpr: quickNative(item.ValueExpr)}
		}
		return &c
	default:
		return expr
	}
}

func quickAll(in []hclsyntax.Expression) []hclsyntax.Expression {
	out := make([]hclsyntax.Expression, len(in))
	for i, e := range in {
		out[i] = quickNative(e)
	}
	return out
}

// inTemplate is a part of a template, where every value becomes text.
type inTemplate struct{ hclsyntax.Expression }

// Value returns whole numbers as text, and other values unchanged.
func (e inTemplate) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	v, diags := e.Expression.Value(ctx)
	if len(diags) > 0 || v.Type() != cty.Number || v.IsMarked() || v.IsNull() || !v.IsKnown() {
		return v, diags
	}
	f := v.AsBigFloat()
	n, accuracy := f.Int64()
	if accuracy != big.Exact || f.Signbit() != (n < 0) { // a fraction, too large, or minus zero
		return v, diags
	}
	return cty.StringVal(strconv.FormatInt(n, 10)), diags
}
