package coding

import (
	"bytes"
	"encoding/binary"
	"math"
	"sync"
	"time"
)

// Row writes or reads the fields of structs by their position, in the form of Marshal. One function names the fields of
// a struct for both directions. That takes a third of the time of msgpack's reflection, and allocates only what the
// struct keeps.
//
// A Row knows the usual form only, with the bounds of Unmarshal: no length goes beyond the message, and no value is
// deeper than the structs are. Everything else is left to Marshal and Unmarshal.
type Row struct {
	data    []byte // the bytes that were written, or those that are not read yet
	reading bool
	unusual bool // the message is left to reflection
}

// rows are reusable buffers for writing.
var rows = sync.Pool{New: func() any { return new(Row) }}

// MarshalRow returns the encoding that Marshal returns for a struct. It returns false if only Marshal can encode it.
func MarshalRow(fields func(*Row)) ([]byte, bool) {
	r := rows.Get().(*Row)
	*r = Row{data: r.data[:0]}
	fields(r)
	data, ok := []byte(nil), !r.unusual
	if ok {
		data = bytes.Clone(r.data)
	}
	if cap(r.data) <= maxPooled {
		rows.Put(r)
	}
	return data, ok
}

// UnmarshalRow reads a struct as Unmarshal does. It returns false if the message is left to that, because it is
// malformed or unusual; the struct may have some of the fields then. The struct does not share memory with data.
func UnmarshalRow(data []byte, fields func(*Row)) bool {
	r := rows.Get().(*Row)
	own := r.data
	*r = Row{data: data, reading: true}
	fields(r)
	ok := !r.unusual && len(r.data) == 0
	*r = Row{data: own}
	rows.Put(r)
	return ok
}

// Reading reports whether the fields are read.
func (r *Row) Reading() bool { return r.reading }

// Struct begins a struct of n fields. The caller must write all of them next.
func (r *Row) Struct(n int) {
	switch {
	case !r.reading && n < 16:
		r.data = append(r.data, 0x90|byte(n))
	case !r.reading:
		r.data = append(r.data, 0xdc, byte(n>>8), byte(n))
	default:
		if have, ok := r.length(array); ok && have != uint64(n) {
			r.unusual = true
		}
	}
}

// Pointer writes or reads a pointer to a struct, whose fields follow if it returns true; it is nil otherwise.
func Pointer[T any](r *Row, p **T) bool {
	if r.null(*p == nil) {
		return false
	}
	if r.reading && !r.unusual {
		*p = new(T)
	}
	return *p != nil
}

// Rare is for a field that is usually nil. With a value the whole message is left to reflection.
func (r *Row) Rare(isNil bool) {
	if !r.null(isNil) {
		r.unusual = true
	}
}

// Text writes or reads a text.
func (r *Row) Text(s *string) {
	if !r.reading {
		r.data = append(appendLength(r.data, len(*s), 0xd9, 0xa0, 32), *s...)
		return
	}
	if r.code() != 0xc0 && !r.isBytes() {
		if content, ok := r.content(); ok {
			*s = string(content)
		}
		return
	}
	r.unusual = true
}

// Bytes writes or reads bytes, which may be nil.
func (r *Row) Bytes(b *[]byte) {
	if r.null(*b == nil) {
		return
	}
	if !r.reading {
		r.data = append(appendLength(r.data, len(*b), 0xc4, 0, 0), *b...)
		return
	}
	if !r.isBytes() {
		r.unusual = true
		return
	}
	if content, ok := r.content(); ok {
		*b = append(make([]byte, 0, len(content)), content...)
	}
}

// Texts writes or reads a list of texts.
func (r *Row) Texts(list *[]string) { each(r, list, (*Row).Text) }

// ByteLists writes or reads a list of bytes.
func (r *Row) ByteLists(list *[][]byte) { each(r, list, (*Row).Bytes) }

// each writes or reads a list, which may be nil.
func each[T any](r *Row, list *[]T, one func(*Row, *T)) {
	if r.null(*list == nil) {
		return
	}
	if !r.reading {
		r.data = appendLength(r.data, len(*list), 0xdb, 0x90, 16)
	} else if n, ok := r.length(array); ok {
		*list = make([]T, n) // each element has a byte at least
	}
	for i := range *list {
		one(r, &(*list)[i])
	}
}

// Bool writes or reads a bool.
func (r *Row) Bool(b *bool) {
	switch c := byte(0xc2); {
	case !r.reading && *b:
		r.data = append(r.data, 0xc3)
	case !r.reading:
		r.data = append(r.data, c)
	case r.code() == c, r.code() == 0xc3:
		*b = r.data[0] == 0xc3
		r.data = r.data[1:]
	default:
		r.unusual = true
	}
}

// Int writes or reads a number in its shortest form.
func (r *Row) Int(n *int64) {
	if !r.reading {
		r.data = appendInt(r.data, *n)
		return
	}
	c := r.code()
	switch {
	case c <= 0x7f && len(r.data) > 0, c >= 0xe0:
		*n = int64(int8(c)) //nolint:gosec // of a negative number it is the two's complement
		r.data = r.data[1:]
		return
	case c < 0xcc || c > 0xd3:
		r.unusual = true
		return
	}
	width := 1 << ((c - 0xcc) % 4)
	if len(r.data) <= width {
		r.unusual = true
		return
	}
	var wide [8]byte
	copy(wide[8-width:], r.data[1:1+width])
	u, unused := binary.BigEndian.Uint64(wide[:]), 64-8*width
	switch {
	case c >= 0xd0:
		*n = int64(u<<unused) >> unused //nolint:gosec // two's complement
	case u > math.MaxInt64:
		r.unusual = true
		return
	default:
		*n = int64(u)
	}
	r.data = r.data[1+width:]
}

