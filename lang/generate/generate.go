// Package generate generates the resource block for an existing object.
//
// The result is a starting point for people: arguments with secret values are left out with a comment, and there
// are no references to other objects. The package neither finds nor stores objects.
package generate

import (
	"bytes"
	"fmt"
	"sort"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/schema"
)

// Resource returns the block of a resource, formatted and without a line break at the end. The object has the
// schema's implied type. Arguments that only the provider sets, and deprecated ones, are left out, as is an
// optional "id": the old plugin SDK declares one for every type, but accepts none. provider is that of Provider.
func Resource(r addr.Resource, provider string, block *schema.Block, v cty.Value) string {
	w := &writer{}
	fmt.Fprintf(w, "resource %q %q {\n", r.Type, r.Name)
	if provider != "" {
		fmt.Fprintf(w, "provider = %s\n", provider)
	}
	attrs := make(map[string]*schema.Attribute, len(block.Attributes))
	for name, a := range block.Attributes {
		if name != "id" || !a.Optional || !a.Computed {
			attrs[name] = a
		}
	}
	w.attributes(attrs, v)
	w.blocks(block.Blocks, v)
	w.WriteString("}")
	return string(hclwrite.Format(w.Bytes()))
}

// Provider returns the text of the provider argument for a resource; empty if the name of its type implies it. k is the
// key of a provider configuration with for_each.
func Provider(r addr.Resource, p addr.LocalProvider, k addr.Key) string {
	if p.Name == r.ImpliedProvider() && p.Alias == "" && k == addr.NoKey {
		return ""
	}
	return p.String() + k.String()
}

// Import returns the import block for an object with an identity, formatted and without a line break at the end.
// Attributes of the identity that are null are left out.
func Import(to addr.Resource, provider string, identity cty.Value) string {
	w := &writer{}
	fmt.Fprintf(w, "import {\nto = %s\n", to)
	if provider != "" {
		fmt.Fprintf(w, "provider = %s\n", provider)
	}
	w.WriteString("identity = {\n")
	attrs := identity.AsValueMap()
	for _, name := range sortedNames(attrs) {
		if !attrs[name].IsNull() {
			fmt.Fprintf(w, "%s = ", keyText(name))
			w.value(attrs[name])
			w.WriteString("\n")
		}
	}
	w.WriteString("}\n}")
	return string(hclwrite.Format(w.Bytes()))
}

type writer struct{ bytes.Buffer }

func sortedNames[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// attributes writes the arguments of an object, which is not null.
func (w *writer) attributes(attrs map[string]*schema.Attribute, object cty.Value) {
	for _, name := range sortedNames(attrs) {
		a := attrs[name]
		if !a.Required && !a.Optional || a.Deprecated {
			continue
		}
		fmt.Fprintf(w, "%s = ", name)
		v, _ := object.GetAttr(name).Unmark()
		switch {
		case a.Sensitive:
			w.WriteString(emptyOf(a) + " # sensitive")
		case a.Nested != nil:
			w.nested(a.Nested, v)
		default:
			w.value(v)
		}
		if a.WriteOnly && !a.Sensitive {
			w.WriteString(" #")
		}
		if a.WriteOnly {
			w.WriteString(" write-only")
		}
		w.WriteString("\n")
	}
}

// emptyOf returns the placeholder for a value that is not shown.
func emptyOf(a *schema.Attribute) string {
	switch {
	case a.Nested == nil:
		return "null"
	case a.Nested.Nesting == schema.NestingList || a.Nested.Nesting == schema.NestingSet:
		return "[]"
	default:
		return "{}"
	}
}

// value writes a value. A string that contains a JSON object or array is written as a call of jsonencode, which is
// readable.
func (w *writer) value(v cty.Value) {
	if tokens := encoded(v); tokens != nil {
		w.Write(tokens.Bytes())
		return
	}
	w.Write(hclwrite.TokensForValue(v).Bytes())
}

func encoded(v cty.Value) hclwrite.Tokens {
	if v.Type() != cty.String || v.IsNull() || !v.IsKnown() {
		return nil
	}
	text := strings.TrimSpace(v.AsString())
	if !strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "[") {
		return nil
	}
	ty, err := ctyjson.ImpliedType([]byte(text))
	if err != nil {
		return nil
	}
	inside, err := ctyjson.Unmarshal([]byte(text), ty)
	if err != nil {
		return nil
	}
	return hclwrite.TokensForFunctionCall("jsonencode", hclwrite.TokensForValue(inside))
}

// nested writes the value of a nested attribute.
func (w *writer) nested(o *schema.Object, v cty.Value) {
	switch {
	case v.IsNull() || !v.IsKnown():
		w.WriteString("null")
	case o.Nesting == schema.NestingList || o.Nesting == schema.NestingSet:
		w.WriteString("[\n")
		for it := v.ElementIterator(); it.Next(); {
			_, element := it.Element()
			w.object(o, element)
			w.WriteString(",\n")
		}
		w.WriteString("]")
	case o.Nesting == schema.NestingMap:
		w.WriteString("{\n")
		elements := v.AsValueMap()
		for _, key := range sortedNames(elements) {
			fmt.Fprintf(w, "%s = ", keyText(key))
			w.object(o, elements[key])
			w.WriteString("\n")
		}
		w.WriteString("}")
	default:
		w.object(o, v)
	}
}

func (w *writer) object(o *schema.Object, v cty.Value) {
	if v.IsNull() {
		w.WriteString("null")
		return
	}
	w.WriteString("{\n")
	w.attributes(o.Attributes, v)
	w.WriteString("}")
}

// keyText returns a key of an object in its source form.
func keyText(key string) string {
	if hclsyntax.ValidIdentifier(key) {
		return key
	}
	return string(hclwrite.TokensForValue(cty.StringVal(key)).Bytes())
}

// blocks writes the nested blocks of an object.
func (w *writer) blocks(blocks map[string]*schema.NestedBlock, object cty.Value) {
	for _, name := range sortedNames(blocks) {
		nb := blocks[name]
		v, _ := object.GetAttr(name).Unmark()
		switch {
		case nb.Deprecated || v.IsNull() || !v.IsKnown():
		case nb.Nesting == schema.NestingSingle || nb.Nesting == schema.NestingGroup:
			w.block(name, nb, v)
		case nb.Nesting == schema.NestingMap:
			elements := v.AsValueMap()
			for _, key := range sortedNames(elements) {
				w.block(fmt.Sprintf("%s %q", name, key), nb, elements[key])
			}
		default:
			for it := v.ElementIterator(); it.Next(); {
				_, element := it.Element()
				w.block(name, nb, element)
			}
		}
	}
}

func (w *writer) block(header string, nb *schema.NestedBlock, v cty.Value) {
	w.WriteString(header + " {\n")
	w.attributes(nb.Attributes, v)
	w.blocks(nb.Blocks, v)
	w.WriteString("}\n")
}
