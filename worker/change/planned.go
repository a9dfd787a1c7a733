package change

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/schema"
)

// checkPlanned reports how a planned object contradicts the configuration. A provider may set computed attributes
// that are not configured; it may also return the prior value in place of a configured one, which means that the
// two are equivalent. Any other difference is a violation.
//
// All values are of the block's implied type.
func checkPlanned(b *schema.Block, prior, config, planned cty.Value) violations {
	var out violations
	out.plannedBlock(b, prior, config, planned, nil)
	return out
}

func (l *violations) plannedBlock(b *schema.Block, prior, config, planned cty.Value, path cty.Path) {
	if l.presenceDiffers(config, planned, path) || planned.IsNull() {
		return
	}
	l.plannedAttributes(b.Attributes, prior, config, planned, path)
	for name, nb := range b.Blocks {
		before := cty.NullVal(planned.Type().AttributeType(name))
		if !prior.IsNull() {
			before = prior.GetAttr(name)
		}
		at := append(path, cty.GetAttrStep{Name: name})
		l.plannedBlocks(nb, before, config.GetAttr(name), planned.GetAttr(name), at)
	}
}

// presenceDiffers reports an object that is planned but not configured, or vice versa.
func (l *violations) presenceDiffers(config, planned cty.Value, path cty.Path) bool {
	switch {
	case planned.IsNull() && !config.IsNull():
		l.add(path, "it is configured, but planned to be absent")
	case config.IsNull() && !planned.IsNull():
		l.add(path, "it is not configured, but planned to be present")
	default:
		return false
	}
	return true
}

// plannedBlocks checks the nested blocks of one type. A provider cannot add, remove or reorder blocks.
func (l *violations) plannedBlocks(nb *schema.NestedBlock, prior, config, planned cty.Value, path cty.Path) {
	switch {
	case planned.RawEquals(config):
		return
	case !config.IsKnown():
		l.show(path, "planned as %#v, while how many blocks there are is not known before the apply", planned)
		return
	case !planned.IsKnown():
		l.add(path, "nested blocks cannot be unknown as a whole, only the attributes inside them can")
		return
	case nb.Nesting == schema.NestingSingle || nb.Nesting == schema.NestingGroup:
		l.plannedBlock(&nb.Block, prior, config, planned, path)
		return
	case planned.IsNull():
		l.add(path, "the absence of nested blocks is an empty collection, but null was planned")
		return
	}

	// A block of config is null only if a legacy provider stored a null that ignore_changes has restored.
	blocks := 0
	if !config.IsNull() {
		blocks = config.LengthInt()
	}
	if nb.Nesting != schema.NestingSet && planned.LengthInt() != blocks {
		l.add(path, "%d blocks are planned, but %d are configured", planned.LengthInt(), blocks)
		return
	}
	for it := planned.ElementIterator(); it.Next(); {
		key, element := it.Element()
		at := append(path, elementStep(planned, key))
		switch {
		case !element.IsKnown():
			l.add(at, "a nested block cannot be unknown as a whole, only the attributes inside it can")
		case nb.Nesting == schema.NestingSet:
			// The elements of a set have no names, and a provider may combine prior and configured values in one,
			// so it cannot be determined which configured block an element corresponds to.
		case !hasElement(config, key):
			l.add(at, "this block is planned, but not configured")
		default:
			before := cty.NullVal(nb.Block.ImpliedType())
			if hasElement(prior, key) {
				before = elementAt(prior, key)
			}
			l.plannedBlock(&nb.Block, before, elementAt(config, key), element, at)
		}
	}
}

func (l *violations) plannedAttributes(attrs map[string]*schema.Attribute, prior, config, planned cty.Value,
	path cty.Path) {
	for name, a := range attrs {
		before := cty.NullVal(planned.Type().AttributeType(name))
		if !prior.IsNull() {
			before = prior.GetAttr(name)
		}
		at := append(path, cty.GetAttrStep{Name: name})
		l.plannedAttribute(a, before, config.GetAttr(name), planned.GetAttr(name), at)
	}
}

