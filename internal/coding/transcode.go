package coding

import (
	"encoding/binary"
	"slices"
	"strconv"

	"github.com/zclconf/go-cty/cty"
)

// ObjectJSON returns the same as EncodeJSON of DecodeValue of data, without making the value. It returns false for
// null, and for objects with uncommon parts: unknown values, texts other than printable ASCII, fractions, sets of
// several elements, tuples, and values of any type that are not primitive. It accepts nothing that DecodeValue rejects.
func ObjectJSON(data []byte, ty cty.Type) ([]byte, bool) {
	if len(data) == 0 || data[0] == 0xc0 || !ty.IsObjectType() {
		return nil, false
	}
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	out, rest, ok := transcode((*buffer)[:0], data, ty, maxShort)
	if !ok || len(rest) > 0 {
		return nil, false
	}
	if cap(out) <= largeBuffer {
		*buffer = out
	}
	return slices.Clone(out), true
}

// transcode appends the JSON of the first value of data, and returns the data after it.
func transcode(b, data []byte, ty cty.Type, depth int) (out, rest []byte, ok bool) {
	switch {
	case len(data) == 0 || depth == 0:
		return nil, nil, false
	case data[0] == 0xc0:
		return inJSON{}.null(b), data[1:], true
	case ty == cty.String:
		text, rest, ok := textOf(data)
		if !ok || !isPlain(text) {
			return nil, nil, false
		}
		return append(append(append(b, '"'), text...), '"'), rest, true
	case ty == cty.Bool:
		return inJSON{}.bool(b, data[0] == 0xc3), data[1:], data[0] == 0xc2 || data[0] == 0xc3
	case ty == cty.Number:
		n, rest, ok := wholeOf(data)
		return strconv.AppendInt(b, n, 10), rest, ok
	case ty == cty.DynamicPseudoType && data[0] == 0x92: // its type and the value
		return transcodeDynamic(b, data[1:], depth)
	case ty.IsObjectType():
		return transcodeObject(b, data, ty, depth)
	case ty.IsListType(), ty.IsSetType():
		return transcodeList(b, data, ty, depth)
	case ty.IsMapType():
		return transcodeMap(b, data, ty.ElementType(), depth)
	}
	return nil, nil, false
}

func transcodeDynamic(b, data []byte, depth int) (out, rest []byte, ok bool) {
	text, data, ok := bytesOf(data)
	if !ok {
		return nil, nil, false
	}
	for _, of := range [...]cty.Type{cty.String, cty.Number, cty.Bool} {
		if name := primitiveText(of); name == string(text) {
			if b, rest, ok = transcode(inJSON{}.before(b, name), data, of, depth-1); !ok {
				return nil, nil, false
			}
			return inJSON{}.after(b, name), rest, true
		}
	}
	return nil, nil, false
}

// transcodeObject appends an object whose attributes are sorted, as EncodeValue writes them.
func transcodeObject(b, data []byte, ty cty.Type, depth int) (out, rest []byte, ok bool) {
	l := layoutOf(ty.AttributeTypes())
	n, data, ok := lengthOf(data, mapping)
	if !ok || n != uint64(len(l.names)) {
		return nil, nil, false
	}
	b = append(b, '{')
	for i, name := range l.names {
		given, value, ok := textOf(data)
		if !ok || string(given) != name {
			return nil, nil, false
		}
		b = append(inJSON{}.text(inJSON{}.next(b, i), name), ':')
		if b, data, ok = transcode(b, value, l.types[i], depth-1); !ok {
			return nil, nil, false
		}
	}
	return append(b, '}'), data, true
}

func transcodeList(b, data []byte, ty cty.Type, depth int) (out, rest []byte, ok bool) {
	of := ty.ElementType()
	n, data, ok := lengthOf(data, array)
	if !ok || of.HasDynamicTypes() || n > 1 && ty.IsSetType() { // the order of a set is that of cty
		return nil, nil, false
	}
	b = append(b, '[')
	for i := range n {
		if b, data, ok = transcode(inJSON{}.next(b, int(min(i, 1))), data, of, depth-1); !ok {
			return nil, nil, false
		}
	}
	return append(b, ']'), data, true
}

// transcodeMap appends a map whose keys are sorted, as EncodeValue writes them.
func transcodeMap(b, data []byte, of cty.Type, depth int) (out, rest []byte, ok bool) {
	n, data, ok := lengthOf(data, mapping)
	if !ok || of.HasDynamicTypes() {
		return nil, nil, false
	}
	b = append(b, '{')
	last := ""
	for i := range n {
		key, value, ok := textOf(data)
		if !ok || !isPlain(key) || i > 0 && string(key) <= last {
			return nil, nil, false
		}
		last = string(key)
		b = append(append(append(inJSON{}.next(b, int(min(i, 1))), '"'), key...), `":`...)
		if b, data, ok = transcode(b, value, of, depth-1); !ok {
			return nil, nil, false
		}
	}
	return append(b, '}'), data, true
}

// isPlain reports whether a text is the same in JSON: printable ASCII without the characters that are escaped. Such a
// text is also in the normal form of Unicode that cty gives all texts.
func isPlain(text []byte) bool {
	for _, c := range text {
		if needsEscape(c) {
			return false
		}
	}
	return true
}

// wholeOf decodes a whole number of up to 32 bits.
func wholeOf(data []byte) (n int64, rest []byte, ok bool) {
	c, width := data[0], 0
	switch data = data[1:]; {
	case c <= 0x7f || c >= 0xe0:
		return int64(int8(c)), data, true //nolint:gosec // two's complement
	case c >= 0xcc && c <= 0xce:
		width = 1 << (c - 0xcc)
	case c >= 0xd0 && c <= 0xd2:
		width = 1 << (c - 0xd0)
	}
	if width == 0 || len(data) < width {
		return 0, nil, false
	}
	switch c {
	case 0xd0:
		n = int64(int8(data[0])) //nolint:gosec // two's complement
	case 0xd1:
		n = int64(int16(binary.BigEndian.Uint16(data))) //nolint:gosec // two's complement
	case 0xd2:
		n = int64(int32(binary.BigEndian.Uint32(data))) //nolint:gosec // two's complement
	default:
		n = int64(number(data, width)) //nolint:gosec // at most 32 bits
	}
	return n, data[width:], true
}
