package config

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/syntax"
)

// sameExpression reports whether two expressions are written in the same way, up to parentheses and space. It may
// return false for some that are.
func sameExpression(a, b hcl.Expression) bool {
	x, ok := a.(hclsyntax.Expression)
	y, ok2 := b.(hclsyntax.Expression)
	return ok && ok2 && sameNode(bare(x), bare(y))
}

// bare removes parentheses.
func bare(e hclsyntax.Expression) hclsyntax.Expression {
	for {
		switch w := e.(type) {
		case *hclsyntax.ParenthesesExpr:
			e = w.Expression
		case *hclsyntax.ObjectConsKeyExpr:
			e = w.Wrapped
		case *hclsyntax.TemplateWrapExpr:
			e = w.Wrapped
		default:
			plain := syntax.Plain(e)
			if plain == e {
				return e
			}
			e = plain
		}
	}
}

func sameNode(a, b hclsyntax.Expression) bool {
	switch a := a.(type) {
	case nil:
		return b == nil
	case *hclsyntax.LiteralValueExpr:
		b, ok := b.(*hclsyntax.LiteralValueExpr)
		return ok && a.Val.RawEquals(b.Val)
	case *hclsyntax.ScopeTraversalExpr:
		b, ok := b.(*hclsyntax.ScopeTraversalExpr)
		return ok && sameTraversal(a.Traversal, b.Traversal)
	case *hclsyntax.RelativeTraversalExpr:
		b, ok := b.(*hclsyntax.RelativeTraversalExpr)
		return ok && sameTraversal(a.Traversal, b.Traversal) && sameAll(a.Source, b.Source)
	case *hclsyntax.FunctionCallExpr:
		b, ok := b.(*hclsyntax.FunctionCallExpr)
		return ok && a.Name == b.Name && a.ExpandFinal == b.ExpandFinal && sameList(a.Args, b.Args)
	case *hclsyntax.ConditionalExpr:
		b, ok := b.(*hclsyntax.ConditionalExpr)
		return ok && sameAll(a.Condition, b.Condition, a.TrueResult, b.TrueResult, a.FalseResult, b.FalseResult)
	case *hclsyntax.IndexExpr:
		b, ok := b.(*hclsyntax.IndexExpr)
		return ok && sameAll(a.Collection, b.Collection, a.Key, b.Key)
	case *hclsyntax.TupleConsExpr:
		b, ok := b.(*hclsyntax.TupleConsExpr)
		return ok && sameList(a.Exprs, b.Exprs)
	case *hclsyntax.TemplateExpr:
		b, ok := b.(*hclsyntax.TemplateExpr)
		return ok && sameList(a.Parts, b.Parts)
	case *hclsyntax.BinaryOpExpr:
		b, ok := b.(*hclsyntax.BinaryOpExpr)
		return ok && a.Op == b.Op && sameAll(a.LHS, b.LHS, a.RHS, b.RHS)
	case *hclsyntax.UnaryOpExpr:
		b, ok := b.(*hclsyntax.UnaryOpExpr)
		return ok && a.Op == b.Op && sameAll(a.Val, b.Val)
	case *hclsyntax.ForExpr:
		b, ok := b.(*hclsyntax.ForExpr)
		return ok && a.KeyVar == b.KeyVar && a.ValVar == b.ValVar && a.Group == b.Group &&
			sameAll(a.CollExpr, b.CollExpr, a.KeyExpr, b.KeyExpr, a.ValExpr, b.ValExpr, a.CondExpr, b.CondExpr)
	case *hclsyntax.ObjectConsExpr:
		b, ok := b.(*hclsyntax.ObjectConsExpr)
		if !ok || len(a.Items) != len(b.Items) {
			return false
		}
		for i := range a.Items {
			if !sameAll(a.Items[i].KeyExpr, b.Items[i].KeyExpr, a.Items[i].ValueExpr, b.Items[i].ValueExpr) {
				return false
			}
		}
		return true
	default:
		return false
	}
}

// sameAll compares expressions pair by pair.
func sameAll(pairs ...hclsyntax.Expression) bool {
	for i := 0; i < len(pairs); i += 2 {
		if !sameNode(bare(pairs[i]), bare(pairs[i+1])) {
			return false
		}
	}
	return true
}

func sameList(a, b []hclsyntax.Expression) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !sameAll(a[i], b[i]) {
			return false
		}
	}
	return true
}

func sameTraversal(a, b hcl.Traversal) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		var same bool
		switch x := a[i].(type) {
		case hcl.TraverseRoot:
			y, ok := b[i].(hcl.TraverseRoot)
			same = ok && x.Name == y.Name
		case hcl.TraverseAttr:
			y, ok := b[i].(hcl.TraverseAttr)
			same = ok && x.Name == y.Name
		case hcl.TraverseIndex:
			y, ok := b[i].(hcl.TraverseIndex)
			same = ok && x.Key != cty.NilVal && x.Key.RawEquals(y.Key)
		}
		if !same {
			return false
		}
	}
	return true
}
