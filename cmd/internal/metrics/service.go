package metrics

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/wire"
)

// Transport is the source of metrics about NATS. A hub and a connection together implement it.
type Transport interface {
	Limits(ctx context.Context) ([]wire.LimitStatus, error)
	Workers(ctx context.Context) ([]wire.Worker, error)
	Connected() time.Duration
}

// timeout bounds how long a scrape waits for values from elsewhere.
const timeout = 3 * time.Second

// Statuses registers the number of unfinished runs by status, read at each scrape.
func (s *Set) Statuses(tally func() map[record.RunStatus]int) (changed func(record.RunStatus)) {
	open := desc("runs", "Runs of the service that have not ended, by status.", "status")
	s.registry.MustRegister(&scraped{all: []*prometheus.Desc{open}, ask: func(
		gauge func(*prometheus.Desc, float64, ...string)) {
		counts := tally()
		for _, status := range record.Statuses {
			if !status.Final() {
				gauge(open, float64(counts[status]), string(status))
			}
		}
	}})
	became := counter(s, "run_changes_total", "How often a run of the service has come to a status.", "status")
	for _, status := range record.Statuses {
		became.WithLabelValues(string(status))
	}
	return func(status record.RunStatus) { became.WithLabelValues(string(status)).Inc() }
}

// DriftTally is the reading in the background that detects drift.
type DriftTally struct {
	Workspaces, Objects, Drifted, Failing int
	// Oldest is the time since the read of the object that was read least recently.
	Oldest time.Duration
}

// Drift registers the metrics of drift detection, read at each scrape. Values that cannot be read are left out.
func (s *Set) Drift(tally func() (DriftTally, error)) {
	spaces := desc("drift_workspaces", "Workspaces that are watched for drift.")
	objects := desc("drift_objects", "Objects that are watched for drift.")
	drifted := desc("drift_objects_drifted", "Objects that are known not to be as the state has them.")
	failing := desc("drift_workspaces_failing", "Watched workspaces whose last reading failed in part.")
	oldest := desc("drift_oldest_read_seconds", "How long ago the watched object was read that was read the longest ago.")
	s.registry.MustRegister(&scraped{all: []*prometheus.Desc{spaces, objects, drifted, failing, oldest}, ask: func(
		gauge func(*prometheus.Desc, float64, ...string)) {
		t, err := tally()
		if err != nil {
			return
		}
		gauge(spaces, float64(t.Workspaces))
		gauge(objects, float64(t.Objects))
		gauge(drifted, float64(t.Drifted))
		gauge(failing, float64(t.Failing))
		gauge(oldest, t.Oldest.Seconds())
	}})
}

