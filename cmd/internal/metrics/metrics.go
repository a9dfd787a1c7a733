// Package metrics provides the Prometheus metrics of a process: a service with its runs, or a worker.
//
// Metrics are set by observers, or read when they are scraped; the package changes nothing else. Labels are
// bounded: for names that a configuration can choose (resource types, pools, limits), a limited number of values is
// used, and all others are "other".
package metrics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// namespace is the prefix of all metric names.
const namespace = "millipede"

// Set is the metrics of one process.
type Set struct {
	registry *prometheus.Registry
	types    *bounded
	pools    *bounded
	limits   *bounded
	sources  *bounded
	others   prometheus.Gatherers // of other processes
}

// The maximum numbers of distinct values of labels.
const (
	maxTypes   = 200
	maxPools   = 64
	maxLimits  = 128
	maxSources = 64
)

// New returns the metrics of a program: initially those of its process, and of Go.
func New(program, version string) *Set {
	s := &Set{registry: prometheus.NewRegistry(), types: upTo(maxTypes), pools: upTo(maxPools),
		limits: upTo(maxLimits), sources: upTo(maxSources)}
	info := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: "build_info",
		Help: "Is 1; the labels say which program this is.", ConstLabels: prometheus.Labels{
			"program": program, "version": version}})
	info.Set(1)
	s.registry.MustRegister(info, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return s
}

// Handler answers scrapes.
func (s *Set) Handler() http.Handler {
	return promhttp.HandlerFor(append(prometheus.Gatherers{s.registry}, s.others...),
		promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 20 * time.Second})
}

// Probe is a question about the process that its keepers ask over HTTP.
type Probe struct {
	Path string
	// Check returns the reason why the answer is no. Its context ends with the request.
	Check func(ctx context.Context) error
}

// ServeHTTP answers 200, or 503 with the reason.
func (p Probe) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if err := p.Check(r.Context()); err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, err)
		return
	}
	fmt.Fprintln(w, "ok")
}

// Listen serves /metrics, and probes, at an address, until end is called; nothing if the address is empty. There is
// neither a token nor TLS: only the scraper should be able to reach the address.
func (s *Set) Listen(ctx context.Context, address string, log *slog.Logger, probes ...Probe) (end func() error,
	err error) {
	if address == "" {
		return func() error { return nil }, nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("-metrics=%s: %w", address, err)
	}
	log.Info("metrics", "address", l.Addr().String())
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", s.Handler())
	for _, p := range probes {
		mux.Handle("GET "+p.Path, p)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }() // end waits for it
	return func() error {
		err := server.Close()
		if e := <-served; !errors.Is(e, http.ErrServerClosed) {
			err = errors.Join(e, err)
		}
		return err
	}, nil
}

// other is the value of a label for all values beyond the maximum.
const other = "other"

// bounded limits the number of distinct values of a label.
type bounded struct {
	most int

	mu   sync.Mutex // guards seen
	seen map[string]bool
}

func upTo(most int) *bounded { return &bounded{most: most, seen: map[string]bool{}} }

// value returns the value itself, or other.
func (b *bounded) value(v string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.seen[v]:
	case len(b.seen) >= b.most:
		return other
	default:
		b.seen[v] = true
	}
	return v
}

func counter(s *Set, name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	s.registry.MustRegister(v)
	return v
}

func histogram(s *Set, name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help,
		Buckets: buckets}, labels)
	s.registry.MustRegister(v)
	return v
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
}

// scraped is a collector that reads its values when it is scraped.
type scraped struct {
	all []*prometheus.Desc
	ask func(gauge func(d *prometheus.Desc, value float64, labels ...string))
	// counters are the metrics whose values only increase.
	counters map[*prometheus.Desc]bool
}

func (a *scraped) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range a.all {
		ch <- d
	}
}

func (a *scraped) Collect(ch chan<- prometheus.Metric) {
	a.ask(func(d *prometheus.Desc, value float64, labels ...string) {
		kind := prometheus.GaugeValue
		if a.counters[d] {
			kind = prometheus.CounterValue
		}
		ch <- prometheus.MustNewConstMetric(d, kind, value, labels...)
	})
}
