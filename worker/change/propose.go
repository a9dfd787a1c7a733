package change

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/schema"
)

// shape has the common properties of blocks and nested attributes, so that one traversal handles both.
type shape struct {
	attrs  map[string]*schema.Attribute
	blocks map[string]*schema.NestedBlock
	// empty returns the value that replaces an absent prior block; cty.NilVal for a nested attribute.
	empty func() cty.Value
}

func blockShape(b *schema.Block) shape {
	return shape{attrs: b.Attributes, blocks: b.Blocks, empty: b.EmptyValue}
}

func objectShape(o *schema.Object) shape {
	return shape{attrs: o.Attributes}
}

// propose returns the proposed object, from which a provider plans: configured values and, for computed attributes
// that are not configured, the prior value.
//
// Both values are of the block's implied type. prior is wholly known, and null if there is no object yet; config
// may contain unknown values. The elements of nested sets have no keys, so an element of config inherits from the
// first prior element that could have resulted from it.
func propose(b *schema.Block, prior, config cty.Value) cty.Value {
	return blockShape(b).propose(prior, config)
}

func (s shape) propose(prior, config cty.Value) cty.Value {
	if s.empty == nil {
		if config.IsNull() {
			return config
		}
		return cty.ObjectVal(s.proposeAttributes(prior, config))
	}
	if prior.IsNull() {
		if config.IsNull() {
			return prior
		}
		prior = s.empty()
	}
	if config.IsNull() || !config.IsKnown() {
		return prior
	}
	vals := s.proposeAttributes(prior, config)
	for name, nb := range s.blocks {
		vals[name] = blockShape(&nb.Block).proposeNested(nb.Nesting, prior.GetAttr(name), config.GetAttr(name))
	}
	return cty.ObjectVal(vals)
}

func (s shape) proposeAttributes(prior, config cty.Value) map[string]cty.Value {
	vals := make(map[string]cty.Value, len(s.attrs)+len(s.blocks))
	for name, a := range s.attrs {
		before := cty.NullVal(prior.Type().AttributeType(name))
		if !prior.IsNull() {
			before = prior.GetAttr(name)
		}
		vals[name] = proposeAttribute(a, before, config.GetAttr(name))
	}
	return vals
}

func proposeAttribute(a *schema.Attribute, prior, config cty.Value) cty.Value {
	switch {
	case a.Computed && config.IsNull():
		if a.Optional && a.Nested != nil && holdsConfigured(a.Nested, prior) {
			return config // it was configured, and has been removed from the configuration
		}
		return prior
	case a.Nested != nil:
		return objectShape(a.Nested).proposeNested(a.Nested.Nesting, prior, config)
	default:
		return config
	}
}

// holdsConfigured reports whether a prior value contains something that cannot be computed, so that an earlier
// configuration must have set it.
func holdsConfigured(o *schema.Object, prior cty.Value) bool {
	found := false
	eachObject(o.Nesting, prior, func(_ cty.PathStep, v cty.Value) {
		for name, a := range o.Attributes {
			child := v.GetAttr(name)
			if child.IsNull() {
				continue
			}
			if !a.Computed || (a.Nested != nil && holdsConfigured(a.Nested, child)) {
				found = true
			}
		}
	})
	return found
}

// proposeNested merges nested blocks or nested objects, matched by their nesting.
func (s shape) proposeNested(n schema.Nesting, prior, config cty.Value) cty.Value {
	if !config.IsKnown() {
		return config
	}
	if config.IsNull() && n != schema.NestingGroup {
		return config
	}
	switch n {
	case schema.NestingSingle, schema.NestingGroup:
		return s.propose(prior, config)
	case schema.NestingList:
		return s.proposeList(prior, config)
	case schema.NestingMap:
		return s.proposeMap(prior, config)
	case schema.NestingSet:
		return s.proposeSet(prior, config)
	default:
		panic("change: invalid nesting")
	}
}

func (s shape) proposeList(prior, config cty.Value) cty.Value {
	if config.LengthInt() == 0 {
		return config
	}
	var before []cty.Value
	if !prior.IsNull() {
		before = prior.AsValueSlice()
	}
	vals := config.AsValueSlice()
	for i := range vals[:min(len(vals), len(before))] {
		vals[i] = s.propose(before[i], vals[i])
	}
	if config.Type().IsTupleType() {
		return cty.TupleVal(vals)
	}
	return cty.ListVal(vals)
}

