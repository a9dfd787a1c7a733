package otlp

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/millipede-iac/millipede/internal/cloud"
	"github.com/millipede-iac/millipede/internal/trace"
)

// Enabled reports whether the environment requests traces: as in OpenTofu, only by OTEL_TRACES_EXPORTER=otlp, so
// that variables for other programs have no effect.
func Enabled(env cloud.Environment) bool {
	env = env.Completed()
	return env.Env("OTEL_TRACES_EXPORTER") == "otlp" && !strings.EqualFold(env.Env("OTEL_SDK_DISABLED"), "true")
}

// Inherited returns the span under which the process was started, from TRACEPARENT and TRACESTATE.
func Inherited(env cloud.Environment) trace.Context {
	env = env.Completed()
	c, _ := trace.Parse(env.Env("TRACEPARENT"), env.Env("TRACESTATE"))
	return c
}

// settings are the decoded variables.
type settings struct {
	grpc     bool
	endpoint string // host:port for gRPC, else a URL
	tls      *tls.Config
	headers  [][2]string
	timeout  time.Duration // of one export, with its retries
	gzip     bool

	resource []trace.Attribute
	sample   func([16]byte, trace.Context) bool

	queue, batch int
	delay        time.Duration
}

// The defaults where OpenTelemetry leaves the choice, or where its own would lose spans of a large run.
const (
	defaultTimeout = 10 * time.Second
	defaultDelay   = 5 * time.Second
	defaultBatch   = 512
	defaultQueue   = 32 << 10
)

// reader decodes variables, and keeps the first error.
type reader struct {
	env cloud.Environment
	err error
}

func (r *reader) fail(name, value, want string) {
	if r.err == nil {
		r.err = fmt.Errorf("the environment variable %s is %q; write %s", name, value, want)
	}
}

// either returns the value of the variable for traces, or else that for all signals, and its name.
func (r *reader) either(suffix string) (value, name string) {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_" + suffix, "OTEL_EXPORTER_OTLP_" + suffix} {
		if v := r.env.Env(name); v != "" {
			return v, name
		}
	}
	return "", ""
}

