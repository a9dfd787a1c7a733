package graph

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/graph/dag"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/config"
	"github.com/millipede-iac/millipede/state"
)

// blocks makes a plan graph of n resource blocks. Block i refers to the blocks that refersTo yields; vertex 2i is its
// beginning, and 2i+1 its end.
func blocks(n int, refersTo func(i int) []int) *Static {
	s := &Static{Graph: dag.New(2 * n)}
	for i := range n {
		r := addr.Resource{Mode: addr.Managed, Type: "t", Name: fmt.Sprintf("r%d", i)}
		node := Node{Kind: ResourceNode, Named: r, Resource: &config.Resource{Addr: r}}
		s.Nodes = append(s.Nodes, node)
		node.Kind = ResourceDone
		s.Nodes = append(s.Nodes, node)
		s.Graph.Edge(2*i, 2*i+1)
		for _, to := range refersTo(i) {
			s.Graph.Edge(2*to+1, 2*i)
		}
	}
	return s
}

// anyBefore refers to up to three blocks before i, some of them twice.
func anyBefore(chance *rand.Rand) func(i int) []int {
	return func(i int) []int {
		var list []int
		for range min(i, chance.IntN(4)) {
			list = append(list, chance.IntN(i))
		}
		return list
	}
}

func TestTheClosureOfAVertexIsWhatAWalkFinds(t *testing.T) {
	for seed := range uint64(50) {
		s := blocks(70, anyBefore(rand.New(rand.NewPCG(seed, 1))))
		c := NewClosure(s)
		for v := range s.Nodes {
			var want []state.Dependency
			for _, a := range append(s.Graph.Ancestors(v), v) {
				if n := &s.Nodes[a]; n.Kind == ResourceDone {
					want = append(want, state.DependOn(n.ConfigResource()))
				}
			}
			slices.SortFunc(want, func(a, b state.Dependency) int {
				return strings.Compare(a.Value().String(),
					b.Value().String())
			})
			if got := slices.Collect(c.Resources(v).All()); !slices.Equal(got, slices.Compact(want)) {
				t.Fatalf("seed %d, %s: %v instead of %v", seed, s.Nodes[v].Address(), got, want)
			}
		}
	}
}

func TestTheClosureGivesEverybodyTheSameSet(t *testing.T) {
	s := blocks(3, func(i int) []int { return []int{0}[:min(i, 1)] })
	c := NewClosure(s)
	if first, second := c.Resources(4), c.Resources(4); first != second {
		t.Error("the set was made twice")
	}
}

// BenchmarkClosure shows that blocks without edges cost nothing, and that others cost bits.
func BenchmarkClosure(b *testing.B) {
	for name, refersTo := range map[string]func(i int) []int{
		"blocks": func(int) []int { return nil },
		"layers": func(i int) []int {
			if i < 100 {
				return nil
			}
			return []int{i/100*100 - 1, i/100*100 - 2}
		},
	} {
		b.Run(name, func(b *testing.B) {
			s := blocks(10_000, refersTo)
			b.ReportAllocs()
			for b.Loop() {
				NewClosure(s).Resources(0)
			}
		})
	}
}