func (l *violations) plannedAttribute(a *schema.Attribute, prior, config, planned cty.Value, path cty.Path) {
	switch {
	case sameButRefinements(planned, config):
		return
	case !prior.IsNull() && !config.IsNull() && sameButRefinements(planned, prior):
		return
	case a.Computed && (!a.Optional || config.IsNull()):
		// A computed-only attribute is set in config only by ignore_changes, which is not a fault of the provider.
		return
	case a.WriteOnly && planned.IsNull():
		return
	case config.IsNull() && a.Hides():
		l.add(path, "a value is planned, but the attribute is neither configured nor computed (sensitive values are "+
			"not shown)")
	case config.IsNull():
		l.show(path, "%#v is planned, but the attribute is neither configured nor computed", planned)
	case a.Nested != nil:
		l.plannedObjects(a.Nested, prior, config, planned, path)
	case a.Hides():
		l.add(path, "the planned value is neither the configured nor the prior one (sensitive values are not shown)")
	case prior.IsNull():
		l.show(path, "%#v is planned, but %#v is configured", planned, config)
	default:
		l.show(path, "%#v is planned, but %#v is configured, and the prior value is %#v", planned, config, prior)
	}
}

// plannedObjects checks a nested attribute whose planned value differs from the configured one.
func (l *violations) plannedObjects(o *schema.Object, prior, config, planned cty.Value, path cty.Path) {
	if l.presenceDiffers(config, planned, path) || planned.IsNull() {
		return
	}
	if !planned.IsKnown() {
		l.add(path, "it is configured, but planned to be unknown")
		return
	}
	if o.Nesting == schema.NestingSingle || o.Nesting == schema.NestingGroup {
		l.plannedAttributes(o.Attributes, prior, config, planned, path)
		return
	}
	if !countsAgree(o.Nesting, config, planned) {
		l.add(path, "%s elements are planned, but %s are configured", countText(planned), countText(config))
		return
	}
	if o.Nesting == schema.NestingSet {
		return // as with nested blocks, corresponding elements cannot be determined
	}
	for it := planned.ElementIterator(); it.Next(); {
		key, element := it.Element()
		at := append(path, elementStep(planned, key))
		if !hasElement(config, key) {
			l.add(at, "this element is planned, but not configured")
			continue
		}
		before := cty.NullVal(o.ElementType())
		if hasElement(prior, key) {
			before = elementAt(prior, key)
		}
		wanted := elementAt(config, key)
		if l.presenceDiffers(wanted, element, at) || element.IsNull() {
			continue
		}
		l.plannedAttributes(o.Attributes, before, wanted, element, at)
	}
}

// countsAgree compares the numbers of elements. Those of a set with unknown elements may still coalesce.
func countsAgree(n schema.Nesting, config, planned cty.Value) bool {
	if n == schema.NestingSet {
		fits := planned.Length().Range().Includes(config.Length())
		return !fits.IsKnown() || fits.True()
	}
	equal := planned.Length().Equals(config.Length())
	return equal.IsKnown() && equal.True()
}

func countText(v cty.Value) string {
	if n := v.Length(); n.IsKnown() {
		return n.AsBigFloat().Text('f', -1)
	}
	return "a number not yet known"
}

// hasElement reports whether a collection, or an object in the place of a map, has an element with the key.
func hasElement(v, key cty.Value) bool {
	if v.IsNull() || !v.IsKnown() {
		return false
	}
	if v.Type().IsObjectType() {
		return v.Type().HasAttribute(key.AsString())
	}
	return v.HasIndex(key).True()
}

// elementAt returns the element that hasElement has found.
func elementAt(v, key cty.Value) cty.Value {
	if v.Type().IsObjectType() {
		return v.GetAttr(key.AsString())
	}
	return v.Index(key)
}
