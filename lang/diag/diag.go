// Package diag models one user-facing problem, and lists of them.
//
// A diagnostic has a problem, its source range, and advice for the user. The views of the command line format it; this
// package only provides a one-line error text.
package diag

import (
	"errors"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// Severity says whether a problem stops the operation.
type Severity byte

const (
	// Error stops the operation; the command exits non-zero.
	Error Severity = 'E'
	// Warning is shown and does not stop anything.
	Warning Severity = 'W'
)

// String returns the word in the JSON forms: "error" or "warning".
func (s Severity) String() string {
	if s == Warning {
		return "warning"
	}
	return "error"
}

// Diagnostic is one problem. It is immutable once it is in a List; the With methods return changed copies.
type Diagnostic struct {
	Severity Severity
	// Summary is one short sentence without a full stop; tools match on it.
	Summary string
	// Detail is the full explanation, possibly several paragraphs.
	Detail string
	// Address is the address of the object that the problem concerns; empty if there is none.
	Address string
	// Subject is the source range of the problem; Context a wider range to show around it. Both may be nil.
	Subject *hcl.Range
	Context *hcl.Range
	// Expression and EvalContext, if both are set, let a view show the values of the references in the expression.
	Expression  hcl.Expression
	EvalContext *hcl.EvalContext
	// Path points into the configuration body of the object at Address. Providers report problems this way; the
	// caller that has the body finds the source range and sets it using WithSubject.
	Path cty.Path
	// Extra contains data for specialised views (function call errors of HCL, for instance).
	Extra any
}

// Confidential is the Extra of a problem with an argument whose value may contain a secret: its source is not shown.
type Confidential struct{}

// Error returns the one-line text: summary, then detail.
func (d *Diagnostic) Error() string {
	if d.Detail == "" {
		return d.Summary
	}
	return d.Summary + "; " + strings.ReplaceAll(d.Detail, "\n", " ")
}

// WithAddress returns a copy with the address, unless there is one already.
func (d *Diagnostic) WithAddress(address string) *Diagnostic {
	if d.Address != "" {
		return d
	}
	c := *d
	c.Address = address
	return &c
}

// WithSubject returns a copy with the source range, unless there is one already.
func (d *Diagnostic) WithSubject(subject *hcl.Range) *Diagnostic {
	if d.Subject != nil || subject == nil {
		return d
	}
	c := *d
	c.Subject = subject
	return &c
}

// List contains the problems of an operation, in the order in which they were found. The zero value is ready for
// use.
type List []*Diagnostic

// HasErrors reports whether any of the problems is an error.
func (l List) HasErrors() bool {
	for _, d := range l {
		if d.Severity == Error {
			return true
		}
	}
	return false
}

// Err returns the list as an error if it contains at least one error, else nil. As recovers the list.
func (l List) Err() error {
	if !l.HasErrors() {
		return nil
	}
	return listError{l}
}

// Append returns the list with the problems of more appended. It accepts nil, *Diagnostic, List, *hcl.Diagnostic,
// hcl.Diagnostics and error (an error made by List.Err is converted back to its problems; any other error becomes
// one problem with its text as the summary). Other types are a bug and panic.
func (l List) Append(more ...any) List {
	for _, m := range more {
		switch m := m.(type) {
		case nil:
		case *Diagnostic:
			if m != nil {
				l = append(l, m)
			}
		case List:
			l = append(l, m...)
		case hcl.Diagnostics:
			for _, h := range m {
				l = append(l, FromHCL(h))
			}
		case *hcl.Diagnostic:
			if m != nil {
				l = append(l, FromHCL(m))
			}
		case error:
			if inner, ok := As(m); ok {
				l = append(l, inner...)
			} else {
				l = append(l, &Diagnostic{Severity: Error, Summary: m.Error()})
			}
		default:
			panic("diag: cannot append a value of this type to a list of diagnostics")
		}
	}
	return l
}

// WithAddress returns the list with the address set in every problem that has none.
func (l List) WithAddress(address string) List {
	for i, d := range l {
		l[i] = d.WithAddress(address)
	}
	return l
}

// WithSubject returns the list with the source range set in every problem that has none.
func (l List) WithSubject(subject *hcl.Range) List {
	for i, d := range l {
		l[i] = d.WithSubject(subject)
	}
	return l
}

// Errors returns a list of one error.
func Errors(summary, detail string, subject *hcl.Range) List {
	return List{New(Error, summary, detail, subject)}
}

// New returns one problem. subject may be nil.
func New(severity Severity, summary, detail string, subject *hcl.Range) *Diagnostic {
	return &Diagnostic{Severity: severity, Summary: summary, Detail: detail, Subject: subject}
}

// FromHCL converts a diagnostic of HCL; ranges, expression and extra are kept.
func FromHCL(h *hcl.Diagnostic) *Diagnostic {
	severity := Error
	if h.Severity == hcl.DiagWarning {
		severity = Warning
	}
	return &Diagnostic{
		Severity: severity, Summary: h.Summary, Detail: h.Detail,
		Subject: h.Subject, Context: h.Context,
		Expression: h.Expression, EvalContext: h.EvalContext, Extra: h.Extra,
	}
}

type listError struct{ list List }

func (e listError) Error() string {
	var b strings.Builder
	for _, d := range e.list {
		if d.Severity != Error {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\n")
		}
		b.WriteString(d.Error())
	}
	return b.String()
}

// As returns the list inside an error that List.Err made, however deeply wrapped.
func As(err error) (List, bool) {
	var e listError
	if errors.As(err, &e) {
		return e.list, true
	}
	return nil, false
}

// AsWarnings returns the list with every error changed to a warning, for conditions that only observe.
func (l List) AsWarnings() List {
	out := make(List, len(l))
	for i, d := range l {
		c := *d
		c.Severity = Warning
		out[i] = &c
	}
	return out
}
