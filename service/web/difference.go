package web

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/millipede-iac/millipede/service/outline"
)

// row is a changed or unchanged attribute, or a part of one.
type row struct {
	Path, Before, After string
	// Op is "create", "delete" or "update"; empty if the attribute does not change.
	Op string
	// Replaces says that this attribute is the reason for the replacement of the object.
	Replaces bool
	// Long says that a text has several lines.
	Long bool
}

// Limits of the values that are shown of an object.
const (
	maxRows = 500
	maxText = 8 << 10
)

// difference is the change of an object.
type difference struct {
	Changed, Same []row
	// Left is the number of rows that are not shown.
	Left int
}

// part is a value with its marks.
type part struct {
	value any
	there bool
	// unknown and secret are marks: true if the value is marked, or lists and maps with the marks of its parts.
	unknown, secret any
}

// mark reports whether a mark covers the whole value.
func mark(m any) bool {
	b, ok := m.(bool)
	return ok && b
}

// child returns a part of a value, or of a mark.
func child(v any, key any) any {
	switch k := key.(type) {
	case string:
		if m, ok := v.(map[string]any); ok {
			return m[k]
		}
	case int:
		if l, ok := v.([]any); ok && k < len(l) {
			return l[k]
		}
	}
	if mark(v) {
		return true
	}
	return nil
}

func (p part) child(key any) part {
	c := part{value: child(p.value, key), unknown: child(p.unknown, key), secret: child(p.secret, key)}
	switch v := p.value.(type) {
	case map[string]any:
		_, c.there = v[key.(string)]
	case []any:
		c.there = key.(int) < len(v)
	}
	c.there = c.there && c.value != nil || mark(c.unknown)
	return c
}

// nested reports whether the parts of a value are shown separately.
func (p part) nested() bool {
	if mark(p.unknown) || mark(p.secret) {
		return false
	}
	switch v := p.value.(type) {
	case map[string]any:
		return len(v) > 0 || hasParts(p.unknown)
	case []any:
		return len(v) > 0 || hasParts(p.unknown)
	}
	return false
}

func hasParts(m any) bool {
	switch m := m.(type) {
	case map[string]any:
		return len(m) > 0
	case []any:
		return len(m) > 0
	}
	return false
}

// text formats a value for people.
func (p part) text() string {
	switch {
	case mark(p.unknown):
		return "(known after apply)"
	case !p.there:
		return ""
	case mark(p.secret):
		return "(sensitive value)"
	}
	if _, hidden := p.value.(outline.Hidden); hidden {
		return "(sensitive value)"
	}
	text, ok := p.value.(string)
	if ok && !strings.Contains(text, "\n") {
		text = strconv.Quote(text)
	} else if !ok {
		data, err := json.Marshal(p.value)
		if err != nil {
			data = fmt.Appendf(nil, "(%v)", err)
		}
		text = string(data)
	}
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + fmt.Sprintf("... (%s in all)", size(int64(len(text))))
	}
	return text
}

// differ compares two values. replaces reports whether a path is the reason for a replacement.
func differ(before, after part, replaces func(path string) bool) difference {
	var d difference
	add := func(r row) {
		switch {
		case len(d.Changed)+len(d.Same) >= maxRows:
			d.Left++
		case r.Op == "":
			d.Same = append(d.Same, r)
		default:
			d.Changed = append(d.Changed, r)
		}
	}
	var walk func(path string, x, y part)
	walk = func(path string, x, y part) {
		if !x.there && !y.there {
			return
		}
		if (x.nested() || !x.there || emptyCollection(x.value)) && (y.nested() || !y.there || emptyCollection(y.value)) &&
			(x.nested() || y.nested()) {
			for _, pair := range pairs(x, y) {
				walk(path+pair.step, pair.before, pair.after)
			}
			return
		}
		r := row{Path: strings.TrimPrefix(path, "."), Before: x.text(), After: y.text()}
		r.Replaces = replaces(r.Path)
		r.Long = strings.Contains(r.Before, "\n") || strings.Contains(r.After, "\n")
		switch {
		case !x.there:
			r.Op = "create"
		case !y.there:
			r.Op = "delete"
		case mark(y.unknown) || !reflect.DeepEqual(x.value, y.value):
			r.Op = "update"
		}
		add(r)
	}
	walk("", before, after)
	return d
}

