package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/millipede-iac/millipede/worker"
)

// Load is the load of a worker.
type Load struct{ Slots, Running int }

// Plugin is a provider process.
type Plugin struct {
	Source string
	// Memory is its memory use in bytes; 0 if unknown.
	Memory int64
}

// Worker registers the load of a worker, and its plugins, read at each scrape.
func (s *Set) Worker(load func() Load, plugins func() []Plugin) {
	slots := desc("worker_slots", "How many operations the worker executes at a time.")
	used := desc("worker_slots_used", "How many operations the worker is carrying out.")
	processes := desc("plugin_processes", "Processes of a provider.", "provider")
	memory := desc("plugin_resident_memory_bytes", "The memory of the processes of a provider.", "provider")
	s.registry.MustRegister(&scraped{all: []*prometheus.Desc{slots, used, processes, memory}, ask: func(
		gauge func(*prometheus.Desc, float64, ...string)) {
		l := load()
		gauge(slots, float64(l.Slots))
		gauge(used, float64(l.Running))
		number, sum := map[string]int{}, map[string]int64{}
		for _, p := range plugins() {
			name := s.sources.value(p.Source)
			number[name]++
			sum[name] += p.Memory
		}
		for name, n := range number {
			gauge(processes, float64(n), name)
			gauge(memory, float64(sum[name]), name)
		}
	}})
}

// Tasks returns the counters of the tasks of a worker; call it once.
func (s *Set) Tasks() func(worker.Done) {
	total := counter(s, "worker_tasks_total", "Tasks that the worker has executed.", "operation", "outcome")
	took := histogram(s, "worker_task_duration_seconds", "How long tasks took on the worker.", operationBuckets,
		"operation", "pool")
	return func(d worker.Done) {
		total.WithLabelValues(d.Operation, d.Outcome).Inc()
		took.WithLabelValues(d.Operation, s.pools.value(d.Pool)).Observe(d.Took.Seconds())
	}
}
