package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/loop"
)

// operationBuckets are for operations that take a cloud from milliseconds to half an hour.
var operationBuckets = []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600}

// Runs are the metrics of the vertices of runs.
type Runs struct {
	set       *Set
	vertices  *prometheus.CounterVec
	durations *prometheus.HistogramVec
	doubts    *prometheus.CounterVec

	mu   sync.Mutex // guards open
	open map[*phaseObserver]loop.Counts
}

// Runs returns them. Call it once.
func (s *Set) Runs() *Runs {
	r := &Runs{set: s, open: map[*phaseObserver]loop.Counts{},
		vertices: counter(s, "vertices_total", "Vertices of plans and applies that have ended.",
			"action", "outcome"),
		durations: histogram(s, "operation_duration_seconds",
			"How long the operations of a vertex took, without what they waited for.", operationBuckets,
			"action", "resource_type", "pool"),
		doubts: counter(s, "doubts_total", "Operations whose outcome became unknown.", "resource_type"),
	}
	operations := desc("operations",
		"Operations of runs, by pool: running, or ready and waiting for a permit or a worker.", "pool", "state")
	inDoubt := desc("operations_in_doubt", "Operations of runs under way whose outcome is not known.")
	s.registry.MustRegister(&scraped{all: []*prometheus.Desc{operations, inDoubt}, ask: func(
		gauge func(*prometheus.Desc, float64, ...string)) {
		pools, doubtful := r.counts()
		for pool, c := range pools {
			gauge(operations, float64(c.Running), pool, "running")
			gauge(operations, float64(c.Queued), pool, "queued")
		}
		gauge(inDoubt, float64(doubtful))
	}})
	return r
}

// counts returns the sum of the progress of all runs.
func (r *Runs) counts() (pools map[string]loop.PoolCounts, doubtful int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pools = map[string]loop.PoolCounts{}
	for _, c := range r.open {
		doubtful += c.InDoubt
		for pool, n := range c.Pools {
			name := r.set.pools.value(pool)
			sum := pools[name]
			sum.Running += n.Running
			sum.Queued += n.Queued
			pools[name] = sum
		}
	}
	return pools, doubtful
}

// Observe returns an observer that counts events, and passes them on. The caller calls end when its runs have ended.
func (r *Runs) Observe(next coordinator.Observer) (o coordinator.Observer, end func()) {
	w := &phaseObserver{Observer: next, runs: r, pools: map[int]string{}}
	w.tracer, _ = next.(coordinator.Tracer)
	return w, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.open, w)
	}
}

// phaseObserver is the observer of one phase of a run.
type phaseObserver struct {
	coordinator.Observer
	tracer coordinator.Tracer // the same as Observer, if it is one
	runs   *Runs
	pools  map[int]string // of the vertices that have started; used by the loop of the run alone
}

// Shown implements coordinator.Tracer.
func (w *phaseObserver) Shown(s loop.Shown) {
	r := w.runs
	action := s.Action
	if action == "" {
		action = "evaluate"
	}
	switch s.Kind {
	case loop.ShownStarted:
		w.pools[s.Vertex] = s.Pool
	case loop.ShownFinished, loop.ShownFailed:
		outcome := "succeeded"
		if s.Kind == loop.ShownFailed {
			outcome = "failed"
		}
		r.vertices.WithLabelValues(action, outcome).Inc()
		if pool, sent := w.pools[s.Vertex]; sent && s.Took > 0 {
			r.durations.WithLabelValues(action, r.set.types.value(s.Class), r.set.pools.value(pool)).
				Observe(s.Took.Seconds())
		}
		delete(w.pools, s.Vertex)
	case loop.ShownSkipped:
		r.vertices.WithLabelValues(action, "skipped").Inc()
	case loop.ShownDoubtful:
		r.doubts.WithLabelValues(r.set.types.value(s.Class)).Inc()
	case loop.ShownCounts:
		r.mu.Lock()
		r.open[w] = s.Counts
		r.mu.Unlock()
	}
	if w.tracer != nil {
		w.tracer.Shown(s)
	}
}
