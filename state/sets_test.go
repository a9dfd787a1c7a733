package state_test

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
)

// Earlier versions wrote only lists, of up to two bytes for each of thousands of dependencies. Existing stores with
// lists must still be readable.
func TestSetsOfDependenciesAreReadInBothForms(t *testing.T) {
	for seed := range uint64(200) {
		chance := rand.New(rand.NewPCG(seed, 1))
		most := 1 + chance.IntN(500)
		share := 1 + chance.IntN(30)
		numbers := []uint64{uint64(1 + chance.IntN(most))}
		for n := range most {
			if chance.IntN(share) == 0 {
				numbers = append(numbers, uint64(n+1))
			}
		}
		slices.Sort(numbers)
		numbers = slices.Compact(numbers)
		before, list := uint64(0), []byte(nil)
		for _, i := range chance.Perm(len(numbers)) { // in the order of the addresses' texts, not of the numbers
			list = binary.AppendVarint(list, int64(numbers[i])-int64(before))
			before = numbers[i]
		}
		coded := state.EncodeNumbers(numbers)
		if len(coded) > len(list) {
			t.Errorf("seed %d: %d bytes instead of %d", seed, len(coded), len(list))
		}
		for _, data := range [][]byte{coded, list} {
			words, ok := state.DecodeNumbers(data, most)
			var got []uint64
			for n := range most {
				if ok && words[n/64]&(1<<(n%64)) != 0 {
					got = append(got, uint64(n+1))
				}
			}
			if !slices.Equal(got, numbers) {
				t.Fatalf("seed %d: %v instead of %v", seed, got, numbers)
			}
			if _, ok := state.DecodeNumbers(data, int(numbers[len(numbers)-1])-1); ok {
				t.Errorf("seed %d: a number without a name is accepted", seed)
			}
		}
	}
	for _, damaged := range [][]byte{{0x80}, {1}, {0, 0xff}, {2, 0x80, 0x80}} {
		if _, ok := state.DecodeNumbers(damaged, 7); ok {
			t.Errorf("%x is accepted", damaged)
		}
	}
	u := state.NewUniverse(state.DependOn(addr.ConfigResource{Module: "m"}))
	if u.SetOf([]uint64{0}) != nil {
		t.Error("empty data is accepted as a set")
	}
}
