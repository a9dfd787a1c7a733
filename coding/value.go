package coding

import (
	"fmt"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
	ctymsgpack "github.com/zclconf/go-cty/cty/msgpack"
)

// EncodeValue returns the msgpack of a value of the given type, unknown values with their refinements included. A null
// value, and cty.NilVal, is nil. The value must not be marked, and must conform to ty.
func EncodeValue(v cty.Value, ty cty.Type) ([]byte, error) {
	if v == cty.NilVal || v.IsNull() {
		return nil, nil
	}
	if data, ok := encode(inMsgpack{}, v, ty); ok {
		return data, nil
	}
	return ctymsgpack.Marshal(v, ty)
}

// EncodeJSON returns cty's JSON form of a value of the given type. The value must be wholly known, must not be marked,
// and must conform to ty.
func EncodeJSON(v cty.Value, ty cty.Type) ([]byte, error) {
	if data, ok := encode(inJSON{}, v, ty); ok {
		return data, nil
	}
	return ctyjson.Marshal(v, ty)
}

// QuickJSON is EncodeJSON of a value by its own type, as far as that is quick: it returns false where the value, or a
// part of it, is marked, unknown, or rare.
func QuickJSON(v cty.Value) ([]byte, bool) { return encode(inJSON{}, v, v.Type()) }

// DecodeValue is the inverse of EncodeValue; no bytes are null. It fails unless what it reads conforms to ty, and is
// within the bounds of this package. It takes memory and time in proportion to len(data), whoever wrote it.
func DecodeValue(data []byte, ty cty.Type) (v cty.Value, err error) {
	if len(data) == 0 {
		return cty.NullVal(ty), nil
	}
	defer hostile(&err)
	if err := checkValue(data, ty); err != nil { // cty makes room for as many elements as a list says it has
		return cty.NilVal, err
	}
	return unmarshalValue(data, ty)
}

// DecodeJSON reads a value of the given type from cty's JSON form, as DecodeValue does from msgpack.
func DecodeJSON(data []byte, ty cty.Type) (v cty.Value, err error) {
	if len(data) == 0 {
		return cty.NullVal(ty), nil
	}
	defer hostile(&err)
	if v, ok := readJSON(data, ty); ok {
		return conforming(v, ty) // it reads nothing that the checks would refuse
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

// UnmarshalType reads cty's JSON form of a type.
func UnmarshalType(data []byte) (ty cty.Type, err error) {
	defer hostile(&err)
	if err := checkJSON(data, typeDepth, false); err != nil {
		return cty.NilType, err
	}
	return ctyjson.UnmarshalType(data)
}

func conforming(v cty.Value, ty cty.Type) (cty.Value, error) {
	if got := v.Type(); !got.Equals(ty) { // as where ty is dynamic, and where an object lacks attributes
		if problems := got.TestConformance(ty); len(problems) > 0 {
			return cty.NilVal, problems[0]
		}
	}
	return v, nil
}

// hostile makes an error of a panic: the decoders of msgpack, and of cty on top of it, panic on some bytes that nobody
// encodes (nil for a time, say, or a number that is none).
func hostile(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%w: %v", ErrMalformed, r)
	}
}
