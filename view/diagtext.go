package view

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/mitchellh/go-wordwrap"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/millipede-iac/millipede/view/document"
)

// DefaultWidth is the number of columns of text whose display width is unknown.
const DefaultWidth = 78

// Printer shows diagnostics to people: warnings on Out, errors on Err.
type Printer struct {
	Out, Err io.Writer
	Ink      Ink
	// Width is the number of columns of Err; 0 means DefaultWidth.
	Width int
	// Sources returns the files parsed so far, by name. May be nil.
	Sources func() map[string]*hcl.File
	// CompactWarnings shows warnings without their details, unless there are errors too.
	CompactWarnings bool
	// ConsolidateWarnings and ConsolidateErrors show problems with the same summary once.
	ConsolidateWarnings, ConsolidateErrors bool
	Deprecations                           document.Deprecations
}

// Diagnostics shows a list: warnings before errors, each sorted by file and line. The list is not changed. It
// returns the first error of writing.
func (p *Printer) Diagnostics(l diag.List) error {
	if l = p.Deprecations.Of(l); len(l) == 0 {
		return nil
	}
	groups := gather(sortDiagnostics(withoutRepeatedDeprecations(l)), func(s diag.Severity) bool {
		return s == diag.Warning && p.ConsolidateWarnings || s == diag.Error && p.ConsolidateErrors
	})
	if p.CompactWarnings && !l.HasErrors() {
		_, err := fmt.Fprintf(Clean(p.Out, p.Ink),
			"\n%s\nTo see the warnings in full, leave -compact-warnings out.\n", p.compact(groups))
		return err
	}
	var sources map[string]*hcl.File
	if p.Sources != nil {
		sources = p.Sources()
	}
	for _, g := range groups {
		w := p.Out
		if g.first().Severity == diag.Error {
			w = p.Err
		}
		if _, err := io.WriteString(Clean(w, p.Ink), p.Text(document.DiagnosticJSON(g.shown(), sources))); err != nil {
			return err
		}
	}
	return nil
}

