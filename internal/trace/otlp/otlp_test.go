package otlp_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"

	"github.com/millipede-iac/millipede/internal/cloud"
	"github.com/millipede-iac/millipede/internal/environ"
	"github.com/millipede-iac/millipede/internal/trace"
	"github.com/millipede-iac/millipede/internal/trace/otlp"
	"github.com/millipede-iac/millipede/test/stage/collector"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// send makes a span with one below it, as an environment says, and returns how sending them ended.
func send(t *testing.T, env map[string]string, make func(context.Context)) error {
	t.Helper()
	exporter, tracer, err := otlp.Open(otlp.Options{
		Environment: cloud.Environment{Environ: environ.Of(env)}, Program: "millipede", Version: "1.2.3",
	})
	if err != nil {
		t.Fatal(err)
	}
	make(trace.With(t.Context(), tracer))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	return exporter.Close(ctx)
}

// work is what spans are made of in these tests.
func work(ctx context.Context) {
	ctx, above := trace.Start(ctx, "above", trace.Internal)
	_, below := trace.Start(ctx, "below", trace.Client)
	below.Set("address", "a_b.c[\"ü\"]")
	below.Set("broken", "\xff")
	below.SetInt("count", -3)
	below.Event("began", "pool", "eu")
	below.Fail("in doubt")
	below.End()
	above.End()
}

func named(t *testing.T, spans []collector.Span, name string) collector.Span {
	t.Helper()
	for _, s := range spans {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("there is no span %q among %d", name, len(spans))
	return collector.Span{}
}

func TestACollectorGetsSpansAsTheyAre(t *testing.T) {
	for _, tt := range []struct {
		how string
		env func(c *collector.Collector) map[string]string
	}{
		{"http", func(c *collector.Collector) map[string]string {
			return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.HTTP}
		}},
		{"http, compressed, with an address for traces alone", func(c *collector.Collector) map[string]string {
			return map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": c.HTTP + "/v1/traces",
				"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"}
		}},
		{"grpc", func(c *collector.Collector) map[string]string {
			return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + c.GRPC,
				"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
		}},
		{"grpc, compressed, without a scheme", func(c *collector.Collector) map[string]string {
			return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.GRPC, "OTEL_EXPORTER_OTLP_INSECURE": "true",
				"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
				"OTEL_EXPORTER_OTLP_TRACES_COMPRESSION": "gzip"}
		}},
	} {
		t.Run(tt.how, func(t *testing.T) {
			c := collector.Start(t)
			env := tt.env(c)
			env["OTEL_EXPORTER_OTLP_HEADERS"] = "Authorization=Bearer%20secret, X-Other = 1"
			env["OTEL_RESOURCE_ATTRIBUTES"] = "team=net%2Cwork,service.name=other"
			env["OTEL_SERVICE_NAME"] = "deployer"
			if err := send(t, env, work); err != nil {
				t.Fatal(err)
			}
			spans := c.Spans()
			above, below := named(t, spans, "above"), named(t, spans, "below")
			switch {
			case len(spans) != 2 || below.Parent() != above.ID() || above.Parent() != "" ||
				string(above.TraceId) != string(below.TraceId):
				t.Errorf("%v does not belong under %v", below, above)
			case below.Attribute("address") != "a_b.c[\"ü\"]" || below.Attribute("broken") != "\ufffd" ||
				below.Attributes[2].Value.GetIntValue() != -3:
				t.Errorf("its attributes are %v", below.Attributes)
			case below.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR || below.Status.Message != "in doubt" ||
				above.Status.GetCode() != tracepb.Status_STATUS_CODE_UNSET:
				t.Errorf("their status is %v, %v", above.Status, below.Status)
			case below.Kind != tracepb.Span_SPAN_KIND_CLIENT || above.Kind != tracepb.Span_SPAN_KIND_INTERNAL:
				t.Errorf("their kind is %v, %v", above.Kind, below.Kind)
			case len(below.Events) != 1 || below.Events[0].Name != "began" ||
				below.Events[0].Attributes[0].Value.GetStringValue() != "eu":
				t.Errorf("its events are %v", below.Events)
			case below.EndTimeUnixNano < below.StartTimeUnixNano ||
				time.Since(time.Unix(0, int64(below.StartTimeUnixNano))) > time.Minute:
				t.Errorf("its times are %d, %d", below.StartTimeUnixNano, below.EndTimeUnixNano)
			}
			if p := above.Process; p["service.name"] != "deployer" || p["team"] != "net,work" ||
				p["service.version"] != "1.2.3" {
				t.Errorf("the process is %v", p)
			}
			_, headers, encoding := c.Asked()
			if headers["authorization"]+headers["Authorization"] != "Bearer secret" ||
				headers["x-other"]+headers["X-Other"] != "1" {
				t.Errorf("the headers are %v", headers)
			}
			if compressed := strings.Contains(tt.how, "compressed"); compressed != (encoding == "gzip") {
				t.Errorf("it is compressed by %q", encoding)
			}
		})
	}
}

