package coding

import (
	"encoding"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/vmihailenco/msgpack/v5"
)

// A message may have gained fields at the end of its structs, or may come from a program whose structs have fewer
// fields. msgpack refuses an array with another number of fields than its struct has, so fit makes the arrays as long
// as the structs are: it leaves out the elements beyond, and adds nil, which decodes to zero, for those that are
// missing.

// fit returns data with the arrays of structs as long as those of the type, and whether it has changed any. CheckBounds
// must have accepted data. What it does not understand stays as it is, for msgpack to refuse.
func fit(data []byte, t reflect.Type) (fitted []byte, changed bool) {
	f := fitter{in: data, out: make([]byte, 0, len(data)+16)}
	f.value(t)
	if !f.changed || f.broken || len(f.in) > 0 {
		return data, false
	}
	return f.out, true
}

type fitter struct {
	in, out []byte
	changed bool
	broken  bool // the data is no value of the type
}

// raw copies the next value.
func (f *fitter) raw() { f.out = append(f.out, f.skip()...) }

// skip returns the bytes of the next value.
func (f *fitter) skip() []byte {
	rest, err := skipValue(f.in, len(f.in)+1) // the depth was checked
	if err != nil {
		f.broken = true
		return nil
	}
	value := f.in[:len(f.in)-len(rest)]
	f.in = rest
	return value
}

// length reads the header of a list or a map; false if neither follows.
func (f *fitter) length(of form) (n int, ok bool) {
	if len(f.in) == 0 {
		f.broken = true
		return 0, false
	}
	long, rest, ok := lengthOf(f.in, of)
	if !ok || long > uint64(len(rest)) {
		return 0, false
	}
	f.in = rest
	return int(long), true //nolint:gosec // at most the bytes that are left
}

// value copies the next value, which is to be decoded into the type.
func (f *fitter) value(t reflect.Type) {
	for t.Kind() == reflect.Pointer && !opaque(t) {
		t = t.Elem()
	}
	if f.broken || len(f.in) == 0 {
		f.broken = true
		return
	}
	switch {
	case opaque(t):
	case t.Kind() == reflect.Struct:
		if f.structure(t) {
			return
		}
	case (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) && t.Elem().Kind() != reflect.Uint8:
		if n, ok := f.length(array); ok {
			f.out = counted(f.out, n, 0x90, 0xdc)
			for range n {
				f.value(t.Elem())
			}
			return
		}
	case t.Kind() == reflect.Map:
		if n, ok := f.length(mapping); ok {
			f.out = counted(f.out, n, 0x80, 0xde)
			for range n {
				f.raw()
				f.value(t.Elem())
			}
			return
		}
	}
	f.raw()
}

// structure copies a struct, as an array or a map of its fields; it returns false if neither follows.
func (f *fitter) structure(t reflect.Type) bool {
	fields := fieldsOf(t)
	if n, ok := f.length(array); ok {
		if n == 0 { // decodes to the zero value
			f.out = append(f.out, 0x90)
			return true
		}
		f.changed = f.changed || n != len(fields)
		f.out = counted(f.out, len(fields), 0x90, 0xdc)
		for i, field := range fields {
			switch {
			case i < n:
				f.value(field.t)
			case field.t == reflect.TypeFor[time.Time]():
				f.out = appendTime(f.out, time.Time{}) // msgpack does not read nil as a time
			default:
				f.out = append(f.out, 0xc0)
			}
		}
		for range n - len(fields) {
			f.skip()
		}
		return true
	}
	n, ok := f.length(mapping)
	if !ok {
		return false
	}
	f.out = counted(f.out, n, 0x80, 0xde)
	for range n {
		key := f.skip()
		f.out = append(f.out, key...)
		name, _, _ := textOf(key)
		if at := named(fields, string(name)); at >= 0 {
			f.value(fields[at].t)
		} else {
			f.raw()
		}
	}
	return true
}

// codedField is a field of a struct that msgpack codes.
type codedField struct {
	name string
	t    reflect.Type
}

func named(fields []codedField, name string) int {
	for i := range fields {
		if fields[i].name == name {
			return i
		}
	}
	return -1
}

var fieldLists sync.Map // reflect.Type -> []codedField

// fieldsOf returns the fields of a struct in msgpack's order: the exported ones, and those of embedded structs in their
// place.
func fieldsOf(t reflect.Type) []codedField {
	if list, ok := fieldLists.Load(t); ok {
		return list.([]codedField)
	}
	list := []codedField{}
	for i := range t.NumField() {
		field := t.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("msgpack"), ",")
		embedded := field.Type
		if field.Anonymous && embedded.Kind() == reflect.Pointer {
			embedded = embedded.Elem()
		}
		switch {
		case name == "-" || !field.IsExported() && !field.Anonymous:
		case field.Anonymous && embedded.Kind() == reflect.Struct && !opaque(embedded) &&
			!strings.Contains(options, "noinline"):
			list = append(list, fieldsOf(embedded)...)
		case name == "":
			list = append(list, codedField{field.Name, field.Type})
		default:
			list = append(list, codedField{name, field.Type})
		}
	}
	fieldLists.Store(t, list)
	return list
}

var decoding = []reflect.Type{
	reflect.TypeFor[msgpack.CustomDecoder](), reflect.TypeFor[msgpack.Unmarshaler](),
	reflect.TypeFor[encoding.BinaryUnmarshaler](), reflect.TypeFor[encoding.TextUnmarshaler](),
}

var opaqueTypes sync.Map // reflect.Type -> bool

// opaque reports whether a type decodes itself, such as a time.
func opaque(t reflect.Type) bool {
	if is, ok := opaqueTypes.Load(t); ok {
		return is.(bool)
	}
	is := t.Kind() == reflect.Interface
	for _, d := range decoding {
		is = is || t.Implements(d) || reflect.PointerTo(t).Implements(d)
	}
	opaqueTypes.Store(t, is)
	return is
}
