package querying

import (
	"errors"
	"slices"
	"sync"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
)

var errNoAnswer = errors.New("the worker's answer holds nothing")

// managedIndex has the identities of the objects in a state. Identities are compared as values of the current identity
// schema.
type managedIndex struct {
	prior *state.State

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

func newManagedIndex(prior *state.State) *managedIndex {
	return &managedIndex{prior: prior, types: map[managedType]*managedSet{}}
}

// has reports whether the state has an object of the list's type with this identity. It is false without an index.
func (x *managedIndex) has(l *listing, identity cty.Value) bool {
	if x == nil {
		return false
	}
	return x.of(l).identities[l.Managed.Key(identity)]
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
		set = &managedSet{}
		set.identities, set.without = l.Managed.Stored(x.prior, t.provider, t.name)
		x.types[t] = set
	}
	return set
}

// Stored returns the keys of the identities that a state has of a type's objects; see Key. without has the addresses of
// those whose identity is not stored in the current version.
func (m *Managed) Stored(prior *state.State, p addr.Provider, typeName string) (keys map[string]bool,
	without []string) {
	keys = map[string]bool{}
	add := func(at string, o *state.Object) {
		if o == nil || o.Status == state.InDoubt && o.Identity == nil {
			return
		}
		if len(o.Identity) > 0 && o.IdentityVersion == m.IdentityVersion {
			if v, err := coding.UnmarshalJSON(o.Identity, m.Identity); err == nil {
				keys[m.Key(v)] = true
				return
			}
		}
		without = append(without, at)
	}
	for _, r := range prior.SortedResources() {
		in := prior.Resources[r]
		if r.Resource.Mode != addr.Managed || r.Resource.Type != typeName || in.Provider.Provider != p {
			continue
		}
		for k, i := range in.Instances {
			add(r.Instance(k).String(), i.Current)
			for _, o := range i.Deposed {
				add(r.Instance(k).String(), o)
			}
		}
	}
	return keys, without
}

// Key returns a text that equal identities have in common.
func (m *Managed) Key(identity cty.Value) string {
	b, err := coding.EncodeValue(identity, m.Identity)
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
