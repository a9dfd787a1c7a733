package wire

import (
	"encoding/binary"
	"errors"
)

// How deep values nest at most: messages, and schemas, whose blocks hold blocks.
const (
	messageDepth = 16
	schemasDepth = 256
)

var errMalformed = errors.New("malformed message")

// CheckBounds walks one msgpack value without decoding it. It fails unless data is exactly one value, no deeper than
// depth, whose lengths all fit into data; so decoding it afterwards allocates in proportion to len(data), whoever
// wrote it.
func CheckBounds(data []byte, depth int) error {
	rest, err := skipValue(data, depth)
	if err != nil {
		return err
	}
	if len(rest) != 0 {
		return errMalformed
	}
	return nil
}

// skipValue returns what follows the first value of data.
func skipValue(data []byte, depth int) ([]byte, error) {
	if len(data) == 0 || depth == 0 {
		return nil, errMalformed
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
	width, extra := 0, uint64(0)
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
		return nil, errMalformed
	}
	if len(data) < width {
		return nil, errMalformed
	}
	var n uint64
	switch width {
	case 1:
		n = uint64(data[0])
	case 2:
		n = uint64(binary.BigEndian.Uint16(data))
	case 4:
		n = uint64(binary.BigEndian.Uint32(data))
	}
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
		return nil, errMalformed
	}
	return data[n:], nil
}

func skipValues(data []byte, n uint64, depth int) ([]byte, error) {
	if n > uint64(len(data)) { // each takes at least a byte
		return nil, errMalformed
	}
	var err error
	for ; n > 0; n-- {
		if data, err = skipValue(data, depth-1); err != nil {
			return nil, err
		}
	}
	return data, nil
}
