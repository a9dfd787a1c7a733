package bolt_test

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/bolt"
	"github.com/millipede-iac/millipede/state/journal"
)

var (
	benchResource = addr.Resource{Mode: addr.Managed, Type: "test_thing", Name: "a"}.Absolute(addr.RootInstance)
	benchProvider = addr.ProviderConfig{Provider: addr.DefaultProvider("test")}.Instance(addr.RootInstance, addr.NoKey)
	benchDeps     = state.DependenciesOn(state.DependOn(addr.ConfigResource{Resource: addr.Resource{Mode: addr.Managed,
		Type: "test_other", Name: "b"}}))
)

func setAttrs(i int, text string) state.Change {
	return state.SetObject{
		Addr: benchResource.Instance(addr.IntKey(i)), Provider: benchProvider,
		Object: &state.Object{
			Status: state.Ready, Attrs: fmt.Appendf(nil, `{"id":"i-%08d","text":%q}`, i, text), Dependencies: benchDeps,
		},
	}
}

func filled(b *testing.B, n int, sync bool) *bolt.Store {
	b.Helper()
	s, err := bolt.OpenOptions(filepath.Join(b.TempDir(), "state.db"), journal.LockInfo{}, 0,
		bolt.Options{NoSync: !sync})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	text := fmt.Sprintf("%0600d", 0)
	for at := 0; at < n; at += 10000 {
		var changes []state.Change
		for i := at; i < min(at+10000, n); i++ {
			changes = append(changes, setAttrs(i, text))
		}
		if err := s.Commit(b.Context(), journal.Commit{Workspace: "default", Changes: changes,
			EndVersion: true}); err != nil {
			b.Fatal(err)
		}
	}
	return s
}

// The time must not depend on the size of the state, with or without fsync.
func BenchmarkCommitOfOneChangeOnAStateOf(b *testing.B) {
	for _, n := range []int{100, 10000, 100000} {
		for _, sync := range []bool{false, true} {
			b.Run(fmt.Sprintf("%d,sync=%t", n, sync), func(b *testing.B) {
				s := filled(b, n, sync)
				i := 0
				for b.Loop() {
					i++
					c := setAttrs(i*7919%n, fmt.Sprintf("%0600d", i))
					if err := s.Commit(b.Context(), journal.Commit{Workspace: "default",
						Changes: []state.Change{c}}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkCommitsOfConcurrentCallers(b *testing.B) {
	for _, callers := range []int{1, 10, 100} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			s := filled(b, 10000, true)
			var n atomic.Int64
			b.SetParallelism(callers)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					i := int(n.Add(1))
					c := setAttrs(i*7919%10000, fmt.Sprintf("%0600d", i))
					if err := s.Commit(b.Context(), journal.Commit{Workspace: "default",
						Changes: []state.Change{c}}); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

func BenchmarkLoadOf(b *testing.B) {
	for _, n := range []int{10000, 100000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := filled(b, n, false)
			for b.Loop() {
				if _, err := s.Load(b.Context(), "default"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkOpenWith(b *testing.B) {
	s := filled(b, 100000, false)
	path := s.Path()
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s, err := bolt.Open(path, journal.LockInfo{}, 0)
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// The cost of a change when many changes share a transaction, as under load.
func BenchmarkChangeInACommitOf100(b *testing.B) {
	s := filled(b, 100000, false)
	i := 0
	for b.Loop() {
		changes := make([]state.Change, 100)
		for j := range changes {
			i++
			changes[j] = setAttrs(i*7919%100000, fmt.Sprintf("%0600d", i))
		}
		if err := s.Commit(b.Context(), journal.Commit{Workspace: "default", Changes: changes}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(i), "ns/change")
}
