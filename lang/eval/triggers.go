package eval

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
)

// EvalReference returns what an element of replace_triggered_by refers to for an instance with this repetition: a
// resource, one of its instances, or an attribute of one. Keys may be constant, count.index or each.key.
func EvalReference(expr hcl.Expression, rep Repetition) (*addr.Reference, diag.List) {
	trav, diags := triggerTraversal(expr, rep)
	if diags.HasErrors() {
		return nil, diags
	}
	ref, more := addr.ParseReference(trav)
	return ref, append(diags, more...)
}

// triggerTraversal turns the expression into a traversal without variables.
func triggerTraversal(expr hcl.Expression, rep Repetition) (hcl.Traversal, diag.List) {
	switch e := expr.(type) {
	case *hclsyntax.ScopeTraversalExpr:
		return e.Traversal, nil
	case *hclsyntax.RelativeTraversalExpr:
		trav, diags := triggerTraversal(e.Source, rep)
		return append(trav[:len(trav):len(trav)], e.Traversal...), diags
	case *hclsyntax.IndexExpr:
		trav, diags := triggerTraversal(e.Collection, rep)
		if diags.HasErrors() {
			return nil, diags
		}
		key, d := triggerKey(e.Key, rep)
		if d != nil {
			return nil, append(diags, d)
		}
		return append(trav[:len(trav):len(trav)], hcl.TraverseIndex{Key: key, SrcRange: e.Key.Range()}), diags
	}
	// Elsewhere (in JSON) it can only be a traversal.
	if trav, hclDiags := hcl.AbsTraversalForExpr(expr); !hclDiags.HasErrors() {
		return trav, nil
	}
	return nil, diag.Errors("Invalid replace_triggered_by expression",
		"Only references to resources, their instances and their attributes can stand here.", expr.Range().Ptr())
}

func triggerKey(expr hcl.Expression, rep Repetition) (cty.Value, *diag.Diagnostic) {
	rng := expr.Range()
	trav, hclDiags := hcl.AbsTraversalForExpr(expr)
	if !hclDiags.HasErrors() && len(trav) == 2 {
		attr, _ := trav[1].(hcl.TraverseAttr)
		switch trav.RootName() + "." + attr.Name {
		case "count.index":
			if rep.CountIndex == cty.NilVal {
				return cty.NilVal, diag.New(diag.Error, `Reference to "count" in non-counted context`,
					`"count" exists here only in resource blocks that have the count argument.`, &rng)
			}
			return rep.CountIndex, nil
		case "each.key":
			if rep.EachKey == cty.NilVal {
				return cty.NilVal, diag.New(diag.Error, `Reference to "each" in context without for_each`,
					`"each" exists here only in resource blocks that have the for_each argument.`, &rng)
			}
			return rep.EachKey, nil
		}
	}
	return cty.NilVal, diag.New(diag.Error, "Invalid index expression",
		"Only constants, count.index and each.key can be keys here.", &rng)
}
