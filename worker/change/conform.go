package change

import (
	"errors"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/schema"
)

// conforms reports where a value's type differs from the implied type of a schema. A provider in this process could
// return anything, so this check comes before all others.
func conforms(v cty.Value, ty cty.Type) violations {
	if v == cty.NilVal {
		return violations{{text: "there is no value at all"}}
	}
	var out violations
	out.conforms(v, ty, nil)
	return out
}

// conforms reports where an object differs from the kind's schema.
func (k kind) conforms(v cty.Value) violations {
	out := conforms(v, k.ty)
	if len(out) == 0 && k.ty.HasDynamicTypes() {
		out.dynamicBlocks(k.block, v, nil)
	}
	return out
}

func (l *violations) conforms(v cty.Value, ty cty.Type, path cty.Path) {
	for _, err := range v.Type().TestConformance(ty) {
		at := path
		var inside cty.PathError
		if errors.As(err, &inside) {
			at = append(path[:len(path):len(path)], inside.Path...)
		}
		l.add(at, "%s", err)
	}
}

// dynamicBlocks checks parts whose implied type is dynamic: lists and maps of nested blocks that contain dynamic
// attributes must be tuples and objects of blocks.
func (l *violations) dynamicBlocks(b *schema.Block, v cty.Value, path cty.Path) {
	if v.IsNull() || !v.IsKnown() {
		return
	}
	for name, nb := range b.Blocks {
		at := append(path, cty.GetAttrStep{Name: name})
		child := v.GetAttr(name)
		if child.IsNull() || !child.IsKnown() {
			continue
		}
		if nb.ImpliedType() == cty.DynamicPseudoType && !l.dynamicCollection(nb, child, at) {
			continue
		}
		eachObject(nb.Nesting, child, func(step cty.PathStep, element cty.Value) {
			inside := at
			if step != nil {
				inside = append(at, step)
			}
			l.dynamicBlocks(&nb.Block, element, inside)
		})
	}
}

// dynamicCollection reports whether v is a valid collection of nested blocks.
func (l *violations) dynamicCollection(nb *schema.NestedBlock, v cty.Value, path cty.Path) bool {
	ty, want := v.Type(), "a list of blocks"
	fits := ty.IsTupleType() || ty.IsListType()
	if nb.Nesting == schema.NestingMap {
		fits, want = ty.IsObjectType() || ty.IsMapType(), "a map of blocks"
	}
	if !fits {
		l.add(path, "%s required, but found %s", want, ty.FriendlyName())
		return false
	}
	before := len(*l)
	for it := v.ElementIterator(); it.Next(); {
		key, element := it.Element()
		l.conforms(element, nb.Block.ImpliedType(), append(path, elementStep(v, key)))
	}
	return len(*l) == before
}
