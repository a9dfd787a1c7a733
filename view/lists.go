package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/coordinator/querying"
)

// FoundText returns the line about an object that a query has found: the list block, the identity, the name.
func FoundText(l *querying.List, o *querying.Object) string {
	line := l.Addr.String() + "   " + IdentityText(o.Identity)
	if o.Name != "" {
		line += "   " + inOneLine(o.Name)
	}
	return line + "\n"
}

// IdentityText returns an identity in one line: name=value, with commas between them. Null attributes are left out.
func IdentityText(identity cty.Value) string {
	var parts []string
	for name, v := range identity.AsValueMap() {
		if v.IsNull() {
			continue
		}
		text := FormatValue(v)
		if v.Type() == cty.String {
			text = v.AsString()
		}
		parts = append(parts, name+"="+inOneLine(text))
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}

// ListedText returns the line about a list that is complete.
func ListedText(l *querying.List, o TextOptions) string {
	line := o.Ink.Bold(fmt.Sprintf("%s: %s.", l.Addr, counted(l.Total, "object", "objects")))
	if l.Left > 0 {
		line += fmt.Sprintf(" %s left out.", counted(l.Left, "managed object was", "managed objects were"))
	}
	if l.Full() {
		line += fmt.Sprintf(" There may be more: the limit is %d.", l.Limit)
	}
	return line + "\n"
}

// inOneLine returns a text with single spaces in place of line breaks and other space.
func inOneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// counted returns a number with the singular or the plural of what it counts.
func counted(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
