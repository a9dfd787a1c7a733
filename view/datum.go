package view

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/marks"
)

// datum is a value for comparison: without types, with its unknown and sensitive parts marked. An absent value is a
// nil datum; an explicit null has kind nullKind. Immutable.
type datum struct {
	kind datumKind
	// text is a number's digits, a string, or true and false.
	text  string
	items []*datum          // of a sequence
	attrs map[string]*datum // of an object or map

	unknown   bool // then the kind is nullKind
	sensitive bool
}

type datumKind byte

const (
	nullKind datumKind = iota
	boolKind
	numberKind
	stringKind
	sequenceKind
	mappingKind
)

var unknownDatum = &datum{unknown: true}

// datumOf returns the datum of a value; nil for cty.NilVal.
func datumOf(v cty.Value) *datum {
	if v == cty.NilVal {
		return nil
	}
	d := &datum{}
	if v.IsMarked() {
		d.sensitive = v.HasMark(marks.Sensitive)
		v, _ = v.Unmark()
	}
	ty := v.Type()
	switch {
	case !v.IsKnown():
		d.unknown = true
	case v.IsNull():
	case ty == cty.Bool:
		d.kind, d.text = boolKind, strconv.FormatBool(v.True())
	case ty == cty.Number:
		d.kind, d.text = numberKind, v.AsBigFloat().Text('f', -1)
	case ty == cty.String:
		d.kind, d.text = stringKind, v.AsString()
	case ty.IsObjectType() || ty.IsMapType():
		d.kind, d.attrs = mappingKind, make(map[string]*datum, v.LengthInt())
		for it := v.ElementIterator(); it.Next(); {
			k, ev := it.Element()
			k, _ = k.Unmark()
			d.attrs[k.AsString()] = datumOf(ev)
		}
	case ty.IsListType() || ty.IsSetType() || ty.IsTupleType():
		d.kind, d.items = sequenceKind, make([]*datum, 0, v.LengthInt())
		for it := v.ElementIterator(); it.Next(); {
			_, ev := it.Element()
			d.items = append(d.items, datumOf(ev))
		}
	default: // a capsule has nothing to show
		d.kind, d.text = stringKind, ty.FriendlyName()
	}
	return d
}

// jsonDatum decodes a string that contains a JSON object or array, as policies and definitions often do.
func jsonDatum(s string) (*datum, bool) {
	if !strings.HasPrefix(s, "{") && !strings.HasPrefix(s, "[") {
		return nil, false
	}
	dec := json.NewDecoder(strings.NewReader(s))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil || len(bytes.TrimSpace([]byte(s[dec.InputOffset():]))) > 0 {
		return nil, false
	}
	return decodedDatum(v), true
}

// formDatum returns the datum of a value in its JSON form, with the forms that mark its unknown and sensitive
// parts.
func formDatum(value, unknown, sensitive json.RawMessage) *datum {
	return shadedDatum(decodedForm(value), decodedForm(unknown), decodedForm(sensitive))
}

func decodedForm(form json.RawMessage) any {
	if form == nil {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(form))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		panic("view: a form that is no JSON: " + err.Error())
	}
	return v
}

func shadedDatum(v, unknown, sensitive any) *datum {
	d := decodedDatum(v)
	if unknown == true {
		d = &datum{unknown: true}
	}
	unknowns, _ := unknown.(map[string]any)
	hidden, _ := sensitive.(map[string]any)
	if m, ok := v.(map[string]any); ok {
		for name := range unknowns {
			d.attrs[name] = shadedDatum(m[name], unknowns[name], hidden[name])
		}
		for name := range hidden {
			d.attrs[name] = shadedDatum(m[name], unknowns[name], hidden[name])
		}
	}
	if l, ok := v.([]any); ok {
		unknowns, _ := unknown.([]any)
		hidden, _ := sensitive.([]any)
		for i := range l {
			d.items[i] = shadedDatum(l[i], at(unknowns, i), at(hidden, i))
		}
	}
	d.sensitive = sensitive == true
	return d
}

func at(list []any, i int) any {
	if i >= len(list) {
		return nil
	}
	return list[i]
}

