package coding

import (
	"fmt"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
	ctymsgpack "github.com/zclconf/go-cty/cty/msgpack"
)

// EncodeValue returns the msgpack encoding of a value of the given type, including unknown values with their
// refinements. A null value, and cty.NilVal, is nil. The value must be unmarked, and conform to ty.
func EncodeValue(v cty.Value, ty cty.Type) ([]byte, error) {
	if v == cty.NilVal || v.IsNull() {
		return nil, nil
	}
	if data, ok := encode(inMsgpack{}, v, ty); ok {
		return data, nil
	}
	return ctymsgpack.Marshal(v, ty)
}

// EncodeJSON returns cty's JSON form of a value of the given type. The value must be wholly known, unmarked, and
// conform to ty.
func EncodeJSON(v cty.Value, ty cty.Type) ([]byte, error) {
	if data, ok := encode(inJSON{}, v, ty); ok {
		return data, nil
	}
	return ctyjson.Marshal(v, ty)
}

// QuickJSON is EncodeJSON with the value's own type for common values: it returns false if the value, or a part of
// it, is marked, unknown, or uncommon.
func QuickJSON(v cty.Value) ([]byte, bool) { return encode(inJSON{}, v, v.Type()) }

// DecodeValue is the inverse of EncodeValue; empty data are null. It fails unless the value conforms to ty, and is
// within the bounds of this package. It needs memory and time proportional to len(data), whatever its origin.
func DecodeValue(data []byte, ty cty.Type) (v cty.Value, err error) {
	if len(data) == 0 {
		return cty.NullVal(ty), nil
	}
	defer malformed(&err)
	if err := checkValue(data, ty); err != nil { // cty allocates as many elements as a list claims to have
		return cty.NilVal, err
	}
	return unmarshalValue(data, ty)
}

// DecodeJSON decodes a value of the given type from cty's JSON form, with the bounds of DecodeValue.
func DecodeJSON(data []byte, ty cty.Type) (v cty.Value, err error) {
	if len(data) == 0 {
		return cty.NullVal(ty), nil
	}
	defer malformed(&err)
	if v, ok := readJSON(data, ty); ok {
		return conforming(v, ty) // it accepts nothing that the checks would reject
	}
	if err := checkJSON(data, jsonValueDepth, hasNumbers(ty)); err != nil {
		return cty.NilVal, err
	}
	if v, err = ctyjson.Unmarshal(data, ty); err != nil {
		return cty.NilVal, err
	}
	if err := checkMagnitudes(v); err != nil {
		return cty.NilVal, err
	}
	return conforming(v, ty)
}

// UnmarshalType decodes cty's JSON form of a type.
func UnmarshalType(data []byte) (ty cty.Type, err error) {
	defer malformed(&err)
	if err := checkJSON(data, typeDepth, false); err != nil {
		return cty.NilType, err
	}
	return ctyjson.UnmarshalType(data)
}

func conforming(v cty.Value, ty cty.Type) (cty.Value, error) {
	if got := v.Type(); !got.Equals(ty) { // if ty is dynamic, or an object lacks attributes
		if problems := got.TestConformance(ty); len(problems) > 0 {
			return cty.NilVal, problems[0]
		}
	}
	return v, nil
}

// malformed converts a panic to an error: the decoders of msgpack and cty panic for some malformed bytes (nil for a
// time, for example, or an invalid number).
func malformed(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%w: %v", ErrMalformed, r)
	}
}
