package addr

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// randomMove returns a move between few names, so that many endpoints meet.
func randomMove(t *testing.T, r *rand.Rand) Move {
	key := func() string { return []string{"", "", "[0]", "[1]", `["k"]`}[r.IntN(5)] }
	modules := func(least int) string {
		var steps []string
		for range least + r.IntN(3-least) {
			steps = append(steps, "module."+[]string{"m", "n"}[r.IntN(2)]+key())
		}
		return strings.Join(steps, ".")
	}
	whole := r.IntN(2) == 0
	end := func() string {
		if whole {
			return modules(1)
		}
		return strings.TrimPrefix(modules(0)+"."+[]string{"a.x", "a.y"}[r.IntN(2)]+key(), ".")
	}
	return move(t, []string{"", "", "m", "m.n"}[r.IntN(4)], end(), end())
}

func TestTheOrderOfMovesIsThatOfAllPairs(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		all := make([]Move, 2+r.IntN(12))
		for i := range all {
			all[i] = randomMove(t, r)
		}
		var want [][2]int
		for i := range all {
			for j := range all {
				if i != j && all[j].DependsOn(all[i]) {
					want = append(want, [2]int{i, j})
				}
			}
		}
		if got := MoveOrder(all); !slices.Equal(got, want) {
			t.Errorf("seed %d: %v, not %v", seed, got, want)
		}
	}
}

func BenchmarkTheOrderOfAChainOfMoves(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		for _, of := range []string{"a.r%d", "a.r[%d]", "module.m%d", "module.m[%d].a.r"} {
			var all []Move
			for i := range n {
				f, _ := ParseMoveEndpoint(traversal(b, fmt.Sprintf(of, i)))
				o, _ := ParseMoveEndpoint(traversal(b, fmt.Sprintf(of, i+1)))
				m, _ := NewMove("", f, o)
				all = append(all, m)
			}
			b.Run(fmt.Sprintf(of+"/%d", 0, n), func(b *testing.B) {
				for b.Loop() {
					if got := len(MoveOrder(all)); got != n-1 {
						b.Fatal(got)
					}
				}
			})
		}
	}
}