func decodedDatum(v any) *datum {
	switch v := v.(type) {
	case bool:
		return &datum{kind: boolKind, text: strconv.FormatBool(v)}
	case json.Number:
		return &datum{kind: numberKind, text: v.String()}
	case string:
		return &datum{kind: stringKind, text: v}
	case []any:
		d := &datum{kind: sequenceKind, items: make([]*datum, len(v))}
		for i, e := range v {
			d.items[i] = decodedDatum(e)
		}
		return d
	case map[string]any:
		d := &datum{kind: mappingKind, attrs: make(map[string]*datum, len(v))}
		for k, e := range v {
			d.attrs[k] = decodedDatum(e)
		}
		return d
	default:
		return &datum{}
	}
}

func (d *datum) isUnknown() bool   { return d != nil && d.unknown }
func (d *datum) isSensitive() bool { return d != nil && d.sensitive }

// nothing reports whether there is no value to show: the value is absent, null or unknown.
func (d *datum) nothing() bool { return d == nil || d.kind == nullKind }

// bare returns the datum without its own sensitivity.
func (d *datum) bare() *datum {
	if !d.isSensitive() {
		return d
	}
	c := *d
	c.sensitive = false
	return &c
}

// attr returns an attribute or element by name, nil when there is none.
func (d *datum) attr(name string) *datum {
	if d == nil {
		return nil
	}
	return d.attrs[name]
}

// item returns an element by its index, nil when there is none.
func (d *datum) item(i int) *datum {
	if d == nil || i >= len(d.items) {
		return nil
	}
	return d.items[i]
}

func (d *datum) len() int {
	if d == nil {
		return 0
	}
	return len(d.items)
}

// key returns a text that is the same for equal data. Sensitivity is ignored. Unknown attributes are treated as
// absent, because that is how they compare with stored values.
func (d *datum) key() string {
	if d == nil {
		return ""
	}
	return string(d.appendKey(nil))
}

func (d *datum) appendKey(b []byte) []byte {
	b = append(b, byte('0'+d.kind))
	switch d.kind {
	case sequenceKind:
		b = strconv.AppendInt(b, int64(len(d.items)), 10)
		b = append(b, '[')
		for _, e := range d.items {
			b = e.appendKey(b)
		}
	case mappingKind:
		b = append(b, '{')
		for _, name := range slices.Sorted(maps.Keys(d.attrs)) {
			if a := d.attrs[name]; !a.unknown {
				b = strconv.AppendQuote(b, name)
				b = a.appendKey(b)
			}
		}
		b = append(b, '}')
	default:
		b = strconv.AppendInt(b, int64(len(d.text)), 10)
		b = append(b, ':')
		b = append(b, d.text...)
	}
	return b
}

// same reports whether two data have the same key.
func same(a, b *datum) bool {
	switch {
	case a == nil || b == nil:
		return a == nil && b == nil
	case a.kind != b.kind || a.text != b.text || len(a.items) != len(b.items):
		return false
	case a.kind == sequenceKind:
		for i := range a.items {
			if !same(a.items[i], b.items[i]) {
				return false
			}
		}
		return true
	case a.kind == mappingKind:
		return within(a, b) && within(b, a)
	}
	return true
}

// within reports whether every known attribute of a has the same value in b.
func within(a, b *datum) bool {
	for name, av := range a.attrs {
		bv := b.attrs[name]
		if av.unknown {
			continue
		}
		if bv == nil || bv.unknown || !same(av, bv) {
			return false
		}
	}
	return true
}

// open returns the datum without sensitivity marks at any depth.
func (d *datum) open() *datum {
	if d == nil {
		return nil
	}
	c := *d
	c.sensitive = false
	if d.items != nil {
		c.items = make([]*datum, len(d.items))
		for i, e := range d.items {
			c.items[i] = e.open()
		}
	}
	if d.attrs != nil {
		c.attrs = make(map[string]*datum, len(d.attrs))
		for k, e := range d.attrs {
			c.attrs[k] = e.open()
		}
	}
	return &c
}

// hidden returns the datum as sensitive.
func (d *datum) hidden() *datum {
	if d == nil {
		return nil
	}
	c := *d
	c.sensitive = true
	return &c
}
