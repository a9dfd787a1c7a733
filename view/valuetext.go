package view

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/marks"
)

// FormatValue returns an expression for a value, with its type if the expression alone is ambiguous. `output` and
// `console` print it.
func FormatValue(v cty.Value) string { return valueText(v, 0) }

func valueText(v cty.Value, indent int) string {
	switch {
	case !v.IsKnown():
		return "(known after apply)"
	case marks.Has(v, marks.Sensitive):
		return "(sensitive value)"
	case marks.Has(v, marks.Ephemeral):
		return "(ephemeral value)"
	}
	v, _ = v.Unmark()
	ty := v.Type()
	switch {
	case v.IsNull():
		return nullText(ty)
	case ty == cty.String:
		if s := v.AsString(); strings.Contains(s, "\n") {
			return heredoc(s, indent)
		}
		return strconv.Quote(v.AsString())
	case ty == cty.Number:
		return v.AsBigFloat().Text('f', -1)
	case ty == cty.Bool:
		return strconv.FormatBool(v.True())
	case ty.IsObjectType():
		return mappingText(v, indent)
	case ty.IsMapType():
		return "tomap(" + mappingText(v, indent) + ")"
	case ty.IsTupleType():
		return sequenceText(v, indent)
	case ty.IsListType():
		return "tolist(" + sequenceText(v, indent) + ")"
	case ty.IsSetType():
		return "toset(" + sequenceText(v, indent) + ")"
	default:
		return fmt.Sprintf("%#v", v)
	}
}

func nullText(ty cty.Type) string {
	switch {
	case ty == cty.DynamicPseudoType:
		return "null"
	case ty == cty.String:
		return "tostring(null)"
	case ty == cty.Number:
		return "tonumber(null)"
	case ty == cty.Bool:
		return "tobool(null)"
	case ty.IsListType():
		return "tolist(null) /* of " + ty.ElementType().FriendlyName() + " */"
	case ty.IsSetType():
		return "toset(null) /* of " + ty.ElementType().FriendlyName() + " */"
	case ty.IsMapType():
		return "tomap(null) /* of " + ty.ElementType().FriendlyName() + " */"
	default:
		return "null /* " + ty.FriendlyName() + " */"
	}
}

// heredoc returns a text of several lines as a heredoc, with an end marker that does not occur in it.
func heredoc(s string, indent int) string {
	operator := "<<"
	if indent > 0 {
		operator = "<<-"
	}
	lines := strings.Split(s, "\n")
	used := make(map[string]bool, len(lines))
	for _, line := range lines {
		used[strings.TrimSpace(line)] = true
	}
	end := "EOT"
	for used[end] {
		end += "_"
	}
	start := "\n" + strings.Repeat(" ", indent)
	return operator + end + start + strings.Join(lines, start) + start + end
}

func mappingText(v cty.Value, indent int) string {
	if v.LengthInt() == 0 {
		return "{}"
	}
	var b strings.Builder
	b.WriteByte('{')
	start := "\n" + strings.Repeat(" ", indent+2)
	for it := v.ElementIterator(); it.Next(); {
		k, ev := it.Element()
		b.WriteString(start + valueText(k, indent+2) + " = " + valueText(ev, indent+2))
	}
	b.WriteString("\n" + strings.Repeat(" ", indent) + "}")
	return b.String()
}

func sequenceText(v cty.Value, indent int) string {
	if v.LengthInt() == 0 {
		return "[]"
	}
	var b strings.Builder
	b.WriteByte('[')
	start := "\n" + strings.Repeat(" ", indent+2)
	for it := v.ElementIterator(); it.Next(); {
		_, ev := it.Element()
		b.WriteString(start + valueText(ev, indent+2) + ",")
	}
	b.WriteString("\n" + strings.Repeat(" ", indent) + "]")
	return b.String()
}
