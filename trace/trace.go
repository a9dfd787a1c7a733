// Package trace says where the spans of an operation begin and end, and which span belongs under which.
//
// A span is a piece of work with a name and two times; the spans of an operation are a tree. The context.Context of
// the work carries the current span, messages carry it in their headers. Without a Tracer in the context nothing is
// recorded, and nothing allocated. The package sends nothing: whoever makes a Tracer gives it a Sink (trace/otlp).
//
// What is recorded leaves the organisation's machines more easily than a state does. So spans have addresses, names
// and counts, and never values, messages of providers, or diagnostics.
package trace

import (
	"context"
	"sync"
	"time"
)

// Kind says how a span relates to those above and below it.
type Kind byte

const (
	Internal Kind = iota + 1
	// Server is the work that a message asked for.
	Server
	// Client is a call, with the wait for its answer.
	Client
)

// Attribute is something that is known of a span: Text, or Number where IsNumber is set.
type Attribute struct {
	Key, Text string
	Number    int64
	IsNumber  bool
}

// Event is something that happened during a span.
type Event struct {
	Name       string
	At         time.Time
	Attributes []Attribute
}

// Record is a span that has ended.
type Record struct {
	Context
	// Parent is the span above it; zero for none.
	Parent     [8]byte
	Name       string
	Kind       Kind
	Start, End time.Time
	Attributes []Attribute
	Events     []Event
	// Failed tells that the work has failed; Reason says how, without anything that must not be shown.
	Failed bool
	Reason string
}

// Sink takes spans when they have ended. Take must not block, and is called from any goroutine.
type Sink interface{ Take(Record) }

// Options say what a Tracer is made of. All are needed but Sample.
type Options struct {
	Sink Sink
	// Sample says whether a trace that begins here is kept, or goes on here under parent; nil: as the parent says, and
	// always without one.
	Sample func(trace [16]byte, parent Context) bool
	Now    func() time.Time
	// Random fills identifiers. It must be safe for concurrent use.
	Random func([]byte)
}

// Tracer makes spans. It may be used from any goroutine.
type Tracer struct{ Options }

// New returns a tracer.
func New(o Options) *Tracer {
	if o.Sample == nil {
		o.Sample = func(_ [16]byte, parent Context) bool { return !parent.Valid() || parent.Sampled }
	}
	return &Tracer{o}
}

// scope is what a context.Context carries.
type scope struct {
	tracer *Tracer // nil: what is current is only passed on
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

// With returns a context whose spans t makes; t may be nil, for none. The current span stays as it is.
func With(ctx context.Context, t *Tracer) context.Context {
	s := of(ctx)
	if s.tracer == t {
		return ctx
	}
	return context.WithValue(ctx, key{}, &scope{t, s.at})
}

// Under returns a context whose spans belong under c; ctx itself where c names no span.
func Under(ctx context.Context, c Context) context.Context {
	if !c.Valid() {
		return ctx
	}
	return context.WithValue(ctx, key{}, &scope{of(ctx).tracer, c})
}

// Current returns the current span, which messages carry.
func Current(ctx context.Context) Context { return of(ctx).at }

// On reports whether spans are recorded.
func On(ctx context.Context) bool { return of(ctx).tracer != nil }

// Span is a span that has begun. A nil *Span is one that is not recorded: all its methods do nothing. It may be used
// from any goroutine.
type Span struct {
	tracer *Tracer

	mu     sync.Mutex // guards the rest
	record Record
	ended  bool
}

// Start begins a span under the current one, and returns a context in which it is the current one. End it.
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

// The bounds of what one span holds. What is beyond them is left out.
const (
	maxAttributes = 32
	maxEvents     = 128
	maxText       = 4 << 10
)

// Set notes something of the span.
func (s *Span) Set(key, text string) {
	if s != nil {
		s.add(Attribute{Key: key, Text: text[:min(len(text), maxText)]})
	}
}

// SetInt notes a number of the span.
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

// Event notes that something has happened; key and text say more, unless key is empty.
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

// Fail says that the work has failed. The reason holds nothing that must not be shown.
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

// End ends the span; what comes later is left out.
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
