package work

import (
	"strings"

	"github.com/millipede-iac/millipede/service/tables"
)

// Output is a buffer for the output of an engine. It keeps the beginning of what is written to it: Most bytes.
type Output struct {
	Most int
	text strings.Builder
}

// String returns what was kept.
func (l *Output) String() string { return l.text.String() }

// Write implements io.Writer. It accepts all bytes.
func (l *Output) Write(p []byte) (int, error) {
	l.text.Write(p[:min(len(p), max(0, l.Most-l.text.Len()))])
	return len(p), nil
}

// Problem returns the errors in the output, as an error that wraps tables.ErrConflict.
func (l *Output) Problem() error {
	text := l.text.String()
	if i := strings.Index(text, "Error: "); i > 0 {
		text = text[i:] // notes and warnings precede it
	}
	return tables.Conflict("%s", strings.TrimSpace(text))
}
