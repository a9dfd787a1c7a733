package state

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/lang/addr"
)

func some(names ...int) []Dependency {
	out := make([]Dependency, len(names))
	for i, n := range names {
		out[i] = DependOn(addr.ConfigResource{Resource: addr.Resource{Mode: addr.Managed, Type: "t",
			Name: fmt.Sprint("r", n)}})
	}
	return out
}

// Every object had a list of all its dependencies: 400 MB of lists for 10,000 resources in layers. A set is a
// bitmap or a short list of numbers, and both forms must be equivalent in any universe.
func TestSetsOfDependenciesSayTheSameInBothFormsAndAnyUniverse(t *testing.T) {
	for seed := range uint64(200) {
		chance := rand.New(rand.NewPCG(seed, 3))
		n := 1 + chance.IntN(300)
		wide := NewUniverse(some(chance.Perm(n)...)...)
		var names []int
		for i := range n {
			if chance.IntN(1+chance.IntN(40)) == 0 {
				names = append(names, i)
			}
		}
		list := some(names...)
		chance.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		own, shared := DependenciesOn(list...), wide.Set(slices.Values(list))
		words := make([]uint64, (n+63)/64)
		for _, d := range list {
			words[wide.Number(d)/64] |= 1 << (wide.Number(d) % 64)
		}
		bits := wide.SetOf(words)
		slices.SortFunc(list, func(a, b Dependency) int {
			return strings.Compare(a.Value().String(),
				b.Value().String())
		})
		for form, set := range map[string]*Dependencies{"own": own, "shared": shared, "bits": bits} {
			if got := slices.Collect(set.All()); !slices.Equal(got, list) || set.Len() != len(list) {
				t.Fatalf("seed %d: %s has %d instead of %d", seed, form, len(got), len(list))
			}
			for _, d := range some(chance.Perm(n)...) {
				if set.Has(d) != slices.Contains(list, d) {
					t.Fatalf("seed %d: %s has %v: %v", seed, form, d.Value(), set.Has(d))
				}
			}
			for _, other := range []*Dependencies{own, shared, bits} {
				if !set.Equal(other) {
					t.Fatalf("seed %d: %s is not equal to another form", seed, form)
				}
			}
			if len(list) > 0 && (set.Equal(wide.Set(slices.Values(list[1:]))) ||
				set.Equal(DependenciesOn(append(some(n+1), list[1:]...)...))) {
				t.Fatalf("seed %d: %s is equal to a set without one of its elements", seed, form)
			}
		}
	}
}
