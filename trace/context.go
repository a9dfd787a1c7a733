package trace

import (
	"encoding/hex"
	"strings"
)

// Context names a span, as the W3C's recommendation "Trace Context" has it. The zero value names none.
type Context struct {
	Trace [16]byte
	Span  [8]byte
	// Sampled tells that the spans of this trace are kept.
	Sampled bool
	// State is what others keep beside it (the header tracestate); it is passed on as it came.
	State string
}

// Valid reports whether the context names a span.
func (c Context) Valid() bool { return c.Trace != [16]byte{} && c.Span != [8]byte{} }

// Header returns the context in the form of the header traceparent; empty where there is none.
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
	// traceparentLength is that of version 00; later versions may be longer.
	traceparentLength = 55
	// maxState is how long a tracestate is passed on; a longer one may be dropped.
	maxState = 512
)

// Parse reads the headers traceparent and tracestate. ok is false where they name no span: then a new trace begins, as
// the recommendation asks for.
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
