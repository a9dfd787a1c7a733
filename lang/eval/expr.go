package eval

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/syntax"
)

// Expr is an expression whose references have been found. It is immutable and safe for concurrent use.
type Expr struct {
	source  hcl.Expression
	program *program
	// shortcut is set for the two most common expressions of keys.
	shortcut shortcut
}

type shortcut byte

const (
	noShortcut shortcut = iota
	countIndex
	eachKey
)

// PrepareExpr finds the references of an expression. Nil is allowed: it evaluates to null.
func PrepareExpr(expr hcl.Expression) *Expr { return prepareExpr(expr, addr.ParseReference) }

// PrepareTestExpr is PrepareExpr for an expression in a test, which can refer to outputs. It needs a scope with a
// TestData.
func PrepareTestExpr(expr hcl.Expression) *Expr { return prepareExpr(expr, addr.ParseTestReference) }

func prepareExpr(expr hcl.Expression, parse func(hcl.Traversal) (*addr.Reference, diag.List)) *Expr {
	f := &finding{parse: parse}
	f.expression(expr, nil)
	e := &Expr{source: expr, program: newProgram(f)}
	if t, ok := expr.(*hclsyntax.ScopeTraversalExpr); ok && len(f.refs) == 1 && len(f.refs[0].Remaining) == 0 &&
		len(t.Traversal) == 2 {
		switch f.refs[0].Subject {
		case addr.CountAttr{Name: "index"}:
			e.shortcut = countIndex
		case addr.ForEachAttr{Name: "key"}:
			e.shortcut = eachKey
		}
	}
	return e
}

// Source returns the expression that was prepared.
func (e *Expr) Source() hcl.Expression { return e.source }

// References returns the references of the expression, in the order of the source.
func (e *Expr) References() []Reference { return e.program.refs }

// Calls returns the provider functions that the expression calls.
func (e *Expr) Calls() []Call { return e.program.calls }

// Invalid returns the problems that are visible without evaluating: invalid references.
func (e *Expr) Invalid() diag.List { return e.program.invalid }

// Repeats reports whether the expression refers to count, each or self.
func (e *Expr) Repeats() bool { return e.program.repeats() }

// Eval evaluates the expression and converts the result to a type; cty.DynamicPseudoType means no conversion. self
// is cty.NilVal if there is none. On errors the result is an unknown value of the type.
//
// Marks are kept, except those of deprecated objects, which become warnings.
func (e *Expr) Eval(s *Scope, want cty.Type, rep Repetition, self cty.Value) (cty.Value, diag.List) {
	return e.Bind(s).Eval(want, rep, self)
}

// BoundExpr is an expression with the values of one scope; see Template.Bind.
type BoundExpr struct {
	expr    *Expr
	binding *binding
}

// Bind fetches the values that the expression needs and that are the same in all instances.
func (e *Expr) Bind(s *Scope) *BoundExpr { return &BoundExpr{e, e.program.bind(s)} }

// Eval is Expr.Eval for one instance.
func (b *BoundExpr) Eval(want cty.Type, rep Repetition, self cty.Value) (cty.Value, diag.List) {
	v, _, diags := b.eval(want, rep, self)
	return v, diags
}

