package syntax

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/internal/bounds"
)

// For is a for expression that ends with an error when it and the loops inside it have made too many steps or too much
// text together.
type For struct{ *hclsyntax.ForExpr }

// Template is a template that ends with an error when its text becomes too long.
type Template struct{ *hclsyntax.TemplateExpr }

// Plain returns the expression without the types of this package around it.
func Plain(e hclsyntax.Expression) hclsyntax.Expression {
	for {
		switch w := e.(type) {
		case For:
			return w.ForExpr
		case Template:
			return w.TemplateExpr
		case step:
			e = w.Expression
		case joined:
			e = w.Expression
		case called:
			e = w.Expression
		case Measured:
			e = w.Expression
		case Operand:
			e = w.Expression
		default:
			return e
		}
	}
}

// budget is the number of values that the loops of one expression may still make.
type budget struct {
	steps, text int
	spent       *hcl.Diagnostic // set as soon as there is none left
}

// step takes one step of a loop. Finding the budget, and each variable, takes time with the depth of the loops.
func (b *budget) step(depth int) {
	if b.steps -= 1 + depth/deepLoops; b.steps < 0 {
		b.end("Too many steps", fmt.Sprintf("A for expression, with those inside it, may make up to %d steps.",
			bounds.Elements))
	}
}

// write takes the bytes of a text that is made in a step.
func (b *budget) write(bytes int) {
	if b.text -= bytes; b.text < 0 {
		b.end("Text too long", fmt.Sprintf("A for expression, with those inside it, may make texts of up to %d MiB.",
			bounds.Texts>>20))
	}
}

// end ends the loops: the innermost one recovers, and each one around it with its next step.
func (b *budget) end(summary, detail string) {
	if b.spent == nil {
		b.spent = &hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: detail, Extra: exceeded{}}
	}
	panic(b)
}

// exceeded is in the diagnostics of evaluations that were beyond the bounds.
type exceeded struct{}

func beyond(at hcl.Range, summary, detail string) hcl.Diagnostics {
	diags := problem(at, summary, detail)
	diags[0].Extra = exceeded{}
	return diags
}

// Exceeds reports whether a diagnostic is about an evaluation beyond the bounds.
func Exceeds(d *hcl.Diagnostic) bool {
	_, ok := d.Extra.(exceeded)
	return ok
}

// manyParts is how many parts a template has whose text, unlike that of fewer, is much longer than any value.
const manyParts = 4

// Counts reports whether the evaluation of an expression has to be bounded: if it has a loop, a template of many parts,
// an operator that takes numbers, or a call.
func Counts(e hclsyntax.Expression) bool {
	found := false
	hclsyntax.VisitAll(e, func(n hclsyntax.Node) hcl.Diagnostics { //nolint:errcheck // the visitor returns none
		switch n := n.(type) {
		case For, Operand:
			found = true
		case Template:
			found = found || len(n.Parts) > manyParts
		}
		return nil
	})
	return found
}

// deepLoops is how many contexts can be searched in the time of a step.
const deepLoops = 16

var budgetType = cty.Capsule("budget", reflect.TypeFor[budget]())

// budgetName is the name of a variable of the evaluation that no source can refer to.
const budgetName = "\x00budget"

// budgetOf returns the budget of the loops around an evaluation, nil outside of loops, and how deep they are.
func budgetOf(ctx *hcl.EvalContext) (b *budget, depth int) {
	for ; ctx != nil; ctx = ctx.Parent() {
		if v, ok := ctx.Variables[budgetName]; ok {
			return v.EncapsulatedValue().(*budget), depth
		}
		depth++
	}
	return nil, depth
}

// Value implements hcl.Expression.
func (f For) Value(ctx *hcl.EvalContext) (v cty.Value, diags hcl.Diagnostics) {
	if ctx == nil {
		ctx = &hcl.EvalContext{}
	}
	if b, _ := budgetOf(ctx); b == nil {
		ctx = ctx.NewChild()
		ctx.Variables = map[string]cty.Value{
			budgetName: cty.CapsuleVal(budgetType, &budget{steps: bounds.Elements, text: bounds.Texts}),
		}
	}
	defer func() {
		switch caught := recover().(type) {
		case nil:
		case *budget:
			d := *caught.spent
			d.Subject = f.Range().Ptr()
			v, diags = cty.DynamicVal, hcl.Diagnostics{&d}
		default:
			panic(caught)
		}
	}()
	return f.ForExpr.Value(ctx)
}

// step is the part of a loop that is evaluated in each of its steps. Parentheses are around it so that walks through
// the expression find what is inside.
type step struct{ *hclsyntax.ParenthesesExpr }

