package coordinator

import (
	"fmt"
	"testing"

	"github.com/millipede-iac/millipede/coordinator/program"
	"github.com/millipede-iac/millipede/graph/dag"
	"github.com/millipede-iac/millipede/test/stage/numbers"
	"github.com/millipede-iac/millipede/wire/mem"
)

// BenchmarkRun measures what loop and lanes cost for each vertex, without what a program and a worker do.
func BenchmarkRun(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000} {
		b.Run(fmt.Sprintf("inline/%d", n), func(b *testing.B) {
			benchmarkRun(b, n, func(int) bool { return true }, program.Fast)
		})
		b.Run(fmt.Sprintf("fast/%d", n), func(b *testing.B) {
			benchmarkRun(b, n, nil, program.Fast)
		})
	}
}

func benchmarkRun(b *testing.B, n int, hidden func(int) bool, lane program.Lane) {
	system := mem.New(mem.Options{})
	_, stop := serveCalls(b, system, "default", 100, 0, numbers.Compute)
	defer stop()
	edges := make([]dag.Edge, 0, n)
	for v := 100; v < n; v++ {
		edges = append(edges, dag.Edge{Before: v - 100, After: v})
	}
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		p := numbers.New(b, n, edges...)
		p.Hidden, p.Lane = hidden, lane
		b.StartTimer()
		planRun(b, system, p, 10, nil)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/vertex")
}