func TestTracesAreSwitchedOnByOneVariableAlone(t *testing.T) {
	for claim, tt := range map[string]struct {
		env  map[string]string
		want bool
	}{
		"nothing":           {nil, false},
		"the exporter otlp": {map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, true},
		"none":              {map[string]string{"OTEL_TRACES_EXPORTER": "none"}, false},
		"another exporter":  {map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, false},
		"an address":        {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"}, false},
		"a service name":    {map[string]string{"OTEL_SERVICE_NAME": "x"}, false},
		"a parent": {
			map[string]string{"TRACEPARENT": "00-" + strings.Repeat("1", 32) + "-1111111111111111-01"}, false,
		},
		"otlp, and all is off":    {map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "True"}, false},
		"otlp, and nothing's off": {map[string]string{"OTEL_TRACES_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "false"}, true},
	} {
		if got := otlp.Enabled(cloud.Environment{Environ: environ.Of(tt.env)}); got != tt.want {
			t.Errorf("%s: %t", claim, got)
		}
	}
}

// The libraries of OpenTelemetry read the environment of the process, whatever a program tells them.
func TestTheEnvironmentOfTheProcessSaysNothing(t *testing.T) {
	c, other := collector.Start(t), collector.Start(t)
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": other.HTTP, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": other.HTTP,
		"OTEL_EXPORTER_OTLP_HEADERS": "a=b", "OTEL_TRACES_SAMPLER": "always_off", "OTEL_SERVICE_NAME": "other",
		"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "0", "HTTP_PROXY": other.HTTP,
	} {
		t.Setenv(name, value)
	}
	if err := send(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.HTTP}, work); err != nil {
		t.Fatal(err)
	}
	if n, headers, _ := c.Asked(); n != 1 || headers["A"] != "" || c.Spans()[0].Process["service.name"] != "millipede" {
		t.Errorf("%d requests, the headers %v, the spans %v", n, headers, c.Spans())
	}
	if n, _, _ := other.Asked(); n != 0 {
		t.Errorf("the process's collector was asked %d times", n)
	}
}

func TestACollectorThatIsBusyIsAskedAgain(t *testing.T) {
	for how, env := range map[string]func(*collector.Collector) (map[string]string, []int){
		"http": func(c *collector.Collector) (map[string]string, []int) {
			return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.HTTP}, []int{503, 429}
		},
		"grpc": func(c *collector.Collector) (map[string]string, []int) {
			return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + c.GRPC,
				"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, []int{14, 4}
		},
	} {
		t.Run(how, func(t *testing.T) {
			c := collector.Start(t)
			variables, codes := env(c)
			c.Refuse(codes...)
			if err := send(t, variables, work); err != nil {
				t.Fatal(err)
			}
			if n, _, _ := c.Asked(); n != 3 || len(c.Spans()) != 2 {
				t.Errorf("after %d requests there are %d spans", n, len(c.Spans()))
			}
		})
	}
}

func TestACollectorThatRefusesIsNotAskedAgain(t *testing.T) {
	for how, tt := range map[string]struct {
		code int
		grpc bool
	}{"http": {400, false}, "grpc": {16, true}} {
		t.Run(how, func(t *testing.T) {
			c := collector.Start(t)
			env := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.HTTP}
			if tt.grpc {
				env = map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://" + c.GRPC,
					"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
			}
			c.Refuse(tt.code)
			err := send(t, env, work)
			if n, _, _ := c.Asked(); n != 1 || err == nil || !strings.Contains(err.Error(), "2 spans") {
				t.Errorf("after %d requests: %v", n, err)
			}
		})
	}
}

func TestSpansThatTheCollectorRejectsAreToldOf(t *testing.T) {
	c := collector.Start(t)
	c.Reject(2)
	err := send(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.HTTP}, work)
	if err == nil || !strings.Contains(err.Error(), "too many") {
		t.Errorf("got %v", err)
	}
}

