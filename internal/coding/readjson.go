package coding

import (
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"
)

// UnmarshalJSON decodes a value of the given type from cty's JSON form, like cty: without the bounds of DecodeJSON
// for data that is not trusted.
func UnmarshalJSON(data []byte, ty cty.Type) (cty.Value, error) {
	if v, ok := readJSON(data, ty); ok {
		return v, nil
	}
	return ctyjson.Unmarshal(data, ty)
}

// The reader in this file is for the objects in states, because a plan decodes all of them. cty decodes each part of a
// document with a separate decoder, which copies it first: forty times as many allocations. Unusual cases, including
// errors, are left to cty: quoted numbers, deep nesting, types with optional attributes.

// maxShort is the maximum depth of values for the reader, and maxNumeral the maximum length of numbers.
const (
	maxShort   = 32
	maxNumeral = 18
)

// readJSON decodes a value; it returns false for values that are left to cty.
func readJSON(data []byte, ty cty.Type) (cty.Value, bool) {
	r := jsonReader{rest: data}
	v, ok := r.value(ty, maxShort)
	return v, ok && r.peek() == 0 && len(r.rest) == 0
}

// jsonReader decodes values from the front of rest.
type jsonReader struct{ rest []byte }

// peek returns the first byte that is not a space; 0 at the end.
func (r *jsonReader) peek() byte {
	for len(r.rest) > 0 {
		switch c := r.rest[0]; c {
		case ' ', '\t', '\r', '\n':
			r.rest = r.rest[1:]
		default:
			return c
		}
	}
	return 0
}

// take removes the next byte, which must be c.
func (r *jsonReader) take(c byte) bool {
	if r.peek() != c {
		return false
	}
	r.rest = r.rest[1:]
	return true
}

func (r *jsonReader) word(w string) bool {
	if len(r.rest) < len(w) || string(r.rest[:len(w)]) != w {
		return false
	}
	r.rest = r.rest[len(w):]
	return true
}

func (r *jsonReader) value(ty cty.Type, depth int) (cty.Value, bool) {
	c := r.peek()
	switch {
	case depth == 0:
		return cty.NilVal, false
	case c == 'n':
		return cty.NullVal(ty), r.word("null")
	case ty == cty.String:
		text, ok := r.text()
		if !ok {
			return cty.NilVal, false
		}
		return cty.StringVal(text), true
	case ty == cty.Bool && c == 't':
		return cty.True, r.word("true")
	case ty == cty.Bool && c == 'f':
		return cty.False, r.word("false")
	case ty == cty.Number:
		return r.number()
	case ty == cty.DynamicPseudoType:
		return r.dynamic(depth)
	case ty.IsObjectType():
		return r.object(ty.AttributeTypes(), depth)
	case ty.IsMapType():
		return r.mapping(ty.ElementType(), depth)
	case ty.IsListType(), ty.IsSetType():
		return r.elements(ty, depth)
	case ty.IsTupleType():
		return r.tuple(ty.TupleElementTypes(), depth)
	}
	return cty.NilVal, false
}