// millis decodes a number of milliseconds.
func (r *reader) millis(name, value string, otherwise time.Duration) time.Duration {
	if value == "" {
		return otherwise
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > math.MaxInt32 {
		r.fail(name, value, "a number of milliseconds")
		return otherwise
	}
	return time.Duration(n) * time.Millisecond
}

func (r *reader) count(name string, otherwise, most int) int {
	value := r.env.Env(name)
	if value == "" {
		return otherwise
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > most {
		r.fail(name, value, fmt.Sprintf("a number from 1 to %d", most))
		return otherwise
	}
	return n
}

// pairs decodes key=value,key=value, with percent escapes.
func (r *reader) pairs(name, value string) (out [][2]string) {
	for part := range strings.SplitSeq(value, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		k, v, ok := strings.Cut(part, "=")
		key, err := url.PathUnescape(strings.TrimSpace(k))
		text, err2 := url.PathUnescape(strings.TrimSpace(v))
		if !ok || key == "" || err != nil || err2 != nil {
			if r.err == nil { // the value may be a password
				r.err = fmt.Errorf("the environment variable %s is not of the form KEY=VALUE,KEY=VALUE", name)
			}
			return nil
		}
		out = append(out, [2]string{key, text})
	}
	return out
}

// read decodes OpenTelemetry's variables. The program's name and version are defaults for the resource.
func read(env cloud.Environment, program, version string) (s settings, err error) {
	r := &reader{env: env.Completed()}
	s = settings{
		queue: r.count("OTEL_BSP_MAX_QUEUE_SIZE", defaultQueue, 1<<20),
		batch: r.count("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", defaultBatch, 1<<16),
		delay: r.millis("OTEL_BSP_SCHEDULE_DELAY", r.env.Env("OTEL_BSP_SCHEDULE_DELAY"), defaultDelay),
	}
	switch value, name := r.either("PROTOCOL"); value {
	case "", "http/protobuf":
	case "grpc":
		s.grpc = true
	default:
		r.fail(name, value, "grpc or http/protobuf")
	}
	r.address(&s)
	value, name := r.either("TIMEOUT")
	s.timeout = r.millis(name, value, defaultTimeout)
	switch value, name := r.either("COMPRESSION"); value {
	case "", "none":
	case "gzip":
		s.gzip = true
	default:
		r.fail(name, value, "gzip or none")
	}
	value, name = r.either("HEADERS")
	s.headers = r.pairs(name, value)
	s.resource = r.resource(program, version)
	s.sample = r.sampler()
	return s, r.err
}

// address decodes the address of the collector, and whether the connection is encrypted.
func (r *reader) address(s *settings) {
	value, name := r.either("ENDPOINT")
	if value == "" {
		if value = "http://localhost:4318"; s.grpc {
			value = "http://localhost:4317"
		}
	}
	insecure := false
	if flag, name := r.either("INSECURE"); flag != "" {
		var err error
		if insecure, err = strconv.ParseBool(strings.ToLower(flag)); err != nil {
			r.fail(name, flag, "true or false")
		}
	}
	if s.grpc && !strings.Contains(value, "://") {
		if value = "https://" + value; insecure {
			value = "http" + strings.TrimPrefix(value, "https")
		}
	}
	u, err := url.Parse(value)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		r.fail(name, value, "a URL such as http://localhost:4318")
		return
	}
	if u.Scheme == "https" {
		s.tls = r.certificates()
	}
	if !s.grpc {
		if !strings.Contains(name, "_TRACES_") {
			u = u.JoinPath("v1", "traces")
		} else if u.Path == "" {
			u.Path = "/"
		}
		s.endpoint = u.String()
		return
	}
	if s.endpoint = u.Host; u.Port() == "" {
		port := map[string]string{"http": "80", "https": "443"}[u.Scheme]
		s.endpoint = net.JoinHostPort(u.Hostname(), port)
	}
}

// certificates loads the trusted authorities and the client certificate.
func (r *reader) certificates() *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if file, name := r.either("CERTIFICATE"); file != "" {
		text, err := os.ReadFile(r.env.Path(file))
		c.RootCAs = x509.NewCertPool()
		if err != nil || !c.RootCAs.AppendCertsFromPEM(text) {
			r.fail(name, file, "the name of a file with certificates in PEM form")
		}
	}
	cert, name := r.either("CLIENT_CERTIFICATE")
	key, _ := r.either("CLIENT_KEY")
	if cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(r.env.Path(cert), r.env.Path(key))
		if err != nil {
			r.fail(name, cert, "the name of a certificate in PEM form, and that of its key in the one for the key")
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c
}

// resource returns the common attributes of all spans of the process.
func (r *reader) resource(program, version string) []trace.Attribute {
	out := []trace.Attribute{
		{Key: "service.name", Text: program}, {Key: "service.version", Text: version},
	}
	set := func(key, value string) {
		for i := range out {
			if out[i].Key == key {
				out[i].Text = value
				return
			}
		}
		out = append(out, trace.Attribute{Key: key, Text: value})
	}
	for _, p := range r.pairs("OTEL_RESOURCE_ATTRIBUTES", r.env.Env("OTEL_RESOURCE_ATTRIBUTES")) {
		set(p[0], p[1])
	}
	if name := r.env.Env("OTEL_SERVICE_NAME"); name != "" {
		set("service.name", name)
	}
	return out
}

// sampler decodes which traces are recorded.
func (r *reader) sampler() func([16]byte, trace.Context) bool {
	name := r.env.Env("OTEL_TRACES_SAMPLER")
	kind, byParent := strings.CutPrefix(name, "parentbased_")
	ratio := 1.0
	switch kind {
	case "":
		byParent = true
	case "always_on":
	case "always_off":
		ratio = 0
	case "traceidratio":
		if arg := r.env.Env("OTEL_TRACES_SAMPLER_ARG"); arg != "" {
			var err error
			if ratio, err = strconv.ParseFloat(arg, 64); err != nil || !(ratio >= 0 && ratio <= 1) {
				r.fail("OTEL_TRACES_SAMPLER_ARG", arg, "a number from 0 to 1")
			}
		}
	default:
		r.fail("OTEL_TRACES_SAMPLER", name, "always_on, always_off or traceidratio, with or without parentbased_")
	}
	return func(id [16]byte, parent trace.Context) bool {
		if byParent && parent.Valid() {
			return parent.Sampled
		}
		// As in OpenTelemetry's libraries, so that all programs decide consistently about one trace.
		return float64(binary.BigEndian.Uint64(id[8:])>>1) < ratio*(1<<63)
	}
}
