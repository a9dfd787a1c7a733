package coding

import (
	"sync"

	"github.com/zclconf/go-cty/cty"
)

// typeTexts has types that were decoded, by their JSON: the objects of a resource mostly have values of the same type
// in an attribute of any type, and decoding the type takes longer than decoding the value.
var typeTexts = struct {
	sync.RWMutex
	by map[string]cty.Type
}{by: map[string]cty.Type{}}

// maxTypes is the most types in memory, and maxTypeText the longest JSON of one that is remembered.
const (
	maxTypes    = 1024
	maxTypeText = 4 << 10
)

// typeOf returns the type with a JSON text. It returns false for invalid JSON, for an unknown kind of type, which cty
// decodes to no type, and for types with optional attributes.
func typeOf(text []byte) (cty.Type, bool) {
	typeTexts.RLock()
	ty, ok := typeTexts.by[string(text)]
	typeTexts.RUnlock()
	if ok {
		return ty, true
	}
	ty, err := UnmarshalType(text)
	if err != nil || ty == cty.NilType || !ty.WithoutOptionalAttributesDeep().Equals(ty) {
		return cty.NilType, false
	}
	if len(text) > maxTypeText {
		return ty, true
	}
	typeTexts.Lock()
	defer typeTexts.Unlock()
	if len(typeTexts.by) >= maxTypes {
		clear(typeTexts.by)
	}
	typeTexts.by[string(text)] = ty
	return ty, true
}
