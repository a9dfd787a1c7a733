package state

import (
	"iter"
	"math/bits"
	"slices"
	"sync"
	"unique"

	"github.com/millipede-iac/millipede/lang/addr"
)

// Dependencies are the resources, transitively, that an object must outlive. In a deep graph each object has
// thousands of them, so a set is a bitmap over its universe, or a list of numbers if it is small. Immutable; nil is
// the empty set. Objects share sets.
type Dependencies struct {
	of    *Universe
	n     int
	words []uint64 // bit i%64 of words[i/64] is the number i; nil if few is used
	few   []int32  // sorted
}

// Universe assigns numbers, from 0, to the resources in sets of dependencies. Only one goroutine may create sets,
// which adds numbers; the sets may be used concurrently.
type Universe struct {
	list    []Dependency
	numbers map[Dependency]int32

	mu    sync.Mutex // guards the fields below
	texts []string   // by number
	order []int32    // the numbers, sorted by their texts
	other *Universe  // the universe of the last translation
	into  []int32    // by number, the number in other; -1 if it has none
}

// NewUniverse returns a universe of some resources, which get the numbers 0, 1, 2, ...
func NewUniverse(list ...Dependency) *Universe {
	u := &Universe{numbers: make(map[Dependency]int32, len(list))}
	for _, d := range list {
		u.Number(d)
	}
	return u
}

// DependenciesOn returns a set with a new universe.
func DependenciesOn(list ...Dependency) *Dependencies {
	u := NewUniverse(list...)
	return u.Set(slices.Values(u.list))
}

// Number returns the number of a resource, assigning one if necessary.
func (u *Universe) Number(d Dependency) int {
	n, ok := u.numbers[d]
	if !ok {
		n = int32(len(u.list))
		u.list, u.numbers[d] = append(u.list, d), n
	}
	return int(n)
}

// Len returns the number of resources with numbers; At returns the resource with a number.
func (u *Universe) Len() int            { return len(u.list) }
func (u *Universe) At(n int) Dependency { return u.list[n] }

// Set returns the set of some resources; nil for none.
func (u *Universe) Set(list iter.Seq[Dependency]) *Dependencies {
	var numbers []int32
	for d := range list {
		numbers = append(numbers, int32(u.Number(d)))
	}
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	if len(numbers) == 0 {
		return nil
	}
	last := int(numbers[len(numbers)-1])
	if words := last/64 + 1; len(numbers) > 2*words {
		set := make([]uint64, words)
		for _, n := range numbers {
			set[n/64] |= 1 << (n % 64)
		}
		return &Dependencies{of: u, n: len(numbers), words: set}
	}
	return &Dependencies{of: u, n: len(numbers), few: slices.Clip(numbers)}
}

// SetOf returns the set whose numbers are the bits of words, which must not be changed afterwards; nil for none.
func (u *Universe) SetOf(words []uint64) *Dependencies {
	n := 0
	for _, w := range words {
		n += bits.OnesCount64(w)
	}
	if n == 0 {
		return nil
	}
	d := &Dependencies{of: u, n: n, words: words}
	if n <= 2*len(words) {
		d.few, d.words = slices.Collect(d.numbers()), nil
	}
	return d
}

// Universe returns the universe of the set's numbers.
func (d *Dependencies) Universe() *Universe { return d.of }

// Len returns the number of resources in the set.
func (d *Dependencies) Len() int {
	if d == nil {
		return 0
	}
	return d.n
}

// Numbers yields the numbers of the resources in the set's universe, in ascending order.
func (d *Dependencies) Numbers() iter.Seq[int] {
	return func(yield func(int) bool) {
		for n := range d.numbers() {
			if !yield(int(n)) {
				return
			}
		}
	}
}

func (d *Dependencies) numbers() iter.Seq[int32] {
	return func(yield func(int32) bool) {
		if d == nil {
			return
		}
		for _, n := range d.few {
			if !yield(n) {
				return
			}
		}
		for i, w := range d.words {
			for ; w != 0; w &= w - 1 {
				if !yield(int32(i*64 + bits.TrailingZeros64(w))) {
					return
				}
			}
		}
	}
}

