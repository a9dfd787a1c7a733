package document

import (
	"bytes"
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hcled"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/lang/eval"
	"github.com/millipede-iac/millipede/lang/marks"
	"github.com/millipede-iac/millipede/lang/syntax"
)

// snippet returns the shown lines of a file; nil if the file is not among the sources.
func snippet(highlight, shown hcl.Range, sources map[string]*hcl.File) *Snippet {
	file := sources[shown.Filename]
	if file == nil || file.Bytes == nil {
		return nil
	}
	out := &Snippet{StartLine: shown.Start.Line, Values: []ExpressionValue{}}
	if context := hcled.ContextString(navigable(file, shown.Filename), highlight.Start.Byte-1); context != "" {
		out.Context = &context
	}
	var code strings.Builder
	first := -1
	for r := range linesAround(file.Bytes, shown) {
		if r.Filename = highlight.Filename; !r.Overlaps(shown) {
			continue
		}
		if first < 0 {
			first = r.Start.Byte
		} else {
			code.WriteByte('\n')
		}
		code.Write(r.SliceBytes(file.Bytes))
	}
	out.Code = code.String()
	length := highlight.End.Byte - highlight.Start.Byte
	start := highlight.Start.Byte - max(first, 0)
	out.HighlightStartOffset = min(max(start, 0), len(out.Code))
	out.HighlightEndOffset = min(max(start+length, 0), len(out.Code))
	out.cut()
	return out
}

// linesAround yields the lines from the one in which a range begins to the one in which it ends, as ranges without
// columns. It does not look at the lines before: a root with many problems has many snippets.
func linesAround(src []byte, shown hcl.Range) iter.Seq[hcl.Range] {
	return func(yield func(hcl.Range) bool) {
		start, end := min(max(shown.Start.Byte, 0), len(src)), min(max(shown.End.Byte, 0), len(src))
		for at := bytes.LastIndexByte(src[:start], '\n') + 1; at <= end; {
			line, _, more := bytes.Cut(src[at:], []byte{'\n'})
			text := bytes.TrimSuffix(line, []byte{'\r'})
			if !yield(hcl.Range{Start: hcl.Pos{Byte: at}, End: hcl.Pos{Byte: at + len(text)}}) || !more {
				return
			}
			at += len(line) + 1
		}
	}
}

// maxShown is how many bytes of code a snippet has at most. Showing a line takes time with its length, and nobody reads
// one that fills many screens.
const maxShown = 4096

// cut leaves out what is far from the highlighted part.
func (s *Snippet) cut() {
	if len(s.Code) <= maxShown {
		return
	}
	from := max(0, s.HighlightStartOffset-maxShown/2)
	to := min(len(s.Code), from+maxShown)
	s.Code = strings.ToValidUTF8(s.Code[from:to], "?")
	s.HighlightStartOffset = min(s.HighlightStartOffset-from, len(s.Code))
	s.HighlightEndOffset = min(s.HighlightEndOffset-from, len(s.Code))
}

// hideValue replaces the value of an argument, in either syntax.
func (s *Snippet) hideValue() {
	end := strings.IndexAny(s.Code, "=:")
	if end < 0 {
		return // the argument is not in the file; this is its block
	}
	s.Code = s.Code[:end+1] + " (not shown: it may contain a secret)"
	s.HighlightStartOffset = min(s.HighlightStartOffset, end)
	s.HighlightEndOffset = end
}

// navigable returns the file with the index that finds the block at a position. Files that were not made by a
// parser lack it.
func navigable(file *hcl.File, name string) *hcl.File {
	if file.Nav != nil {
		return file
	}
	// Problems in the file were reported when it was loaded; here it only helps to name a block.
	var parsed *hcl.File
	if strings.HasSuffix(name, ".json") {
		parsed, _ = syntax.ParseJSON(file.Bytes, name)
	} else {
		parsed, _ = syntax.ParseConfig(file.Bytes, name, hcl.InitialPos)
	}
	if parsed != nil {
		return parsed
	}
	return file
}

// expressionValues describes the values of the references in the expression of a diagnostic, sorted by reference.
// References without anything to say are left out.
func expressionValues(d *diag.Diagnostic) []ExpressionValue {
	out := []ExpressionValue{}
	if d.Expression == nil || d.EvalContext == nil {
		return out
	}
	cause, _ := d.Extra.(eval.Cause)
	seen := map[string]bool{}
	for _, t := range d.Expression.Variables() {
		t, v, ok := longestValid(t, d.EvalContext)
		if !ok {
			continue
		}
		name := traversalText(t)
		statement := statementOf(v, cause)
		if statement == "" || seen[name] {
			continue
		}
		seen[name] = true
		out = append(out, ExpressionValue{name, statement})
	}
	slices.SortFunc(out, func(a, b ExpressionValue) int { return cmp.Compare(a.Traversal, b.Traversal) })
	return out
}

// longestValid returns the longest prefix of a traversal that has a value, and the value.
func longestValid(t hcl.Traversal, ctx *hcl.EvalContext) (hcl.Traversal, cty.Value, bool) {
	for ; len(t) > 0; t = t[:len(t)-1] {
		// A failure here is the one that the diagnostic reports.
		if v, diags := t.TraverseAbs(ctx); !diags.HasErrors() {
			return t, v, true
		}
	}
	return nil, cty.NilVal, false
}