// Text returns a diagnostic as text: with a coloured bar on its left side, or plain.
func (p *Printer) Text(d *document.Diagnostic) string {
	width := p.Width
	if width == 0 {
		width = DefaultWidth
	}
	if p.Ink {
		return ruled(d, width)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s: %s\n\n", headline(d), printable(d.Summary))
	snippetText(&b, d, false)
	if d.Detail != "" {
		b.WriteString(wrapped(printable(d.Detail), width-1) + "\n")
	}
	return b.String()
}

func headline(d *document.Diagnostic) string {
	if d.Severity == "warning" {
		return "Warning"
	}
	return "Error"
}

// ruled returns the coloured form of a diagnostic.
func ruled(d *document.Diagnostic, width int) string {
	const k = Ink(true)
	color := redCode
	if d.Severity == "warning" {
		color = yellowCode
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s%s: %s%s", boldCode, color, headline(d), resetCode, resetCode)
	fmt.Fprintf(&b, "%s%s%s\n\n%s", boldCode, printable(d.Summary), resetCode, resetCode)
	snippetText(&b, d, k)
	if d.Detail != "" {
		if width > 3 {
			b.WriteString(wrapped(printable(d.Detail), width-3) + "\n") // the bar takes three columns
		} else {
			b.WriteString(printable(d.Detail) + "\n")
		}
	}
	rule := func(sign string) string { return color + sign + resetCode }
	var out strings.Builder
	out.WriteString(rule("╷") + resetCode + "\n")
	for line := range strings.SplitSeq(strings.TrimSuffix(b.String(), "\n"), "\n") {
		out.WriteString(rule("│") + " " + resetCode + strings.TrimSuffix(line, "\r") + "\n")
	}
	out.WriteString(rule("╵") + resetCode + "\n")
	return out.String()
}

// wrapped breaks lines at spaces to fit into a width; lines that begin with a space are kept.
func wrapped(text string, width int) string {
	if width < 1 {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if !strings.HasPrefix(line, " ") {
			lines[i] = wordwrap.WrapString(line, uint(width))
		}
	}
	return strings.Join(lines, "\n")
}

// Wrap breaks text to fit into a width, where 0 means DefaultWidth; lines that begin with a space are kept.
func Wrap(text string, width int) string {
	if width == 0 {
		width = DefaultWidth
	}
	return wrapped(text, width-1)
}

// snippetText writes the context of a diagnostic: address, source code, values.
func snippetText(b *strings.Builder, d *document.Diagnostic, k Ink) {
	if d.Address != "" {
		fmt.Fprintf(b, "  with %s,\n", d.Address)
	}
	if d.Range == nil {
		return
	}
	defer b.WriteByte('\n')
	fmt.Fprintf(b, "  on %s line %d", printable(d.Range.Filename), d.Range.Start.Line)
	s := d.Snippet
	if s == nil {
		b.WriteString(":\n  (source code not available)\n")
		return
	}
	if s.Context != nil {
		b.WriteString(", in " + *s.Context)
	}
	b.WriteString(":\n")
	end := max(s.HighlightEndOffset, s.HighlightStartOffset)
	code := printable(s.Code[:s.HighlightStartOffset]) + k.on(underlineCode) +
		printable(s.Code[s.HighlightStartOffset:end]) + k.off() + printable(s.Code[end:]) + k.off()
	for i, line := range strings.Split(code, "\n") {
		fmt.Fprintf(b, "%4d: %s\n", s.StartLine+i, line)
	}
	call := s.FunctionCall
	if len(s.Values) > 0 || call != nil && call.Signature != nil {
		fmt.Fprintf(b, "    %s├────────────────%s\n%s", k.on(grayCode), k.off(), k.off())
		if call != nil && call.Signature != nil {
			fmt.Fprintf(b, "    %s│%s while calling %s%s%s(%s%s)\n", k.on(grayCode), k.off(),
				k.on(boldCode), call.CalledAs,
				k.off(), k.off(), call.Signature.ParameterList())
		}
		for _, v := range s.Values {
			fmt.Fprintf(b, "    %s│%s %s%s%s %s\n%s", k.on(grayCode), k.off(), k.on(boldCode), v.Traversal, k.off(),
				v.Statement, k.off())
		}
	}
	if d.Difference != nil {
		differenceText(b, d.Difference, k)
	}
}

// group is one or more problems that are shown once.
type group struct{ members diag.List }

func (g *group) first() *diag.Diagnostic { return g.members[0] }

// shown returns the first problem, with a note about the others.
func (g *group) shown() *diag.Diagnostic {
	d := g.first()
	more := len(g.members) - 1
	if more == 0 {
		return d
	}
	c := *d
	note := fmt.Sprintf("(and %d more similar %ss elsewhere)", more, d.Severity)
	if more == 1 {
		note = fmt.Sprintf("(and one more similar %s elsewhere)", d.Severity)
	}
	if c.Detail != "" {
		c.Detail += "\n\n"
	}
	c.Detail += note
	return &c
}

// gather groups the problems with the same summary, for the severities that asked accepts. Problems without a
// source range, and those of the user's own rules, are not grouped.
func gather(l diag.List, asked func(diag.Severity) bool) []*group {
	var out []*group
	groups := map[string]*group{}
	for _, d := range l {
		_, rule := d.Extra.(*eval.Rule)
		if !asked(d.Severity) || d.Subject == nil || rule {
			out = append(out, &group{diag.List{d}})
			continue
		}
		key := d.Severity.String() + d.Summary
		if m, ok := d.Extra.(marks.Deprecated); ok {
			key += "\x00" + m.Origin
		}
		if g := groups[key]; g != nil {
			g.members = append(g.members, d)
			continue
		}
		g := &group{diag.List{d}}
		groups[key] = g
		out = append(out, g)
	}
	return out
}

// withoutRepeatedDeprecations keeps one warning for each deprecated thing.
func withoutRepeatedDeprecations(l diag.List) diag.List {
	seen := map[marks.Deprecated]bool{}
	out := make(diag.List, 0, len(l))
	for _, d := range l {
		if m, ok := d.Extra.(marks.Deprecated); ok {
			if seen[m] {
				continue
			}
			seen[m] = true
		}
		out = append(out, d)
	}
	return out
}

// sortDiagnostics orders problems for people: warnings first, so that errors are at the end of the output; then
// problems without a source range before those with one; then by file, shorter paths first, and by position. The
// sort is stable.
func sortDiagnostics(l diag.List) diag.List {
	slices.SortStableFunc(l, func(a, b *diag.Diagnostic) int {
		switch {
		case a.Severity != b.Severity:
			return before(a.Severity == diag.Warning)
		case (a.Subject == nil) != (b.Subject == nil):
			return before(a.Subject == nil)
		case a.Subject == nil:
			return 0
		}
		return compareRanges(a.Subject, b.Subject)
	})
	return l
}

func before(yes bool) int {
	if yes {
		return -1
	}
	return 1
}

func compareRanges(a, b *hcl.Range) int {
	if a.Filename != b.Filename {
		depth := func(name string) int { return strings.Count(name, string(filepath.Separator)) }
		if d := depth(a.Filename) - depth(b.Filename); d != 0 {
			return d
		}
		return strings.Compare(a.Filename, b.Filename)
	}
	if d := a.Start.Byte - b.Start.Byte; d != 0 {
		return d
	}
	return a.End.Byte - b.End.Byte
}

// compact returns a list of warnings by their summaries.
func (p *Printer) compact(groups []*group) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%sWarnings:%s\n\n%s", p.Ink.on(boldCode+yellowCode), p.Ink.off(), p.Ink.off())
	for _, g := range groups {
		fmt.Fprintf(&b, "- %s\n", g.first().Summary)
		subject, more := g.first().Subject, len(g.members)-1
		switch {
		case subject != nil && more > 0:
			fmt.Fprintf(&b, "  on %s line %d (and %d more)\n", subject.Filename, subject.Start.Line, more)
		case subject != nil:
			fmt.Fprintf(&b, "  on %s line %d\n", subject.Filename, subject.Start.Line)
		case more > 0:
			fmt.Fprintf(&b, "  (%d occurrences of this warning)\n", more+1)
		}
	}
	return b.String()
}