// UnwrapExpression is for HCL, which asks what kind of expression it is.
func (s step) UnwrapExpression() hcl.Expression { return s.Expression }

func around(e hclsyntax.Expression) *hclsyntax.ParenthesesExpr {
	return &hclsyntax.ParenthesesExpr{Expression: e, SrcRange: e.Range()}
}

// Value implements hcl.Expression.
func (s step) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	if b, depth := budgetOf(ctx); b != nil {
		b.step(depth)
	}
	return s.Expression.Value(ctx)
}

// called is a call of a function in a loop, whose text counts.
type called struct{ *hclsyntax.ParenthesesExpr }

// UnwrapExpression is for HCL, which asks what kind of expression it is.
func (c called) UnwrapExpression() hcl.Expression { return c.Expression }

// Value implements hcl.Expression.
func (c called) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	v, diags := c.Expression.Value(ctx)
	if n := textLength(v); n > longText {
		if b, _ := budgetOf(ctx); b != nil {
			b.write(n)
		}
	}
	return v, diags
}

// longText is the length of texts that are long compared to the memory that any value takes.
const longText = 64

// Measured is an expression whose value is within the bounds before something else takes it. A loop or a constructor
// can contain the same value several times, and another one can contain the result several times, so that walking
// through the value would take practically forever.
type Measured struct{ *hclsyntax.ParenthesesExpr }

// UnwrapExpression is for HCL, which asks what kind of expression it is.
func (m Measured) UnwrapExpression() hcl.Expression { return m.Expression }

// Value implements hcl.Expression.
func (m Measured) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	v, diags := m.Expression.Value(ctx)
	if diags.HasErrors() {
		return v, diags
	}
	if err := CheckValue(v); err != nil {
		return cty.DynamicVal, tooLargeValue(m.Range(), err)
	}
	return v, diags
}

// measured measures an expression if it can contain a value more than once.
func measured(e hclsyntax.Expression) hclsyntax.Expression {
	switch c := e.(type) {
	case For:
		return Measured{around(e)}
	case *hclsyntax.TupleConsExpr:
		if len(c.Exprs) > 1 {
			return Measured{around(e)}
		}
	case *hclsyntax.ObjectConsExpr:
		if len(c.Items) > 1 {
			return Measured{around(e)}
		}
	}
	return e
}

// Value implements hcl.Expression.
func (t Template) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	values, total, plain := make([]evaluated, len(t.Parts)), 0, true
	for i, part := range t.Parts {
		v, diags := part.Value(ctx)
		values[i] = evaluated{part, v, diags}
		total += textLength(v)
		plain = plain && len(diags) == 0 && v.Type() == cty.String && !v.IsMarked() && v.IsKnown() && !v.IsNull()
	}
	if total > bounds.String {
		return cty.DynamicVal, beyond(t.Range(), "Text too long", fmt.Sprintf("The text of this template would have "+
			"more than %d MiB.", bounds.String>>20))
	}
	if total > longText {
		if b, _ := budgetOf(ctx); b != nil {
			b.write(total)
		}
	}
	if !plain {
		return t.joined(ctx, values)
	}
	var text strings.Builder
	text.Grow(total)
	for _, v := range values {
		text.WriteString(v.value.AsString())
	}
	return cty.StringVal(text.String()), nil
}

// joined returns the value that HCL makes of the parts of a template. Each is evaluated once: templates in templates
// would otherwise take time that doubles with each level.
func (t Template) joined(ctx *hcl.EvalContext, values []evaluated) (cty.Value, hcl.Diagnostics) {
	c := *t.TemplateExpr
	c.Parts = make([]hclsyntax.Expression, len(values))
	for i := range values {
		c.Parts[i] = values[i]
	}
	v, diags := c.Value(ctx)
	for _, d := range diags {
		switch e := d.Expression.(type) {
		case evaluated:
			d.Expression = e.Expression
		case *hclsyntax.TemplateExpr:
			if e == &c {
				d.Expression = t.TemplateExpr
			}
		}
	}
	return v, diags
}

// evaluated is an expression that has been evaluated.
type evaluated struct {
	hclsyntax.Expression
	value cty.Value
	diags hcl.Diagnostics
}

// Value implements hcl.Expression.
func (e evaluated) Value(*hcl.EvalContext) (cty.Value, hcl.Diagnostics) { return e.value, e.diags }

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
		return digits(v.AsBigFloat())
	}
	return 8
}

// joined is the tuple of a loop in a template, whose texts are joined.
type joined struct{ *hclsyntax.ParenthesesExpr }