// Time writes or reads a time.
func (r *Row) Time(t *time.Time) {
	if !r.reading {
		r.data = appendTime(r.data, *t)
		return
	}
	content := func(header, n int) []byte {
		if len(r.data) < header+n || r.data[header-1] != 0xff {
			r.unusual = true
			return make([]byte, n)
		}
		b := r.data[header : header+n]
		r.data = r.data[header+n:]
		return b
	}
	switch c := r.code(); {
	case c == 0xd6:
		*t = time.Unix(int64(binary.BigEndian.Uint32(content(2, 4))), 0)
	case c == 0xd7:
		u := binary.BigEndian.Uint64(content(2, 8))
		*t = time.Unix(int64(u&0x3ffffffff), int64(u>>34)) //nolint:gosec // 34 and 30 bits
	case c == 0xc7 && len(r.data) > 1 && r.data[1] == 12:
		b := content(3, 12)
		*t = time.Unix(int64(binary.BigEndian.Uint64(b[4:])), //nolint:gosec // two's complement
			int64(binary.BigEndian.Uint32(b)))
	default:
		r.unusual = true
	}
	if t.IsZero() {
		*t = t.UTC() // as msgpack does
	}
}

// null writes nil if that is so, and reports whether it has written or read nil.
func (r *Row) null(is bool) bool {
	switch {
	case !r.reading && is:
		r.data = append(r.data, 0xc0)
		return true
	case !r.reading:
		return false
	}
	if r.code() == 0xc0 {
		r.data = r.data[1:]
		return true
	}
	return false
}

// code returns the first unread byte. At the end of the message it returns 0, and marks the message as unusual.
func (r *Row) code() byte {
	if len(r.data) == 0 {
		r.unusual = true
		return 0
	}
	return r.data[0]
}

// isBytes reports whether bytes follow, which are not a text.
func (r *Row) isBytes() bool { c := r.code(); return c >= 0xc4 && c <= 0xc6 }

// length reads the length of a list. It is at most the number of the bytes that are left.
func (r *Row) length(f form) (n uint64, ok bool) {
	if len(r.data) > 0 {
		var rest []byte
		if n, rest, ok = lengthOf(r.data, f); ok && n <= uint64(len(rest)) {
			r.data = rest
			return n, true
		}
	}
	r.unusual = true
	return 0, false
}

// content reads a text or bytes. They share memory with the message.
func (r *Row) content() (content []byte, ok bool) {
	content, rest, ok := textOf(r.data)
	if !ok {
		r.unusual = true
		return nil, false
	}
	r.data = rest
	return content, true
}

// appendLength appends the header of a text, bytes or a list: fixed with the length for less than few, else wide, or
// the one or two codes behind that for more than a byte. A list has no code for one byte.
func appendLength(b []byte, n int, wide, fixed byte, few int) []byte {
	switch {
	case n < few:
		return append(b, fixed|byte(n))
	case n <= math.MaxUint8 && wide != 0xdb:
		return append(b, wide, byte(n))
	case n <= math.MaxUint16:
		return append(b, wide+1, byte(n>>8), byte(n))
	}
	return binary.BigEndian.AppendUint32(append(b, wide+2), uint32(n)) //nolint:gosec // messages are shorter
}

func appendInt(b []byte, n int64) []byte {
	switch {
	case n >= -32 && n <= math.MaxInt8:
		return append(b, byte(n))
	case n >= 0 && n <= math.MaxUint8:
		return append(b, 0xcc, byte(n))
	case n >= 0 && n <= math.MaxUint16:
		return append(b, 0xcd, byte(n>>8), byte(n))
	case n >= 0 && n <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(b, 0xce), uint32(n))
	case n >= 0:
		return binary.BigEndian.AppendUint64(append(b, 0xcf), uint64(n))
	case n >= math.MinInt8:
		return append(b, 0xd0, byte(n))
	case n >= math.MinInt16:
		return append(b, 0xd1, byte(n>>8), byte(n))
	case n >= math.MinInt32:
		return binary.BigEndian.AppendUint32(append(b, 0xd2), uint32(n)) //nolint:gosec // two's complement
	}
	return binary.BigEndian.AppendUint64(append(b, 0xd3), uint64(n)) //nolint:gosec // two's complement
}

func appendTime(b []byte, t time.Time) []byte {
	seconds, nanoseconds := uint64(t.Unix()), uint64(t.Nanosecond()) //nolint:gosec // two's complement
	switch {
	case seconds>>34 != 0:
		b = binary.BigEndian.AppendUint32(append(b, 0xc7, 12, 0xff), uint32(nanoseconds))
		return binary.BigEndian.AppendUint64(b, seconds)
	case nanoseconds == 0 && seconds <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(b, 0xd6, 0xff), uint32(seconds))
	}
	return binary.BigEndian.AppendUint64(append(b, 0xd7, 0xff), nanoseconds<<34|seconds)
}