// eval also returns the context that diagnostics about the value should show.
func (b *BoundExpr) eval(want cty.Type, rep Repetition, self cty.Value) (cty.Value, *hcl.EvalContext, diag.List) {
	expr := b.expr.source
	if expr == nil {
		return cty.NullVal(want), b.binding.ctx, nil
	}
	ctx, diags := b.binding.context(rep, self)
	if diags.HasErrors() {
		return cty.UnknownVal(want), ctx, diags
	}
	if beyond := b.expr.program.within(ctx); len(beyond) > 0 {
		return cty.UnknownVal(want), ctx, diags.Append(beyond)
	}
	v, evalDiags, err := valueAs(expr, ctx, want)
	if (evalDiags.HasErrors() || err != nil) && !b.binding.exact() {
		if ctx, diags = b.binding.whole(rep, self); diags.HasErrors() {
			return cty.UnknownVal(want), ctx, diags
		}
		v, evalDiags, err = valueAs(expr, ctx, want)
	}
	diags = diags.Append(explainFunctions(evalDiags))
	if err != nil {
		d := diag.New(diag.Error, "Incorrect value type", fmt.Sprintf("The value does not fit here: %s.",
			describe(err)), expr.Range().Ptr())
		d.Expression, d.EvalContext = expr, ctx
		diags = append(diags, d)
	}
	if diags.HasErrors() {
		return cty.UnknownVal(want), ctx, diags
	}
	if !containsMarks(v) {
		return v, ctx, diags
	}
	v, warnings := warnDeprecated(v, func(path cty.Path) *diag.Diagnostic {
		d := diag.New(diag.Warning, "", "", expr.Range().Ptr())
		d.Expression, d.EvalContext = expr, ctx
		d.Detail = "This value"
		if len(path) > 0 {
			d.Detail = "The attribute " + strings.TrimPrefix(pathText(path), ".") + " of this value"
		}
		return d
	})
	return v, ctx, append(diags, warnings...)
}

// valueAs evaluates and converts; err is the error of the conversion.
func valueAs(expr hcl.Expression, ctx *hcl.EvalContext, want cty.Type) (v cty.Value, diags hcl.Diagnostics, err error) {
	v, diags = expr.Value(ctx)
	if diags.HasErrors() {
		return v, diags, nil
	}
	if _, plain := expr.(*hclsyntax.ScopeTraversalExpr); !plain { // a reference adds nothing to its value
		if err := syntax.CheckValue(v); err != nil {
			return v, append(diags, outOfBounds(expr, ctx, err)), nil
		}
	}
	v, err = syntax.Convert(v, want)
	return v, diags, err
}

// outOfBounds reports that a value is too large.
func outOfBounds(expr hcl.Expression, ctx *hcl.EvalContext, err error) *hcl.Diagnostic {
	return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Value too large",
		Detail:  "The value of this expression cannot be used: " + err.Error() + ".",
		Subject: expr.Range().Ptr(), Expression: expr, EvalContext: ctx}
}

// containsMarks is v.ContainsMarked, but does not traverse values that cannot contain marks.
func containsMarks(v cty.Value) bool {
	if v.IsMarked() {
		return true
	}
	if v.Type().IsPrimitiveType() || v.IsNull() || !v.IsKnown() {
		return false
	}
	return v.ContainsMarked()
}

// key evaluates the expression as an instance key, in the context of the referring object. It returns false if there
// is no such key.
func (e *Expr) key(ctx *hcl.EvalContext, rep Repetition) (addr.Key, bool) {
	switch e.shortcut {
	case countIndex:
		return keyOf(rep.CountIndex)
	case eachKey:
		return keyOf(rep.EachKey)
	}
	v, diags := e.source.Value(ctx)
	if diags.HasErrors() {
		return addr.NoKey, false
	}
	return keyOf(v)
}

// explainFunctions adds details to errors about calls of unknown functions.
func explainFunctions(in hcl.Diagnostics) hcl.Diagnostics {
	out := in
	for i, d := range in {
		unknown, ok := d.Extra.(hclsyntax.FunctionCallUnknownDiagExtra)
		if !ok || unknown.CalledFunctionNamespace() == "" {
			continue
		}
		space, name := unknown.CalledFunctionNamespace(), unknown.CalledFunctionName()
		better := *d
		switch root, _, _ := strings.Cut(space, "::"); root {
		case "core":
			better.Summary = "Call to unknown function"
			better.Detail = fmt.Sprintf("There is no function core::%s.", name)
		case "provider": // reported by Data
		default:
			better.Summary = "Unknown function namespace"
			better.Detail = fmt.Sprintf("%q is in no namespace that exists; these do: provider, core.", space+name)
		}
		if &out[0] == &in[0] {
			out = append(hcl.Diagnostics(nil), in...)
		}
		out[i] = &better
	}
	return out
}
