package syntax

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/bounds"
)

// For is a for expression that ends with an error when it and the loops inside it have made too many steps together.
type For struct{ *hclsyntax.ForExpr }

// Template is a template that ends with an error when its text becomes too long.
type Template struct{ *hclsyntax.TemplateExpr }

// Plain returns the expression without the type of this package around it.
func Plain(e hclsyntax.Expression) hclsyntax.Expression {
	switch e := e.(type) {
	case For:
		return e.ForExpr
	case Template:
		return e.TemplateExpr
	case step:
		return e.Expression
	case joined:
		return e.Expression
	}
	return e
}

// budget is how many steps the loops of one expression may still make.
type budget struct{ left int }

var budgetType = cty.Capsule("budget", reflect.TypeFor[budget]())

// budgetName is the name of a variable of the evaluation that no source can refer to.
const budgetName = "\x00budget"

func budgetOf(ctx *hcl.EvalContext) *budget {
	for ; ctx != nil; ctx = ctx.Parent() {
		if v, ok := ctx.Variables[budgetName]; ok {
			return v.EncapsulatedValue().(*budget)
		}
	}
	return nil
}

// spent ends a loop from the inside of one of its steps.
type spent struct{}

// Value implements hcl.Expression.
func (f For) Value(ctx *hcl.EvalContext) (v cty.Value, diags hcl.Diagnostics) {
	if ctx == nil {
		ctx = &hcl.EvalContext{}
	}
	if budgetOf(ctx) == nil {
		ctx = ctx.NewChild()
		ctx.Variables = map[string]cty.Value{
			budgetName: cty.CapsuleVal(budgetType, &budget{left: bounds.Elements}),
		}
	}
	defer func() {
		switch caught := recover(); caught.(type) {
		case nil:
		case spent:
			v, diags = cty.DynamicVal, problem(f.Range(), "Too many steps", fmt.Sprintf("A for expression, with those "+
				"inside it, may make up to %d steps.", bounds.Elements))
		default:
			panic(caught)
		}
	}()
	return f.ForExpr.Value(ctx)
}

// step is the part of a loop that is evaluated in each of its steps. Parentheses are around it so that walks through the
// expression find what is inside.
type step struct{ *hclsyntax.ParenthesesExpr }

func around(e hclsyntax.Expression) *hclsyntax.ParenthesesExpr {
	return &hclsyntax.ParenthesesExpr{Expression: e, SrcRange: e.Range()}
}

// Value implements hcl.Expression.
func (s step) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	if b := budgetOf(ctx); b != nil {
		if b.left--; b.left < 0 {
			panic(spent{}) // For.Value, which called this, recovers
		}
	}
	return s.Expression.Value(ctx)
}

// Value implements hcl.Expression.
func (t Template) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	values, total, plain := make([]cty.Value, len(t.Parts)), 0, true
	for i, part := range t.Parts {
		v, diags := part.Value(ctx)
		if diags.HasErrors() {
			return t.TemplateExpr.Value(ctx) // it reports all problems
		}
		values[i] = v
		total += textLength(v)
		plain = plain && v.Type() == cty.String && !v.IsMarked() && v.IsKnown() && !v.IsNull()
	}
	if total > bounds.String {
		return cty.DynamicVal, problem(t.Range(), "Text too long", fmt.Sprintf("The text of this template would have "+
			"more than %d MiB.", bounds.String>>20))
	}
	if !plain {
		c := *t.TemplateExpr
		c.Parts = make([]hclsyntax.Expression, len(values))
		for i, part := range t.Parts {
			c.Parts[i] = evaluated{part, values[i]}
		}
		if v, diags := c.Value(ctx); len(diags) == 0 {
			return v, nil
		}
		return t.TemplateExpr.Value(ctx) // its diagnostics show the parts
	}
	var text strings.Builder
	text.Grow(total)
	for _, v := range values {
		text.WriteString(v.AsString())
	}
	return cty.StringVal(text.String()), nil
}

// evaluated is an expression that has been evaluated.
type evaluated struct {
	hclsyntax.Expression
	value cty.Value
}

// Value implements hcl.Expression.
func (e evaluated) Value(*hcl.EvalContext) (cty.Value, hcl.Diagnostics) { return e.value, nil }