func TestSpansBeyondTheQueueAreCountedAndTheOthersArrive(t *testing.T) {
	c := collector.Start(t)
	c.Refuse(503, 503, 503) // long enough that the queue fills
	err := send(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.HTTP, "OTEL_BSP_MAX_QUEUE_SIZE": "10",
		"OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "4"}, func(ctx context.Context) {
		for range 15 {
			_, span := trace.Start(ctx, "work", trace.Internal)
			span.End()
		}
	})
	if err == nil || len(c.Spans()) < 10 || !strings.Contains(err.Error(), fmt.Sprint(15-len(c.Spans()), " spans")) {
		t.Errorf("%d of 15 spans have arrived, and: %v", len(c.Spans()), err)
	}
}

func TestTheEndDoesNotWaitForACollectorThatIsNotThere(t *testing.T) {
	exporter, tracer, err := otlp.Open(otlp.Options{Environment: cloud.Environment{
		Environ: environ.Of(map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"})}})
	if err != nil {
		t.Fatal(err)
	}
	work(trace.With(t.Context(), tracer))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	if err := exporter.Close(ctx); err == nil || !strings.Contains(err.Error(), "2 spans") {
		t.Errorf("got %v", err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}

func TestTLSIsAsTheVariablesSay(t *testing.T) {
	c := collector.Start(t)
	server := httptest.NewTLSServer(c)
	defer server.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": server.URL, "OTEL_EXPORTER_OTLP_CERTIFICATE": file}
	if err := send(t, env, work); err != nil || len(c.Spans()) != 2 {
		t.Errorf("%d spans, %v", len(c.Spans()), err)
	}
	env["OTEL_EXPORTER_OTLP_CERTIFICATE"], env["OTEL_EXPORTER_OTLP_TIMEOUT"] = "", "300"
	if err := send(t, env, work); err == nil || len(c.Spans()) != 2 {
		t.Errorf("a certificate of nobody that is trusted: %d spans, %v", len(c.Spans()), err)
	}
}

func TestASamplerChoosesWholeTraces(t *testing.T) {
	sampled := trace.Context{Trace: [16]byte{15: 1}, Span: [8]byte{1}, Sampled: true}
	for claim, tt := range map[string]struct {
		sampler, arg string
		under        trace.Context
		least, most  int
	}{
		"by default all":                      {"", "", trace.Context{}, 1000, 1000},
		"none":                                {"always_off", "", sampled, 0, 0},
		"none, but what others have begun":    {"parentbased_always_off", "", sampled, 1000, 1000},
		"a half":                              {"traceidratio", "0.5", trace.Context{}, 350, 650},
		"a tenth, but what others have begun": {"parentbased_traceidratio", "0.1", sampled, 1000, 1000},
	} {
		t.Run(claim, func(t *testing.T) {
			c := collector.Start(t)
			err := send(t, map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.HTTP, "OTEL_TRACES_SAMPLER": tt.sampler,
				"OTEL_TRACES_SAMPLER_ARG": tt.arg}, func(ctx context.Context) {
				for range 1000 {
					_, span := trace.Start(trace.Under(ctx, tt.under), "work", trace.Internal)
					span.End()
				}
			})
			if n := len(c.Spans()); err != nil || n < tt.least || n > tt.most {
				t.Errorf("%d of 1000 have arrived: %v", n, err)
			}
		})
	}
}

func TestVariablesThatAreWrongAreNamed(t *testing.T) {
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json", "OTEL_EXPORTER_OTLP_ENDPOINT": "localhost", "OTEL_TRACES_SAMPLER": "x",
		"OTEL_EXPORTER_OTLP_TIMEOUT": "10s", "OTEL_EXPORTER_OTLP_COMPRESSION": "zstd", "OTEL_EXPORTER_OTLP_HEADERS": "a",
		"OTEL_EXPORTER_OTLP_INSECURE": "perhaps", "OTEL_BSP_MAX_QUEUE_SIZE": "-1",
		"OTEL_RESOURCE_ATTRIBUTES": "%zz=1",
	} {
		_, _, err := otlp.Open(otlp.Options{Environment: cloud.Environment{
			Environ: environ.Of(map[string]string{name: value})}})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%s: %v", name, value, err)
		}
	}
}
