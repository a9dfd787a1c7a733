package eval

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/marks"
)

// traversal converts an expression that is an address, possibly with expressions as keys, into a traversal. ok is
// false if it is not an address.
func traversal(expr hcl.Expression, key func(hcl.Expression) (cty.Value, diag.List)) (trav hcl.Traversal, ok bool,
	diags diag.List) {
	switch e := expr.(type) {
	case *hclsyntax.ScopeTraversalExpr:
		return e.Traversal, true, nil
	case *hclsyntax.RelativeTraversalExpr:
		trav, ok, diags = traversal(e.Source, key)
		return append(trav[:len(trav):len(trav)], e.Traversal...), ok, diags
	case *hclsyntax.IndexExpr:
		trav, ok, diags = traversal(e.Collection, key)
		if !ok || diags.HasErrors() {
			return nil, ok, diags
		}
		v, more := key(e.Key)
		return append(trav[:len(trav):len(trav)], hcl.TraverseIndex{Key: v, SrcRange: e.Key.Range()}), true,
			append(diags, more...)
	default: // in JSON it is text, without variables
		trav, hclDiags := hcl.AbsTraversalForExpr(expr)
		return trav, !hclDiags.HasErrors(), nil
	}
}

// EvalReference returns the target of an element of replace_triggered_by for an instance with this repetition: a
// resource, one of its instances, or an attribute of one. Keys may be constant, count.index or each.key.
func EvalReference(expr hcl.Expression, rep Repetition) (*addr.Reference, diag.List) {
	trav, ok, diags := traversal(expr, func(key hcl.Expression) (cty.Value, diag.List) { return triggerKey(key, rep) })
	if diags.HasErrors() {
		return nil, diags
	}
	if !ok {
		return nil, diag.Errors("Invalid replace_triggered_by expression",
			"Only references to resources, their instances and their attributes can stand here.", expr.Range().Ptr())
	}
	ref, more := addr.ParseReference(trav)
	return ref, append(diags, more...)
}

func triggerKey(expr hcl.Expression, rep Repetition) (cty.Value, diag.List) {
	rng := expr.Range()
	trav, hclDiags := hcl.AbsTraversalForExpr(expr)
	if !hclDiags.HasErrors() && len(trav) == 2 {
		attr, _ := trav[1].(hcl.TraverseAttr)
		switch trav.RootName() + "." + attr.Name {
		case "count.index":
			if rep.CountIndex == cty.NilVal {
				return cty.NilVal, diag.Errors(`Reference to "count" in non-counted context`,
					`"count" exists here only in resource blocks that have the count argument.`, &rng)
			}
			return rep.CountIndex, nil
		case "each.key":
			if rep.EachKey == cty.NilVal {
				return cty.NilVal, diag.Errors(`Reference to "each" in context without for_each`,
					`"each" exists here only in resource blocks that have the for_each argument.`, &rng)
			}
			return rep.EachKey, nil
		}
	}
	return cty.NilVal, diag.Errors("Invalid index expression",
		"Only constants, count.index and each.key can be keys here.", &rng)
}

// EvalImportTarget returns the resource instance in the to argument of an import block. Its keys may be
// expressions. s is the scope of the root module.
func (s *Scope) EvalImportTarget(to hcl.Expression, rep Repetition) (addr.Instance, diag.List) {
	trav, ok, diags := traversal(to, func(key hcl.Expression) (cty.Value, diag.List) { return s.importKey(key, rep) })
	if diags.HasErrors() {
		return addr.Instance{}, diags
	}
	if !ok {
		return addr.Instance{}, diag.Errors("Invalid import address expression",
			"The target of an import is the address of a resource, whose keys may be expressions: "+
				"module.a[each.key].aws_vpc.main, for instance.",
			to.Range().Ptr())
	}
	target, more := addr.ParseTargetTraversal(trav)
	diags = append(diags, more...)
	if diags.HasErrors() {
		return addr.Instance{}, diags
	}
	switch target.Kind {
	case addr.TargetResource, addr.TargetInstance:
		return target.AsInstance(), diags
	default:
		return addr.Instance{}, append(diags, diag.New(diag.Error, "Invalid address", "The target of an import is a "+
			"resource, not a module.", to.Range().Ptr()))
	}
}