// textLength returns the length of a string; of anything else, one that such a text may have.
func textLength(v cty.Value) int {
	v, _ = v.Unmark()
	if !v.IsKnown() || v.IsNull() {
		return 8
	}
	switch v.Type() {
	case cty.String:
		return len(v.AsString())
	case cty.Number:
		return digits(v)
	}
	return 8
}

// joined is the tuple of a loop in a template, whose texts are joined.
type joined struct{ *hclsyntax.ParenthesesExpr }

// Value implements hcl.Expression.
func (j joined) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	v, diags := j.Expression.Value(ctx)
	plain, _ := v.Unmark()
	if diags.HasErrors() || !plain.IsKnown() || plain.IsNull() || !plain.CanIterateElements() {
		return v, diags
	}
	total := 0
	for it := plain.ElementIterator(); it.Next(); {
		_, part := it.Element()
		if total += textLength(part); total > bounds.String {
			return cty.DynamicVal, problem(j.Range(), "Text too long", fmt.Sprintf("The text of this template would "+
				"have more than %d MiB.", bounds.String>>20))
		}
	}
	return v, diags
}

// countBody makes the expressions of a body count, in place.
func countBody(body *hclsyntax.Body) {
	for _, a := range body.Attributes {
		a.Expr = counted(a.Expr)
	}
	for _, b := range body.Blocks {
		countBody(b.Body)
	}
}

// counted makes an expression count, in place.
func counted(e hclsyntax.Expression) hclsyntax.Expression {
	switch e := e.(type) {
	case nil:
		return nil
	case *hclsyntax.TemplateExpr:
		dynamic := 0
		for i, part := range e.Parts {
			switch p := part.(type) {
			case *hclsyntax.LiteralValueExpr:
				if p.Val.Type() != cty.String {
					dynamic += 2 // a number can have more digits than the memory holds
				}
			case *hclsyntax.ScopeTraversalExpr:
				dynamic++ // what it refers to is within the bounds
			default:
				dynamic += 2
			}
			e.Parts[i] = counted(part)
		}
		if dynamic > 1 {
			return Template{e}
		}
	case *hclsyntax.ForExpr:
		e.CollExpr, e.KeyExpr, e.CondExpr = counted(e.CollExpr), counted(e.KeyExpr), counted(e.CondExpr)
		e.ValExpr = counted(e.ValExpr)
		if e.CondExpr != nil {
			e.CondExpr = step{around(e.CondExpr)} // it is evaluated in each step, the value in some
		} else {
			e.ValExpr = step{around(e.ValExpr)}
		}
		return For{e}
	default:
		countParts(e)
	}
	return e
}

// countParts makes the parts of an expression count, in place.
func countParts(e hclsyntax.Expression) {
	switch e := e.(type) {
	case *hclsyntax.TemplateWrapExpr:
		e.Wrapped = counted(e.Wrapped)
	case *hclsyntax.TemplateJoinExpr:
		e.Tuple = joined{around(counted(e.Tuple))}
	case *hclsyntax.FunctionCallExpr:
		for i, arg := range e.Args {
			e.Args[i] = counted(arg)
		}
	case *hclsyntax.ConditionalExpr:
		e.Condition, e.TrueResult, e.FalseResult = counted(e.Condition), counted(e.TrueResult), counted(e.FalseResult)
	case *hclsyntax.IndexExpr:
		e.Collection, e.Key = counted(e.Collection), counted(e.Key)
	case *hclsyntax.TupleConsExpr:
		for i, element := range e.Exprs {
			e.Exprs[i] = counted(element)
		}
	case *hclsyntax.ObjectConsExpr:
		for i := range e.Items {
			e.Items[i].KeyExpr, e.Items[i].ValueExpr = counted(e.Items[i].KeyExpr), counted(e.Items[i].ValueExpr)
		}
	case *hclsyntax.ObjectConsKeyExpr:
		e.Wrapped = counted(e.Wrapped)
	case *hclsyntax.SplatExpr:
		e.Source, e.Each = counted(e.Source), counted(e.Each)
	case *hclsyntax.BinaryOpExpr:
		e.LHS, e.RHS = counted(e.LHS), counted(e.RHS)
	case *hclsyntax.UnaryOpExpr:
		e.Val = counted(e.Val)
	case *hclsyntax.ParenthesesExpr:
		e.Expression = counted(e.Expression)
	case *hclsyntax.RelativeTraversalExpr:
		e.Source = counted(e.Source)
	}
}
