package trace

import (
	"encoding/hex"
	"strings"
)

// Context identifies a span, as in the W3C recommendation "Trace Context". The zero value identifies none.
type Context struct {
	Trace [16]byte
	Span  [8]byte
	// Sampled is set if the spans of this trace are recorded.
	Sampled bool
	// State is data of other systems (the header tracestate); it is passed on unchanged.
	State string
}

// Valid reports whether the context identifies a span.
func (c Context) Valid() bool { return c.Trace != [16]byte{} && c.Span != [8]byte{} }

// Header returns the context in the form of the header traceparent; empty if there is none.
func (c Context) Header() string {
	if !c.Valid() {
		return ""
	}
	text := append(make([]byte, 0, traceparentLength), "00-"...)
	text = append(hex.AppendEncode(text, c.Trace[:]), '-')
	text = append(hex.AppendEncode(text, c.Span[:]), "-00"...)
	if c.Sampled {
		text[len(text)-1] = '1'
	}
	return string(text)
}

const (
	// traceparentLength is the length of version 00; later versions may be longer.
	traceparentLength = 55
	// maxState is the maximum length of a tracestate that is passed on; longer ones are dropped.
	maxState = 512
)

// Parse parses the headers traceparent and tracestate. ok is false if they do not identify a span: then a new trace
// begins, as the recommendation requires.
func Parse(traceparent, tracestate string) (c Context, ok bool) {
	parts := strings.SplitN(traceparent, "-", 5)
	if len(parts) < 4 || len(parts[0]) != 2 || len(parts[1]) != 32 || len(parts[2]) != 16 || len(parts[3]) != 2 ||
		traceparent != strings.ToLower(traceparent) {
		return Context{}, false
	}
	var version, flags [1]byte
	for i, into := range [][]byte{version[:], c.Trace[:], c.Span[:], flags[:]} {
		if _, err := hex.Decode(into, []byte(parts[i])); err != nil {
			return Context{}, false
		}
	}
	if version[0] == 0xff || version[0] == 0 && len(parts) > 4 || !c.Valid() {
		return Context{}, false
	}
	c.Sampled = flags[0]&1 == 1
	if len(tracestate) <= maxState && isHeaderText(tracestate) {
		c.State = tracestate
	}
	return c, true
}

func isHeaderText(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}
