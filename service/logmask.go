package service

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/millipede-iac/millipede/service/work"
)

// masked replaces a secret in logs.
const masked = "(sensitive value)"

// minSecret is the minimum length of the secrets that are masked, in bytes: shorter ones would match ordinary
// words.
const minSecret = 6

// mask is a writer that replaces secrets in a log, because the programs that a run starts may print anything.
// It holds back text that may be the beginning of a secret until more is written, or until Flush. Safe for
// concurrent use.
type mask struct {
	mu      sync.Mutex // guards the fields below
	out     io.Writer
	secrets [][]byte // the longest first
	held    []byte
}

// newMask returns a writer that replaces these secrets: each as a whole, each of its lines, and its form in
// JSON.
func newMask(out io.Writer, secrets []string) *mask {
	m := &mask{out: out}
	m.add(secrets)
	return m
}

// add adds secrets that are replaced from now on.
func (m *mask) add(secrets []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := map[string]bool{}
	for _, s := range m.secrets {
		known[string(s)] = true
	}
	add := func(s string) {
		if s = strings.TrimSpace(s); len(s) >= minSecret && !known[s] {
			known[s] = true
			m.secrets = append(m.secrets, []byte(s))
		}
	}
	for _, s := range secrets {
		for line := range strings.Lines(s) { // programs may print single lines of it
			add(line)
			if quoted, err := json.Marshal(strings.TrimSpace(line)); err == nil {
				add(string(quoted[1 : len(quoted)-1]))
			}
		}
	}
	slices.SortFunc(m.secrets, func(x, y []byte) int { return cmp.Compare(len(y), len(x)) })
}

// all returns the secrets.
func (m *mask) all() [][]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.secrets)
}

// Write implements io.Writer.
func (m *mask) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.secrets) == 0 {
		return m.out.Write(p)
	}
	m.held = append(m.held, p...)
	if err := m.drain(false); err != nil {
		return 0, err
	}
	return len(p), nil
}

// drain requires the lock. It writes the text that cannot be the beginning of a secret; with end, all of the text.
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

// longer reports whether a text is a proper prefix of a secret.
func (m *mask) longer(text []byte) bool {
	return slices.ContainsFunc(m.secrets, func(s []byte) bool { return len(s) > len(text) && bytes.HasPrefix(s, text) })
}

// find returns the offset and the length of the first secret in the held text; the offset is -1 if there is
// none. Of two secrets at the same offset it returns the longer one.
func (m *mask) find() (at, size int) {
	at = -1
	for _, s := range m.secrets {
		if i := bytes.Index(m.held, s); i >= 0 && (at < 0 || i < at) {
			at, size = i, len(s)
		}
	}
	return at, size
}

// beginning returns the length of the longest suffix of the held text that is a prefix of a secret.
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

// Flush writes the held text.
func (m *mask) Flush() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.drain(true)
}

// maskedAs returns a text with its secrets masked as in the log of a job.
func maskedAs(log io.Writer, text string) string {
	m, ok := log.(*mask)
	if !ok {
		return text
	}
	var out strings.Builder
	one := &mask{out: &out, secrets: m.all()}
	if _, err := one.Write([]byte(text)); err != nil {
		return masked // writing to a strings.Builder does not fail
	}
	if err := one.Flush(); err != nil {
		return masked
	}
	return out.String()
}

// unmask ends the masking of the log of a job, and masks the secrets of an error that is to be written there.
func unmask(log io.Writer, err error) error {
	m, ok := log.(*mask)
	if !ok {
		return err
	}
	failed := m.Flush()
	if err == nil || errors.Is(err, work.ErrReported) || errors.Is(err, work.ErrStopped) {
		return errors.Join(err, failed)
	}
	var text strings.Builder
	m.out = &text
	_, _ = m.Write([]byte(err.Error())) // a strings.Builder does not fail
	_ = m.Flush()
	if text.String() != err.Error() {
		err = errors.New(text.String())
	}
	return errors.Join(err, failed)
}
