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

// tail keeps the last lines that a plugin wrote to standard error, and the first lines of a panic, which the stack
// traces after it would displace. JSON lines of hclog are shortened, and debug messages are dropped. It is safe for
// concurrent use.
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

// writer returns a writer for another source of output, whose lines do not mix with those of others.
func (t *tail) writer() io.Writer {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := &tailWriter{to: t}
	t.writers = append(t.writers, w)
	return w
}

type tailWriter struct {
	to   *tail
	part []byte // of an incomplete line, at most partBytes; guarded by the tail's mutex
}

// partBytes is enough for a line of JSON that is shortened afterwards.
const partBytes = 64 << 10

// Write processes a piece of output.
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

// add keeps a line. Plugins log a lot, so lines in JSON are decoded only if necessary.
func (t *tail) add(line string) {
	if isDebugLine(line) || line == "" && len(t.last) == 0 {
		return
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

// isDebugLine reports whether a line is a debug message of hclog.
func isDebugLine(line string) bool {
	return strings.HasPrefix(line, "{") &&
		(strings.Contains(line, `"@level":"trace"`) || strings.Contains(line, `"@level":"debug"`))
}

// readable shortens a line: to the message and the fields if it has hclog's JSON form, and to a maximum length.
func readable(line string) string {
	var fields map[string]any
	if strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &fields) == nil && fields["@message"] != nil {
		line = fmt.Sprintf("[%s] %v", strings.ToUpper(fmt.Sprint(fields["@level"])), fields["@message"])
		for _, k := range slices.Sorted(maps.Keys(fields)) {
			if !strings.HasPrefix(k, "@") {
				line += fmt.Sprintf(" %s=%v", k, fields[k])
			}
		}
	}
	if len(line) > lineBytes {
		line = strings.ToValidUTF8(line[:lineBytes], "") + "..."
	}
	return strings.TrimRight(line, "\r")
}

// text returns the kept lines, with a heading; empty if there are none.
func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := append(slices.Clone(t.panic), t.last...)
	for _, w := range t.writers {
		if part := string(w.part); part != "" && !isDebugLine(part) {
			lines = append(lines, part)
		}
	}
	if len(lines) == 0 {
		return ""
	}
	for i, line := range lines {
		lines[i] = readable(line)
	}
	return "Its last lines of standard error output:\n  " + strings.Join(lines, "\n  ")
}
