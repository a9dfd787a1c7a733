package jet

import (
	"context"

	"github.com/nats-io/nats.go"

	"github.com/millipede-iac/millipede/internal/trace"
)

// The headers in which a task and a call carry the span that they belong under, as the W3C has them. NATS keeps the
// case of names.
const (
	traceParent = "traceparent"
	traceState  = "tracestate"
)

// traced notes the current span in a message. Without one the message stays as it is: without headers it is smaller.
func traced(ctx context.Context, m *nats.Msg) {
	c := trace.Current(ctx)
	if !c.Valid() {
		return
	}
	if m.Header == nil {
		m.Header = nats.Header{}
	}
	m.Header[traceParent] = []string{c.Header()}
	if c.State != "" {
		m.Header[traceState] = []string{c.State}
	}
}

// traceOf returns the span that a message names; the zero value for none.
func traceOf(h nats.Header) trace.Context {
	if h == nil {
		return trace.Context{}
	}
	c, _ := trace.Parse(h.Get(traceParent), h.Get(traceState))
	return c
}
