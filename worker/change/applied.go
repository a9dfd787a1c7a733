package change

import (
	"fmt"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/provider/schema"
)

// checkCompletes tells in what actual is no completion of planned: everything that the plan knew must be there
// unchanged, and what it left unknown must fit the type and the range that it promised. It is asked of the second
// plan made at apply time, and of the applied object.
//
// Both values are of the block's implied type. secret tells of a path whether its value is not to be shown; nil
// hides only what the schema hides.
func checkCompletes(b *schema.Block, planned, actual cty.Value, secret func(cty.Path) bool) breaches {
	c := completion{secret: secret}
	c.block(b, planned, actual, nil)
	return c.found
}

type completion struct {
	found  breaches
	secret func(cty.Path) bool
}

func (c *completion) block(b *schema.Block, planned, actual cty.Value, path cty.Path) {
	root := ""
	if len(path) == 0 {
		root = "root object "
	}
	switch {
	case planned.IsNull() && actual.IsNull():
		return
	case planned.IsNull():
		c.found.add(path, "%swas absent, but now present", root)
		return
	case actual.IsNull():
		c.found.add(path, "%swas present, but now absent", root)
		return
	}
	for name, a := range b.Attributes {
		at := append(path, cty.GetAttrStep{Name: name})
		c.attribute(a, planned.GetAttr(name), actual.GetAttr(name), at)
	}
	for name, nb := range b.Blocks {
		at := append(path, cty.GetAttrStep{Name: name})
		c.blocks(nb, planned.GetAttr(name), actual.GetAttr(name), at)
	}
}

func (c *completion) attribute(a *schema.Attribute, planned, actual cty.Value, path cty.Path) {
	var found breaches
	found.value(planned, actual, path)
	if len(found) == 0 {
		return
	}
	if hides(a) || c.secret != nil && c.secret(path) {
		c.found.add(path, "the value differs from the planned one (sensitive values are not shown)")
		return
	}
	c.found = append(c.found, found...)
}

func (c *completion) blocks(nb *schema.NestedBlock, planned, actual cty.Value, path cty.Path) {
	if nb.Nesting == schema.NestingSingle || nb.Nesting == schema.NestingGroup {
		if planned.IsKnown() || !actual.IsNull() { // an unknown number of blocks may turn out to be none
			c.block(&nb.Block, planned, actual, path)
		}
		return
	}
	if !planned.IsKnown() || !actual.IsKnown() || planned.IsNull() || actual.IsNull() {
		return
	}
	if nb.Nesting == schema.NestingSet {
		hidden := nb.Block.ContainsSensitive() || nb.Block.ContainsWriteOnly() || c.secret != nil && c.secret(path)
		pairUp(&c.found, planned, actual, path, hidden, func(p, a cty.Value) bool {
			inner := completion{}
			inner.block(&nb.Block, p, a, append(path, cty.IndexStep{Key: a}))
			return len(inner.found) == 0
		})
		return
	}
	if p, a := planned.LengthInt(), actual.LengthInt(); p != a {
		c.found.add(path, "there were %d blocks, but now %d", p, a)
		return
	}
	for it := planned.ElementIterator(); it.Next(); {
		key, element := it.Element()
		at := append(path, elementStep(planned, key))
		if !hasElement(actual, key) {
			c.found.add(at, "the block was present, but is now absent")
			continue
		}
		c.block(&nb.Block, element, elementAt(actual, key), at)
	}
}

// value compares two values of an attribute, or of something inside one.
func (l *breaches) value(planned, actual cty.Value, path cty.Path) {
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
			l.add(path, "is now %#v, which is outside what the plan allowed: %#v", actual, planned)
		}
		return
	case planned.IsNull() && actual.IsNull():
		return
	case planned.IsNull():
		l.add(path, "was null, but now %#v", actual)
		return
	case actual.IsNull():
		l.add(path, "was %#v, but now null", planned)
		return
	case !actual.IsKnown():
		l.add(path, "was known, but now unknown")
		return
	}

	switch ty := planned.Type(); {
	case ty.IsPrimitiveType():
		if !actual.RawEquals(planned) {
			l.add(path, "was %#v, but now %#v", planned, actual)
		}
	case ty.IsObjectType():
		for name := range ty.AttributeTypes() {
			l.value(planned.GetAttr(name), actual.GetAttr(name), append(path, cty.GetAttrStep{Name: name}))
		}
	case ty.IsSetType():
		pairUp(l, planned, actual, path, false, func(p, a cty.Value) bool {
			var inner breaches
			inner.value(p, a, append(path, cty.IndexStep{Key: a}))
			return len(inner) == 0
		})
	case ty.IsCollectionType() || ty.IsTupleType():
		l.elements(planned, actual, path)
	}
}

// elements compares lists, tuples and maps.
func (l *breaches) elements(planned, actual cty.Value, path cty.Path) {
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

// pairUp compares sets, whose elements have no names: each planned element must be completed by some actual one,
// and each actual one must complete some planned one. Elements may coalesce once they are known, but a set never
// grows. hidden keeps the elements out of the messages.
func pairUp(l *breaches, planned, actual cty.Value, path cty.Path, hidden bool, completes func(planned, actual cty.Value) bool) {
	if planned.RawEquals(actual) {
		return
	}
	before, after := planned.AsValueSlice(), actual.AsValueSlice()
	missing := false
	for _, p := range before {
		if !holds(actual, p) && !slices.ContainsFunc(after, func(a cty.Value) bool { return completes(p, a) }) {
			l.add(path, "planned set element %s is completed by none of the actual ones", elementText(p, hidden))
			missing = true
		}
	}
	for _, a := range after {
		if missing {
			break // the same difference would be told a second time, from the other side
		}
		if !holds(planned, a) && !slices.ContainsFunc(before, func(p cty.Value) bool { return completes(p, a) }) {
			l.add(path, "actual set element %s was not planned", elementText(a, hidden))
		}
	}
	if len(before) < len(after) {
		l.add(path, "the set had %d elements, but now has %d", len(before), len(after))
	}
}

// holds tells whether the set certainly has the element.
func holds(set, element cty.Value) bool {
	has := set.HasElement(element)
	return has.IsKnown() && has.True()
}

func elementText(v cty.Value, hidden bool) string {
	if hidden {
		return "(not shown, because it holds sensitive values)"
	}
	return fmt.Sprintf("%#v", v)
}
