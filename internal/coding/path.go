package coding

import (
	"fmt"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
	ctymsgpack "github.com/zclconf/go-cty/cty/msgpack"
)

// pathDepth is the nesting of an encoded path: the path, its steps, and their contents.
const pathDepth = 16

// An encoded path is an array with an element per step: a string for an attribute, else an array of the key's type
// and the key. Frequent types are one letter; others are in cty's JSON form.
const (
	stringKey = "s"
	numberKey = "n"
)

// EncodePath returns the encoded path, never nil. It fails for a key that is marked, or that is not a primitive
// value.
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
	return EncodeWith(func(enc *msgpack.Encoder) error {
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

// DecodePath is the inverse of EncodePath. Empty data are the empty path.
func DecodePath(data []byte) (cty.Path, error) {
	if len(data) == 0 {
		return nil, nil
	}
	if err := CheckBounds(data, pathDepth); err != nil {
		return nil, fmt.Errorf("cannot read the path: %w", err)
	}
	var path cty.Path
	err := DecodeWith(data, func(dec *msgpack.Decoder) error {
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
		return nil, ErrMalformed
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
		if ty, err = UnmarshalType([]byte(kind)); err != nil {
			return nil, err
		}
	}
	if err := checkValue(data, ty); err != nil {
		return nil, err
	}
	key, err := ctymsgpack.Unmarshal(data, ty)
	return cty.IndexStep{Key: key}, err
}
