package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	grpcgzip "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/millipede-iac/millipede/internal/cloud"
	"github.com/millipede-iac/millipede/internal/sleep"
	"github.com/millipede-iac/millipede/internal/trace"
)

// The pauses between two attempts of one export: doubling, with random variation of one half.
const (
	firstPause = 200 * time.Millisecond
	lastPause  = 5 * time.Second
)

// refusal is an error that is not retried.
type refusal struct{ error }

// later is an error with the pause that the collector requests.
type later struct {
	error
	after time.Duration
}

// deliver sends spans until the collector accepts or rejects them, or the time limit is exceeded.
func (e *Exporter) deliver(ctx context.Context, spans []trace.Record) error {
	whole, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	body := request(e.resource, e.version, spans)
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		answer, err := e.client.export(whole, body)
		if err == nil {
			if n, why := rejected(answer); n > 0 {
				return fmt.Errorf("the collector rejected %d of them: %s", n, why)
			}
			return nil
		}
		var no refusal
		if errors.As(err, &no) {
			return err
		}
		wait := pause/2 + rand.N(pause)
		var asked later
		if errors.As(err, &asked) {
			wait = max(wait, asked.after)
		}
		if sleep.For(whole, wait) != nil {
			return err
		}
	}
}

// overGRPC calls the collector's gRPC service. This package encodes the messages, so the generated ones are not
// needed.
type overGRPC struct {
	settings
	conn *grpc.ClientConn
}

const exportMethod = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"

func dial(s settings) (client, error) {
	trust := insecure.NewCredentials()
	if s.tls != nil {
		trust = credentials.NewTLS(s.tls)
	}
	var dialer net.Dialer
	conn, err := grpc.NewClient("passthrough:///"+s.endpoint, grpc.WithTransportCredentials(trust),
		grpc.WithUserAgent("Millipede"), grpc.WithDisableServiceConfig(),
		// With its own dialer, gRPC does not use proxies of the process's environment.
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", address)
		}))
	return &overGRPC{s, conn}, err
}

func (g *overGRPC) export(ctx context.Context, request []byte) ([]byte, error) {
	for _, h := range g.headers {
		ctx = metadata.AppendToOutgoingContext(ctx, h[0], h[1])
	}
	options := []grpc.CallOption{grpc.ForceCodec(raw{})}
	if g.gzip {
		options = append(options, grpc.UseCompressor(grpcgzip.Name))
	}
	var answer []byte
	err := g.conn.Invoke(ctx, exportMethod, request, &answer, options...)
	again := []codes.Code{codes.Canceled, codes.DeadlineExceeded, codes.Aborted, codes.OutOfRange, codes.Unavailable,
		codes.DataLoss, codes.ResourceExhausted}
	if err != nil && !slices.Contains(again, status.Code(err)) {
		return nil, refusal{err}
	}
	return answer, err
}

func (g *overGRPC) close() error { return g.conn.Close() }

// raw is the codec of messages that are already encoded.
type raw struct{}

func (raw) Name() string { return "proto" }

func (raw) Marshal(v any) ([]byte, error) { return v.([]byte), nil }

func (raw) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = bytes.Clone(data)
	return nil
}

// overHTTP posts to the collector.
type overHTTP struct {
	settings
	transport *http.Transport
	http      *http.Client
}

// maxAnswer bounds how much of a collector's response is read.
const maxAnswer = 64 << 10

func post(s settings, env cloud.Environment) client {
	t := env.Transport()
	if s.tls != nil && (s.tls.RootCAs != nil || s.tls.Certificates != nil) {
		if s.tls.RootCAs == nil && t.TLSClientConfig != nil {
			s.tls.RootCAs = t.TLSClientConfig.RootCAs
		}
		t.TLSClientConfig = s.tls
	}
	return &overHTTP{s, t, &http.Client{Transport: t}}
}

func (h *overHTTP) export(ctx context.Context, body []byte) ([]byte, error) {
	if h.gzip {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		if _, err := w.Write(body); err != nil {
			return nil, refusal{err}
		}
		if err := w.Close(); err != nil {
			return nil, refusal{err}
		}
		body = packed.Bytes()
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.endpoint, bytes.NewReader(body))
	if err != nil {
		return nil, refusal{err}
	}
	for _, p := range h.headers {
		r.Header.Set(p[0], p[1])
	}
	r.Header.Set("Content-Type", "application/x-protobuf")
	r.Header.Set("User-Agent", "Millipede")
	if h.gzip {
		r.Header.Set("Content-Encoding", "gzip")
	}
	answer, err := h.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	switch {
	case answer.StatusCode/100 == 2:
		return text, err
	case slices.Contains([]int{429, 502, 503, 504}, answer.StatusCode):
		seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After")) // 0 where it is none
		return nil, later{fmt.Errorf("the collector answered %s", answer.Status), time.Duration(seconds) * time.Second}
	}
	return nil, refusal{fmt.Errorf("the collector answered %s", answer.Status)}
}

func (h *overHTTP) close() error {
	h.transport.CloseIdleConnections()
	return nil
}
