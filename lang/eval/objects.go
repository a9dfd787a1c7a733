package eval

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/millipede-iac/millipede/provider/schema"
)

// MarkObject adds the marks that a schema requires to an object of a resource: on sensitive attributes, including
// null ones; on the whole of an ephemeral object; and, unless origin is empty, on deprecated attributes. origin is
// the address of the resource, for the warnings about uses of deprecated attributes. Existing marks of v are kept.
func MarkObject(v cty.Value, block *schema.Block, origin string) cty.Value {
	if !shapeOf(block).marked {
		return v
	}
	return markBlock(v, block, origin)
}

func markBlock(v cty.Value, block *schema.Block, origin string) cty.Value {
	v = within(v, func(attrs map[string]cty.Value) {
		for name, a := range block.Attributes {
			if hasMarks(a) {
				attrs[name] = markAttribute(attrs[name], a, at(origin, name))
			}
		}
		for name, nb := range block.Blocks {
			if !blockHasMarks(&nb.Block) {
				continue
			}
			inner := func(e cty.Value) cty.Value { return markBlock(e, &nb.Block, at(origin, name)) }
			if nb.Nesting == schema.NestingSingle || nb.Nesting == schema.NestingGroup {
				attrs[name] = inner(attrs[name])
			} else {
				attrs[name] = markElements(attrs[name], inner)
			}
		}
	})
	if block.Ephemeral {
		v = v.Mark(marks.Ephemeral)
	}
	if block.Deprecated && origin != "" {
		v = v.Mark(marks.Deprecated{Message: block.DeprecationMessage, Origin: origin})
	}
	return v
}

func markAttribute(v cty.Value, a *schema.Attribute, origin string) cty.Value {
	if a.Nested != nil && !a.Sensitive {
		inner := func(e cty.Value) cty.Value {
			return within(e, func(attrs map[string]cty.Value) {
				for name, n := range a.Nested.Attributes {
					if hasMarks(n) {
						attrs[name] = markAttribute(attrs[name], n, at(origin, name))
					}
				}
			})
		}
		if a.Nested.Nesting == schema.NestingSingle || a.Nested.Nesting == schema.NestingGroup {
			v = inner(v)
		} else {
			v = markElements(v, inner)
		}
	}
	if a.Sensitive {
		v = v.Mark(marks.Sensitive)
	}
	if a.Deprecated && origin != "" {
		v = v.Mark(marks.Deprecated{Message: a.DeprecationMessage, Origin: origin})
	}
	return v
}

// within applies change to the attributes of an object that is known and not null.
func within(v cty.Value, change func(map[string]cty.Value)) cty.Value {
	if v.IsNull() || !v.IsKnown() {
		return v
	}
	v, outer := v.Unmark()
	attrs := v.AsValueMap()
	if attrs == nil {
		return v.WithMarks(outer)
	}
	change(attrs)
	return cty.ObjectVal(attrs).WithMarks(outer)
}

// markElements applies change to the elements of a collection of nested objects.
func markElements(v cty.Value, change func(cty.Value) cty.Value) cty.Value {
	if v.IsNull() || !v.IsKnown() {
		return v
	}
	v, outer := v.Unmark()
	ty := v.Type()
	if v.LengthInt() == 0 {
		return v.WithMarks(outer)
	}
	if ty.IsMapType() || ty.IsObjectType() {
		elements := v.AsValueMap()
		for k, e := range elements {
			elements[k] = change(e)
		}
		if ty.IsMapType() {
			return cty.MapVal(elements).WithMarks(outer)
		}
		return cty.ObjectVal(elements).WithMarks(outer)
	}
	elements := v.AsValueSlice()
	for i, e := range elements {
		elements[i] = change(e)
	}
	switch {
	case ty.IsSetType():
		return cty.SetVal(elements).WithMarks(outer)
	case ty.IsListType():
		return cty.ListVal(elements).WithMarks(outer)
	default:
		return cty.TupleVal(elements).WithMarks(outer)
	}
}

func at(origin, name string) string {
	if origin == "" {
		return ""
	}
	return origin + "." + name
}

// hasMarks reports whether an attribute, or one inside it, requires a mark.
func hasMarks(a *schema.Attribute) bool {
	if a.Sensitive || a.Deprecated {
		return true
	}
	if a.Nested == nil {
		return false
	}
	for _, n := range a.Nested.Attributes {
		if hasMarks(n) {
			return true
		}
	}
	return false
}

func blockHasMarks(block *schema.Block) bool {
	if block.Ephemeral || block.Deprecated {
		return true
	}
	for _, a := range block.Attributes {
		if hasMarks(a) {
			return true
		}
	}
	for _, nb := range block.Blocks {
		if blockHasMarks(&nb.Block) {
			return true
		}
	}
	return false
}
