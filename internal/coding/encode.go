package coding

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/big"
	"strconv"
	"sync"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
	ctymsgpack "github.com/zclconf/go-cty/cty/msgpack"
)

// A writer encodes the parts of a value: as msgpack or JSON, byte for byte as cty does.
type writer interface {
	null(b []byte) []byte
	// unknown encodes an unknown value without refinements, or returns false.
	unknown(b []byte) ([]byte, bool)
	bool(b []byte, v bool) []byte
	text(b []byte, s string) []byte
	// rare encodes an attribute using cty; it returns false if that fails.
	rare(b []byte, v cty.Value, ty cty.Type) ([]byte, bool)
	// number returns false for numbers that are left to cty.
	number(b []byte, f *big.Float) ([]byte, bool)
	// before and after write what surrounds a value in a position of dynamic type. typeText is the JSON of its type.
	before(b []byte, typeText string) []byte
	after(b []byte, typeText string) []byte
	// list and object write the header of n elements; next writes the separator before the i-th of them, and
	// between an attribute's name and its value; end writes the terminator.
	list(b []byte, n int) []byte
	object(b []byte, n int) []byte
	next(b []byte, i int) []byte
	colon(b []byte) []byte
	endList(b []byte) []byte
	endObject(b []byte) []byte
}

// buffers are reusable buffers for encoding values of unknown length. Results are copied to their exact size, because
// they are stored for each object.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// largeBuffer is the size above which a buffer is not reused.
const largeBuffer = 64 << 10

// encode encodes a value of the given type; it returns false for values that are left to cty.
func encode[F writer](f F, v cty.Value, ty cty.Type) ([]byte, bool) {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	data, ok := appendValue(f, (*buffer)[:0], v, ty)
	if !ok {
		return nil, false
	}
	if cap(data) <= largeBuffer {
		*buffer = data
	}
	return bytes.Clone(data), true
}

// appendValue appends a value of the given type, and returns false for cases that are left to cty: errors,
// conversions, refinements of unknown values. Most encoded values are objects of primitive attributes and
// collections of them; cty's encoder, which builds a path to each attribute and first checks the conformance of all
// types, took a tenth of an apply's CPU time.
func appendValue[F writer](f F, b []byte, v cty.Value, ty cty.Type) ([]byte, bool) {
	if v.IsMarked() {
		return nil, false
	}
	of := v.Type()
	switch {
	case !v.IsKnown() && (ty != cty.DynamicPseudoType || of == ty):
		if !of.Equals(ty) || !v.RawEquals(cty.UnknownVal(of)) {
			return nil, false
		}
		return f.unknown(b)
	case ty == cty.DynamicPseudoType:
		if of == cty.DynamicPseudoType { // it is known, so it is null
			return f.null(b), true
		}
		text := primitiveText(of)
		if text == "" {
			// Each value has its own maps of types; those of the remembered type have layouts.
			if text, of = described(of); text == "" {
				return nil, false
			}
		}
		b, ok := appendValue(f, f.before(b, text), v, of)
		if !ok {
			return nil, false
		}
		return f.after(b, text), true
	case ty.IsPrimitiveType():
		if of != ty {
			return nil, false
		}
		return appendPrimitive(f, b, v)
	case ty.IsObjectType():
		return appendObject(f, b, v, ty)
	case !of.Equals(ty):
		return nil, false
	case v.IsNull():
		return f.null(b), true
	case ty.IsListType(), ty.IsSetType():
		return appendList(f, b, v, ty.ElementType())
	case ty.IsMapType():
		return appendMap(f, b, v, ty.ElementType())
	case ty.IsTupleType():
		return appendTuple(f, b, v, ty.TupleElementTypes())
	}
	return nil, false
}

// primitiveText returns the JSON of a primitive type; empty for other types.
func primitiveText(ty cty.Type) string {
	switch ty {
	case cty.String:
		return `"string"`
	case cty.Number:
		return `"number"`
	case cty.Bool:
		return `"bool"`
	}
	return ""
}

