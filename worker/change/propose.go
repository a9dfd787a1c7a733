package change

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/provider/schema"
)

// shape is what blocks and nested attributes have in common, so that one walk serves both.
type shape struct {
	attrs  map[string]*schema.Attribute
	blocks map[string]*schema.NestedBlock
	// empty is the value that stands for a prior block where there was none; cty.NilVal for a nested attribute.
	empty func() cty.Value
}

func blockShape(b *schema.Block) shape {
	return shape{attrs: b.Attributes, blocks: b.Blocks, empty: b.EmptyValue}
}

func objectShape(o *schema.Object) shape {
	return shape{attrs: o.Attributes}
}

// propose returns the object that the configuration asks for: what the configuration sets, and for what it leaves
// open and the provider computes, the prior value. A provider starts planning from it.
//
// Both values are of the block's implied type. prior is wholly known, and null when there is no object yet;
// config may hold unknown values. The elements of nested sets have no keys, so an element of config inherits from
// the first prior element that it could have led to.
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
			return config // it was set, and has been taken out of the configuration
		}
		return prior
	case a.Nested != nil:
		return objectShape(a.Nested).proposeNested(a.Nested.Nesting, prior, config)
	default:
		return config
	}
}

// holdsConfigured reports whether a prior value holds something that cannot have been computed, so that an earlier
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

// proposeNested merges nested blocks or nested objects, paired as their nesting allows.
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

// couldLeadTo reports whether prior can be what a provider made of config: it differs only in computed attributes
// that the configuration left open.
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
			return false // nothing tells which elements belong together
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

// eachObject calls fn with every object of a nested block or attribute, and with the step that leads to it (nil
// for the single nestings). It passes over what is null or unknown.
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

// elementStep is the path step to the element of v with the given key. A map of blocks whose types differ is an
// object value, where a key is an attribute's name.
func elementStep(v, key cty.Value) cty.PathStep {
	if v.Type().IsObjectType() {
		return cty.GetAttrStep{Name: key.AsString()}
	}
	return cty.IndexStep{Key: key}
}

// sameButRefinements compares as RawEquals does, but takes unknown values of one type for equal, whatever is
// known of their range.
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
