package coding

import (
	"encoding/binary"
	"math"
	"math/big"

	"github.com/zclconf/go-cty/cty"
	ctymsgpack "github.com/zclconf/go-cty/cty/msgpack"
)

// unmarshalValue is a faster version of cty's Unmarshal for bytes that checkValue has accepted. Most decoded values
// are objects of primitive attributes, and lists, sets and maps of these; cty's decoder, which builds a path to
// each attribute and reads byte by byte, took a twentieth of a plan's CPU time and a sixth of its allocations.
// Unusual cases, including errors, are left to cty. The value conforms to ty.
func unmarshalValue(data []byte, ty cty.Type) (cty.Value, error) {
	if v, rest, ok := shortValue(data, ty, maxShort); ok && len(rest) == 0 {
		return v, nil
	}
	v, err := ctymsgpack.Unmarshal(data, ty)
	if err != nil {
		return cty.NilVal, err
	}
	return conforming(exactNumbers(v), ty)
}

// shortValue decodes the first value of data; it returns false for values that are left to cty.
func shortValue(data []byte, ty cty.Type, depth int) (v cty.Value, rest []byte, ok bool) {
	switch {
	case len(data) == 0 || depth == 0:
		return cty.NilVal, nil, false
	case data[0] == 0xc0: // nil
		return cty.NullVal(ty), data[1:], true
	case data[0] == 0xd4 && len(data) > 2 && data[1] == 0 && data[2] == 0: // unknown without refinements
		return cty.UnknownVal(ty), data[3:], true
	case data[0] == 0xc7 && ty.IsPrimitiveType(): // an unknown value with refinements
		return shortUnknown(data, ty)
	case ty == cty.String:
		text, rest, ok := textOf(data)
		if !ok {
			return cty.NilVal, nil, false
		}
		return cty.StringVal(string(text)), rest, true
	case ty == cty.Bool:
		if data[0] != 0xc2 && data[0] != 0xc3 {
			return cty.NilVal, nil, false
		}
		return cty.BoolVal(data[0] == 0xc3), data[1:], true
	case ty == cty.Number:
		return shortNumber(data)
	case ty == cty.DynamicPseudoType && data[0] == 0x92: // its type and the value
		text, value, ok := bytesOf(data[1:])
		if !ok {
			return cty.NilVal, nil, false
		}
		of, ok := typeOf(text)
		if !ok {
			return cty.NilVal, nil, false
		}
		return shortValue(value, of, depth-1)
	case ty.IsObjectType():
		return shortObject(data, ty.AttributeTypes(), depth)
	case ty.IsMapType():
		return shortMap(data, ty.ElementType(), depth)
	case ty.IsListType(), ty.IsSetType():
		return shortList(data, ty, depth)
	case ty.IsTupleType():
		return shortTuple(data, ty.TupleElementTypes(), depth)
	}
	return cty.NilVal, nil, false
}

// shortNumber decodes integers of up to 32 bits, and floating point numbers of 64 bits.
func shortNumber(data []byte) (v cty.Value, rest []byte, ok bool) {
	if data[0] == 0xcb && len(data) > 8 {
		f := math.Float64frombits(binary.BigEndian.Uint64(data[1:]))
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return cty.NilVal, nil, false
		}
		return cty.NumberVal(wholePrecision(big.NewFloat(f))), data[9:], true
	}
	n, rest, ok := wholeOf(data)
	if !ok {
		return cty.NilVal, nil, false
	}
	return cty.NumberVal(new(big.Float).SetPrec(precision).SetInt64(n)), rest, true
}

