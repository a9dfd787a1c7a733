package values

import (
	"fmt"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/millipede-iac/millipede/state"
)

// SetStored makes the current objects of a stored resource its values, for Evaluating.
func (r *Resource) SetStored(stored *state.Resource) diag.List {
	if r.Code.Schema == nil {
		return nil
	}
	var diags diag.List
	for k, i := range stored.Instances {
		if i.Current == nil {
			continue
		}
		// For display, an object of another schema version is not upgraded if it fits the schema.
		o := *i.Current
		o.SchemaVersion = r.Code.Schema.Version
		v, err := DecodeStored(&o, r.Code.Schema)
		if err != nil {
			diags = diags.Append(diag.New(diag.Error, "Invalid resource instance data in state", fmt.Sprintf(
				"The object %s is not of the form that its provider's schema has now: %s. The next plan upgrades it.",
				r.Addr().Instance(k), err), r.Code.Config.Range.Ptr()))
			v = cty.UnknownVal(r.Code.Schema.Block.ImpliedType())
		}
		r.Set(k, v)
	}
	return diags
}

// existing returns the value in the phase Evaluating: the instances in the state, regardless of count and
// for_each. Everything else is unknown.
func (r *Resource) existing() cty.Value {
	c := r.Code.Config
	mode := modeOf(c.Count, c.ForEach, c.Enabled)
	r.mu.RLock()
	defer r.mu.RUnlock()
	switch {
	case r.Code.Schema == nil:
		return cty.DynamicVal
	case len(r.values) > 0 && mode == Count:
		return r.counted()
	case len(r.values) > 0 && mode == ForEach:
		elements := map[string]cty.Value{}
		for k, v := range r.values {
			if name, ok := k.Str(); ok {
				elements[name] = v
			}
		}
		return cty.ObjectVal(elements)
	case mode == Count || mode == ForEach:
		return r.nothing(cty.DynamicVal)
	}
	if v, ok := r.values[addr.NoKey]; ok {
		return v
	}
	return r.nothing(cty.UnknownVal(r.Code.Schema.Block.ImpliedType()))
}

// counted returns the value of a resource with count. The caller holds the lock.
func (r *Resource) counted() cty.Value {
	var elements []cty.Value
	for k, v := range r.values {
		n, ok := k.Int()
		if !ok {
			continue
		}
		for len(elements) <= n {
			elements = append(elements, cty.UnknownVal(r.Code.Schema.Block.ImpliedType()))
		}
		elements[n] = v
	}
	return cty.TupleVal(elements)
}

// nothing marks a value that stands for a missing object.
func (r *Resource) nothing(v cty.Value) cty.Value {
	if r.Code.Config.Addr.Mode == addr.Ephemeral {
		return v.Mark(marks.Ephemeral)
	}
	if v.Type() == cty.DynamicPseudoType {
		return v
	}
	return MarkSensitive(v, r.Code.Schema.Block, nil)
}
