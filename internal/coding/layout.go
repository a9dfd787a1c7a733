package coding

import (
	"cmp"
	"reflect"
	"slices"
	"sync"

	"github.com/zclconf/go-cty/cty"
)

// layout is the sorted attributes of an object type: their names are stored only once, not for each object.
type layout struct {
	of    map[string]cty.Type // keeps the map alive, so that its address is not reused
	names []string
	types []cty.Type
}

// maxLayouts bounds the number of cached types.
const maxLayouts = 1024

var layouts = struct {
	sync.RWMutex
	by map[uintptr]*layout // by the address of the map of types
}{by: map[uintptr]*layout{}}

func layoutOf(types map[string]cty.Type) *layout {
	at := reflect.ValueOf(types).Pointer()
	layouts.RLock()
	l := layouts.by[at]
	layouts.RUnlock()
	if l != nil {
		return l
	}
	l = &layout{of: types, names: make([]string, 0, len(types)), types: make([]cty.Type, len(types))}
	for name := range types {
		l.names = append(l.names, name)
	}
	slices.Sort(l.names)
	for i, name := range l.names {
		l.types[i] = types[name]
	}
	layouts.Lock()
	defer layouts.Unlock()
	if len(layouts.by) >= maxLayouts {
		clear(layouts.by)
	}
	layouts.by[at] = l
	return l
}

// find returns the index of an attribute. Objects are encoded with sorted attributes, so it is mostly the one at
// index at.
func (l *layout) find(at int, name []byte) (int, bool) {
	if at < len(l.names) && l.names[at] == string(name) {
		return at, true
	}
	return slices.BinarySearchFunc(l.names, name, func(have string, want []byte) int {
		return cmp.Compare(have, string(want))
	})
}
