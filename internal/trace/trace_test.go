package trace_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/internal/trace"
)

type sink struct {
	mu    sync.Mutex
	spans []trace.Record
}

func (s *sink) Take(r trace.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spans = append(s.spans, r)
}

// tracer counts its identifiers up, and its clock goes a second with each question.
func tracer(s trace.Sink) *trace.Tracer {
	n, now := byte(0), time.Unix(0, 0)
	return trace.New(trace.Options{
		Sink: s, Now: func() time.Time { now = now.Add(time.Second); return now },
		Random: func(b []byte) { n++; b[0] = n },
	})
}

func TestWhatIsNotRecordedCostsNothing(t *testing.T) {
	ctx := t.Context()
	allocated := testing.AllocsPerRun(100, func() {
		ctx, span := trace.Start(ctx, "work", trace.Internal)
		span.Set("key", "text")
		span.SetInt("number", 1)
		span.Event("event", "key", "text")
		span.Fail("reason")
		span.End()
		if trace.On(ctx) || trace.Current(ctx).Valid() {
			t.Error("a span is recorded")
		}
	})
	if allocated != 0 {
		t.Errorf("it allocates %v times", allocated)
	}
}

func TestSpansAreATree(t *testing.T) {
	var got sink
	ctx := trace.With(t.Context(), tracer(&got))
	outer, above := trace.Start(ctx, "above", trace.Internal)
	_, below := trace.Start(outer, "below", trace.Client)
	below.Set("a", "b")
	below.Fail("broken")
	below.End()
	below.Set("late", "x")
	below.End()
	above.End()
	if len(got.spans) != 2 {
		t.Fatalf("got %d spans", len(got.spans))
	}
	b, a := got.spans[0], got.spans[1]
	switch {
	case a.Name != "above" || b.Name != "below":
		t.Errorf("got %q and %q", a.Name, b.Name)
	case a.Parent != [8]byte{} || b.Parent != a.Span || b.Trace != a.Trace:
		t.Errorf("%+v does not belong under %+v", b, a)
	case !b.Failed || b.Reason != "broken" || len(b.Attributes) != 1 || a.Failed:
		t.Errorf("got %+v", b)
	case b.Start.Before(a.Start) || !b.End.After(b.Start) || !a.End.After(b.End):
		t.Errorf("the times are %v-%v and %v-%v", a.Start, a.End, b.Start, b.End)
	}
}

func TestATraceGoesOnInAnotherProcess(t *testing.T) {
	var here, there sink
	ctx, span := trace.Start(trace.With(t.Context(), tracer(&here)), "here", trace.Client)
	sent, ok := trace.Parse(trace.Current(ctx).Header(), "")
	if !ok {
		t.Fatalf("the header %q cannot be read", trace.Current(ctx).Header())
	}
	_, task := trace.Start(trace.Under(trace.With(t.Context(), tracer(&there)), sent), "there", trace.Server)
	task.End()
	span.End()
	if there.spans[0].Parent != here.spans[0].Span || there.spans[0].Trace != here.spans[0].Trace {
		t.Errorf("%+v does not belong under %+v", there.spans[0], here.spans[0])
	}
}

func TestWhatIsNotSampledIsPassedOnAndNotRecorded(t *testing.T) {
	var got sink
	unwanted := trace.Context{Trace: [16]byte{1}, Span: [8]byte{2}}
	ctx, span := trace.Start(trace.Under(trace.With(t.Context(), tracer(&got)), unwanted), "work", trace.Server)
	span.End()
	if len(got.spans) != 0 {
		t.Errorf("got %+v", got.spans)
	}
	if c := trace.Current(ctx); c.Trace != unwanted.Trace || c.Sampled || !strings.HasSuffix(c.Header(), "-00") {
		t.Errorf("%+v is passed on", c)
	}
}

func TestATracesHeaderIsReadAsTheRecommendationSays(t *testing.T) {
	const trace16, span8 = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for header, want := range map[string]bool{
		"00-" + trace16 + "-" + span8 + "-01":                              true,
		"00-" + trace16 + "-" + span8 + "-00":                              true,
		"cc-" + trace16 + "-" + span8 + "-01-what-comes-later":             true,
		"00-" + trace16 + "-" + span8 + "-01-more":                         false,
		"ff-" + trace16 + "-" + span8 + "-01":                              false,
		"00-" + strings.ToUpper(trace16) + "-" + span8 + "-01":             false,
		"00-" + strings.Repeat("0", 32) + "-" + span8 + "-01":              false,
		"00-" + trace16 + "-" + strings.Repeat("0", 16) + "-01":            false,
		"00-" + trace16[1:] + "-" + span8 + "-01":                          false,
		"00-" + trace16 + "-" + span8:                                      false,
		"00-" + strings.Replace(trace16, "0", "g", 1) + "-" + span8 + "-1": false,
		"": false, "-": false, "00---": false,
	} {
		c, ok := trace.Parse(header, "a=b")
		if ok != want {
			t.Errorf("%q is read: %t", header, ok)
		}
		if ok && strings.HasPrefix(header, "00") && (c.Header() != header || c.State != "a=b") {
			t.Errorf("%q becomes %q with %q", header, c.Header(), c.State)
		}
	}
	if c, ok := trace.Parse("00-"+trace16+"-"+span8+"-01", "a=b\r\nInjected: yes"); !ok || c.State != "" {
		t.Errorf("the state %q is passed on", c.State)
	}
}

func TestASpanIsBounded(t *testing.T) {
	var got sink
	_, span := trace.Start(trace.With(t.Context(), tracer(&got)), "work", trace.Internal)
	for range 1000 {
		span.Set("key", strings.Repeat("x", 1<<20))
		span.Event("event", "", "")
	}
	span.End()
	r := got.spans[0]
	if len(r.Attributes) > 32 || len(r.Attributes[0].Text) > 4096 || len(r.Events) > 128 {
		t.Errorf("%d attributes, of %d bytes, and %d events", len(r.Attributes), len(r.Attributes[0].Text), len(r.Events))
	}
}

// another is the key of a value that stands in the way of what is looked for.
type another struct{}

func BenchmarkOff(b *testing.B) {
	ctx := context.WithValue(b.Context(), another{}, 1)
	b.ReportAllocs()
	for b.Loop() {
		_, span := trace.Start(ctx, "work", trace.Internal)
		span.End()
	}
}
