package state

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// Sets is a table of sets of dependencies for storage: each set once, as the numbers of its resources. In a deep
// configuration, each object has thousands of dependencies: written as addresses they are much larger than all else.
// The zero value is empty.
type Sets struct {
	encoded [][]byte
	known   map[*Dependencies]int
	content map[string]int // by the encoded form: sets in several universes may be equal

	names *Universe
	of    *Universe // the universe of the last set
	into  []uint64  // by number in that universe, one more than that in names; 0 if unknown
}

// Number returns the index of a set that is not empty, adding it if necessary.
func (s *Sets) Number(d *Dependencies) int {
	if s.names == nil {
		s.names, s.known, s.content = NewUniverse(), map[*Dependencies]int{}, map[string]int{}
	}
	n, ok := s.known[d]
	if ok {
		return n
	}
	data := EncodeNumbers(s.numbers(d))
	if n, ok = s.content[string(data)]; !ok {
		n = len(s.encoded)
		s.encoded, s.content[string(data)] = append(s.encoded, data), n
	}
	s.known[d] = n
	return n
}

// numbers returns the numbers of the resources of a set, from 1, sorted.
func (s *Sets) numbers(d *Dependencies) []uint64 {
	if s.of != d.of {
		s.of, s.into = d.of, nil
	}
	s.into = append(s.into, make([]uint64, s.of.Len()-len(s.into))...)
	out := make([]uint64, 0, d.Len())
	for i := range d.numbers() {
		if s.into[i] == 0 {
			s.into[i] = uint64(s.names.Number(s.of.At(int(i)))) + 1 //nolint:gosec // indexes
		}
		out = append(out, s.into[i])
	}
	slices.Sort(out)
	return out
}

// Encoded returns the table: the addresses of the resources in it, and the sets by their index.
func (s *Sets) Encoded() (resources []string, sets [][]byte) {
	if s.names == nil {
		return nil, nil
	}
	for _, r := range s.names.list {
		resources = append(resources, r.Value().String())
	}
	return resources, s.encoded
}

// DecodeSets returns the sets of a table, in one universe; false if a set has a resource that is not in the table.
func DecodeSets(resources []Dependency, sets [][]byte) ([]*Dependencies, bool) {
	u := NewUniverse(resources...)
	if u.Len() != len(resources) {
		return nil, false // a resource is there twice
	}
	out := make([]*Dependencies, len(sets))
	for i, data := range sets {
		words, ok := DecodeNumbers(data, u.Len())
		if !ok {
			return nil, false
		}
		out[i] = u.SetOf(words)
	}
	return out, true
}

// bitmap is the first byte of a set in the form of a bitmap. A list never begins with it: there is no number 0.
const bitmap = 0

// EncodeNumbers encodes sorted positive numbers, at least one, in the shorter of the two forms.
func EncodeNumbers(numbers []uint64) []byte {
	last := numbers[len(numbers)-1]
	if size := 1 + (last+7)/8; size < uint64(len(numbers)) {
		data := make([]byte, size)
		data[0] = bitmap
		for _, number := range numbers {
			data[1+(number-1)/8] |= 1 << ((number - 1) % 8)
		}
		return data
	}
	data := make([]byte, 0, 2*len(numbers))
	before := uint64(0)
	for _, number := range numbers {
		data = binary.AppendVarint(data, int64(number)-int64(before)) // differences are small
		before = number
	}
	return data
}

// DecodeNumbers decodes the result of EncodeNumbers to bits, with bit n-1 for the number n. Numbers above most
// are invalid.
func DecodeNumbers(data []byte, most int) (words []uint64, ok bool) {
	words = make([]uint64, (most+63)/64)
	add := func(number int64) bool {
		if number < 1 || number > int64(most) {
			return false
		}
		words[(number-1)/64] |= 1 << ((number - 1) % 64)
		return true
	}
	if len(data) > 0 && data[0] == bitmap {
		for i, b := range data[1:] {
			for ; b != 0; b &= b - 1 {
				if !add(int64(i*8 + bits.TrailingZeros8(b) + 1)) {
					return nil, false
				}
			}
		}
		return words, true
	}
	at := int64(0)
	for len(data) > 0 {
		step, n := binary.Varint(data)
		if at += step; n <= 0 || !add(at) {
			return nil, false
		}
		data = data[n:]
	}
	return words, true
}
