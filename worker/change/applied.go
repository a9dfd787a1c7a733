package change

import (
	"fmt"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/schema"
)

// checkCompletes reports how actual contradicts planned: everything known in the plan must be unchanged, and
// unknown parts must have the promised type and range. It is used for the second plan, which is made at apply time,
// and for the applied object.
//
// Both values are of the block's implied type.
func checkCompletes(b *schema.Block, planned, actual cty.Value) violations {
	var out violations
	out.completedBlock(b, planned, actual, nil)
	return out
}

func (l *violations) completedBlock(b *schema.Block, planned, actual cty.Value, path cty.Path) {
	root := ""
	if len(path) == 0 {
		root = "root object "
	}
	switch {
	case planned.IsNull() && actual.IsNull():
		return
	case planned.IsNull():
		l.add(path, "%swas absent, but now present", root)
		return
	case actual.IsNull():
		l.add(path, "%swas present, but now absent", root)
		return
	}
	for name, a := range b.Attributes {
		at := append(path, cty.GetAttrStep{Name: name})
		l.completedAttribute(a, planned.GetAttr(name), actual.GetAttr(name), at)
	}
	for name, nb := range b.Blocks {
		at := append(path, cty.GetAttrStep{Name: name})
		l.completedBlocks(nb, planned.GetAttr(name), actual.GetAttr(name), at)
	}
}

func (l *violations) completedAttribute(a *schema.Attribute, planned, actual cty.Value, path cty.Path) {
	var found violations
	found.value(planned, actual, path)
	if len(found) == 0 {
		return
	}
	if a.Hides() {
		l.add(path, hidden)
		return
	}
	*l = append(*l, found...)
}

func (l *violations) completedBlocks(nb *schema.NestedBlock, planned, actual cty.Value, path cty.Path) {
	if nb.Nesting == schema.NestingSingle || nb.Nesting == schema.NestingGroup {
		if planned.IsKnown() || !actual.IsNull() { // an unknown number of blocks may become zero
			l.completedBlock(&nb.Block, planned, actual, path)
		}
		return
	}
	if !planned.IsKnown() || !actual.IsKnown() || planned.IsNull() || actual.IsNull() {
		return
	}
	if nb.Nesting == schema.NestingSet {
		secret := nb.Block.ContainsSensitive() || nb.Block.ContainsWriteOnly()
		pairUp(l, planned, actual, path, secret, func(p, a cty.Value) bool {
			var inner violations
			inner.completedBlock(&nb.Block, p, a, append(path, cty.IndexStep{Key: a}))
			return len(inner) == 0
		})
		return
	}
	if p, a := planned.LengthInt(), actual.LengthInt(); p != a {
		l.add(path, "there were %d blocks, but now %d", p, a)
		return
	}
	for it := planned.ElementIterator(); it.Next(); {
		key, element := it.Element()
		at := append(path, elementStep(planned, key))
		if !hasElement(actual, key) {
			l.add(at, "the block was present, but is now absent")
			continue
		}
		l.completedBlock(&nb.Block, element, elementAt(actual, key), at)
	}
}

// value compares two values of an attribute, or of a part of one.
func (l *violations) value(planned, actual cty.Value, path cty.Path) {
	if planned.Type() == cty.DynamicPseudoType {
		return
	}
	if len(actual.Type().TestConformance(planned.Type())) > 0 {
		l.add(path, "the type was %s, but is now %s", planned.Type().FriendlyName(), actual.Type().FriendlyName())
		return
	}
	switch {
	case !planned.IsKnown():
		if fits := planned.Range().Includes(actual); fits.IsKnown() && fits.False() {
			l.show(path, "is now %#v, which is outside what the plan allowed: %#v", actual, planned)
		}
		return
	case planned.IsNull() && actual.IsNull():
		return
	case planned.IsNull():
		l.show(path, "was null, but now %#v", actual)
		return
	case actual.IsNull():
		l.show(path, "was %#v, but now null", planned)
		return
	case !actual.IsKnown():
		l.add(path, "was known, but now unknown")
		return
	}

	switch ty := planned.Type(); {
	case ty.IsPrimitiveType():
		if !actual.RawEquals(planned) {
			l.show(path, "was %#v, but now %#v", planned, actual)
		}
	case ty.IsObjectType():
		for name := range ty.AttributeTypes() {
			l.value(planned.GetAttr(name), actual.GetAttr(name), append(path, cty.GetAttrStep{Name: name}))
		}
	case ty.IsSetType():
		pairUp(l, planned, actual, path, false, func(p, a cty.Value) bool {
			var inner violations
			inner.value(p, a, append(path, cty.IndexStep{Key: a}))
			return len(inner) == 0
		})
	case ty.IsCollectionType() || ty.IsTupleType():
		l.elements(planned, actual, path)
	}
}

// elements compares lists, tuples and maps.
func (l *violations) elements(planned, actual cty.Value, path cty.Path) {
	for it := planned.ElementIterator(); it.Next(); {
		key, element := it.Element()
		if !actual.HasIndex(key).True() {
			l.add(path, "element %s has vanished", keyText(key))
			continue
		}
		l.value(element, actual.Index(key), append(path, cty.IndexStep{Key: key}))
	}
	for it := actual.ElementIterator(); it.Next(); {
		if key, _ := it.Element(); !planned.HasIndex(key).True() {
			l.add(path, "new element %s has appeared", keyText(key))
		}
	}
}

// pairUp compares sets, whose elements have no names: some actual element must complete each planned one, and each
// actual one must complete some planned one. Elements may coalesce when they become known, but a set never grows.
// secret hides the elements in messages.
func pairUp(l *violations, planned, actual cty.Value, path cty.Path, secret bool,
	completes func(planned, actual cty.Value) bool) {
	if planned.RawEquals(actual) {
		return
	}
	before, after := planned.AsValueSlice(), actual.AsValueSlice()
	missing := false
	for _, p := range before {
		if !holds(actual, p) && !slices.ContainsFunc(after, func(a cty.Value) bool { return completes(p, a) }) {
			l.show(path, "planned set element %s is completed by none of the actual ones", elementText(p, secret))
			missing = true
		}
	}
	for _, a := range after {
		if missing {
			break // the same difference would be reported twice
		}
		if !holds(planned, a) && !slices.ContainsFunc(before, func(p cty.Value) bool { return completes(p, a) }) {
			l.show(path, "actual set element %s was not planned", elementText(a, secret))
		}
	}
	if len(before) < len(after) {
		l.add(path, "the set had %d elements, but now has %d", len(before), len(after))
	}
}

// holds reports whether the set is known to contain the element.
func holds(set, element cty.Value) bool {
	has := set.HasElement(element)
	return has.IsKnown() && has.True()
}

func elementText(v cty.Value, secret bool) string {
	if secret {
		return "(not shown, because it holds sensitive values)"
	}
	return fmt.Sprintf("%#v", v)
}
