package coding

import (
	"encoding/binary"
	"errors"
)

// ErrMalformed is the error for bytes that neither Millipede nor a correct provider produces.
var ErrMalformed = errors.New("malformed message")

// CheckBounds scans one msgpack value without decoding it. It fails unless data is exactly one value, not deeper
// than depth, and all its lengths fit into data. So the memory for decoding it is proportional to len(data),
// whatever its origin.
func CheckBounds(data []byte, depth int) error {
	rest, err := skipValue(data, depth)
	if err != nil {
		return err
	}
	if len(rest) != 0 {
		return ErrMalformed
	}
	return nil
}

// skipValue returns the data after the first value.
func skipValue(data []byte, depth int) ([]byte, error) {
	if len(data) == 0 || depth == 0 {
		return nil, ErrMalformed
	}
	c := data[0]
	data = data[1:]
	switch {
	case c <= 0x7f || c >= 0xe0: // small integers
		return data, nil
	case c <= 0x8f:
		return skipValues(data, 2*uint64(c&0x0f), depth)
	case c <= 0x9f:
		return skipValues(data, uint64(c&0x0f), depth)
	case c <= 0xbf:
		return skipBytes(data, uint64(c&0x1f))
	}
	switch c {
	case 0xc0, 0xc2, 0xc3: // nil, false, true
		return data, nil
	case 0xcc, 0xd0:
		return skipBytes(data, 1)
	case 0xcd, 0xd1:
		return skipBytes(data, 2)
	case 0xca, 0xce, 0xd2:
		return skipBytes(data, 4)
	case 0xcb, 0xcf, 0xd3:
		return skipBytes(data, 8)
	case 0xd4, 0xd5, 0xd6, 0xd7, 0xd8: // fixed extensions: a type and 1 to 16 bytes
		return skipBytes(data, 1+uint64(1)<<(c-0xd4))
	}
	var width int
	var extra uint64
	switch c {
	case 0xc4, 0xd9:
		width = 1
	case 0xc5, 0xda:
		width = 2
	case 0xc6, 0xdb:
		width = 4
	case 0xc7:
		width, extra = 1, 1
	case 0xc8:
		width, extra = 2, 1
	case 0xc9:
		width, extra = 4, 1
	case 0xdc, 0xde:
		width = 2
	case 0xdd, 0xdf:
		width = 4
	default:
		return nil, ErrMalformed
	}
	if len(data) < width {
		return nil, ErrMalformed
	}
	n := number(data, width)
	data = data[width:]
	switch c {
	case 0xdc, 0xdd:
		return skipValues(data, n, depth)
	case 0xde, 0xdf:
		return skipValues(data, 2*n, depth)
	}
	return skipBytes(data, n+extra)
}

func skipBytes(data []byte, n uint64) ([]byte, error) {
	if n > uint64(len(data)) {
		return nil, ErrMalformed
	}
	return data[n:], nil
}

func skipValues(data []byte, n uint64, depth int) ([]byte, error) {
	if n > uint64(len(data)) { // each needs at least a byte
		return nil, ErrMalformed
	}
	var err error
	for ; n > 0; n-- {
		if data, err = skipValue(data, depth-1); err != nil {
			return nil, err
		}
	}
	return data, nil
}

// form is the kind of elements that a length counts.
type form byte

const (
	array form = iota
	mapping
	text
)

// lengthOf decodes the header of an array, a map, or of a text or bytes. ok is false for other values.
func lengthOf(data []byte, f form) (n uint64, rest []byte, ok bool) {
	c := data[0]
	switch {
	case f == array && c >= 0x90 && c <= 0x9f, f == mapping && c >= 0x80 && c <= 0x8f:
		return uint64(c & 0x0f), data[1:], true
	case f == text && c >= 0xa0 && c <= 0xbf:
		return uint64(c & 0x1f), data[1:], true
	}
	width := 0
	switch {
	case f == text && (c == 0xc4 || c == 0xd9):
		width = 1
	case f == text && (c == 0xc5 || c == 0xda), f == array && c == 0xdc, f == mapping && c == 0xde:
		width = 2
	case f == text && (c == 0xc6 || c == 0xdb), f == array && c == 0xdd, f == mapping && c == 0xdf:
		width = 4
	}
	if width == 0 || len(data) <= width {
		return 0, nil, false
	}
	return number(data[1:], width), data[1+width:], true
}

// textOf reads a text, or bytes.
func textOf(data []byte) (content, rest []byte, ok bool) {
	if len(data) == 0 {
		return nil, nil, false
	}
	n, rest, ok := lengthOf(data, text)
	if !ok || n > uint64(len(rest)) {
		return nil, nil, false
	}
	return rest[:n], rest[n:], true
}

// number reads an unsigned number of 1, 2 or 4 bytes.
func number(data []byte, width int) uint64 {
	switch width {
	case 1:
		return uint64(data[0])
	case 2:
		return uint64(binary.BigEndian.Uint16(data))
	}
	return uint64(binary.BigEndian.Uint32(data))
}
