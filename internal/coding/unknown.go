package coding

import (
	"bytes"
	"sync"

	"github.com/zclconf/go-cty/cty"
	ctymsgpack "github.com/zclconf/go-cty/cty/msgpack"
)

// coded is a value with its encoding.
type coded struct {
	value cty.Value
	data  []byte
}

// The unknown values that are not null, by type: providers plan most computed attributes with these. There are none for
// the types of nested values.
var unknownStrings, unknownNumbers, unknownBools = notNull(cty.String), notNull(cty.Number), notNull(cty.Bool)

func notNull(ty cty.Type) func() coded {
	return sync.OnceValue(func() coded {
		v := cty.UnknownVal(ty).RefineNotNull()
		data, err := ctymsgpack.Marshal(v, ty)
		if err != nil {
			panic("coding: an unknown value does not encode: " + err.Error())
		}
		return coded{v, data}
	})
}

// unknownNotNull returns the unknown value of a primitive type that is not null; cty.NilVal for other types.
func unknownNotNull(ty cty.Type) coded {
	switch ty {
	case cty.String:
		return unknownStrings()
	case cty.Number:
		return unknownNumbers()
	case cty.Bool:
		return unknownBools()
	}
	return coded{value: cty.NilVal}
}

// shortUnknown decodes an unknown value that is not null, if data begins with one.
func shortUnknown(data []byte, ty cty.Type) (v cty.Value, rest []byte, ok bool) {
	c := unknownNotNull(ty)
	if c.data == nil || !bytes.HasPrefix(data, c.data) {
		return cty.NilVal, nil, false
	}
	return c.value, data[len(c.data):], true
}
