package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/syntax"
)

// conversionText says why a value cannot be converted and, if known, which part of it.
func conversionText(err error) string {
	var at cty.PathError
	if !errors.As(err, &at) || len(at.Path) == 0 {
		return err.Error()
	}
	return pathText(at.Path) + ": " + err.Error()
}

// pathText returns a path as it would be written after a value.
func pathText(path cty.Path) string {
	var b strings.Builder
	for _, step := range path {
		switch step := step.(type) {
		case cty.GetAttrStep:
			b.WriteString("." + step.Name)
		case cty.IndexStep:
			switch {
			case !step.Key.IsKnown() || step.Key.IsNull():
				b.WriteString("[...]")
			case step.Key.Type() == cty.String:
				fmt.Fprintf(&b, "[%q]", step.Key.AsString())
			case step.Key.Type() == cty.Number:
				b.WriteString("[" + step.Key.AsBigFloat().Text('f', -1) + "]")
			default:
				b.WriteString("[...]")
			}
		}
	}
	return b.String()
}

// suggestion returns the sentence that suggests a known name in place of a mistyped one, with a leading space.
func suggestion(given string, known []string) string {
	slices.Sort(known)
	for _, name := range known {
		if levenshtein.Distance(given, name, nil) < 3 {
			return fmt.Sprintf(" Did you mean %q?", name)
		}
	}
	return ""
}

// IgnoredAttributes warns about attributes of an object literal that the type of the variable does not have, so that
// the conversion of the value silently drops them.
func IgnoredAttributes(e hcl.Expression, v *Variable) diag.List {
	var found ignored
	if native, ok := e.(hclsyntax.Expression); ok {
		found.in(native, v.ConstraintType, nil)
	}
	return found.diags
}

// ignored collects warnings about attributes that are ignored.
type ignored struct{ diags diag.List }

func (d *ignored) in(e hclsyntax.Expression, ty cty.Type, path cty.Path) {
	switch e := syntax.Plain(e).(type) {
	case *hclsyntax.ObjectConsExpr:
		for _, item := range e.Items {
			name, ok := constantKey(item.KeyExpr)
			switch {
			case !ok:
			case ty.IsMapType():
				d.in(item.ValueExpr, ty.ElementType(), path.IndexString(name))
			case ty.IsObjectType() && ty.HasAttribute(name):
				d.in(item.ValueExpr, ty.AttributeType(name), path.GetAttr(name))
			case ty.IsObjectType():
				d.attribute(name, item.KeyExpr.Range(), e.SrcRange, ty, path)
			}
		}
	case *hclsyntax.TupleConsExpr:
		for i, el := range e.Exprs {
			switch {
			case ty.IsListType() || ty.IsSetType():
				d.in(el, ty.ElementType(), path.IndexInt(i))
			case ty.IsTupleType() && len(e.Exprs) == ty.Length():
				d.in(el, ty.TupleElementType(i), path.IndexInt(i))
			}
		}
	case *hclsyntax.ForExpr:
		if ty.IsMapType() && e.KeyExpr != nil || e.KeyExpr == nil && (ty.IsListType() || ty.IsSetType()) {
			d.in(e.ValExpr, ty.ElementType(), path.Index(cty.DynamicVal))
		}
	}
}

func (d *ignored) attribute(name string, at, around hcl.Range, ty cty.Type, path cty.Path) {
	of := "this variable"
	if len(path) > 0 {
		of = pathText(path)
	}
	p := diag.New(diag.Warning, "Object attribute is ignored", fmt.Sprintf(
		"The object type of %s has no attribute %q, so nothing reads this value.%s",
		of, name, suggestion(name, slices.Collect(maps.Keys(ty.AttributeTypes())))), &at)
	p.Context = &around
	d.diags = append(d.diags, p)
}

// constantKey returns the key of an item of an object literal, if it is constant.
func constantKey(e hclsyntax.Expression) (string, bool) {
	v, diags := e.Value(nil)
	if diags.HasErrors() || v.IsNull() || !v.IsKnown() || v.IsMarked() || v.Type() != cty.String {
		return "", false
	}
	return v.AsString(), true
}