// ImportTargetReferences returns the references in the keys of an import's target.
func ImportTargetReferences(to hcl.Expression) []Reference {
	var out []Reference
	_, _, _ = traversal(to, func(key hcl.Expression) (cty.Value, diag.List) {
		refs, _ := ExprReferences(key) // problems are reported when the key is evaluated
		out = append(out, refs...)
		return cty.DynamicVal, nil
	})
	return out
}

// importKey evaluates a key in the target of an import.
func (s *Scope) importKey(expr hcl.Expression, rep Repetition) (cty.Value, diag.List) {
	v, ctx, diags := PrepareExpr(expr).Bind(s).eval(cty.DynamicPseudoType, rep, cty.NilVal)
	if diags.HasErrors() {
		return v, diags
	}
	problem := func(cause any, is string) (cty.Value, diag.List) {
		return cty.NilVal, append(diags, about(expr, ctx, cause, "Import block 'to' address contains an invalid key",
			fmt.Sprintf("The value of this key is %s.", is)))
	}
	switch {
	case marks.Has(v, marks.Sensitive):
		return problem(BecauseConfidential, "sensitive, and the address would reveal it")
	case marks.Has(v, marks.Ephemeral):
		return problem(BecauseConfidential, "ephemeral, and the address would reveal it")
	case !v.IsKnown():
		return problem(BecauseUnknown, "known only after apply")
	case v.IsNull():
		return problem(nil, "null")
	case v.Type() != cty.String && v.Type() != cty.Number:
		return problem(nil, withArticle(v.Type().FriendlyName())+", and a string or a number is needed")
	default:
		v, _ = v.Unmark()
		return v, diags
	}
}

// EvalImportID evaluates the id argument of an import block. known is false if it is unknown and allowUnknown is
// set.
func (s *Scope) EvalImportID(id *Expr, rep Repetition, allowUnknown bool) (text string, known bool, diags diag.List) {
	v, known, diags := s.evalImport(id, cty.String, "id", rep, allowUnknown)
	if !known {
		return "", false, diags
	}
	if v.AsString() == "" {
		return "", false, diags.Append(diag.New(diag.Error, "Invalid import id argument", "The id of an import cannot be "+
			"empty: nothing would be imported, and the object would be created. To import only in some cases, use "+
			"for_each in the import block.", id.source.Range().Ptr()))
	}
	return v.AsString(), true, diags
}

// EvalImportIdentity evaluates the identity argument of an import block to a value of the identity's type.
func (s *Scope) EvalImportIdentity(identity *Expr, want cty.Type, rep Repetition, allowUnknown bool) (v cty.Value,
	known bool, diags diag.List) {
	return s.evalImport(identity, want, "identity", rep, allowUnknown)
}

func (s *Scope) evalImport(e *Expr, want cty.Type, name string, rep Repetition, allowUnknown bool) (cty.Value,
	bool, diag.List) {
	v, ctx, diags := e.Bind(s).eval(want, rep, cty.NilVal)
	if diags.HasErrors() {
		return cty.NilVal, false, diags
	}
	problem := func(cause any, detail string) (cty.Value, bool, diag.List) {
		return cty.NilVal, false,
			append(diags, about(e.source, ctx, cause, fmt.Sprintf("Invalid import %s argument", name), detail))
	}
	switch {
	case v.IsNull():
		return problem(nil, fmt.Sprintf("The %s of an import cannot be null.", name))
	case !v.IsWhollyKnown():
		if allowUnknown {
			return cty.NilVal, false, diags
		}
		return problem(BecauseUnknown, fmt.Sprintf(
			"The %s comes from resource attributes that are known only after apply, so the import cannot be planned.",
			name))
	case marks.Contains(v, marks.Sensitive):
		return problem(BecauseConfidential, fmt.Sprintf("The %s of an import cannot be sensitive.", name))
	case marks.Contains(v, marks.Ephemeral):
		return problem(BecauseConfidential, fmt.Sprintf("The %s of an import cannot be ephemeral.", name))
	default:
		v, _ = v.UnmarkDeep()
		return v, true, diags
	}
}
