package document

import (
	"bytes"
	"encoding/json"

	"github.com/hashicorp/hcl/v2"

	"github.com/millipede-iac/millipede/lang/diag"
)

// validateFormat is the version of the output of `validate -json`.
const validateFormat = "1.0"

// Diagnostic is the JSON form of a diagnostic. The text form is made from it, so that both agree.
type Diagnostic struct {
	Severity   string   `json:"severity"`
	Summary    string   `json:"summary"`
	Detail     string   `json:"detail"`
	Address    string   `json:"address,omitempty"`
	Range      *Range   `json:"range,omitempty"`
	Snippet    *Snippet `json:"snippet,omitempty"`
	Difference *Change  `json:"difference,omitempty"`
}

// Range is a part of a source file.
type Range struct {
	Filename string   `json:"filename"`
	Start    Position `json:"start"`
	End      Position `json:"end"`
}

// Position is a position in a source file: lines and columns count from one, bytes from zero.
type Position struct {
	Line   int `json:"line"`
	Column int `json:"column"`
	Byte   int `json:"byte"`
}

// Snippet is the source code that a diagnostic is about.
type Snippet struct {
	// Context is the header of the enclosing block; nil if there is none.
	Context *string `json:"context"`
	// Code consists of whole lines; StartLine is the number of the first.
	Code      string `json:"code"`
	StartLine int    `json:"start_line"`
	// The offsets delimit the subject, in bytes of Code.
	HighlightStartOffset int `json:"highlight_start_offset"`
	HighlightEndOffset   int `json:"highlight_end_offset"`
	// Values are the values of the references in the expression, by name.
	Values       []ExpressionValue `json:"values"`
	FunctionCall *FunctionCall     `json:"function_call,omitempty"`
}

// ExpressionValue describes the value of a reference when the problem was found.
type ExpressionValue struct {
	Traversal string `json:"traversal"`
	Statement string `json:"statement"`
}

// FunctionCall is the call that failed.
type FunctionCall struct {
	CalledAs  string        `json:"called_as"`
	Signature *functionForm `json:"signature,omitempty"`
}

// DiagnosticJSON returns the JSON form of a diagnostic. sources are the parsed files by name; if they lack the file
// of its subject, there is no snippet.
func DiagnosticJSON(d *diag.Diagnostic, sources map[string]*hcl.File) *Diagnostic {
	out := &Diagnostic{
		Severity: d.Severity.String(), Summary: d.Summary, Detail: d.Detail, Address: d.Address,
		Difference: difference(d),
	}
	if d.Subject == nil {
		return out
	}
	highlight, shown := ranges(d)
	out.Range = &Range{Filename: highlight.Filename, Start: position(highlight.Start), End: position(highlight.End)}
	if out.Snippet = snippet(highlight, shown, sources); out.Snippet != nil {
		out.Snippet.Values = expressionValues(d)
		out.Snippet.FunctionCall = functionCall(d)
		if _, ok := d.Extra.(diag.Confidential); ok {
			out.Snippet.hideValue()
		}
	}
	return out
}

func position(p hcl.Pos) Position { return Position{Line: p.Line, Column: p.Column, Byte: p.Byte} }

// ranges returns the subject of a diagnostic and the range of lines to show. Neither is empty, and the first is
// inside the second.
func ranges(d *diag.Diagnostic) (highlight, shown hcl.Range) {
	highlight = *d.Subject
	if highlight.End == (hcl.Pos{}) {
		highlight.End = highlight.Start
	}
	shown = highlight
	if d.Context != nil {
		shown = hcl.RangeOver(*d.Context, highlight)
	}
	return widened(highlight), widened(shown)
}

// widened makes an empty range one byte long.
func widened(r hcl.Range) hcl.Range {
	if r.Empty() {
		r.End.Byte++
		r.End.Column++
	}
	return r
}

// ValidateJSON returns the output of `validate -json`.
func ValidateJSON(l diag.List, sources map[string]*hcl.File) []byte {
	out := struct {
		FormatVersion string        `json:"format_version"`
		Valid         bool          `json:"valid"`
		ErrorCount    int           `json:"error_count"`
		WarningCount  int           `json:"warning_count"`
		Diagnostics   []*Diagnostic `json:"diagnostics"`
	}{FormatVersion: validateFormat, Valid: !l.HasErrors(), Diagnostics: []*Diagnostic{}}
	for _, d := range l {
		out.Diagnostics = append(out.Diagnostics, DiagnosticJSON(d, sources))
		if d.Severity == diag.Error {
			out.ErrorCount++
		} else {
			out.WarningCount++
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	if err := e.Encode(out); err != nil {
		panic("view: diagnostics have no JSON: " + err.Error())
	}
	return b.Bytes()
}
