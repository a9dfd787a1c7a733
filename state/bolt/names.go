package bolt

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/recorded"
)

// Dependencies are transitive: in a deep graph each object has thousands of them, and the instances of one resource
// have the same. So a set is stored once, under the hash of its content, and consists of the numbers of addresses:
// as a list, or as a bitmap if that is shorter. Sets and numbers are never removed, because earlier versions need
// them.

// depsHash is the length of the key of a set, in bytes.
const depsHash = 16

// names is the writer's cache of the numbers of addresses.
type names struct {
	numbers map[state.Dependency]uint64            // nil: not loaded yet
	sets    map[*state.Dependencies][depsHash]byte // recently written sets
	of      *state.Universe                        // the universe of the last set
	into    []uint64                               // by number in that universe, that in the file; 0 if unknown
}

// maxSets bounds the number of cached sets, which are kept in memory by the cache.
const maxSets = 1024

// forget empties the cache, so that it is loaded again.
func (n *names) forget() { *n = names{} }

// putDeps stores a set and returns its key.
func (n *names) putDeps(tx *recorded.Tx, set *state.Dependencies) ([depsHash]byte, error) {
	if key, ok := n.sets[set]; ok {
		return key, nil
	}
	numbers, err := n.numbersOf(tx, set)
	if err != nil {
		return [depsHash]byte{}, err
	}
	data := state.EncodeNumbers(numbers)
	sum := sha256.Sum256(data)
	key := [depsHash]byte(sum[:depsHash])
	if b := tx.Bucket(depsBucket); b.Get(key[:]) == nil {
		if err := b.Put(key[:], data); err != nil {
			return key, err
		}
	}
	if n.sets == nil || len(n.sets) >= maxSets {
		n.sets = map[*state.Dependencies][depsHash]byte{}
	}
	n.sets[set] = key
	return key, nil
}

// numbersOf returns the numbers of the resources of a set, sorted.
func (n *names) numbersOf(tx *recorded.Tx, set *state.Dependencies) ([]uint64, error) {
	if u := set.Universe(); n.of != u {
		n.of, n.into = u, nil
	}
	n.into = append(n.into, make([]uint64, n.of.Len()-len(n.into))...)
	out := make([]uint64, 0, set.Len())
	for i := range set.Numbers() {
		if n.into[i] == 0 {
			number, err := n.number(tx, n.of.At(i))
			if err != nil {
				return nil, err
			}
			n.into[i] = number
		}
		out = append(out, n.into[i])
	}
	slices.Sort(out)
	return out, nil
}

// number returns the number of an address, assigning one if necessary.
func (n *names) number(tx *recorded.Tx, r state.Dependency) (uint64, error) {
	b := tx.Bucket(namesBucket)
	if n.numbers == nil {
		known, err := readNames(tx)
		if err != nil {
			return 0, err
		}
		n.numbers = make(map[state.Dependency]uint64, len(known))
		for i, k := range known {
			n.numbers[k] = uint64(i + 1)
		}
	}
	if number, ok := n.numbers[r]; ok {
		return number, nil
	}
	number := uint64(len(n.numbers) + 1)
	b.GrowsAtItsEnd() // they only grow at the end
	if err := b.Put(binary.BigEndian.AppendUint32(nil, uint32(number)), []byte(r.Value().String())); err != nil {
		return 0, err
	}
	n.numbers[r] = number
	return number, nil
}

// readNames returns the addresses with numbers; the first has the number 1.
func readNames(tx *recorded.Tx) ([]state.Dependency, error) {
	var known []state.Dependency
	err := tx.Bucket(namesBucket).ForEach(func(_, text []byte) error {
		i, diags := addr.ParseInstance(string(text))
		if diags.HasErrors() {
			return fmt.Errorf("the name %q: %w", text, diags.Err())
		}
		known = append(known, state.DependOn(i.Config()))
		return nil
	})
	return known, err
}

// reader resolves dependencies while a state is loaded. Equal sets are shared.
type reader struct {
	tx    *recorded.Tx
	known *state.Universe // the number n of the file is n-1 in it
	sets  map[[depsHash]byte]*state.Dependencies
}

func newReader(tx *recorded.Tx) (*reader, error) {
	known, err := readNames(tx)
	return &reader{tx: tx, known: state.NewUniverse(known...), sets: map[[depsHash]byte]*state.Dependencies{}}, err
}

// after returns a reader for a later transaction. If no names were added, it shares all sets.
func (r *reader) after(tx *recorded.Tx) (*reader, error) {
	if last, _ := tx.Bucket(namesBucket).Cursor().Last(); len(last) != 4 ||
		int(binary.BigEndian.Uint32(last)) != r.known.Len() || len(r.sets) > maxSets {
		return newReader(tx)
	}
	return &reader{tx: tx, known: r.known, sets: r.sets}, nil
}

func (r *reader) deps(key []byte) (*state.Dependencies, error) {
	k := [depsHash]byte(key)
	if set, ok := r.sets[k]; ok {
		return set, nil
	}
	data := r.tx.Bucket(depsBucket).Get(key)
	if data == nil {
		return nil, fmt.Errorf("the dependencies %x are not there", key)
	}
	words, ok := state.DecodeNumbers(data, r.known.Len())
	if !ok {
		return nil, fmt.Errorf("the dependencies %x make no sense", key)
	}
	set := r.known.SetOf(words)
	r.sets[k] = set
	return set, nil
}
