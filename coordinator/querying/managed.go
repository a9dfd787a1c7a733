package querying

import (
	"errors"
	"slices"
	"sync"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/values"
	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
)

var errNoAnswer = errors.New("the worker's answer holds nothing")

// managedIndex has the identities of the objects in a state. Identities are compared as values of the current identity
// schema.
type managedIndex struct {
	prior   *state.State
	schemas *values.Schemas

	mu    sync.Mutex // guards types
	types map[managedType]*managedSet
}

type managedType struct {
	provider addr.Provider
	name     string
}

// managedSet are the objects of one type.
type managedSet struct {
	identities map[string]bool
	without    []string // addresses of objects whose identity is not stored in the current version
}

func newManagedIndex(prior *state.State, schemas *values.Schemas) *managedIndex {
	return &managedIndex{prior: prior, schemas: schemas, types: map[managedType]*managedSet{}}
}

// has reports whether the state has an object of the list's type with this identity. It is false without an index.
func (x *managedIndex) has(l *listing, identity cty.Value) bool {
	if x == nil {
		return false
	}
	return x.of(l).identities[identityKey(identity, l.Managed.Identity)]
}

// count returns how many objects the index has that the list may find.
func (x *managedIndex) count(l *listing) int64 {
	if x == nil {
		return 0
	}
	return int64(len(x.of(l).identities))
}

// of returns the objects of the list's type. They are collected at the first call.
func (x *managedIndex) of(l *listing) *managedSet {
	t := managedType{l.Provider.Provider, l.Type}
	x.mu.Lock()
	defer x.mu.Unlock()
	set := x.types[t]
	if set == nil {
		set = x.collect(t, l.Managed)
		x.types[t] = set
	}
	return set
}

// collect finds the objects of a type in the state.
func (x *managedIndex) collect(t managedType, m *Managed) *managedSet {
	set := &managedSet{identities: map[string]bool{}}
	for _, r := range x.prior.SortedResources() {
		in := x.prior.Resources[r]
		if r.Resource.Mode != addr.Managed || r.Resource.Type != t.name || in.Provider.Provider != t.provider {
			continue
		}
		for k, i := range in.Instances {
			x.add(set, r.Instance(k).String(), i.Current, m)
			for _, o := range i.Deposed {
				x.add(set, r.Instance(k).String(), o, m)
			}
		}
	}
	return set
}

// add adds a stored object; nil is none.
func (x *managedIndex) add(set *managedSet, at string, o *state.Object, m *Managed) {
	if o == nil {
		return
	}
	if len(o.Identity) > 0 && o.IdentityVersion == m.IdentityVersion {
		if v, err := coding.UnmarshalJSON(o.Identity, m.Identity); err == nil {
			set.identities[identityKey(v, m.Identity)] = true
			return
		}
	}
	set.without = append(set.without, at)
}

// identityKey returns a text that equal identities have in common.
func identityKey(v cty.Value, ty cty.Type) string {
	b, err := coding.EncodeValue(v, ty)
	if err != nil {
		panic("querying: an identity does not encode: " + err.Error()) // it was decoded with the same type
	}
	return string(b)
}

// incomparable returns the objects without a comparable identity, of the types that were listed.
func (x *managedIndex) incomparable() []string {
	if x == nil {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	var out []string
	for _, set := range x.types {
		out = append(out, set.without...)
	}
	slices.Sort(out)
	return out
}
