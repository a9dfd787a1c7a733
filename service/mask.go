package service

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"slices"
	"strings"
)

// masked stands in logs for a secret.
const masked = "(sensitive value)"

// minSecret is how long a secret has to be for logs to be searched for it: shorter ones are words of every log.
const minSecret = 6

// mask writes a log without secrets: programs that a run starts print what they like. It holds back what may be the
// beginning of a secret until it knows; Flush writes the rest. Not safe for concurrent use, as the log is not.
type mask struct {
	out     io.Writer
	secrets [][]byte // the longest first
	held    []byte
}

// newMask returns a writer without these secrets: as they are, line by line, and as JSON has them.
func newMask(out io.Writer, secrets []string) *mask {
	m := &mask{out: out}
	known := map[string]bool{}
	add := func(s string) {
		if s = strings.TrimSpace(s); len(s) >= minSecret && !known[s] {
			known[s] = true
			m.secrets = append(m.secrets, []byte(s))
		}
	}
	for _, s := range secrets {
		for line := range strings.Lines(s) { // each is printed by itself
			add(line)
			if quoted, err := json.Marshal(strings.TrimSpace(line)); err == nil {
				add(string(quoted[1 : len(quoted)-1]))
			}
		}
	}
	slices.SortFunc(m.secrets, func(x, y []byte) int { return cmp.Compare(len(y), len(x)) })
	return m
}

// Write implements io.Writer.
func (m *mask) Write(p []byte) (int, error) {
	if len(m.secrets) == 0 {
		return m.out.Write(p)
	}
	m.held = append(m.held, p...)
	if err := m.drain(false); err != nil {
		return 0, err
	}
	return len(p), nil
}

// drain writes what is known to be no beginning of a secret; at the end, everything.
func (m *mask) drain(end bool) error {
	var ready []byte
	for {
		at, size := m.find()
		if at < 0 || !end && m.longer(m.held[at:]) {
			break
		}
		ready = append(append(ready, m.held[:at]...), masked...)
		m.held = m.held[at+size:]
	}
	keep := 0
	if !end {
		keep = m.beginning()
	}
	ready = append(ready, m.held[:len(m.held)-keep]...)
	m.held = bytes.Clone(m.held[len(m.held)-keep:])
	if len(ready) == 0 {
		return nil
	}
	_, err := m.out.Write(ready)
	return err
}

// longer tells whether a text is only the beginning of a secret.
func (m *mask) longer(text []byte) bool {
	return slices.ContainsFunc(m.secrets, func(s []byte) bool { return len(s) > len(text) && bytes.HasPrefix(s, text) })
}

// find returns where the first secret is in what is held, and its length; -1 for none. Of two that begin at the same
// place it is the longer one.
func (m *mask) find() (at, size int) {
	at = -1
	for _, s := range m.secrets {
		if i := bytes.Index(m.held, s); i >= 0 && (at < 0 || i < at) {
			at, size = i, len(s)
		}
	}
	return at, size
}

// beginning returns the length of the longest end of what is held that a secret begins with.
func (m *mask) beginning() (longest int) {
	for _, s := range m.secrets {
		for n := min(len(s)-1, len(m.held)); n > longest; n-- {
			if bytes.HasSuffix(m.held, s[:n]) {
				longest = n
				break
			}
		}
	}
	return longest
}

// Flush writes what was held back.
func (m *mask) Flush() error { return m.drain(true) }
