package oss

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
)

// The parts of a row in TableStore's PlainBuffer encoding: a header, a tag before every part, little-endian
// integers of four bytes, and a checksum of each cell and of the row.
const (
	rowHeader      = 0x75
	tagKeys        = 1
	tagData        = 2
	tagCell        = 3
	tagName        = 4
	tagValue       = 5
	tagType        = 6
	tagTime        = 7
	tagDelete      = 8
	tagRowSum      = 9
	tagCellSum     = 10
	variantString  = 3
	errorPlainText = "the row is not in the form of TableStore"
)

// crc returns the 8-bit CRC with the polynomial 0x07.
func crc(sum byte, data ...byte) byte {
	for _, b := range data {
		sum ^= b
		for range 8 {
			if sum&0x80 != 0 {
				sum = sum<<1 ^ 0x07
			} else {
				sum <<= 1
			}
		}
	}
	return sum
}

func length(n int) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(n)) }

// appendCell appends a cell with a text, and returns its checksum.
func appendCell(row []byte, name, value string) ([]byte, byte) {
	row = append(row, tagCell, tagName)
	row = append(append(row, length(len(name))...), name...)
	row = append(row, tagValue)
	row = append(row, length(1+4+len(value))...)
	row = append(row, variantString)
	row = append(append(row, length(len(value))...), value...)
	sum := crc(0, []byte(name)...)
	sum = crc(crc(sum, variantString), length(len(value))...)
	sum = crc(sum, []byte(value)...)
	return append(row, tagCellSum, sum), sum
}

// plainRow encodes a row: its key, its columns, and whether to delete it.
func plainRow(key string, columns map[string]string, remove bool) []byte {
	row, cell := appendCell(append(length(rowHeader), tagKeys), keyColumn, key)
	sum := crc(0, cell)
	if len(columns) > 0 {
		row = append(row, tagData)
		for _, name := range slices.Sorted(maps.Keys(columns)) {
			row, cell = appendCell(row, name, columns[name])
			sum = crc(sum, cell)
		}
	}
	if remove {
		row, sum = append(row, tagDelete), crc(sum, 1)
	} else {
		sum = crc(sum, 0)
	}
	return append(row, tagRowSum, sum)
}

var errPlainRow = errors.New(errorPlainText)

// rowReader decodes a row; after the first error it returns only zero values.
type rowReader struct {
	left []byte
	bad  bool
}

func (r *rowReader) take(n int) []byte {
	if n < 0 || n > len(r.left) {
		r.bad, r.left = true, nil
		return nil
	}
	out := r.left[:n]
	r.left = r.left[n:]
	return out
}

func (r *rowReader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *rowReader) length() int {
	if b := r.take(4); b != nil {
		return int(int32(binary.LittleEndian.Uint32(b)))
	}
	return 0
}

// skip reads a tag if it is next.
func (r *rowReader) skip(tag byte) bool {
	if len(r.left) > 0 && r.left[0] == tag {
		r.left = r.left[1:]
		return true
	}
	return false
}

// readPlainRow decodes a row: its key, and its columns. An empty row has neither.
func readPlainRow(row []byte) (key string, columns map[string]string, err error) {
	columns = map[string]string{}
	if len(row) == 0 {
		return "", columns, nil
	}
	r := &rowReader{left: row}
	if r.length() != rowHeader {
		return "", nil, errPlainRow
	}
	if r.skip(tagKeys) {
		for r.skip(tagCell) {
			if _, value, ok := r.cell(); ok {
				key = value
			}
		}
	}
	if r.skip(tagData) {
		for r.skip(tagCell) {
			if name, value, ok := r.cell(); ok {
				columns[name] = value
			}
		}
	}
	r.skip(tagDelete)
	if !r.skip(tagRowSum) || r.take(1) == nil || r.bad {
		return "", nil, errPlainRow
	}
	return key, columns, nil
}

// cell decodes a cell; ok is false if it does not contain a text.
func (r *rowReader) cell() (name, value string, ok bool) {
	if !r.skip(tagName) {
		r.take(-1)
	}
	name = string(r.take(r.length()))
	if r.skip(tagValue) {
		inner := &rowReader{left: r.take(r.length())}
		if inner.byte() == variantString {
			value, ok = string(inner.take(inner.length())), !inner.bad
		}
	}
	if r.skip(tagType) {
		r.take(1)
	}
	if r.skip(tagTime) {
		r.take(8)
	}
	if !r.skip(tagCellSum) {
		r.take(-1)
	}
	r.take(1)
	return name, value, ok
}
