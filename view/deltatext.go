package view

import (
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/millipede-iac/millipede/graph/plan"
)

// deltaFormat says how differences are formatted.
type deltaFormat struct {
	ink Ink
	// bare leaves out the symbols of actions and their indentation; whole shows unchanged parts, too.
	bare, whole bool
	// noNull leaves out "-> null" after deleted values where it is obvious.
	noNull bool
	// forces notes "forces replacement" at each value, because its siblings together force it. It does not apply to
	// the parts of a value.
	forces bool
	// reveal shows sensitive values.
	reveal bool
}

// inside returns the format for the parts of a value.
func (m deltaFormat) inside() deltaFormat {
	m.forces = false
	return m
}

// important reports whether people identify objects by an attribute: it is then shown even if unchanged.
func important(name string) bool { return name == "id" || name == "name" || name == "tags" }

// symbol returns the symbol of an action, three columns wide.
func (k Ink) symbol(a plan.Action) string {
	if a == plan.NoOp {
		return "   "
	}
	return k.sign(a) + k.off()
}

// sign returns a symbol within coloured text; the text resets all colours again at its own end.
func (k Ink) sign(a plan.Action) string {
	plus, minus, dot := k.on(greenCode)+"+"+k.off(), k.on(redCode)+"-"+k.off(), k.on(redCode)+"."+k.off()
	switch a {
	case plan.Create:
		return "  " + plus
	case plan.Delete:
		return "  " + minus
	case plan.Update:
		return "  " + k.on(yellowCode) + "~" + k.off()
	case plan.Read:
		return " " + k.on(cyanCode) + "<=" + k.off()
	case plan.DeleteThenCreate:
		return minus + "/" + plus
	case plan.CreateThenDelete:
		return plus + "/" + minus
	case plan.Forget:
		return "  " + dot
	case plan.ForgetThenCreate:
		return "  " + dot + "/" + plus
	default:
		panic("view: no sign for the action " + string(a))
	}
}

// margin returns the indentation and symbol of a line at a depth, for a value with this action.
func (m deltaFormat) margin(depth int, a plan.Action) string {
	indent := strings.Repeat("    ", depth)
	if m.bare {
		return indent
	}
	return indent + m.ink.symbol(a) + " "
}

func (m deltaFormat) toNull(a plan.Action) string {
	if a != plan.Delete || m.noNull {
		return ""
	}
	return " " + m.ink.on(grayCode) + "-> null" + m.ink.off() + m.ink.off()
}

func (m deltaFormat) forcing(yes bool) string {
	if !yes && !m.forces {
		return ""
	}
	return " " + m.ink.on(redCode) + "# forces replacement" + m.ink.off() + m.ink.off()
}

func (m deltaFormat) arrow() string { return m.ink.on(yellowCode) + "->" + m.ink.off() + m.ink.off() }
func (m deltaFormat) null() string  { return m.ink.on(grayCode) + "null" + m.ink.off() + m.ink.off() }

func (m deltaFormat) hidden(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%s# (%d unchanged %s hidden)%s%s", m.ink.on(grayCode), n, what, m.ink.off(), m.ink.off())
}

// attributeName quotes a name that is not an identifier.
func attributeName(name string) string {
	if plainName(name) || hclsyntax.ValidIdentifier(name) {
		return name
	}
	return fmt.Sprintf("%q", name)
}

