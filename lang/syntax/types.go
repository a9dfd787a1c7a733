package syntax

import (
	"reflect"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/customdecode"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Type is a type constraint in an expression: the second argument of convert. Its keywords are no references, so it has
// no variables.
type Type struct {
	*hclsyntax.LiteralValueExpr
	of hclsyntax.Expression
}

func typeOf(e hclsyntax.Expression) Type {
	return Type{&hclsyntax.LiteralValueExpr{Val: cty.DynamicVal, SrcRange: e.Range()}, e}
}

// Constraint is the value of a [Type] that a function receives.
type Constraint struct {
	Type     cty.Type           // may have optional attributes
	Defaults *typeexpr.Defaults // of the optional attributes; nil if there are none
}

// ConstraintType is the type of the parameter of a function for a type constraint. Its values are capsules of
// [Constraint].
var ConstraintType = constraintType()

func constraintType() (own cty.Type) {
	decode := func(e hcl.Expression, _ *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
		if t, ok := e.(Type); ok {
			e = t.of
		}
		var c Constraint
		var diags hcl.Diagnostics
		if c.Type, c.Defaults, diags = typeexpr.TypeConstraintWithDefaults(e); diags.HasErrors() {
			return cty.UnknownVal(own), diags
		}
		return cty.CapsuleVal(own, &c), nil
	}
	own = cty.CapsuleWithOps("type constraint", reflect.TypeFor[Constraint](), &cty.CapsuleOps{
		ExtensionData: func(key any) any {
			if key != customdecode.CustomExpressionDecoder {
				return nil
			}
			return customdecode.CustomExpressionDecoderFunc(decode)
		},
	})
	return own
}