func appendPrimitive[F writer](f F, b []byte, v cty.Value) ([]byte, bool) {
	if v.IsNull() {
		return f.null(b), true
	}
	switch v.Type() {
	case cty.String:
		return f.text(b, v.AsString()), true
	case cty.Bool:
		return f.bool(b, v.True()), true
	}
	return f.number(b, v.AsBigFloat())
}

func appendObject[F writer](f F, b []byte, v cty.Value, ty cty.Type) ([]byte, bool) {
	types := ty.AttributeTypes()
	if of := v.Type(); !of.IsObjectType() || len(of.AttributeTypes()) != len(types) {
		return nil, false
	}
	if v.IsNull() {
		if !v.Type().Equals(ty) {
			return nil, false
		}
		return f.null(b), true
	}
	l := layoutOf(types)
	has := v.Type().AttributeTypes()
	b = f.object(b, len(l.names))
	for i, name := range l.names {
		if _, ok := has[name]; !ok {
			return nil, false
		}
		b = f.colon(f.text(f.next(b, i), name))
		attribute := v.GetAttr(name)
		longer, ok := appendValue(f, b, attribute, l.types[i])
		if !ok {
			if longer, ok = f.rare(b, attribute, l.types[i]); !ok {
				return nil, false
			}
		}
		b = longer
	}
	return f.endObject(b), true
}

func appendList[F writer](f F, b []byte, v cty.Value, of cty.Type) ([]byte, bool) {
	b = f.list(b, v.LengthInt())
	i := 0
	for it := v.ElementIterator(); it.Next(); i++ {
		_, element := it.Element()
		var ok bool
		if b, ok = appendValue(f, f.next(b, i), element, of); !ok {
			return nil, false
		}
	}
	return f.endList(b), true
}

func appendTuple[F writer](f F, b []byte, v cty.Value, types []cty.Type) ([]byte, bool) {
	b = f.list(b, len(types))
	i := 0
	for it := v.ElementIterator(); it.Next(); i++ {
		_, element := it.Element()
		var ok bool
		if b, ok = appendValue(f, f.next(b, i), element, types[i]); !ok {
			return nil, false
		}
	}
	return f.endList(b), true
}

func appendMap[F writer](f F, b []byte, v cty.Value, of cty.Type) ([]byte, bool) {
	b = f.object(b, v.LengthInt())
	i := 0
	for it := v.ElementIterator(); it.Next(); i++ {
		key, element := it.Element()
		b = f.colon(f.text(f.next(b, i), key.AsString()))
		var ok bool
		if b, ok = appendValue(f, b, element, of); !ok {
			return nil, false
		}
	}
	return f.endObject(b), true
}

// inMsgpack encodes to msgpack with the shortest form of integers.
type inMsgpack struct{}

func (inMsgpack) null(b []byte) []byte { return append(b, 0xc0) }

func (inMsgpack) unknown(b []byte) ([]byte, bool) { return append(b, 0xd4, 0, 0), true }

func (inMsgpack) rare(b []byte, v cty.Value, ty cty.Type) ([]byte, bool) {
	if unknown := unknownNotNull(ty); !v.IsMarked() && !v.IsKnown() && v.RawEquals(unknown.value) {
		return append(b, unknown.data...), true
	}
	data, err := ctymsgpack.Marshal(v, ty)
	return append(b, data...), err == nil
}

func (inMsgpack) bool(b []byte, v bool) []byte {
	if v {
		return append(b, 0xc3)
	}
	return append(b, 0xc2)
}

func (inMsgpack) text(b []byte, s string) []byte {
	switch n := len(s); {
	case n < 32:
		b = append(b, 0xa0|byte(n))
	case n <= math.MaxUint8:
		b = append(b, 0xd9, byte(n))
	case n <= math.MaxUint16:
		b = binary.BigEndian.AppendUint16(append(b, 0xda), uint16(n))
	default:
		b = binary.BigEndian.AppendUint32(append(b, 0xdb), uint32(n))
	}
	return append(b, s...)
}

