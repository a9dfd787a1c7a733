package plugin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
)

// tail keeps the last lines that a plugin wrote to standard error, and the first lines of a panic, which the stacks
// behind it would push out. Lines that hclog wrote in JSON are kept in short, and those for debugging not at all. It
// is safe for concurrent use.
type tail struct {
	mu      sync.Mutex
	writers []*tailWriter
	panic   []string
	last    []string
}

const (
	tailLines  = 20
	panicLines = 12
	lineBytes  = 400
)

// writer returns a writer for one more source of output, whose lines do not mix with those of others.
func (t *tail) writer() io.Writer {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := &tailWriter{to: t}
	t.writers = append(t.writers, w)
	return w
}

type tailWriter struct {
	to   *tail
	part []byte // of a line that has not ended, at most partBytes; guarded by the tail's mutex
}

// partBytes is enough for a line of JSON that is shortened in the end.
const partBytes = 64 << 10

// Write takes a piece of output.
func (w *tailWriter) Write(b []byte) (int, error) {
	w.to.mu.Lock()
	defer w.to.mu.Unlock()
	for rest := b; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte{'\n'})
		rest = after
		w.part = append(w.part, line[:min(partBytes-len(w.part), len(line))]...)
		if ended {
			w.to.add(string(w.part))
			w.part = w.part[:0]
		}
	}
	return len(b), nil
}

func (t *tail) add(line string) {
	line, keep := readable(strings.TrimRight(line, "\r"))
	if !keep || line == "" && len(t.last) == 0 {
		return
	}
	if len(line) > lineBytes {
		line = strings.ToValidUTF8(line[:lineBytes], "") + "..."
	}
	switch {
	case t.panic == nil && (strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")):
		t.panic = []string{line}
	case t.panic != nil && len(t.panic) < panicLines:
		t.panic = append(t.panic, line)
	default:
		if len(t.last) == tailLines {
			t.last = append(t.last[:0], t.last[1:]...)
		}
		t.last = append(t.last, line)
	}
}

// readable shortens a line in hclog's JSON form, and tells whether the line is worth keeping.
func readable(line string) (string, bool) {
	if !strings.HasPrefix(line, "{") {
		return line, true
	}
	var fields map[string]any
	if json.Unmarshal([]byte(line), &fields) != nil || fields["@message"] == nil {
		return line, true
	}
	level, _ := fields["@level"].(string)
	if level == "trace" || level == "debug" {
		return "", false
	}
	short := fmt.Sprintf("[%s] %v", strings.ToUpper(level), fields["@message"])
	for _, k := range slices.Sorted(maps.Keys(fields)) {
		if !strings.HasPrefix(k, "@") {
			short += fmt.Sprintf(" %s=%v", k, fields[k])
		}
	}
	return short, true
}

// text returns what was kept, with a heading; empty when there is nothing.
func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := slices.Clone(t.last)
	for _, w := range t.writers {
		if line, keep := readable(string(w.part)); keep && line != "" {
			lines = append(lines, line)
		}
	}
	if t.panic != nil {
		lines = append(slices.Clone(t.panic), lines...)
	}
	if len(lines) == 0 {
		return ""
	}
	return "Its last lines of standard error output:\n  " + strings.Join(lines, "\n  ")
}
