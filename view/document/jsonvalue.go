// Package document makes the JSON documents and message lines that programs read: plans, states, configurations,
// schemas, diagnostics, test results, and the events of a run.
//
// Their fields and format versions are those of OpenTofu; they do not change without a new version. Text for people is
// in package view.
package document

import (
	"encoding/json"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/marks"
)

// The format versions of the JSON forms.
const (
	planFormat    = "1.2"
	stateFormat   = "1.0"
	schemasFormat = "1.0"
)

// Raw returns the JSON of a value without marks. Unknown attributes of objects and elements of maps are left out;
// unknown elements of lists become null. nil stands for null.
func Raw(v cty.Value) json.RawMessage {
	if v == cty.NilVal {
		return nil
	}
	if b, ok := coding.QuickJSON(v); ok { // nothing in it is marked or unknown
		return b
	}
	v, _ = v.UnmarkDeep()
	v = withoutUnknown(v)
	if v == cty.NilVal || v.IsNull() {
		return json.RawMessage("null")
	}
	b, err := coding.EncodeJSON(v, v.Type())
	if err != nil {
		panic("view: a known value has no JSON: " + err.Error())
	}
	return b
}

func withoutUnknown(v cty.Value) cty.Value {
	ty := v.Type()
	switch {
	case !v.IsKnown():
		return cty.NilVal
	case v.IsNull() || v.IsWhollyKnown():
		return v
	case ty.IsObjectType() || ty.IsMapType():
		attrs := map[string]cty.Value{}
		for it := v.ElementIterator(); it.Next(); {
			k, ev := it.Element()
			if ev = withoutUnknown(ev); ev != cty.NilVal {
				attrs[k.AsString()] = ev
			}
		}
		return cty.ObjectVal(attrs)
	default:
		var elements []cty.Value
		for it := v.ElementIterator(); it.Next(); {
			_, ev := it.Element()
			if ev = withoutUnknown(ev); ev == cty.NilVal {
				ev = cty.NullVal(cty.DynamicPseudoType)
			}
			elements = append(elements, ev)
		}
		return cty.TupleVal(elements)
	}
}

// asBool returns the JSON of a value of the same shape, with true where test returns true. Attributes without true
// are left out of objects. The form is used for after_unknown and sensitive values.
func asBool(v cty.Value, test func(cty.Value) bool) json.RawMessage {
	return appendBool(make([]byte, 0, 64), v, test)
}

func appendBool(out []byte, v cty.Value, test func(cty.Value) bool) []byte {
	if v == cty.NilVal {
		return append(out, "false"...)
	}
	if test(v) {
		return append(out, "true"...)
	}
	v, _ = v.Unmark()
	ty := v.Type()
	switch {
	case v.IsKnown() && v.IsNull() || ty.IsPrimitiveType() || ty == cty.DynamicPseudoType || ty.IsCapsuleType():
		return append(out, "false"...)
	case !v.IsKnown() && (ty.IsObjectType() || ty.IsMapType()):
		return append(out, "{}"...)
	case !v.IsKnown():
		return append(out, "[]"...)
	case ty.IsObjectType() || ty.IsMapType():
		out = append(out, '{')
		empty := len(out)
		for it := v.ElementIterator(); it.Next(); {
			k, ev := it.Element()
			before := len(out)
			if before > empty {
				out = append(out, ',')
			}
			k, _ = k.Unmark()
			out = append(append(out, Raw(k)...), ':')
			value := len(out)
			if out = appendBool(out, ev, test); string(out[value:]) == "false" {
				out = out[:before]
			}
		}
		return append(out, '}')
	default:
		out = append(out, '[')
		empty := len(out)
		for it := v.ElementIterator(); it.Next(); {
			if len(out) > empty {
				out = append(out, ',')
			}
			_, ev := it.Element()
			out = appendBool(out, ev, test)
		}
		return append(out, ']')
	}
}

func isSensitive(v cty.Value) bool { return marks.Has(v, marks.Sensitive) }

func isUnknown(v cty.Value) bool {
	v, _ = v.Unmark()
	return !v.IsKnown()
}

// sensitiveForm returns the JSON that marks the sensitive parts of a value.
func sensitiveForm(v cty.Value) json.RawMessage { return asBool(v, isSensitive) }

// unknownForm returns the JSON that marks the unknown parts of a value.
func unknownForm(v cty.Value) json.RawMessage {
	if v.IsWhollyKnown() {
		return json.RawMessage("{}")
	}
	return asBool(v, isUnknown)
}

// attributesOf returns the JSON of each attribute of an object.
func attributesOf(v cty.Value) map[string]json.RawMessage {
	if v == cty.NilVal || v.IsNull() {
		return nil
	}
	v, _ = v.Unmark()
	out := map[string]json.RawMessage{}
	if !v.IsKnown() {
		return out
	}
	for it := v.ElementIterator(); it.Next(); {
		k, ev := it.Element()
		if !isUnknown(ev) {
			out[k.AsString()] = Raw(ev)
		}
	}
	return out
}

// pathForm returns the JSON form of a path: names and keys in order.
func pathForm(p cty.Path) []any {
	out := []any{}
	for _, s := range p {
		switch s := s.(type) {
		case cty.GetAttrStep:
			out = append(out, s.Name)
		case cty.IndexStep:
			out = append(out, Raw(s.Key))
		}
	}
	return out
}

func typeForm(t cty.Type) json.RawMessage {
	b, err := ctyjson.MarshalType(t)
	if err != nil {
		return json.RawMessage(`"dynamic"`) // a capsule type: a parameter that accepts any expression
	}
	return b
}

// line returns a JSON document on one line, as OpenTofu prints it.
func line(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return append(b, '\n'), nil
}