func emptyCollection(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}

// pair has the corresponding parts of two values.
type pair struct {
	step          string
	before, after part
}

// pairs returns the corresponding parts of two values: those of objects and maps by name. Equal elements of
// lists correspond wherever they are, because sets have no order; other elements correspond in their order.
func pairs(x, y part) []pair {
	_, xMap := x.value.(map[string]any)
	_, yMap := y.value.(map[string]any)
	var out []pair
	if xMap || yMap || hasNames(y.unknown) {
		names := map[string]bool{}
		for _, m := range []any{x.value, y.value, y.unknown} {
			if m, ok := m.(map[string]any); ok {
				for name := range m {
					names[name] = true
				}
			}
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			out = append(out, pair{step(name), x.child(name), y.child(name)})
		}
		return out
	}
	xs, _ := x.value.([]any)
	ys, _ := y.value.([]any)
	unknown, _ := y.unknown.([]any)
	n := max(len(ys), len(unknown))
	taken := make([]bool, n)
	var left []int
	if len(xs)*n > 250_000 { // too many pairs to compare
		for i := range max(len(xs), n) {
			out = append(out, pair{fmt.Sprintf("[%d]", i), x.child(i), y.child(i)})
		}
		return out
	}
	for i := range xs {
		same := -1
		for j := range n {
			if c := y.child(j); !taken[j] && c.there && !mark(c.unknown) && !hasParts(c.unknown) &&
				reflect.DeepEqual(xs[i], ys[j]) {
				same = j
				break
			}
		}
		if same < 0 {
			left = append(left, i)
			continue
		}
		taken[same] = true
		out = append(out, pair{fmt.Sprintf("[%d]", same), x.child(i), y.child(same)})
	}
	for j := range n {
		if taken[j] {
			continue
		}
		p := pair{fmt.Sprintf("[%d]", j), part{}, y.child(j)}
		if len(left) > 0 {
			p.before, left = x.child(left[0]), left[1:]
		}
		out = append(out, p)
	}
	for _, i := range left {
		out = append(out, pair{fmt.Sprintf("[%d]", i), x.child(i), part{}})
	}
	return out
}

func hasNames(m any) bool {
	_, ok := m.(map[string]any)
	return ok
}

// step returns the part of a path for an attribute or a key.
func step(name string) string {
	for _, c := range name {
		if c != '_' && c != '-' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return "[" + strconv.Quote(name) + "]"
		}
	}
	return "." + name
}

// planned compares the two sides of a change in the document of a plan.
func planned(text []byte) (difference, error) {
	var c struct {
		Change struct {
			Before        any     `json:"before"`
			After         any     `json:"after"`
			AfterUnknown  any     `json:"after_unknown"`
			BeforeSecret  any     `json:"before_sensitive"`
			AfterSecret   any     `json:"after_sensitive"`
			ReplacedPaths [][]any `json:"replace_paths"`
		} `json:"change"`
	}
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber() // numbers keep every digit
	if err := d.Decode(&c); err != nil {
		return difference{}, err
	}
	paths := map[string]bool{}
	for _, p := range c.Change.ReplacedPaths {
		text := ""
		for _, s := range p {
			switch s := s.(type) {
			case string:
				text += step(s)
			case json.Number:
				text += "[" + s.String() + "]"
			}
		}
		paths[strings.TrimPrefix(text, ".")] = true
	}
	replaces := func(path string) bool {
		for p := range paths {
			if path == p || strings.HasPrefix(path, p) && strings.HasPrefix(path[len(p):], "[") ||
				strings.HasPrefix(path, p+".") {
				return true
			}
		}
		return false
	}
	before := part{value: c.Change.Before, there: c.Change.Before != nil, secret: c.Change.BeforeSecret}
	after := part{value: c.Change.After, unknown: c.Change.AfterUnknown, secret: c.Change.AfterSecret}
	after.there = after.value != nil || mark(after.unknown)
	return differ(before, after, replaces), nil
}

// stated compares the attributes of an object in two versions of a state; nil stands for a missing object.
func stated(before, after map[string]any) difference {
	of := func(m map[string]any) part {
		if m == nil {
			return part{}
		}
		return part{value: m, there: true}
	}
	return differ(of(before), of(after), func(string) bool { return false })
}
