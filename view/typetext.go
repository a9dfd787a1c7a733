package view

import (
	"maps"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"
)

// TypeText returns a type in the syntax of its declaration, as the console shows it for type(). Objects and tuples
// have a line for each attribute and element.
func TypeText(ty cty.Type) string { return typeText(ty, "\n") }

// typeText returns a nested type. Its lines begin with start, which includes a line break.
func typeText(ty cty.Type, start string) string {
	const step = "    "
	var b strings.Builder
	switch {
	case ty.IsObjectType():
		attrs := ty.AttributeTypes()
		if len(attrs) == 0 {
			return "object({})"
		}
		b.WriteString("object({")
		for _, name := range slices.Sorted(maps.Keys(attrs)) {
			b.WriteString(start + step + name + ": " + typeText(attrs[name], start+step) + ",")
		}
		b.WriteString(start + "})")
	case ty.IsTupleType():
		elements := ty.TupleElementTypes()
		if len(elements) == 0 {
			return "tuple([])"
		}
		b.WriteString("tuple([")
		for _, element := range elements {
			b.WriteString(start + step + typeText(element, start+step) + ",")
		}
		b.WriteString(start + "])")
	case ty.IsCollectionType():
		b.WriteString(collectionName(ty) + "(")
		if element := ty.ElementType(); element.IsObjectType() || element.IsTupleType() {
			b.WriteString(start + step + typeText(element, start+step) + "," + start)
		} else {
			b.WriteString(typeText(element, start))
		}
		b.WriteString(")")
	default:
		return ty.FriendlyName()
	}
	return b.String()
}

func collectionName(ty cty.Type) string {
	switch {
	case ty.IsListType():
		return "list"
	case ty.IsSetType():
		return "set"
	default:
		return "map"
	}
}