// number encodes small integers, which most numbers are.
func (inMsgpack) number(b []byte, f *big.Float) ([]byte, bool) {
	n, accuracy := f.Int64()
	if accuracy != big.Exact || n < 0 || n > math.MaxUint16 {
		return nil, false
	}
	switch {
	case n <= math.MaxInt8:
		return append(b, byte(n)), true
	case n <= math.MaxUint8:
		return append(b, 0xcc, byte(n)), true
	default:
		return binary.BigEndian.AppendUint16(append(b, 0xcd), uint16(n)), true
	}
}

func (inMsgpack) before(b []byte, typeText string) []byte {
	b = append(b, 0x92)
	switch n := len(typeText); {
	case n <= math.MaxUint8:
		b = append(b, 0xc4, byte(n))
	case n <= math.MaxUint16:
		b = binary.BigEndian.AppendUint16(append(b, 0xc5), uint16(n))
	default:
		b = binary.BigEndian.AppendUint32(append(b, 0xc6), uint32(n))
	}
	return append(b, typeText...)
}

func (inMsgpack) after(b []byte, _ string) []byte { return b }

func (inMsgpack) list(b []byte, n int) []byte { return counted(b, n, 0x90, 0xdc) }

func (inMsgpack) object(b []byte, n int) []byte { return counted(b, n, 0x80, 0xde) }

// counted writes a number of elements: in the byte small if there are few, else after the byte large, or the one
// after it.
func counted(b []byte, n int, small, large byte) []byte {
	switch {
	case n < 16:
		return append(b, small|byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, large), uint16(n))
	default:
		return binary.BigEndian.AppendUint32(append(b, large+1), uint32(n))
	}
}

func (inMsgpack) next(b []byte, _ int) []byte { return b }
func (inMsgpack) colon(b []byte) []byte       { return b }
func (inMsgpack) endList(b []byte) []byte     { return b }
func (inMsgpack) endObject(b []byte) []byte   { return b }

// inJSON encodes to cty's JSON form of values.
type inJSON struct{}

func (inJSON) null(b []byte) []byte { return append(b, "null"...) }

func (inJSON) unknown([]byte) ([]byte, bool) { return nil, false }

func (inJSON) rare(b []byte, v cty.Value, ty cty.Type) ([]byte, bool) {
	if v.IsMarked() || !v.IsKnown() {
		return nil, false
	}
	data, err := ctyjson.Marshal(v, ty)
	return append(b, data...), err == nil
}

func (inJSON) bool(b []byte, v bool) []byte {
	if v {
		return append(b, "true"...)
	}
	return append(b, "false"...)
}

func (inJSON) text(b []byte, s string) []byte {
	for i := range len(s) {
		if needsEscape(s[i]) {
			quoted, _ := json.Marshal(s) // a string always has JSON
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// needsEscape reports whether a text with this byte is left to encoding/json.
func needsEscape(c byte) bool {
	return c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&'
}

func (inJSON) number(b []byte, f *big.Float) ([]byte, bool) {
	if f.IsInf() {
		return nil, false
	}
	// Whole numbers below 2^53 have the same text, and need a tenth of the time. Minus zero has a text of its own.
	const exact = 1 << 53
	if n, accuracy := f.Int64(); accuracy == big.Exact && f.Prec() >= 53 && -exact < n && n < exact &&
		(n != 0 || !f.Signbit()) {
		return strconv.AppendInt(b, n, 10), true
	}
	return f.Append(b, 'f', -1), true
}

func (inJSON) before(b []byte, _ string) []byte { return append(b, `{"value":`...) }

func (inJSON) after(b []byte, typeText string) []byte {
	return append(append(append(b, `,"type":`...), typeText...), '}')
}

func (inJSON) list(b []byte, _ int) []byte { return append(b, '[') }

func (inJSON) object(b []byte, _ int) []byte { return append(b, '{') }

func (inJSON) next(b []byte, i int) []byte {
	if i == 0 {
		return b
	}
	return append(b, ',')
}

func (inJSON) colon(b []byte) []byte     { return append(b, ':') }
func (inJSON) endList(b []byte) []byte   { return append(b, ']') }
func (inJSON) endObject(b []byte) []byte { return append(b, '}') }