// statementOf describes a value without revealing secrets. It is empty for confidential and unknown values unless
// they caused the problem, because readers would take them for the cause.
func statementOf(v cty.Value, cause eval.Cause) string {
	confidential := cause == eval.BecauseConfidential
	switch {
	case marks.Has(v, marks.Sensitive):
		if confidential {
			return "has a sensitive value"
		}
		return ""
	case marks.Has(v, marks.Ephemeral):
		if confidential {
			return "has an ephemeral value"
		}
		return ""
	case !v.IsKnown():
		return unknownStatement(v, cause == eval.BecauseUnknown)
	default:
		return "is " + compactText(v)
	}
}

func unknownStatement(v cty.Value, isCause bool) string {
	ty := v.Type()
	switch {
	case !isCause && ty == cty.DynamicPseudoType:
		return ""
	case !isCause:
		return "is a " + ty.FriendlyName()
	case ty == cty.DynamicPseudoType:
		return "will be known only after apply"
	case !ty.IsCollectionType():
		return "is a " + ty.FriendlyName() + ", known only after apply"
	}
	const large = 1024 // a larger upper bound is not informative
	v, _ = v.Unmark()
	low, high := v.Range().LengthLowerBound(), v.Range().LengthUpperBound()
	size := ""
	switch {
	case low == high:
		size = fmt.Sprintf(" of length %d", low)
	case low != 0 && high <= large:
		size = fmt.Sprintf(" with between %d and %d elements", low, high)
	case low != 0:
		size = fmt.Sprintf(" with at least %d elements", low)
	case high <= large:
		size = fmt.Sprintf(" with up to %d elements", high)
	}
	return "is a " + ty.FriendlyName() + size + ", known only after apply"
}

// compactText returns a value on one line: primitive values in full; of others only type and size, since parts of
// them may be sensitive.
func compactText(v cty.Value) string {
	if v.IsMarked() && (v.HasMark(marks.Sensitive) || v.HasMark(marks.Ephemeral)) {
		return "(" + confidentialWord(v) + " value)"
	}
	v, _ = v.Unmark()
	ty := v.Type()
	switch {
	case v.IsNull():
		return "null"
	case !v.IsKnown():
		return "(not yet known)"
	case ty == cty.Bool:
		return fmt.Sprint(v.True())
	case ty == cty.Number:
		return v.AsBigFloat().Text('g', 10)
	case ty == cty.String:
		return fmt.Sprintf("%q", v.AsString())
	case ty.IsCollectionType() || ty.IsTupleType():
		switch n := v.LengthInt(); n {
		case 0:
			return "empty " + ty.FriendlyName()
		case 1:
			return ty.FriendlyName() + " with 1 element"
		default:
			return fmt.Sprintf("%s with %d elements", ty.FriendlyName(), n)
		}
	case ty.IsObjectType():
		switch names := slices.Sorted(maps.Keys(ty.AttributeTypes())); len(names) {
		case 0:
			return "object with no attributes"
		case 1:
			return fmt.Sprintf("object with 1 attribute %q", names[0])
		default:
			return fmt.Sprintf("object with %d attributes", len(names))
		}
	default:
		return ty.FriendlyName()
	}
}

func confidentialWord(v cty.Value) string {
	if v.HasMark(marks.Sensitive) {
		return "sensitive"
	}
	return "ephemeral"
}

// traversalText returns a reference in the syntax of the language.
func traversalText(t hcl.Traversal) string {
	var b strings.Builder
	for _, step := range t {
		switch step := step.(type) {
		case hcl.TraverseRoot:
			b.WriteString(step.Name)
		case hcl.TraverseAttr:
			b.WriteString("." + step.Name)
		case hcl.TraverseIndex:
			key := "..."
			if step.Key.Type().IsPrimitiveType() {
				key = compactText(step.Key)
			}
			b.WriteString("[" + key + "]")
		}
	}
	return b.String()
}

// functionCall describes the call that a diagnostic is about; nil if it is not about a call.
func functionCall(d *diag.Diagnostic) *FunctionCall {
	if d.Expression == nil || d.EvalContext == nil {
		return nil
	}
	extra, ok := hcl.DiagnosticExtra[hclsyntax.FunctionCallDiagExtra](&hcl.Diagnostic{Extra: d.Extra})
	if !ok || extra.CalledFunctionName() == "" {
		return nil
	}
	out := &FunctionCall{CalledAs: extra.CalledFunctionName()}
	for ctx := d.EvalContext; ctx != nil; ctx = ctx.Parent() {
		if f, found := ctx.Functions[out.CalledAs]; found {
			out.Signature = describeFunction(out.CalledAs[strings.LastIndex(out.CalledAs, ":")+1:], f)
			break
		}
	}
	return out
}

// difference returns the difference between the sides of `a == b`, if a diagnostic is about such a comparison.
func difference(d *diag.Diagnostic) *Change {
	if d.Expression == nil || d.EvalContext == nil {
		return nil
	}
	op, ok := d.Expression.(*hclsyntax.BinaryOpExpr)
	if !ok || op.Op != hclsyntax.OpEqual {
		return nil
	}
	// A side that cannot be evaluated is reported by the diagnostic itself.
	left, _ := op.LHS.Value(d.EvalContext)
	right, _ := op.RHS.Value(d.EvalContext)
	if marks.Contains(left, marks.Ephemeral) || marks.Contains(right, marks.Ephemeral) {
		return nil
	}
	return comparison(left, right)
}
