// Package collector is an OpenTelemetry collector for tests. It stores the spans that it receives over gRPC and HTTP.
//
// The gRPC service and the messages are the code that OpenTelemetry generates from its protocol.
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
	_ "google.golang.org/grpc/encoding/gzip" // the server accepts compressed messages
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Collector stores spans.
type Collector struct {
	collector.UnimplementedTraceServiceServer

	// GRPC is the address of the gRPC server, as host:port; HTTP is the URL of the HTTP server.
	GRPC, HTTP string

	mu       sync.Mutex // guards the fields below
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

// ID and Parent return the IDs of the span and of its parent, in hexadecimal.
func (s Span) ID() string     { return hex.EncodeToString(s.SpanId) }
func (s Span) Parent() string { return hex.EncodeToString(s.ParentSpanId) }

// Attribute returns the text of an attribute, or "" if the span does not have it.
func (s Span) Attribute(key string) string { return texts(s.Attributes)[key] }

// Start starts a collector, which stops at the end of the test.
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

// Refuse makes the next requests fail, each with one of the codes: status codes of HTTP, or codes of gRPC.
func (c *Collector) Refuse(codes ...int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse = codes
}

// Reject makes the responses to all later requests report that n spans were rejected.
func (c *Collector) Reject(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reject = n
}

// Spans returns the spans that were received until now.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spans
}

// Asked returns the number of requests, and the headers and the compression of the last one.
func (c *Collector) Asked() (n int, headers map[string]string, encoding string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked, c.headers, c.encoding
}

// Until waits until fn returns true for the spans that were received.
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
			t.Fatalf("waiting for a span: %v; %d others were received", context.Cause(ctx), len(spans))
		}
	}
}

// take stores the spans of a request. It returns the response, or the code of an error; 0 means success.
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

// compression records the compression of a call.
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
		return nil, status.Error(codes.Code(code), "refused by the test")
	}
	return answer, nil
}

// ServeHTTP implements http.Handler: it accepts POST requests with spans.
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
