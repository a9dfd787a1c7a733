package coding

import (
	"github.com/zclconf/go-cty/cty"
	ctymsgpack "github.com/zclconf/go-cty/cty/msgpack"
)

// unmarshalValue is cty's Unmarshal. For an object with attributes of any type it takes a shorter way: in front of the
// value of such an attribute stands the JSON of its type, and cty's reading of that took a twentieth of a plan's CPU
// time, and a sixth of what it allocates. What is unusual about the bytes is left to cty, errors included. The value
// conforms to ty.
func unmarshalValue(data []byte, ty cty.Type) (cty.Value, error) {
	if ty.IsObjectType() && len(data) > 0 {
		if v, ok := shortObject(data, ty.AttributeTypes()); ok {
			return v, nil // each attribute conforms
		}
	}
	v, err := ctymsgpack.Unmarshal(data, ty)
	if err != nil {
		return cty.NilVal, err
	}
	return conforming(v, ty)
}

// shortObject reads an object with attributes of any type; it returns false for what it leaves to cty.
func shortObject(data []byte, types map[string]cty.Type) (cty.Value, bool) {
	if data[0]&0xf0 != 0x80 || int(data[0]&0x0f) != len(types) || !anyDynamic(types) {
		return cty.NilVal, false
	}
	data = data[1:]
	attrs := make(map[string]cty.Value, len(types))
	for range len(types) {
		name, rest, ok := shortString(data)
		if !ok {
			return cty.NilVal, false
		}
		ty, known := types[string(name)]
		after, err := skipValue(rest, pathDepth)
		if !known || err != nil {
			return cty.NilVal, false
		}
		v, err := unmarshalAttribute(rest[:len(rest)-len(after)], ty)
		if err != nil {
			return cty.NilVal, false
		}
		attrs[string(name)] = v
		data = after
	}
	if len(attrs) != len(types) { // one of them came twice
		return cty.NilVal, false
	}
	return cty.ObjectVal(attrs), true
}

func anyDynamic(types map[string]cty.Type) bool {
	for _, ty := range types {
		if ty == cty.DynamicPseudoType {
			return true
		}
	}
	return false
}

func unmarshalAttribute(data []byte, ty cty.Type) (cty.Value, error) {
	switch {
	case data[0] == 0xc0: // nil
		return cty.NullVal(ty), nil
	case ty == cty.DynamicPseudoType && data[0] == 0x92: // its type and the value
		if plain, value := plainType(data[1:]); plain != cty.NilType {
			return unmarshalAttribute(value, plain)
		}
	case ty == cty.String:
		if text, rest, ok := shortString(data); ok && len(rest) == 0 {
			return cty.StringVal(string(text)), nil
		}
	}
	v, err := ctymsgpack.Unmarshal(data, ty)
	if err != nil || ty == cty.DynamicPseudoType {
		return v, err
	}
	return conforming(v, ty)
}

// plainType reads the JSON of a primitive type, in msgpack's form for up to 255 bytes; cty.NilType is any other type.
func plainType(data []byte) (ty cty.Type, value []byte) {
	if len(data) < 2 || data[0] != 0xc4 || len(data) <= 2+int(data[1]) {
		return cty.NilType, nil
	}
	end := 2 + int(data[1])
	switch string(data[2:end]) {
	case `"string"`:
		ty = cty.String
	case `"number"`:
		ty = cty.Number
	case `"bool"`:
		ty = cty.Bool
	}
	return ty, data[end:]
}

// shortString reads a string of up to 255 bytes.
func shortString(data []byte) (text, rest []byte, ok bool) {
	n, skip := 0, 1
	switch {
	case len(data) > 0 && data[0]&0xe0 == 0xa0:
		n = int(data[0] & 0x1f)
	case len(data) > 1 && data[0] == 0xd9:
		n, skip = int(data[1]), 2
	default:
		return nil, nil, false
	}
	if len(data) < skip+n {
		return nil, nil, false
	}
	return data[skip : skip+n], data[skip+n:], true
}