func (s shape) proposeMap(prior, config cty.Value) cty.Value {
	if config.LengthInt() == 0 {
		return config
	}
	var before map[string]cty.Value
	if !prior.IsNull() {
		before = prior.AsValueMap()
	}
	vals := config.AsValueMap()
	for key, v := range vals {
		if old, ok := before[key]; ok {
			vals[key] = s.propose(old, v)
		}
	}
	if config.Type().IsObjectType() {
		return cty.ObjectVal(vals)
	}
	return cty.MapVal(vals)
}

func (s shape) proposeSet(prior, config cty.Value) cty.Value {
	if config.LengthInt() == 0 {
		return config
	}
	var before []cty.Value
	if !prior.IsNull() {
		before = prior.AsValueSlice()
	}
	vals := config.AsValueSlice()
	for i, v := range vals {
		old := cty.NullVal(v.Type())
		for j, candidate := range before {
			if s.couldLeadTo(v, candidate) {
				old = candidate
				before = append(before[:j:j], before[j+1:]...)
				break
			}
		}
		vals[i] = s.propose(old, v)
	}
	return cty.SetVal(vals)
}

// couldLeadTo reports whether prior can be the result of config: it differs only in computed attributes that are
// not configured.
func (s shape) couldLeadTo(config, prior cty.Value) bool {
	if sameButRefinements(config, prior) || prior.IsNull() {
		return true
	}
	if config.IsNull() {
		return false
	}
	for name, a := range s.attrs {
		c, p := config.GetAttr(name), prior.GetAttr(name)
		if sameButRefinements(c, p) {
			continue
		}
		if c.Type().IsSetType() {
			return false // corresponding elements cannot be determined
		}
		if a.Nested != nil {
			if !objectShape(a.Nested).allCouldLeadTo(a.Nested.Nesting, c, p) {
				return false
			}
			continue
		}
		if !a.Computed || !c.IsNull() {
			return false
		}
	}
	for name, nb := range s.blocks {
		c, p := config.GetAttr(name), prior.GetAttr(name)
		if !sameButRefinements(c, p) && !blockShape(&nb.Block).allCouldLeadTo(nb.Nesting, c, p) {
			return false
		}
	}
	return true
}

// allCouldLeadTo is couldLeadTo for the elements of nested blocks or objects that differ.
func (s shape) allCouldLeadTo(n schema.Nesting, config, prior cty.Value) bool {
	if config.Type().IsSetType() {
		return false
	}
	if n == schema.NestingSingle || n == schema.NestingGroup {
		return s.couldLeadTo(config, prior)
	}
	possible := true
	eachObject(n, prior, func(step cty.PathStep, p cty.Value) {
		c, err := step.Apply(config)
		possible = possible && err == nil && s.couldLeadTo(c, p)
	})
	return possible
}

// eachObject calls fn with every object of a nested block or attribute, and with the step to it (nil for the single
// nestings). Null and unknown values are skipped.
func eachObject(n schema.Nesting, v cty.Value, fn func(cty.PathStep, cty.Value)) {
	if v.IsNull() || !v.IsKnown() {
		return
	}
	if n == schema.NestingSingle || n == schema.NestingGroup {
		fn(nil, v)
		return
	}
	for it := v.ElementIterator(); it.Next(); {
		key, element := it.Element()
		if !element.IsNull() && element.IsKnown() {
			fn(elementStep(v, key), element)
		}
	}
}

// elementStep returns the path step to the element of v with the given key. A map of blocks whose types differ is
// an object value, whose keys are attribute names.
func elementStep(v, key cty.Value) cty.PathStep {
	if v.Type().IsObjectType() {
		return cty.GetAttrStep{Name: key.AsString()}
	}
	return cty.IndexStep{Key: key}
}

// sameButRefinements compares as RawEquals does, but treats all unknown values of one type as equal.
func sameButRefinements(a, b cty.Value) bool {
	if a.RawEquals(b) {
		return true
	}
	if a.IsWhollyKnown() || b.IsWhollyKnown() {
		return false
	}
	return unrefined(a).RawEquals(unrefined(b))
}

func unrefined(v cty.Value) cty.Value {
	out, err := cty.Transform(v, func(_ cty.Path, v cty.Value) (cty.Value, error) {
		if !v.IsKnown() {
			return cty.UnknownVal(v.Type()), nil
		}
		return v, nil
	})
	if err != nil {
		panic("change: the transformation cannot fail: " + err.Error())
	}
	return out
}
