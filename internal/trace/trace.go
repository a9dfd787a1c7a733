// Package trace records where the spans of an operation begin and end, and how they are nested.
//
// A span is a piece of work with a name and two times; the spans of an operation are a tree. The context.Context of
// the work contains the current span; messages contain it in their headers. Without a Tracer in the context nothing
// is recorded or allocated. The package sends nothing: a Tracer passes its spans to a Sink (trace/otlp).
//
// Traces leave an organisation more easily than states do. So spans have addresses, names and counts, but never
// values, messages of providers, or diagnostics.
package trace

import (
	"context"
	"sync"
	"time"
)

// Kind is the relation of a span to its parent and children.
type Kind byte

const (
	Internal Kind = iota + 1
	// Server is the work that a message requested.
	Server
	// Client is a call, including the wait for its response.
	Client
)

// Attribute is a property of a span: Text, or Number if IsNumber is set.
type Attribute struct {
	Key, Text string
	Number    int64
	IsNumber  bool
}

// Event is an event during a span.
type Event struct {
	Name       string
	At         time.Time
	Attributes []Attribute
}

// Record is an ended span.
type Record struct {
	Context
	// Parent is the parent span; zero for none.
	Parent     [8]byte
	Name       string
	Kind       Kind
	Start, End time.Time
	Attributes []Attribute
	Events     []Event
	// Failed is set if the work has failed; Reason describes the failure without secrets.
	Failed bool
	Reason string
}

// Sink receives ended spans. Take must not block, and is called from any goroutine.
type Sink interface{ Take(Record) }

// Options are the dependencies of a Tracer. All but Sample are required.
type Options struct {
	Sink Sink
	// Sample decides whether a trace that begins here, or continues here under parent, is recorded; nil: as the
	// parent decides, and always without a parent.
	Sample func(trace [16]byte, parent Context) bool
	Now    func() time.Time
	// Random fills identifiers with random bytes. It must be safe for concurrent use.
	Random func([]byte)
}

// Tracer creates spans. It may be used from any goroutine.
type Tracer struct{ Options }

// New returns a tracer.
func New(o Options) *Tracer {
	if o.Sample == nil {
		o.Sample = func(_ [16]byte, parent Context) bool { return !parent.Valid() || parent.Sampled }
	}
	return &Tracer{o}
}

// scope is the value in a context.Context.
type scope struct {
	tracer *Tracer // nil: the current span is only passed on
	at     Context
}

type key struct{}

func of(ctx context.Context) scope {
	s, _ := ctx.Value(key{}).(*scope)
	if s == nil {
		return scope{}
	}
	return *s
}

// With returns a context whose spans t records; t may be nil, for none. The current span is unchanged.
func With(ctx context.Context, t *Tracer) context.Context {
	s := of(ctx)
	if s.tracer == t {
		return ctx
	}
	return context.WithValue(ctx, key{}, &scope{t, s.at})
}

// Under returns a context whose spans are children of c; ctx itself if c does not identify a span.
func Under(ctx context.Context, c Context) context.Context {
	if !c.Valid() {
		return ctx
	}
	return context.WithValue(ctx, key{}, &scope{of(ctx).tracer, c})
}

// Current returns the current span, for messages.
func Current(ctx context.Context) Context { return of(ctx).at }

// On reports whether spans are recorded.
func On(ctx context.Context) bool { return of(ctx).tracer != nil }

// Span is a span in progress. A nil *Span is not recorded: all its methods do nothing. It may be used from any
// goroutine.
type Span struct {
	tracer *Tracer

	mu     sync.Mutex // guards the fields below
	record Record
	ended  bool
}

// Start starts a child of the current span, and returns a context in which it is the current one. The caller ends
// it.
func Start(ctx context.Context, name string, kind Kind) (context.Context, *Span) {
	s, _ := ctx.Value(key{}).(*scope)
	if s == nil || s.tracer == nil {
		return ctx, nil
	}
	return s.tracer.start(ctx, s.at, name, kind)
}

func (t *Tracer) start(ctx context.Context, parent Context, name string, kind Kind) (context.Context, *Span) {
	c := Context{Trace: parent.Trace, Sampled: parent.Sampled, State: parent.State}
	if !parent.Valid() {
		t.Random(c.Trace[:])
	}
	t.Random(c.Span[:])
	c.Sampled = t.Sample(c.Trace, parent)
	ctx = context.WithValue(ctx, key{}, &scope{t, c})
	if !c.Sampled {
		return ctx, nil
	}
	return ctx, &Span{tracer: t, record: Record{Context: c, Parent: parent.Span, Name: name, Kind: kind, Start: t.Now()}}
}

// The bounds of one span. Excess data are dropped.
const (
	maxAttributes = 32
	maxEvents     = 128
	maxText       = 4 << 10
)

// Set sets an attribute.
func (s *Span) Set(key, text string) {
	if s != nil {
		s.add(Attribute{Key: key, Text: text[:min(len(text), maxText)]})
	}
}

// SetInt sets a numeric attribute.
func (s *Span) SetInt(key string, n int64) {
	if s != nil {
		s.add(Attribute{Key: key, Number: n, IsNumber: true})
	}
}

func (s *Span) add(a Attribute) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended && len(s.record.Attributes) < maxAttributes {
		s.record.Attributes = append(s.record.Attributes, a)
	}
}

// Event records an event, with an attribute unless key is empty.
func (s *Span) Event(name, key, text string) {
	if s == nil {
		return
	}
	e := Event{Name: name, At: s.tracer.Now()}
	if key != "" {
		e.Attributes = []Attribute{{Key: key, Text: text[:min(len(text), maxText)]}}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended && len(s.record.Events) < maxEvents {
		s.record.Events = append(s.record.Events, e)
	}
}

// Fail marks the work as failed. The reason must not contain secrets.
func (s *Span) Fail(reason string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.record.Failed, s.record.Reason = true, reason
	}
}

// End ends the span; later data are dropped.
func (s *Span) End() {
	if s == nil {
		return
	}
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return
	}
	s.ended = true
	s.record.End = s.tracer.Now()
	record := s.record
	s.mu.Unlock()
	s.tracer.Sink.Take(record)
}