// shortObject decodes an object. Only attributes that it cannot decode itself are left to cty.
func shortObject(data []byte, types map[string]cty.Type, depth int) (v cty.Value, rest []byte, ok bool) {
	n, data, ok := lengthOf(data, mapping)
	if !ok || n != uint64(len(types)) {
		return cty.NilVal, nil, false
	}
	l := layoutOf(types)
	attrs := make(map[string]cty.Value, len(types))
	at := 0
	for range n {
		name, rest, ok := textOf(data)
		if !ok {
			return cty.NilVal, nil, false
		}
		if at, ok = l.find(at, name); !ok {
			return cty.NilVal, nil, false
		}
		v, after, ok := shortValue(rest, l.types[at], depth-1)
		if !ok {
			if v, after, ok = longValue(rest, l.types[at]); !ok {
				return cty.NilVal, nil, false
			}
		}
		attrs[l.names[at]] = v
		at++
		data = after
	}
	if len(attrs) != len(types) { // an attribute occurs twice
		return cty.NilVal, nil, false
	}
	return cty.ObjectVal(attrs), data, true
}

// longValue decodes the first value of data using cty.
func longValue(data []byte, ty cty.Type) (v cty.Value, rest []byte, ok bool) {
	rest, err := skipValue(data, valueDepth)
	if err != nil {
		return cty.NilVal, nil, false
	}
	if v, err = ctymsgpack.Unmarshal(data[:len(data)-len(rest)], ty); err == nil && ty != cty.DynamicPseudoType {
		v, err = conforming(v, ty)
	}
	if err != nil {
		return cty.NilVal, nil, false
	}
	return exactNumbers(v), rest, true
}

func shortMap(data []byte, of cty.Type, depth int) (v cty.Value, rest []byte, ok bool) {
	n, data, ok := lengthOf(data, mapping)
	if !ok || 2*n > uint64(len(data)) || of.HasDynamicTypes() {
		return cty.NilVal, nil, false
	}
	if n == 0 {
		return cty.MapValEmpty(of), data, true
	}
	elements := make(map[string]cty.Value, n)
	for range n {
		key, rest, ok := textOf(data)
		if !ok {
			return cty.NilVal, nil, false
		}
		if v, data, ok = shortValue(rest, of, depth-1); !ok {
			return cty.NilVal, nil, false
		}
		elements[string(key)] = v
	}
	return cty.MapVal(elements), data, true
}

func shortList(data []byte, ty cty.Type, depth int) (v cty.Value, rest []byte, ok bool) {
	of := ty.ElementType()
	n, data, ok := lengthOf(data, array)
	switch {
	case !ok || n > uint64(len(data)) || of.HasDynamicTypes():
		return cty.NilVal, nil, false
	case n == 0 && ty.IsSetType():
		return cty.SetValEmpty(of), data, true
	case n == 0:
		return cty.ListValEmpty(of), data, true
	}
	elements := make([]cty.Value, n)
	for i := range elements {
		if elements[i], data, ok = shortValue(data, of, depth-1); !ok {
			return cty.NilVal, nil, false
		}
	}
	if ty.IsSetType() {
		return cty.SetVal(elements), data, true
	}
	return cty.ListVal(elements), data, true
}

func shortTuple(data []byte, types []cty.Type, depth int) (v cty.Value, rest []byte, ok bool) {
	n, data, ok := lengthOf(data, array)
	if !ok || n != uint64(len(types)) {
		return cty.NilVal, nil, false
	}
	elements := make([]cty.Value, n)
	for i := range elements {
		if elements[i], data, ok = shortValue(data, types[i], depth-1); !ok {
			return cty.NilVal, nil, false
		}
	}
	return cty.TupleVal(elements), data, true
}

// bytesOf removes bytes of up to 65,535 from the front of data.
func bytesOf(data []byte) (content, rest []byte, ok bool) {
	var n, header int
	switch {
	case len(data) >= 2 && data[0] == 0xc4:
		n, header = int(data[1]), 2
	case len(data) >= 3 && data[0] == 0xc5:
		n, header = int(binary.BigEndian.Uint16(data[1:])), 3
	default:
		return nil, nil, false
	}
	if len(data) < header+n {
		return nil, nil, false
	}
	return data[header : header+n], data[header+n:], true
}