// Transport registers limits and workers, read at each scrape.
func (s *Set) Transport(t Transport) {
	held := desc("permits_held", "Permits of a limit that are held.", "limit")
	waiting := desc("permits_waiting", "Requests that wait for a permit of a limit.", "limit")
	size := desc("permits_limit", "How many permits of a limit there are.", "limit")
	workers := desc("workers", "Live workers of a pool.", "pool")
	slots := desc("pool_slots", "Slots of the live workers of a pool.", "pool")
	used := desc("pool_slots_used", "Slots of the live workers of a pool that are in use.", "pool")
	spoken := desc("workers_protocol", "Live workers of a pool, by the highest version of the protocol that they speak.",
		"pool", "version")
	unsuited := desc("workers_unsuited", "Live workers of a pool that are given nothing, because they speak no version "+
		"of the protocol that this program speaks.", "pool")
	up := desc("nats_up", "Is 1 when NATS has answered this scrape.")
	s.registry.MustRegister(&scraped{all: []*prometheus.Desc{held, waiting, size, workers, slots, used, spoken,
		unsuited, up}, ask: func(gauge func(*prometheus.Desc, float64, ...string)) {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		limits, err := t.Limits(ctx)
		live, err2 := t.Workers(ctx)
		if err != nil || err2 != nil {
			gauge(up, 0)
			return
		}
		gauge(up, 1)
		type sums struct{ held, waiting, size float64 }
		byLimit := map[string]sums{}
		for _, l := range limits {
			name := s.limits.value(l.Name)
			n := byLimit[name]
			byLimit[name] = sums{n.held + float64(len(l.Held)), n.waiting + float64(len(l.Waiting)),
				n.size + float64(l.Slots)}
		}
		for name, n := range byLimit {
			gauge(held, n.held, name)
			gauge(waiting, n.waiting, name)
			gauge(size, n.size, name)
		}
		connected := t.Connected()
		byPool := map[string]sums{} // its workers, slots, and those in use
		byVersion, strangers := map[[2]string]float64{}, map[string]float64{}
		for _, w := range live {
			for _, p := range w.Pools {
				name := s.pools.value(p)
				n := byPool[name]
				if w.Silent(connected) {
					byPool[name] = n // with 0, if it is the only one
					continue
				}
				byVersion[[2]string{name, strconv.Itoa(w.Versions().Highest)}]++
				if w.Unsuited(wire.Spoken()) != "" {
					strangers[name]++
				} else {
					strangers[name] += 0
				}
				byPool[name] = sums{n.held + 1, n.waiting + float64(w.Slots), n.size + float64(w.Running)}
			}
		}
		for name, n := range byPool {
			gauge(workers, n.held, name)
			gauge(slots, n.waiting, name)
			gauge(used, n.size, name)
		}
		for of, n := range byVersion {
			gauge(spoken, n, of[0], of[1])
		}
		for name, n := range strangers {
			gauge(unsuited, n, name)
		}
	}})
}

// roundTripBuckets are for a working and for a disturbed network.
var roundTripBuckets = []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .05, .1, .5, 1, 3}

// RoundTrips registers the round-trip time to the NATS server, measured at each scrape.
func (s *Set) RoundTrips(measure func(context.Context) (time.Duration, error)) {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: "nats_round_trip_seconds",
		Help: "How long the NATS server takes to answer; measured once for each scrape.", Buckets: roundTripBuckets})
	s.registry.MustRegister(&measured{h, func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		if took, err := measure(ctx); err == nil {
			h.Observe(took.Seconds())
		}
	}})
}

// measured is a collector that measures before it is read.
type measured struct {
	prometheus.Collector
	measure func()
}

func (m *measured) Collect(ch chan<- prometheus.Metric) {
	m.measure()
	m.Collector.Collect(ch)
}

// StoreStats is the size of a store, and the amount that it has written so far.
type StoreStats struct {
	Changes int64
	Writing time.Duration
	Size    int64
}

// Stores registers the statistics of the service's own store, and the total size of the workspaces' stores, read at
// each scrape.
func (s *Set) Stores(own func() StoreStats, workspaces func() int64) {
	size := desc("store_size_bytes", "How large the stores are: the service's own, and all of workspaces.", "store")
	writes := desc("service_store_changes_total", "Changes of the service's own store. Several may share a commit.")
	seconds := desc("service_store_write_seconds_total", "How long writing the service's own store took.")
	s.registry.MustRegister(&scraped{all: []*prometheus.Desc{size, writes, seconds},
		counters: map[*prometheus.Desc]bool{writes: true, seconds: true},
		ask: func(gauge func(*prometheus.Desc, float64, ...string)) {
			stats := own()
			gauge(size, float64(stats.Size), "service")
			gauge(size, float64(workspaces()), "workspaces")
			gauge(writes, float64(stats.Changes))
			gauge(seconds, stats.Writing.Seconds())
		}})
}

// Commits registers the durations of commits to the stores of workspaces. commit must be called for each of them.
func (s *Set) Commits() (commit func(took time.Duration)) {
	took := prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: "store_commit_seconds",
		Help:    "How long commits to the stores of workspaces took.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5}})
	s.registry.MustRegister(took)
	return func(d time.Duration) { took.Observe(d.Seconds()) }
}
