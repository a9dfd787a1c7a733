package change

import (
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/schema"
)

// ignored is the content of a resource's ignore_changes argument.
type ignored struct {
	all   bool
	paths []cty.Path
}

// inConfig returns the configuration with the ignored values replaced by the prior ones, so that the provider sees
// no difference there. Without a prior object nothing is ignored.
func (i ignored) inConfig(b *schema.Block, prior, config cty.Value) cty.Value {
	if prior.IsNull() || config.IsNull() {
		return config
	}
	if i.all {
		// Values that only the provider can set do not belong into a configuration.
		return nullWhere(b, prior, func(a *schema.Attribute) bool { return a.Computed && !a.Optional })
	}
	return i.reverted(prior, config)
}

// inPlan returns the planned object of a provider of the legacy SDK, which may plan other values than the
// configured ones, with the ignored values replaced by the prior ones.
func (i ignored) inPlan(prior, planned cty.Value) cty.Value {
	if prior.IsNull() || planned.IsNull() {
		return planned
	}
	if i.all {
		return prior
	}
	return i.reverted(prior, planned)
}

func (i ignored) reverted(prior, v cty.Value) cty.Value {
	for _, path := range i.paths {
		if len(path) > 0 {
			v = revert(v, prior, path)
		}
	}
	return v
}

// revert returns v with the value of prior at the path. If the path does not exist in v or in prior, v is returned
// unchanged. The last step may be a key of a map that only one of the two has: then the key is added or removed.
func revert(v, prior cty.Value, path cty.Path) cty.Value {
	if len(path) == 0 {
		if v.Type().IsMapType() && !v.IsKnown() {
			return v // as in OpenTofu: a map whose keys are unknown is handled when they are known
		}
		return prior
	}
	key, isKey := path[0].(cty.IndexStep)
	if isKey && len(path) == 1 && key.Key.Type() == cty.String {
		if v.Type().IsMapType() {
			return revertKey(v, prior, key.Key.AsString())
		}
		return prior // as in OpenTofu: a key in a value that is not a map means the whole value
	}
	if v.IsNull() || !v.IsKnown() || prior.IsNull() || !prior.IsKnown() {
		return v
	}
	old, err := path[0].Apply(prior)
	if err != nil {
		return v
	}
	current, err := path[0].Apply(v)
	if err != nil {
		return v
	}
	changed := revert(current, old, path[1:])
	if changed.RawEquals(current) {
		return v
	}
	return replaced(v, path[0], changed)
}

// replaced returns v with the element at the step replaced.
func replaced(v cty.Value, step cty.PathStep, element cty.Value) cty.Value {
	ty := v.Type()
	switch step := step.(type) {
	case cty.GetAttrStep:
		vals := v.AsValueMap()
		vals[step.Name] = element
		return cty.ObjectVal(vals)
	case cty.IndexStep:
		switch {
		case ty.IsMapType() && element.Type().Equals(ty.ElementType()):
			vals := v.AsValueMap()
			vals[step.Key.AsString()] = element
			return cty.MapVal(vals)
		case ty.IsListType() && element.Type().Equals(ty.ElementType()), ty.IsTupleType():
			vals := v.AsValueSlice()
			i, _ := step.Key.AsBigFloat().Int64()
			vals[i] = element
			if ty.IsTupleType() {
				return cty.TupleVal(vals)
			}
			return cty.ListVal(vals)
		}
	}
	return v
}

// revertKey returns v with the key of a map as in prior. Nothing can be done while the keys of v are unknown.
func revertKey(v, prior cty.Value, key string) cty.Value {
	if !v.IsKnown() || !prior.Type().IsMapType() || !prior.IsKnown() {
		return v
	}
	vals, old := mapOf(v), mapOf(prior)
	if element, ok := old[key]; ok {
		vals[key] = element
	} else {
		delete(vals, key)
	}
	switch {
	case len(vals) > 0 && uniform(vals):
		return cty.MapVal(vals)
	case len(vals) > 0 || v.IsNull():
		return v
	default:
		return cty.MapValEmpty(v.Type().ElementType())
	}
}

// uniform reports whether all values have one type, as the elements of a map must: an attribute of dynamic type may
// have contained a map of another type before.
func uniform(vals map[string]cty.Value) bool {
	ty := cty.NilType
	for _, v := range vals {
		if ty == cty.NilType {
			ty = v.Type()
		}
		if !ty.Equals(v.Type()) {
			return false
		}
	}
	return true
}

// mapOf returns the elements of a map; none for a null one. The caller may modify the result.
func mapOf(v cty.Value) map[string]cty.Value {
	if v.IsNull() || v.LengthInt() == 0 {
		return map[string]cty.Value{}
	}
	return v.AsValueMap()
}
