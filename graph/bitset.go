package graph

import (
	"iter"
	"math/bits"
)

// bitset is a set of small numbers. Only sets of the same length can be combined.
type bitset []uint64

func newBitset(n int) bitset { return make(bitset, (n+63)/64) }

func (s bitset) has(i int) bool { return s[i/64]&(1<<(i%64)) != 0 }
func (s bitset) add(i int)      { s[i/64] |= 1 << (i % 64) }
func (s bitset) remove(i int)   { s[i/64] &^= 1 << (i % 64) }

func (s bitset) empty() bool {
	for _, w := range s {
		if w != 0 {
			return false
		}
	}
	return true
}

func (s bitset) len() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// addAll adds the numbers of t, removeAll removes them, keep removes all others.
func (s bitset) addAll(t bitset) {
	for i, w := range t {
		s[i] |= w
	}
}

func (s bitset) removeAll(t bitset) {
	for i, w := range t {
		s[i] &^= w
	}
}

func (s bitset) keep(t bitset) {
	for i, w := range t {
		s[i] &= w
	}
}

// within reports whether t has all numbers of s.
func (s bitset) within(t bitset) bool {
	for i, w := range s {
		if w&^t[i] != 0 {
			return false
		}
	}
	return true
}

// each yields the numbers in ascending order.
func (s bitset) each() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, w := range s {
			for ; w != 0; w &= w - 1 {
				if !yield(i*64 + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}
