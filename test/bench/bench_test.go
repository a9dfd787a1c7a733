package main

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/coordinator"
	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/graph/plan"
)

// BenchmarkNoOpPlan refreshes and plans every instance of a shape whose objects all exist already. The CPU time of an
// instance includes the coordinator, the NATS server, the worker and the provider.
func BenchmarkNoOpPlan(b *testing.B) {
	for _, c := range []struct {
		shape string
		n     int
	}{{"empty", 0}, {"wide", 1_000}, {"wide", 10_000}, {"blocks", 2_000}, {"layers", 2_000}, {"chain", 1_000},
		{"modules", 1_000}, {"index", 2_000}} {
		s, n, err := choose(c.shape, c.n)
		check(b, err)
		b.Run(fmt.Sprintf("%s-%d", c.shape, n), func(b *testing.B) {
			e := newEstate(b, s.files(n))
			if made := e.apply(); made != s.vertices(n) {
				b.Fatalf("%d of %d objects were created", made, s.vertices(n))
			}
			b.ReportAllocs()
			began := cpu()
			for b.Loop() {
				for _, c := range e.plan(nil).Changes {
					if c.Action != plan.NoOp {
						b.Fatalf("%s: %s", c.Addr, c.Action)
					}
				}
			}
			if v := s.vertices(n); v > 0 {
				b.ReportMetric(float64((cpu()-began).Microseconds())/float64(b.N*v), "cpu-µs/instance")
			}
		})
	}
}

// BenchmarkKeptPlan plans objects that have verdicts and have not changed: no worker gets a task.
func BenchmarkKeptPlan(b *testing.B) {
	for _, c := range []struct {
		shape string
		n     int
	}{{"wide", 10_000}, {"blocks", 2_000}, {"modules", 1_000}} {
		s, n, err := choose(c.shape, c.n)
		check(b, err)
		b.Run(fmt.Sprintf("%s-%d", c.shape, n), func(b *testing.B) {
			e := newEstate(b, s.files(n))
			e.apply()
			e.refresh = placement.RefreshChanged
			e.plan(nil) // it records the verdicts
			b.ReportAllocs()
			began := cpu()
			for b.Loop() {
				if p := e.plan(nil); p.Unread == nil || p.Unread.Verdicts != s.vertices(n) {
					b.Fatalf("the plan reports %+v as unread, not %d verdicts", p.Unread, s.vertices(n))
				}
			}
			b.ReportMetric(float64((cpu()-began).Microseconds())/float64(b.N*s.vertices(n)), "cpu-µs/instance")
		})
	}
}

// BenchmarkWatch loads the configuration and the state, and reads one batch of the objects, as a workspace that is
// watched for drift does.
func BenchmarkWatch(b *testing.B) {
	for _, n := range []int{2_000, 10_000} {
		const batches = 40
		b.Run(fmt.Sprintf("%d-of-%d", n/batches, n), func(b *testing.B) {
			e := newEstate(b, one(wide)(n))
			e.apply()
			b.ReportAllocs()
			began := cpu()
			for b.Loop() {
				e.compare(n / batches)
			}
			b.ReportMetric(float64((cpu()-began).Microseconds())/float64(b.N*n/batches), "cpu-µs/read")
		})
	}
}

// BenchmarkApply plans and creates all objects, and includes the store's writes to the disk.
func BenchmarkApply(b *testing.B) {
	for _, name := range []string{"wide", "layers", "chain", "modules"} {
		s, _, err := choose(name, 0)
		check(b, err)
		const n = 1_000
		b.Run(fmt.Sprintf("%s-%d", name, n), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				e := newEstate(b, s.files(n))
				b.StartTimer()
				e.apply()
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*s.vertices(n)), "µs/instance")
		})
	}
}

// BenchmarkDispatch measures the time from the dispatch of a vertex without a change until the loop has accepted its
// result, while nothing else runs.
func BenchmarkDispatch(b *testing.B) {
	const n = 1_000
	e := newEstate(b, one(chain)(n))
	e.apply()
	var all latencies
	for b.Loop() {
		e.plan(&all)
	}
	slices.Sort(all.took)
	b.ReportMetric(float64(all.took[len(all.took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(all.took[len(all.took)*99/100].Microseconds()), "p99-µs")
}

// latencies records how long vertices took.
type latencies struct {
	coordinator.Silent
	took []time.Duration
}

func (l *latencies) Finished(_ int, _ program.Description, _ program.Notes, took time.Duration) {
	l.took = append(l.took, took)
}

// BenchmarkBesideOpenTofu runs both programs on the same configurations. The variable TOFU names an OpenTofu binary.
func BenchmarkBesideOpenTofu(b *testing.B) {
	tofu := os.Getenv("TOFU")
	if tofu == "" {
		b.Skip("the variable TOFU does not name an OpenTofu binary")
	}
	m := &bench{dir: b.TempDir(), runs: 1, log: os.Stderr, steps: []string{"apply", "no-op plan"}}
	m.tofu.path = tofu
	_, err := m.prepare(b.Context(), m.dir, "", 0)
	check(b, err)
	for _, name := range []string{"blocks", "layers", "wide"} {
		s, _, err := choose(name, 0)
		check(b, err)
		b.Run(name+"-500", func(b *testing.B) {
			for b.Loop() {
				all, err := m.lives(b.Context(), s, 500, 1, m.engines())
				check(b, err)
				for _, step := range m.steps {
					ours, theirs := median(all[0][step]), median(all[1][step])
					unit := "x-" + map[string]string{"apply": "apply", "no-op plan": "plan"}[step]
					b.ReportMetric(ratio(theirs.wall, ours.wall), unit)
				}
			}
		})
	}
}

func TestAMultipliedStateHasInstancesLikeTheFirstOne(t *testing.T) {
	var out bytes.Buffer
	err := multiplied(&out, []byte(`{"version": 4, "serial": 3, "resources": [{"type": "bulk_item", "instances": [
		{"index_key": 0, "attributes": {"name": "m-0", "id": "m-0-abc", "read_ms": 20}},
		{"index_key": 1, "attributes": {"name": "m-1", "id": "m-1-abc", "read_ms": 20}}]}], "outputs": {}}`), 3)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"outputs":{},"resources":[{"instances":[` +
		`{"attributes":{"id":"m-0-000000000000","name":"m-0","read_ms":20},"index_key":0},` +
		`{"attributes":{"id":"m-1-000000000001","name":"m-1","read_ms":20},"index_key":1},` +
		`{"attributes":{"id":"m-2-000000000002","name":"m-2","read_ms":20},"index_key":2}],"type":"bulk_item"}],` +
		`"serial":1000,"version":4}`
	if out.String() != want {
		t.Errorf("it is\n%s\nnot\n%s", out.String(), want)
	}
}
