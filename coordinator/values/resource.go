package values

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/millipede-iac/millipede/state"
)

// Resource is a resource block in one module instance, with the values of its instances.
type Resource struct {
	Code   *ResourceCode
	module *Module

	expand    sync.Once
	expanded  atomic.Bool
	expansion Expansion
	diags     diag.List
	bind      sync.Once
	bound     *eval.Bound

	mu     sync.RWMutex // guards the fields below
	values map[addr.Key]cty.Value
	// stored are objects of the state that are decoded at their first use. Most are never used.
	stored map[addr.Key]*state.Object
	// beyond are instances that the expansion does not have; see KeepBeyond.
	beyond []addr.Key
	whole  cty.Value
}

// ResourceBlock returns the resource of a block in this module instance, or nil.
func (m *Module) ResourceBlock(r addr.Resource) *Resource { return m.resources[r] }

// Resources returns all resource blocks of the module instance.
func (m *Module) Resources() map[addr.Resource]*Resource { return m.resources }

// Addr returns the address of the resource.
func (r *Resource) Addr() addr.AbsResource { return r.Code.Config.Addr.Absolute(r.module.Addr) }

// Module returns the module instance that the resource is in.
func (r *Resource) Module() *Module { return r.module }

// Expansion returns the instances. The values to which count and for_each refer must be available. Problems are
// returned in each call; the resource's own vertex reports them.
func (r *Resource) Expansion() (*Expansion, diag.List) {
	r.expand.Do(func() {
		c := r.Code.Config
		r.expansion, r.diags = r.module.expand(c.Count, c.ForEach, c.Enabled, r.Addr().String())
		r.expanded.Store(true)
	})
	return &r.expansion, r.diags
}

// Bound returns the body bound to the module instance.
func (r *Resource) Bound() *eval.Bound {
	r.bind.Do(func() { r.bound = r.Code.Body.Bind(r.module.Scope) })
	return r.bound
}

// Set sets or replaces the value of an instance.
func (r *Resource) Set(k addr.Key, v cty.Value) {
	v = r.markDeprecated(k, v)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.values == nil {
		r.values = map[addr.Key]cty.Value{}
	}
	r.values[k] = v
	delete(r.stored, k)
	r.whole = cty.NilVal
}

// Keep makes a stored object the value of an instance. The value is unknown if the object does not fit the
// schema.
func (r *Resource) Keep(k addr.Key, o *state.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stored == nil {
		r.stored = map[addr.Key]*state.Object{}
	}
	r.stored[k] = o
	delete(r.values, k)
	r.whole = cty.NilVal
}

// KeepBeyond is Keep for an instance that the expansion no longer has, and whose object stays because -target or
// -exclude leaves it out. It is part of Whole, as in OpenTofu.
func (r *Resource) KeepBeyond(k addr.Key, o *state.Object) {
	r.Keep(k, o)
	r.goBeyond(k)
}

// SetBeyond is Set for an instance that the expansion no longer has, and whose object stays because the plan only
// refreshes. It is part of Whole, as in OpenTofu.
func (r *Resource) SetBeyond(k addr.Key, v cty.Value) {
	r.goBeyond(k)
	r.Set(k, v)
}

func (r *Resource) goBeyond(k addr.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.beyond = append(r.beyond, k)
}

// SetGone records that an instance has no object and will get none: it is omitted from the resource. A single
// instance is null if lifecycle.enabled could have removed it; otherwise its value and type are unknown, as in
// OpenTofu.
func (r *Resource) SetGone(k addr.Key) {
	switch {
	case k != addr.NoKey:
		r.Set(k, cty.NilVal)
	case r.Code.Config.Enabled != nil:
		r.Set(k, cty.NullVal(r.Code.Schema.Block.ImpliedType()))
	default:
		r.Set(k, cty.DynamicVal)
	}
}

// LeaveOutMissing gives the instances without a value the stored object, if there is one, and calls SetGone for the
// others.
func (r *Resource) LeaveOutMissing(stored func(addr.Instance) *state.Object) {
	e, _ := r.Expansion()
	for _, k := range e.Keys {
		if r.has(k) {
			continue
		}
		if o := stored(r.Addr().Instance(k)); o != nil && r.Code.Schema != nil {
			r.Keep(k, o)
			continue
		}
		r.SetGone(k)
	}
}

// SetUnknown records that not even the instances of the resource are known.
func (r *Resource) SetUnknown() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.whole = cty.DynamicVal
}

// has reports whether the value of an instance is set.
func (r *Resource) has(k addr.Key) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	_, ok := r.values[k]
	return ok || r.stored[k] != nil
}

// markDeprecated marks the deprecated parts of an instance's value according to the schema, so that expressions
// that use them get a warning.
func (r *Resource) markDeprecated(k addr.Key, v cty.Value) cty.Value {
	if !r.Code.deprecated || v == cty.NilVal || v.IsNull() {
		return v
	}
	block, at := r.Code.Schema.Block, r.Addr().Instance(k).String()
	for _, p := range block.DeprecatedPaths(v) {
		v = marks.Apply(v, marks.Deprecated{Message: block.AttributeAt(p).DeprecationMessage,
			Origin: at + FormatPath(p)}, []cty.Path{p})
	}
	if block.Deprecated {
		v = v.Mark(marks.Deprecated{Message: block.DeprecationMessage, Origin: at})
	}
	return v
}

