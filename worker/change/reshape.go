package change

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/schema"
)

// nullWhere returns v with the attributes that test selects set to null, at any depth.
func nullWhere(b *schema.Block, v cty.Value, test func(*schema.Attribute) bool) cty.Value {
	if v.IsNull() || !v.IsKnown() {
		return v
	}
	vals := v.AsValueMap()
	nullAttributes(b.Attributes, vals, test)
	for name, nb := range b.Blocks {
		vals[name] = mapObjects(nb.Nesting, vals[name], func(v cty.Value) cty.Value {
			return nullWhere(&nb.Block, v, test)
		})
	}
	return objectVal(vals)
}

func nullAttributes(attrs map[string]*schema.Attribute, vals map[string]cty.Value, test func(*schema.Attribute) bool) {
	for name, a := range attrs {
		switch {
		case test(a):
			vals[name] = cty.NullVal(a.ImpliedType())
		case a.Nested != nil:
			vals[name] = mapObjects(a.Nested.Nesting, vals[name], func(v cty.Value) cty.Value {
				if v.IsNull() || !v.IsKnown() {
					return v
				}
				inner := v.AsValueMap()
				nullAttributes(a.Nested.Attributes, inner, test)
				return objectVal(inner)
			})
		}
	}
}

// withoutWriteOnly returns v in the form in which it may be stored: write-only attributes are null.
func withoutWriteOnly(b *schema.Block, v cty.Value) cty.Value {
	if !b.ContainsWriteOnly() {
		return v
	}
	return nullWhere(b, v, func(a *schema.Attribute) bool { return a.WriteOnly })
}

// normalize returns v with its nested blocks in the form that all providers but those of the legacy SDK use: absent
// blocks are an empty collection, and a block is never unknown as a whole.
func normalize(b *schema.Block, v cty.Value) cty.Value {
	if v.IsNull() {
		return cty.NullVal(b.ImpliedType())
	}
	if !v.IsKnown() {
		return v
	}
	vals := v.AsValueMap()
	for name, nb := range b.Blocks {
		if nb.Block.ImpliedType().HasDynamicTypes() {
			continue // the legacy SDK knows no dynamic types
		}
		vals[name] = normalizeBlocks(nb, vals[name])
	}
	return objectVal(vals)
}

func normalizeBlocks(nb *schema.NestedBlock, v cty.Value) cty.Value {
	if !v.IsKnown() {
		return unknownBlocks(nb)
	}
	if v.IsNull() {
		return nb.EmptyValue()
	}
	return mapObjects(nb.Nesting, v, func(v cty.Value) cty.Value { return normalize(&nb.Block, v) })
}

// unknownBlocks returns the representation of an unknown number of blocks: one wholly unknown block. A map has no
// such representation, because its keys are unknown.
func unknownBlocks(nb *schema.NestedBlock) cty.Value {
	vals := make(map[string]cty.Value, len(nb.Attributes)+len(nb.Blocks))
	for name, a := range nb.Attributes {
		vals[name] = cty.UnknownVal(a.ImpliedType())
	}
	for name, inner := range nb.Blocks {
		vals[name] = unknownBlocks(inner)
	}
	block := objectVal(vals)
	switch nb.Nesting {
	case schema.NestingSingle, schema.NestingGroup:
		return block
	case schema.NestingList:
		return cty.ListVal([]cty.Value{block})
	case schema.NestingSet:
		return cty.SetVal([]cty.Value{block})
	default:
		return nb.EmptyValue()
	}
}

// mapObjects returns v with fn applied to each object of a nested block or attribute.
func mapObjects(n schema.Nesting, v cty.Value, fn func(cty.Value) cty.Value) cty.Value {
	if v.IsNull() || !v.IsKnown() {
		return v
	}
	if n == schema.NestingSingle || n == schema.NestingGroup {
		return fn(v)
	}
	if v.LengthInt() == 0 {
		return v
	}
	switch ty := v.Type(); {
	case ty.IsMapType() || ty.IsObjectType():
		vals := v.AsValueMap()
		for key, element := range vals {
			vals[key] = fn(element)
		}
		if ty.IsObjectType() {
			return cty.ObjectVal(vals)
		}
		return cty.MapVal(vals)
	default:
		vals := v.AsValueSlice()
		for i, element := range vals {
			vals[i] = fn(element)
		}
		switch {
		case ty.IsTupleType():
			return cty.TupleVal(vals)
		case ty.IsSetType():
			return cty.SetVal(vals)
		default:
			return cty.ListVal(vals)
		}
	}
}

// objectVal is ObjectVal for a map that AsValueMap made: that is nil for an object type without attributes.
func objectVal(vals map[string]cty.Value) cty.Value {
	if len(vals) == 0 {
		return cty.EmptyObjectVal
	}
	return cty.ObjectVal(vals)
}