// raw removes a string and returns it without quotes. plain is set if it contains no escapes.
func (r *jsonReader) raw() (content []byte, plain, ok bool) {
	if !r.take('"') {
		return nil, false, false
	}
	ascii := true
	for i, c := range r.rest {
		switch {
		case c == '"':
			content, r.rest = r.rest[:i], r.rest[i+1:]
			return content, true, ascii || utf8.Valid(content)
		case c == '\\':
			end := skipText(r.rest, i)
			if end == len(r.rest) {
				return nil, false, false
			}
			content, r.rest = r.rest[:end], r.rest[end+1:]
			return content, false, true
		case c < ' ':
			return nil, false, false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return nil, false, false
}

func (r *jsonReader) text() (text string, ok bool) {
	content, plain, ok := r.raw()
	if !ok || plain {
		return string(content), ok
	}
	quoted := make([]byte, 0, len(content)+2)
	quoted = append(append(append(quoted, '"'), content...), '"')
	err := json.Unmarshal(quoted, &text)
	return text, err == nil
}

// number decodes a number without an exponent, with cty's precision.
func (r *jsonReader) number() (cty.Value, bool) {
	end := 0
	for end < len(r.rest) && isDigit(r.rest[end]) {
		end++
	}
	text := string(r.rest[:end])
	if end > maxNumeral {
		return cty.NilVal, false
	}
	r.rest = r.rest[end:]
	whole, fraction, broken := strings.Cut(strings.TrimPrefix(text, "-"), ".")
	switch {
	case !decimal(whole), broken && !decimal(fraction), len(whole) > 1 && whole[0] == '0', text == "-0":
		return cty.NilVal, false
	case broken:
		v, err := cty.ParseNumberVal(text)
		return v, err == nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return cty.NilVal, false
	}
	return cty.NumberVal(new(big.Float).SetPrec(precision).SetInt64(n)), true
}

// decimal reports whether a text consists of one or more digits.
func decimal(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return text != ""
}

// dynamic decodes a value with its type.
func (r *jsonReader) dynamic(depth int) (cty.Value, bool) {
	const before, between, after = `{"value":`, `,"type":`, `}`
	whole := r.rest
	if !r.word(before) {
		return cty.NilVal, false
	}
	if c := r.peek(); c == '{' || c == '[' {
		r.rest = whole
		text, ty, ok := r.typed(depth)
		if !ok {
			return cty.NilVal, false
		}
		part := jsonReader{rest: text}
		v, ok := part.value(ty, depth-1)
		return v, ok && len(part.rest) == 0
	}
	ty := cty.Bool
	switch c := r.peek(); {
	case c == '"':
		ty = cty.String
	case c == '-', c >= '0' && c <= '9':
		ty = cty.Number
	case c == 'n':
		return cty.NilVal, false
	}
	v, ok := r.value(ty, depth-1)
	return v, ok && r.word(between) && r.word(primitiveText(ty)) && r.word(after)
}

// typed removes a value with its type, and returns the text of the value.
func (r *jsonReader) typed(depth int) (value []byte, ty cty.Type, ok bool) {
	skip := func() []byte {
		from := r.rest
		if !r.hasOnly(cty.DynamicPseudoType, depth-1) {
			return nil
		}
		return from[:len(from)-len(r.rest)]
	}
	if !r.word(`{"value":`) {
		return nil, cty.NilType, false
	}
	if value = skip(); value == nil || !r.word(`,"type":`) {
		return nil, cty.NilType, false
	}
	text := skip()
	if text == nil || !r.word("}") {
		return nil, cty.NilType, false
	}
	ty, ok = typeOf(text)
	return value, ty, ok
}

func (r *jsonReader) object(types map[string]cty.Type, depth int) (cty.Value, bool) {
	l := layoutOf(types)
	attrs := make(map[string]cty.Value, len(types))
	at := 0
	ok := r.members(func() bool {
		content, plain, ok := r.raw()
		if !ok || !plain {
			return false
		}
		if at, ok = l.find(at, content); !ok {
			return false
		}
		name := l.names[at]
		if _, twice := attrs[name]; twice || !r.take(':') {
			return false
		}
		attrs[name], ok = r.value(l.types[at], depth-1)
		at++
		return ok
	})
	if !ok {
		return cty.NilVal, false
	}
	if len(attrs) < len(types) {
		for i, name := range l.names {
			if _, there := attrs[name]; !there {
				attrs[name] = cty.NullVal(l.types[i])
			}
		}
	}
	return cty.ObjectVal(attrs), true
}

func (r *jsonReader) mapping(of cty.Type, depth int) (cty.Value, bool) {
	if of.HasDynamicTypes() {
		return cty.NilVal, false // cty panics if the elements have several types
	}
	var elements map[string]cty.Value
	ok := r.members(func() bool {
		key, ok := r.text()
		if !ok || !r.take(':') {
			return false
		}
		if elements == nil {
			elements = map[string]cty.Value{}
		}
		elements[key], ok = r.value(of, depth-1)
		return ok
	})
	switch {
	case !ok:
		return cty.NilVal, false
	case len(elements) == 0:
		return cty.MapValEmpty(of), true
	}
	return cty.MapVal(elements), true
}

// members calls each for the members in braces.
func (r *jsonReader) members(each func() bool) bool {
	return r.take('{') && r.until('}', each)
}

// until calls each for comma-separated elements, up to the end.
func (r *jsonReader) until(end byte, each func() bool) bool {
	if r.take(end) {
		return true
	}
	for {
		if !each() {
			return false
		}
		if r.take(end) {
			return true
		}
		if !r.take(',') {
			return false
		}
	}
}

func (r *jsonReader) elements(ty cty.Type, depth int) (cty.Value, bool) {
	of := ty.ElementType()
	if of.HasDynamicTypes() || !r.take('[') {
		return cty.NilVal, false
	}
	var elements []cty.Value
	ok := r.until(']', func() bool {
		v, ok := r.value(of, depth-1)
		elements = append(elements, v)
		return ok
	})
	switch {
	case !ok:
		return cty.NilVal, false
	case ty.IsSetType() && len(elements) == 0:
		return cty.SetValEmpty(of), true
	case ty.IsSetType():
		return cty.SetVal(elements), true
	case len(elements) == 0:
		return cty.ListValEmpty(of), true
	}
	return cty.ListVal(elements), true
}

func (r *jsonReader) tuple(types []cty.Type, depth int) (cty.Value, bool) {
	if !r.take('[') {
		return cty.NilVal, false
	}
	elements := make([]cty.Value, 0, len(types))
	ok := r.until(']', func() bool {
		if len(elements) == len(types) {
			return false
		}
		v, ok := r.value(types[len(elements)], depth-1)
		elements = append(elements, v)
		return ok
	})
	return cty.TupleVal(elements), ok && len(elements) == len(types)
}

// HasOnly reports whether the objects in the JSON of a value have only attributes of the given type. It may return
// false for JSON that it does not examine completely, such as names with escapes; then the caller must check.
func HasOnly(data []byte, ty cty.Type) bool {
	r := jsonReader{rest: data}
	return r.hasOnly(ty, maxShort) && r.peek() == 0 && len(r.rest) == 0
}

func (r *jsonReader) hasOnly(ty cty.Type, depth int) bool {
	c := r.peek()
	switch {
	case depth == 0:
		return false
	case c == '{' && ty.IsObjectType():
		types := ty.AttributeTypes()
		return r.members(func() bool {
			name, plain, ok := r.raw()
			of, known := types[string(name)]
			return ok && plain && known && r.take(':') && r.hasOnly(of, depth-1)
		})
	case c == '{':
		of := cty.DynamicPseudoType // as for a value with its type
		if ty.IsMapType() {
			of = ty.ElementType()
		}
		return r.members(func() bool {
			_, _, ok := r.raw()
			return ok && r.take(':') && r.hasOnly(of, depth-1)
		})
	case c == '[':
		of := cty.DynamicPseudoType
		if ty.IsListType() || ty.IsSetType() {
			of = ty.ElementType()
		}
		r.take('[')
		return r.until(']', func() bool { return r.hasOnly(of, depth-1) })
	}
	return r.leaf()
}

// leaf removes a value without parts.
func (r *jsonReader) leaf() bool {
	if r.peek() == '"' {
		_, _, ok := r.raw()
		return ok
	}
	return r.word("null") || r.word("true") || r.word("false") || r.numeral()
}

// Fits reports whether UnmarshalJSON can decode the data to the given type, without decoding it. It may return
// false for data that it does not examine completely.
func Fits(data []byte, ty cty.Type) bool {
	r := jsonReader{rest: data}
	return r.fits(ty, maxShort) && r.peek() == 0 && len(r.rest) == 0
}

func (r *jsonReader) fits(ty cty.Type, depth int) bool {
	c := r.peek()
	switch {
	case depth == 0:
		return false
	case c == 'n':
		return r.word("null")
	case ty == cty.String:
		from := r.rest
		_, plain, ok := r.raw()
		return ok && (plain || json.Valid(from[:len(from)-len(r.rest)]))
	case ty == cty.Bool:
		return r.word("true") || r.word("false")
	case ty == cty.Number:
		return r.numeral()
	case ty == cty.DynamicPseudoType:
		value, of, ok := r.typed(depth)
		part := jsonReader{rest: value}
		return ok && part.fits(of, depth-1) && len(part.rest) == 0
	case ty.IsObjectType():
		l, at := layoutOf(ty.AttributeTypes()), 0
		return r.members(func() bool {
			name, plain, ok := r.raw()
			if !ok || !plain || !r.take(':') {
				return false
			}
			at, ok = l.find(at, name)
			if !ok || !r.fits(l.types[at], depth-1) {
				return false
			}
			at++
			return true
		})
	case ty.IsMapType() && !ty.HasDynamicTypes():
		return r.members(func() bool {
			_, plain, ok := r.raw()
			return ok && plain && r.take(':') && r.fits(ty.ElementType(), depth-1)
		})
	case (ty.IsListType() || ty.IsSetType()) && !ty.HasDynamicTypes():
		return r.take('[') && r.until(']', func() bool { return r.fits(ty.ElementType(), depth-1) })
	case ty.IsTupleType():
		types, at := ty.TupleElementTypes(), 0
		return r.take('[') && r.until(']', func() bool {
			at++
			return at <= len(types) && r.fits(types[at-1], depth-1)
		}) && at == len(types)
	}
	return false
}

// numeral removes a number.
func (r *jsonReader) numeral() bool {
	end := 0
	for end < len(r.rest) && isDigit(r.rest[end]) {
		end++
	}
	ok := json.Valid(r.rest[:end])
	r.rest = r.rest[end:]
	return ok
}
