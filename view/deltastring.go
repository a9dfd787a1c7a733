package view

import (
	"fmt"
	"strings"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/view/document"
)

func (d *delta) primitiveText(depth int, m deltaFormat) string {
	if kindOf(d.before) == stringKind || kindOf(d.after) == stringKind {
		return d.stringText(depth, m)
	}
	scalar := func(v *datum) string {
		if v.nothing() {
			return m.null()
		}
		return v.text
	}
	switch d.action {
	case plan.Create:
		return scalar(d.after) + m.forcing(d.forces)
	case plan.Delete:
		if d.before.nothing() {
			return m.null() + m.forcing(d.forces)
		}
		return scalar(d.before) + m.toNull(d.action) + m.forcing(d.forces)
	case plan.NoOp:
		return scalar(d.before) + m.forcing(d.forces)
	default:
		return scalar(d.before) + " " + m.arrow() + " " + scalar(d.after) + m.forcing(d.forces)
	}
}

// stringText writes a string: quoted, as a heredoc if it has several lines, or as a call of jsonencode if it is
// JSON.
func (d *delta) stringText(depth int, m deltaFormat) string {
	var lines []string
	switch d.action {
	case plan.Create, plan.NoOp, plan.Delete:
		v := d.after
		if d.action == plan.Delete {
			v = d.before
		}
		if v.nothing() {
			return m.null() + m.forcing(d.forces)
		}
		if inner, ok := jsonDatum(v.text); ok {
			return d.jsonText(inner, depth, m)
		}
		if !strings.Contains(v.text, "\n") {
			return fmt.Sprintf("%q", v.text) + m.toNull(d.action) + m.forcing(d.forces)
		}
		for line := range strings.SplitSeq(strings.TrimSpace(v.text), "\n") {
			lines = append(lines, m.margin(depth+1, plan.NoOp)+line)
		}
	default:
		before, beforeJSON := textOrJSON(d.before)
		after, afterJSON := textOrJSON(d.after)
		switch {
		case beforeJSON && afterJSON:
			return d.jsonChangeText(before, after, depth, m)
		case beforeJSON || afterJSON:
			was, is := &delta{action: plan.Delete, before: d.before}, &delta{action: plan.Create, after: d.after}
			return (&delta{kind: retypedDelta, inner: was, other: is}).text(depth, m)
		case !strings.Contains(before.text, "\n") && !strings.Contains(after.text, "\n"):
			return m.quoted(d.before) + " " + m.arrow() + " " + m.quoted(d.after) + m.forcing(d.forces)
		}
		was, is := m.lines(d.before), m.lines(d.after)
		align(was, is, func(int, int) bool { return false }, func(b, a int) {
			switch {
			case b < 0:
				lines = append(lines, m.margin(depth+1, plan.Create)+is[a])
			case a < 0:
				lines = append(lines, m.margin(depth+1, plan.Delete)+was[b])
			default:
				lines = append(lines, m.margin(depth+1, plan.NoOp)+was[b])
			}
		})
	}
	return "<<-EOT" + m.forcing(d.forces) + "\n" + strings.Join(lines, "\n") + "\n" + m.margin(depth, plan.NoOp) +
		"EOT" + m.toNull(d.action)
}

// textOrJSON returns the decoded content of a string that is JSON; other strings unchanged.
func textOrJSON(v *datum) (*datum, bool) {
	if v.nothing() {
		return &datum{}, false
	}
	if inner, ok := jsonDatum(v.text); ok {
		return inner, true
	}
	return v, false
}

func (m deltaFormat) quoted(v *datum) string {
	if v.nothing() {
		return m.null()
	}
	return fmt.Sprintf("%q", v.text)
}

// lines returns the lines of a string that is compared with another one; a string of one line unchanged.
func (m deltaFormat) lines(v *datum) []string {
	switch {
	case v.nothing():
		return []string{m.null()}
	case strings.Contains(v.text, "\n"):
		return strings.Split(strings.TrimSpace(v.text), "\n")
	default:
		return []string{v.text}
	}
}

// jsonText writes a string of JSON that is created, deleted or unchanged.
func (d *delta) jsonText(inner *datum, depth int, m deltaFormat) string {
	switch d.action {
	case plan.Create:
		return d.jsonChangeText(nil, inner, depth, m)
	case plan.Delete:
		return d.jsonChangeText(inner, nil, depth, m)
	default:
		return d.jsonChangeText(inner, inner, depth, m)
	}
}

// jsonChangeText writes the difference of two strings of JSON as the difference of their contents.
func (d *delta) jsonChangeText(before, after *datum, depth int, m deltaFormat) string {
	content := diffDynamic(pair{before: before, after: after, strict: true, shown: everywhere})
	how, action := m.inside(), d.action
	how.noNull = true
	note, forcing := "", m.forcing(d.forces)
	if content.action == plan.NoOp && d.action == plan.Update {
		// Only white space differs, which the content does not show.
		note, forcing = " # whitespace changes", ""
		if d.forces {
			note = " # whitespace changes force replacement"
		}
		how.whole, action = true, plan.NoOp
	}
	if action == plan.Create || action == plan.Delete {
		action = plan.NoOp // the symbol is already written before the attribute
	}
	text := content.text(depth+1, how)
	if !strings.Contains(text, "\n") {
		return "jsonencode(" + text + ")" + note + forcing
	}
	return "jsonencode(" + note + "\n" + m.margin(depth+1, action) + text + forcing + "\n" +
		m.margin(depth, plan.NoOp) + ")" + m.toNull(d.action)
}

// differenceText writes the difference between the two sides of a comparison, below the source code of a
// diagnostic.
func differenceText(b *strings.Builder, c *document.Change, k Ink) {
	bar := "    " + k.on(grayCode) + "│" + k.off()
	fmt.Fprintf(b, "    %s├────────────────%s\n%s%s %sDiff: %s", k.on(grayCode), k.off(), k.off(), bar, k.on(boldCode),
		k.off()+k.off())
	p := pair{before: formDatum(c.Before, nil, c.BeforeSensitive), after: formDatum(c.After, c.AfterUnknown,
		c.AfterSensitive), shown: everywhere}
	text := "    " + diffDynamic(p).text(0, deltaFormat{ink: k})
	for line := range strings.SplitSeq(text, "\n") {
		b.WriteString("\n" + bar + " " + k.off() + line)
	}
	b.WriteByte('\n')
}