// plainName reports whether a name is an identifier of ASCII letters, digits and underscores, as nearly all are: the
// scanner of hclsyntax took a tenth of the time for printing a plan.
func plainName(name string) bool {
	for i := range len(name) {
		c := name[i]
		if letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'; !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// text formats a difference. Its first line continues the current line; the others are indented by the depth.
func (d *delta) text(depth int, m deltaFormat) string {
	switch d.kind {
	case primitiveDelta:
		return d.primitiveText(depth, m)
	case listDelta, nestedListDelta:
		return d.listText(depth, m)
	case setDelta, nestedSetDelta:
		return d.setText(depth, m)
	case mapDelta, nestedMapDelta:
		return d.mapText(depth, m)
	case objectDelta, nestedObjectDelta:
		return d.objectText(depth, m)
	case bodyDelta:
		return d.bodyText(depth, m)
	case unknownDelta:
		if d.inner == nil {
			return "(known after apply)" + m.forcing(d.forces)
		}
		past := m
		past.noNull = true
		return d.inner.text(depth, past) + " -> (known after apply)" + m.forcing(d.forces)
	case sensitiveDelta:
		if m.reveal {
			return d.inner.text(depth, m)
		}
		return "(sensitive value)" + m.toNull(d.action) + m.forcing(d.forces)
	case sensitiveBlockDelta:
		if m.reveal {
			return d.inner.text(depth, m)
		}
		start := m.margin(depth, plan.NoOp)
		return "{" + m.forcing(d.forces) + "\n" + start + "  # (not shown, because it is or was sensitive in part)\n" +
			start + "}"
	case writeOnlyDelta:
		return "(write-only attribute)" + m.forcing(d.forces) + m.toNull(d.action)
	case retypedDelta:
		m.noNull = true
		return d.inner.text(depth, m) + " " + m.arrow() + " " + d.other.text(depth, m)
	default:
		panic("view: unknown kind of difference")
	}
}

// warnings returns the comments above a value whose sensitivity changes.
func (d *delta) warnings(depth int, m deltaFormat) []string {
	if d.kind != sensitiveDelta && d.kind != sensitiveBlockDelta || d.hidBefore == d.hidAfter {
		return nil
	}
	if d.inner.action == plan.Create || d.inner.action == plan.Delete {
		return nil
	}
	what := "attribute value"
	if d.kind == sensitiveBlockDelta {
		what = "block"
	}
	change := "is now sensitive, and is not shown any more\n%s  # once this change is applied."
	if d.hidBefore {
		change = "is no longer sensitive\n%s  # once this change is applied."
	}
	text := fmt.Sprintf("  # %sWarning%s: this %s "+change+"%s", m.ink.on(yellowCode), m.ink.off(), what,
		strings.Repeat("    ", depth), m.ink.off())
	if d.kind == sensitiveDelta && d.inner.action == plan.NoOp {
		text += " The value is unchanged."
	}
	return []string{text}
}

// warn writes the comments above a value at a depth.
func (d *delta) warn(b *strings.Builder, depth int, m deltaFormat) {
	for _, w := range d.warnings(depth, m) {
		b.WriteString(strings.Repeat("    ", depth) + w + "\n")
	}
}

// listText writes a list. Lists whose order matters show the unchanged elements before and after a change.
func (d *delta) listText(depth int, m deltaFormat) string {
	if len(d.items) == 0 {
		return "[]" + m.toNull(d.action) + m.forcing(d.forces)
	}
	changed, unchanged := m.inside(), m.inside()
	changed.noNull, unchanged.whole = true, true
	var b strings.Builder
	b.WriteString("[" + m.forcing(d.forces) + "\n")
	var skipped []*delta
	neighbour := false // the previous element was a change
	for _, e := range d.items {
		if e.action == plan.NoOp && !neighbour && !m.whole {
			skipped = append(skipped, e)
			continue
		}
		neighbour = false
		how := changed
		if d.kind == listDelta {
			if len(skipped) > 1 {
				b.WriteString(m.margin(depth+1, plan.NoOp) + m.hidden(len(skipped)-1, "element") + "\n")
			}
			if len(skipped) > 0 {
				b.WriteString(m.margin(depth+1, plan.NoOp) + skipped[len(skipped)-1].text(depth+1, unchanged) + ",\n")
			}
			skipped = nil
			if e.action == plan.NoOp {
				how = unchanged
			} else {
				neighbour = true
			}
		}
		e.warn(&b, depth+1, how)
		b.WriteString(m.margin(depth+1, e.action) + e.text(depth+1, how) + ",\n")
	}
	if len(skipped) > 0 {
		b.WriteString(m.margin(depth+1, plan.NoOp) + m.hidden(len(skipped), "element") + "\n")
	}
	b.WriteString(m.margin(depth, plan.NoOp) + "]" + m.toNull(d.action))
	return b.String()
}

func (d *delta) setText(depth int, m deltaFormat) string {
	// In a nested set, the elements are marked as forcing a replacement.
	nested := d.kind == nestedSetDelta
	own := d.forces && !nested
	if len(d.items) == 0 {
		return "[]" + m.toNull(d.action) + m.forcing(own)
	}
	inside := m.inside()
	inside.noNull, inside.forces = true, d.forces && nested
	var b strings.Builder
	b.WriteString("[" + m.forcing(own) + "\n")
	unchanged := 0
	for _, e := range d.items {
		if e.action == plan.NoOp && !m.whole {
			unchanged++
			continue
		}
		e.warn(&b, depth+1, m)
		b.WriteString(m.margin(depth+1, e.action) + e.text(depth+1, inside) + ",\n")
	}
	if unchanged > 0 {
		b.WriteString(m.margin(depth+1, plan.NoOp) + m.hidden(unchanged, "element") + "\n")
	}
	b.WriteString(m.margin(depth, plan.NoOp) + "]" + m.toNull(d.action))
	return b.String()
}

func (d *delta) mapText(depth int, m deltaFormat) string {
	nested := d.kind == nestedMapDelta
	own := d.forces && !nested
	if len(d.items) == 0 {
		return "{}" + m.toNull(d.action) + m.forcing(own)
	}
	inside := m.inside()
	inside.noNull, inside.forces = d.action == plan.Delete || nested, d.forces && nested
	names, width := make([]string, len(d.names)), 0
	for i, name := range d.names {
		names[i] = fmt.Sprintf("%q", name)
		if !nested {
			width = max(width, len(names[i]))
		}
	}
	var b strings.Builder
	b.WriteString("{" + m.forcing(own) + "\n")
	unchanged := 0
	for i, e := range d.items {
		if e.action == plan.NoOp && !m.whole {
			unchanged++
			continue
		}
		comma := ""
		if e.kind == objectDelta || e.kind == nestedObjectDelta {
			comma = ","
		}
		e.warn(&b, depth+1, m)
		fmt.Fprintf(&b, "%s%-*s = %s%s\n", m.margin(depth+1, e.action), width, names[i], e.text(depth+1, inside), comma)
	}
	if unchanged > 0 {
		b.WriteString(m.margin(depth+1, plan.NoOp) + m.hidden(unchanged, "element") + "\n")
	}
	b.WriteString(m.margin(depth, plan.NoOp) + "}" + m.toNull(d.action))
	return b.String()
}

func (d *delta) objectText(depth int, m deltaFormat) string {
	if len(d.items) == 0 {
		return "{}" + m.toNull(d.action) + m.forcing(d.forces)
	}
	inside := m.inside()
	inside.noNull = d.kind == objectDelta
	var b strings.Builder
	b.WriteString("{" + m.forcing(d.forces) + "\n")
	d.attributesText(&b, depth, m, inside)
	b.WriteString(m.margin(depth, plan.NoOp) + "}" + m.toNull(d.action))
	return b.String()
}

// attributesText writes the attributes of an object or a block, aligned.
func (d *delta) attributesText(b *strings.Builder, depth int, m, inside deltaFormat) {
	names, width := make([]string, len(d.names)), 0
	for i, name := range d.names {
		names[i] = attributeName(name)
		width = max(width, len(names[i]))
	}
	unchanged := 0
	for i, e := range d.items {
		how := inside
		if important(d.names[i]) {
			how.whole = true
		} else if e.action == plan.NoOp && !m.whole {
			unchanged++
			continue
		}
		e.warn(b, depth+1, m)
		fmt.Fprintf(b, "%s%-*s = %s\n", m.margin(depth+1, e.action), width, names[i], e.text(depth+1, how))
	}
	if unchanged > 0 {
		b.WriteString(m.margin(depth+1, plan.NoOp) + m.hidden(unchanged, "attribute") + "\n")
	}
}

// bodyText writes a block: its attributes, then its nested blocks grouped by type.
func (d *delta) bodyText(depth int, m deltaFormat) string {
	if len(d.items) == 0 && len(d.blocks) == 0 {
		return "{}" + m.forcing(d.forces)
	}
	var b strings.Builder
	b.WriteString("{" + m.forcing(d.forces) + "\n")
	d.attributesText(&b, depth, m, m.inside())
	unchanged := 0
	for i := range d.blocks {
		unchanged += d.blockTypeText(&b, &d.blocks[i], depth, m)
	}
	if unchanged > 0 {
		b.WriteString("\n" + m.margin(depth+1, plan.NoOp) + m.hidden(unchanged, "block") + "\n")
	}
	b.WriteString(m.margin(depth, plan.NoOp) + "}")
	return b.String()
}

// blockTypeText writes the nested blocks of one type, and returns the number of omitted ones.
func (d *delta) blockTypeText(b *strings.Builder, group *blockDelta, depth int, m deltaFormat) (unchanged int) {
	apart := false
	for i, e := range group.items {
		e = group.hide(e)
		if e.action == plan.NoOp && !m.whole {
			unchanged++
			continue
		}
		if !apart && len(d.items) > 0 {
			b.WriteString("\n") // between attributes and blocks, and between types of blocks
			apart = true
		}
		label := ""
		if group.labels != nil {
			label = fmt.Sprintf(" %q", group.labels[i])
		}
		how := m.inside()
		how.forces = group.forces
		e.warn(b, depth+1, how)
		b.WriteString(m.margin(depth+1, e.action) + attributeName(group.name) + label + " " +
			e.text(depth+1, how) + "\n")
	}
	return unchanged
}

// hide wraps a block in a delta that hides it, if all blocks of its type are sensitive together.
func (g *blockDelta) hide(d *delta) *delta {
	var hidden bool
	switch d.action {
	case plan.Create:
		hidden = g.hidAfter
	case plan.Delete:
		hidden = g.hidBefore
	default:
		hidden = g.hidAfter || g.hidBefore
	}
	if !hidden || d.kind == sensitiveBlockDelta {
		return d
	}
	out := &delta{kind: sensitiveBlockDelta, action: d.action, forces: d.forces, inner: d, hidBefore: g.hidBefore,
		hidAfter: g.hidAfter}
	if d.action == plan.NoOp && g.hidBefore != g.hidAfter {
		out.action = plan.Update
	}
	return out
}
