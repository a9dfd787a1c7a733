package wire

import (
	"fmt"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
	ctymsgpack "github.com/zclconf/go-cty/cty/msgpack"
)

// valueDepth is how deep values may be: far deeper than anybody's are, and far from what a stack holds.
const valueDepth = 10_000

// EncodeValue returns the msgpack of a value of the given type, unknown values with their refinements included. A null
// value, and cty.NilVal, is nil. The value must not be marked, and must conform to ty.
func EncodeValue(v cty.Value, ty cty.Type) ([]byte, error) {
	if v == cty.NilVal || v.IsNull() {
		return nil, nil
	}
	return ctymsgpack.Marshal(v, ty)
}

// DecodeValue is the inverse of EncodeValue; no bytes are null. It fails unless what it reads conforms to ty.
func DecodeValue(data []byte, ty cty.Type) (v cty.Value, err error) {
	if len(data) == 0 {
		return cty.NullVal(ty), nil
	}
	defer hostile(&err)
	if err := CheckBounds(data, valueDepth); err != nil { // cty makes room for as many elements as a list says it has
		return cty.NilVal, err
	}
	if v, err = unmarshalValue(data, ty); err != nil {
		return cty.NilVal, err
	}
	if got := v.Type(); !got.Equals(ty) { // as where ty is dynamic, and where an object lacks attributes
		if problems := got.TestConformance(ty); len(problems) > 0 {
			return cty.NilVal, problems[0]
		}
	}
	return v, nil
}

// The coded path is an array with an element per step: a string for an attribute, else an array of the key's type and
// the key. The frequent types are one letter; the others are in cty's JSON form.
const (
	stringKey = "s"
	numberKey = "n"
)

// EncodePath returns the coded path, never nil. It fails for a key that is marked, or that is not a plain value.
func EncodePath(path cty.Path) ([]byte, error) {
	keys := make([]pathKey, len(path))
	for i, step := range path {
		index, ok := step.(cty.IndexStep)
		if !ok {
			continue
		}
		key, err := encodePathKey(index.Key)
		if err != nil {
			return nil, fmt.Errorf("step %d of the path: %w", i+1, err)
		}
		keys[i] = key
	}
	return encodeWith(func(enc *msgpack.Encoder) error {
		if err := enc.EncodeArrayLen(len(path)); err != nil {
			return err
		}
		for i, step := range path {
			if attr, ok := step.(cty.GetAttrStep); ok {
				if err := enc.EncodeString(attr.Name); err != nil {
					return err
				}
				continue
			}
			if err := keys[i].encode(enc); err != nil {
				return err
			}
		}
		return nil
	}), nil
}

type pathKey struct {
	kind string
	key  []byte
}

func (k pathKey) encode(enc *msgpack.Encoder) error {
	if err := enc.EncodeArrayLen(2); err != nil {
		return err
	}
	if err := enc.EncodeString(k.kind); err != nil {
		return err
	}
	return enc.EncodeBytes(k.key)
}

func encodePathKey(key cty.Value) (pathKey, error) {
	if key == cty.NilVal {
		return pathKey{}, fmt.Errorf("the key is missing")
	}
	if key.IsKnown() && !key.IsMarked() && !key.IsNull() && key.Type() == cty.String {
		return pathKey{stringKey, []byte(key.AsString())}, nil
	}
	data, err := ctymsgpack.Marshal(key, key.Type())
	if err != nil {
		return pathKey{}, err
	}
	kind := numberKey
	if key.Type() != cty.Number {
		ty, err := ctyjson.MarshalType(key.Type())
		if err != nil {
			return pathKey{}, err
		}
		kind = string(ty)
	}
	return pathKey{kind, data}, nil
}

// DecodePath is the inverse of EncodePath. No bytes are the empty path.
func DecodePath(data []byte) (cty.Path, error) {
	if len(data) == 0 {
		return nil, nil
	}
	if err := CheckBounds(data, messageDepth); err != nil {
		return nil, fmt.Errorf("cannot read the path: %w", err)
	}
	var path cty.Path
	err := decodeWith(data, func(dec *msgpack.Decoder) error {
		n, err := dec.DecodeArrayLen()
		if err != nil {
			return err
		}
		for range n {
			step, err := decodePathStep(dec)
			if err != nil {
				return err
			}
			path = append(path, step)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the path: %w", err)
	}
	return path, nil
}

func decodePathStep(dec *msgpack.Decoder) (cty.PathStep, error) {
	var name string
	code, err := dec.PeekCode()
	if err != nil {
		return nil, err
	}
	if code&0xf0 != 0x90 { // not a short array
		name, err = dec.DecodeString()
		return cty.GetAttrStep{Name: name}, err
	}
	if n, err := dec.DecodeArrayLen(); err != nil || n != 2 {
		return nil, errMalformed
	}
	kind, err := dec.DecodeString()
	if err != nil {
		return nil, err
	}
	data, err := dec.DecodeBytes()
	if err != nil {
		return nil, err
	}
	ty := cty.Number
	switch kind {
	case stringKey:
		return cty.IndexStep{Key: cty.StringVal(string(data))}, nil
	case numberKey:
	default:
		if ty, err = ctyjson.UnmarshalType([]byte(kind)); err != nil {
			return nil, err
		}
	}
	if err := CheckBounds(data, valueDepth); err != nil {
		return nil, err
	}
	key, err := ctymsgpack.Unmarshal(data, ty)
	return cty.IndexStep{Key: key}, err
}