// UnwrapExpression is for HCL, which asks what kind of expression it is.
func (j joined) UnwrapExpression() hcl.Expression { return j.Expression }

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
			return cty.DynamicVal, beyond(j.Range(), "Text too long", fmt.Sprintf("The text of this template would "+
				"have more than %d MiB.", bounds.String>>20))
		}
	}
	return v, diags
}

// countBody makes the expressions of a body count, in place.
func countBody(body *hclsyntax.Body) {
	for _, a := range body.Attributes {
		a.Expr = counted(a.Expr, false)
	}
	for _, b := range body.Blocks {
		countBody(b.Body)
	}
}

// counted makes an expression count, in place. loop tells that it is evaluated in the steps of a loop.
func counted(e hclsyntax.Expression, loop bool) hclsyntax.Expression {
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
				dynamic++ // the values to which it refers are within the bounds
			default:
				dynamic += 2
			}
			e.Parts[i] = counted(part, loop)
		}
		if dynamic > 1 || loop && dynamic > 0 {
			return Template{e}
		}
	case *hclsyntax.ForExpr:
		e.CollExpr = measured(counted(e.CollExpr, loop))
		e.KeyExpr, e.CondExpr, e.ValExpr = counted(e.KeyExpr, true), counted(e.CondExpr, true), counted(e.ValExpr, true)
		if e.CondExpr != nil {
			e.CondExpr = step{around(e.CondExpr)} // it is evaluated in each step, the value in some
		} else {
			e.ValExpr = step{around(e.ValExpr)}
		}
		return For{e}
	case *hclsyntax.BinaryOpExpr:
		return operation(e, loop)
	case *hclsyntax.FunctionCallExpr:
		for i, arg := range e.Args {
			if i == 1 && (e.Name == "convert" || e.Name == "core::convert") {
				e.Args[i] = typeOf(arg)
			} else {
				e.Args[i] = argument(measured(counted(arg, loop)), e, i)
			}
		}
		if loop {
			return called{around(e)}
		}
	default:
		countParts(e, loop)
	}
	return e
}

// operation makes an operation with two operands count, in place.
func operation(e *hclsyntax.BinaryOpExpr, loop bool) hclsyntax.Expression {
	e.LHS, e.RHS = measured(counted(e.LHS, loop)), measured(counted(e.RHS, loop))
	switch e.Op {
	case hclsyntax.OpEqual, hclsyntax.OpNotEqual, hclsyntax.OpLogicalAnd, hclsyntax.OpLogicalOr:
		return e
	}
	e.LHS, e.RHS = number(e.LHS), number(e.RHS)
	if e.Op == hclsyntax.OpMultiply || e.Op == hclsyntax.OpDivide {
		return Measured{around(e)} // the digits of both add up
	}
	return e
}

// countParts makes the parts of an expression count, in place.
func countParts(e hclsyntax.Expression, loop bool) {
	part := func(e hclsyntax.Expression) hclsyntax.Expression { return counted(e, loop) }
	switch e := e.(type) {
	case *hclsyntax.TemplateWrapExpr:
		e.Wrapped = part(e.Wrapped)
	case *hclsyntax.TemplateJoinExpr:
		e.Tuple = joined{around(part(e.Tuple))}
	case *hclsyntax.ConditionalExpr:
		e.Condition = part(e.Condition)
		e.TrueResult, e.FalseResult = measured(part(e.TrueResult)), measured(part(e.FalseResult))
	case *hclsyntax.IndexExpr:
		e.Collection = part(e.Collection)
		e.Key = index(part(e.Key), e.Collection)
	case *hclsyntax.TupleConsExpr:
		for i, element := range e.Exprs {
			e.Exprs[i] = part(element)
		}
	case *hclsyntax.ObjectConsExpr:
		for i := range e.Items {
			e.Items[i].KeyExpr, e.Items[i].ValueExpr = part(e.Items[i].KeyExpr), part(e.Items[i].ValueExpr)
		}
	case *hclsyntax.ObjectConsKeyExpr:
		e.Wrapped = part(e.Wrapped)
	case *hclsyntax.SplatExpr:
		e.Source, e.Each = measured(part(e.Source)), part(e.Each)
	case *hclsyntax.UnaryOpExpr:
		if e.Val = part(e.Val); e.Op == hclsyntax.OpNegate {
			e.Val = number(e.Val)
		}
	case *hclsyntax.ParenthesesExpr:
		e.Expression = part(e.Expression)
	case *hclsyntax.RelativeTraversalExpr:
		e.Source = part(e.Source)
		boundKeys(e.Traversal)
	case *hclsyntax.ScopeTraversalExpr:
		boundKeys(e.Traversal)
	}
}