// Instance returns the value of an instance of the expansion or beyond it; ok is false if there is no such instance.
func (r *Resource) Instance(k addr.Key) (v cty.Value, ok bool) {
	if r.module.store.Phase == Evaluating || r.expansionPending() {
		return cty.NilVal, false // only Whole is defined
	}
	e, _ := r.Expansion()
	r.mu.RLock()
	exists := !e.Unknown && (e.Has(k) || slices.Contains(r.beyond, k))
	v, known := r.values[k]
	r.mu.RUnlock()
	if !exists {
		return cty.NilVal, false
	}
	if !known {
		r.mu.Lock()
		v = r.instance(k)
		r.mu.Unlock()
	}
	return v, v != cty.NilVal
}

// instance returns the value of an instance, which is unknown if it is not set; an instance that is gone has no
// value. The caller holds the lock for writing.
func (r *Resource) instance(k addr.Key) cty.Value {
	if v, ok := r.values[k]; ok {
		return v
	}
	o := r.stored[k]
	if o == nil {
		return cty.DynamicVal
	}
	delete(r.stored, k)
	v, err := DecodeStored(o, r.Code.Schema)
	if err != nil {
		return cty.DynamicVal
	}
	if r.values == nil {
		r.values = map[addr.Key]cty.Value{}
	}
	r.values[k] = r.markDeprecated(k, v)
	return r.values[k]
}

// Whole returns the value of the resource without a key: an object, a tuple, or an object by key.
func (r *Resource) Whole() cty.Value {
	if r.module.store.Phase == Evaluating {
		return r.existing()
	}
	if r.expansionPending() {
		return r.unexpanded()
	}
	e, _ := r.Expansion()
	if e.Unknown {
		return cty.DynamicVal
	}
	if r.module.store.Phase == Validating && r.Code.Config.Addr.Mode == addr.Ephemeral {
		return r.wild(e).Mark(marks.Ephemeral)
	}
	if r.module.store.Phase == Validating {
		return r.wild(e)
	}
	r.mu.RLock()
	whole := r.whole
	r.mu.RUnlock()
	if whole != cty.NilVal {
		return whole
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.whole == cty.NilVal {
		r.whole = r.build(e)
	}
	return r.whole
}

// expansionPending reports whether the expansion of the resource depends on itself and is not complete.
func (r *Resource) expansionPending() bool { return r.Code.expandsByItself && !r.expanded.Load() }

// unexpanded is the value of such a resource in its own expansion: empty, as in OpenTofu.
func (r *Resource) unexpanded() cty.Value {
	c := r.Code.Config
	switch mode := modeOf(c.Count, c.ForEach, c.Enabled); {
	case r.module.store.Phase == Validating:
		return cty.DynamicVal
	case mode == Count:
		return cty.EmptyTupleVal
	case mode == ForEach:
		return cty.EmptyObjectVal
	default:
		return cty.NullVal(cty.DynamicPseudoType)
	}
}

// build computes the value of Whole. The caller holds the lock.
func (r *Resource) build(e *Expansion) cty.Value {
	switch e.Mode {
	case Count:
		elements := make([]cty.Value, len(e.Keys))
		there := 0 // the length up to the last instance that is not gone
		for _, k := range slices.Concat(e.Keys, r.beyond) {
			i, ok := k.Int()
			if v := r.instance(k); ok && v != cty.NilVal {
				there = max(there, i+1)
				elements = slices.Grow(elements, there)[:max(there, len(elements))]
				elements[i] = v
			}
		}
		for i := range elements {
			switch {
			case elements[i] != cty.NilVal:
			case r.Code.Schema != nil:
				elements[i] = cty.UnknownVal(r.Code.Value().ImpliedType())
			default:
				elements[i] = cty.DynamicVal
			}
		}
		return cty.TupleVal(elements[:there])
	case ForEach:
		elements := make(map[string]cty.Value, len(e.Keys))
		for _, k := range slices.Concat(e.Keys, r.beyond) {
			s, ok := k.Str()
			if v := r.instance(k); ok && v != cty.NilVal {
				elements[s] = v
			}
		}
		return cty.ObjectVal(elements)
	default:
		if len(e.Keys) == 0 && !slices.Contains(r.beyond, addr.NoKey) {
			return cty.NullVal(cty.DynamicPseudoType)
		}
		return r.instance(addr.NoKey)
	}
}

// wild is the value in validation: of the right type and unknown, except the parts that the validation of the
// instance has determined.
func (r *Resource) wild(e *Expansion) cty.Value {
	if r.Code.Schema == nil || e.Mode == Count || e.Mode == ForEach {
		return cty.DynamicVal
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	if v, ok := r.values[addr.NoKey]; ok {
		return v
	}
	block := r.Code.Value()
	ty := block.ImpliedType()
	if e.Mode == Enabled || !block.ContainsSensitive() && !r.Code.deprecated {
		return cty.UnknownVal(ty)
	}
	attrs := make(map[string]cty.Value, len(ty.AttributeTypes()))
	for name, at := range ty.AttributeTypes() {
		attrs[name] = cty.UnknownVal(at)
	}
	return r.markDeprecated(addr.NoKey, MarkSensitive(cty.ObjectVal(attrs), block, nil))
}
