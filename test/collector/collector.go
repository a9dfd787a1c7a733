// Package collector is an OpenTelemetry collector for tests: it keeps the spans that it is sent, over both transports.
//
// Its service and its messages are those that OpenTelemetry generates from its protocol.
package collector

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip" // it takes compressed messages
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Collector keeps spans.
type Collector struct {
	collector.UnimplementedTraceServiceServer

	// GRPC is host:port; HTTP is the URL.
	GRPC, HTTP string

	mu       sync.Mutex // guards the rest
	spans    []Span
	headers  map[string]string
	encoding string
	asked    int
	refuse   []int
	reject   int64
	changed  chan struct{}
}

// Span is a span with the attributes of the process that sent it.
type Span struct {
	*tracepb.Span
	Process map[string]string
}

// ID and Parent are those of the span, in hexadecimal.
func (s Span) ID() string     { return hex.EncodeToString(s.SpanId) }
func (s Span) Parent() string { return hex.EncodeToString(s.ParentSpanId) }

// Attribute returns an attribute as text; empty where there is none.
func (s Span) Attribute(key string) string { return texts(s.Attributes)[key] }

// Start starts a collector, which ends with the test.
func Start(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{changed: make(chan struct{})}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.StatsHandler(compression{}))
	collector.RegisterTraceServiceServer(server, c)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	web := httptest.NewServer(c)
	t.Cleanup(func() {
		web.Close()
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	c.GRPC, c.HTTP = listener.Addr().String(), web.URL
	return c
}

// Refuse has the next requests answered with these codes: those of HTTP, or of gRPC.
func (c *Collector) Refuse(codes ...int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse = codes
}

// Reject has later requests answered with the word that n of their spans were rejected.
func (c *Collector) Reject(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reject = n
}

// Spans returns what has come in.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spans
}

// Asked returns how many requests have come, the headers of the last one, and how that was compressed.
func (c *Collector) Asked() (n int, headers map[string]string, encoding string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked, c.headers, c.encoding
}

// Until waits for a span that fn likes.
func (c *Collector) Until(ctx context.Context, t testing.TB, fn func([]Span) bool) {
	t.Helper()
	for {
		c.mu.Lock()
		spans, changed := c.spans, c.changed
		c.mu.Unlock()
		if fn(spans) {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("it did not come: %v; %d spans are here", context.Cause(ctx), len(spans))
		}
	}
}

// take keeps the spans of a request; code says how to answer, 0 for well.
func (c *Collector) take(r *collector.ExportTraceServiceRequest, headers map[string]string, encoding string) (
	answer *collector.ExportTraceServiceResponse, code int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	c.headers, c.encoding = headers, encoding
	if len(c.refuse) > 0 {
		code, c.refuse = c.refuse[0], c.refuse[1:]
		return nil, code
	}
	for _, rs := range r.ResourceSpans {
		process := texts(rs.Resource.GetAttributes())
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				c.spans = append(c.spans, Span{s, process})
			}
		}
	}
	close(c.changed)
	c.changed = make(chan struct{})
	answer = &collector.ExportTraceServiceResponse{}
	if c.reject > 0 {
		answer.PartialSuccess = &collector.ExportTracePartialSuccess{RejectedSpans: c.reject, ErrorMessage: "too many"}
	}
	return answer, 0
}

// compression notes how a call is compressed.
type compression struct{}

func (compression) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	return context.WithValue(ctx, compression{}, new(string))
}

func (compression) HandleRPC(ctx context.Context, s stats.RPCStats) {
	if h, ok := s.(*stats.InHeader); ok {
		*ctx.Value(compression{}).(*string) = h.Compression
	}
}

func (compression) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (compression) HandleConn(context.Context, stats.ConnStats)                       {}

// Export implements the gRPC service.
func (c *Collector) Export(ctx context.Context, r *collector.ExportTraceServiceRequest) (
	*collector.ExportTraceServiceResponse, error) {
	headers := map[string]string{}
	md, _ := metadata.FromIncomingContext(ctx)
	for k, v := range md {
		headers[k] = v[0]
	}
	answer, code := c.take(r, headers, *ctx.Value(compression{}).(*string))
	if code != 0 {
		return nil, status.Error(codes.Code(code), "not now")
	}
	return answer, nil
}

// ServeHTTP takes what is posted.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
		http.NotFound(w, r)
		return
	}
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = unpacked
	}
	text, err := io.ReadAll(body)
	request := &collector.ExportTraceServiceRequest{}
	if err == nil {
		err = proto.UnmarshalOptions{DiscardUnknown: false}.Unmarshal(text, request)
	}
	if err != nil || len(request.ProtoReflect().GetUnknown()) > 0 {
		http.Error(w, "not a request", http.StatusBadRequest)
		return
	}
	headers := map[string]string{}
	for k := range r.Header {
		headers[http.CanonicalHeaderKey(k)] = r.Header.Get(k)
	}
	answer, code := c.take(request, headers, r.Header.Get("Content-Encoding"))
	if code != 0 {
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(code)
		return
	}
	out, err := proto.Marshal(answer)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(out)
}

func texts(list []*common.KeyValue) map[string]string {
	out := map[string]string{}
	for _, kv := range list {
		out[kv.Key] = kv.Value.GetStringValue()
	}
	return out
}
