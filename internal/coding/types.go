package coding

import (
	"maps"
	"slices"
	"sync"

	"github.com/zclconf/go-cty/cty"
)

// remembered is a type with its JSON.
type remembered struct {
	text string
	cty.Type
}

// typeTexts has types that were decoded, by their JSON: the objects of a resource mostly have values of the same type
// in an attribute of any type, and decoding the type takes longer than decoding the value.
var typeTexts = struct {
	sync.RWMutex
	by map[string]remembered
}{by: map[string]remembered{}}

// maxTypes is the most types in memory, and maxTypeText the longest JSON of one that is remembered.
const (
	maxTypes    = 1024
	maxTypeText = 4 << 10
)

// typeOf returns the type with a JSON text. It returns false for invalid JSON, for an unknown kind of type, which cty
// decodes to no type, and for types with optional attributes.
func typeOf(text []byte) (cty.Type, bool) {
	switch string(text) {
	case `"string"`:
		return cty.String, true
	case `"number"`:
		return cty.Number, true
	case `"bool"`:
		return cty.Bool, true
	}
	r, ok := recall(text)
	return r.Type, ok
}

// described returns the JSON of a type, and an equal type whose layouts are cached. The text is empty for types that
// cty has to encode.
func described(ty cty.Type) (text string, same cty.Type) {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	b, ok := appendType((*buffer)[:0], ty)
	if !ok {
		return "", cty.NilType
	}
	*buffer = b
	r, ok := recall(b)
	if !ok {
		return "", cty.NilType
	}
	return r.text, r.Type
}

// recall returns the type with a JSON text, and remembers it.
func recall(text []byte) (r remembered, ok bool) {
	typeTexts.RLock()
	r, ok = typeTexts.by[string(text)]
	typeTexts.RUnlock()
	if ok {
		return r, true
	}
	ty, err := UnmarshalType(text)
	if err != nil || ty == cty.NilType || !ty.WithoutOptionalAttributesDeep().Equals(ty) {
		return remembered{}, false
	}
	r = remembered{string(text), ty}
	if len(text) > maxTypeText {
		return r, true
	}
	typeTexts.Lock()
	defer typeTexts.Unlock()
	if len(typeTexts.by) >= maxTypes {
		clear(typeTexts.by)
	}
	typeTexts.by[r.text] = r
	return r, true
}

// appendType appends the JSON of a type, as cty writes it. It returns false for types that are left to cty.
func appendType(b []byte, ty cty.Type) ([]byte, bool) {
	if text := primitiveText(ty); text != "" {
		return append(b, text...), true
	}
	ok := true
	switch {
	case ty == cty.DynamicPseudoType:
		return append(b, `"dynamic"`...), true
	case ty.IsListType():
		b, ok = appendType(append(b, `["list",`...), ty.ElementType())
	case ty.IsSetType():
		b, ok = appendType(append(b, `["set",`...), ty.ElementType())
	case ty.IsMapType():
		b, ok = appendType(append(b, `["map",`...), ty.ElementType())
	case ty.IsTupleType():
		b = append(b, `["tuple",[`...)
		for i, of := range ty.TupleElementTypes() {
			if i > 0 {
				b = append(b, ',')
			}
			if b, ok = appendType(b, of); !ok {
				return nil, false
			}
		}
		b = append(b, ']')
	case ty.IsObjectType() && len(ty.OptionalAttributes()) == 0:
		types := ty.AttributeTypes()
		b = append(b, `["object",{`...)
		for i, name := range slices.Sorted(maps.Keys(types)) {
			if i > 0 {
				b = append(b, ',')
			}
			if b, ok = appendType(append(inJSON{}.text(b, name), ':'), types[name]); !ok {
				return nil, false
			}
		}
		b = append(b, '}')
	default:
		return nil, false
	}
	return append(b, ']'), ok
}