// has reports whether the resource with a number is in the set.
func (d *Dependencies) has(n int32) bool {
	if d.words == nil {
		_, ok := slices.BinarySearch(d.few, n)
		return ok
	}
	return int(n)/64 < len(d.words) && d.words[n/64]&(1<<(n%64)) != 0
}

// Has reports whether a resource is in the set.
func (d *Dependencies) Has(r Dependency) bool {
	if d == nil {
		return false
	}
	n, ok := d.of.numbers[r]
	return ok && d.has(n)
}

// All yields the resources, sorted by their text.
func (d *Dependencies) All() iter.Seq[Dependency] {
	return func(yield func(Dependency) bool) {
		for _, n := range d.sorted() {
			if !yield(d.of.list[n]) {
				return
			}
		}
	}
}

// Texts yields the addresses of the resources, sorted.
func (d *Dependencies) Texts() iter.Seq[string] {
	return func(yield func(string) bool) {
		numbers := d.sorted()
		if numbers == nil {
			return
		}
		texts, _ := d.of.sorted()
		for _, n := range numbers {
			if !yield(texts[n]) {
				return
			}
		}
	}
}

// sorted returns the numbers, sorted by their texts.
func (d *Dependencies) sorted() []int32 {
	if d == nil {
		return nil
	}
	texts, order := d.of.sorted()
	if d.words == nil {
		return slices.SortedFunc(slices.Values(d.few), func(a, b int32) int {
			if texts[a] < texts[b] {
				return -1
			}
			return 1
		})
	}
	out := make([]int32, 0, d.n)
	for _, n := range order {
		if d.has(n) {
			out = append(out, n)
		}
	}
	return out
}

// sorted returns the texts by number, and the sorted numbers.
func (u *Universe) sorted() (texts []string, order []int32) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.texts) < len(u.list) {
		texts := make([]string, len(u.list))
		copy(texts, u.texts)
		order := make([]int32, len(u.list))
		for i := range order {
			order[i] = int32(i)
			if i >= len(u.texts) {
				texts[i] = u.list[i].Value().String()
			}
		}
		slices.SortFunc(order, func(a, b int32) int {
			if texts[a] < texts[b] {
				return -1
			}
			return 1
		})
		u.texts, u.order = texts, order
	}
	return u.texts, u.order
}

// Equal reports whether two sets contain the same resources, in any universes.
func (d *Dependencies) Equal(e *Dependencies) bool {
	switch {
	case d == e:
		return true
	case d.Len() != e.Len():
		return false
	case d.of == e.of && (d.words == nil) == (e.words == nil):
		return slices.Equal(d.few, e.few) && slices.Equal(trimmed(d.words), trimmed(e.words))
	}
	into := d.of.translation(e.of)
	for n := range d.numbers() {
		if into[n] < 0 || !e.has(into[n]) {
			return false
		}
	}
	return true
}

func trimmed(words []uint64) []uint64 {
	for len(words) > 0 && words[len(words)-1] == 0 {
		words = words[:len(words)-1]
	}
	return words
}

// translation returns the numbers of the resources in another universe, by number.
func (u *Universe) translation(v *Universe) []int32 {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.other != v || len(u.into) != len(u.list) {
		u.other, u.into = v, make([]int32, len(u.list))
		for i, d := range u.list {
			u.into[i] = -1
			if n, ok := v.numbers[d]; ok {
				u.into[i] = n
			}
		}
	}
	return u.into
}

// Dependency is the address of a resource that an object depends on, in 8 bytes instead of 56. Two are equal if the
// addresses are.
type Dependency = unique.Handle[addr.ConfigResource]

// DependOn returns the dependency on a resource; its Value is the address.
func DependOn(r addr.ConfigResource) Dependency { return unique.Make(r) }
