package bolt

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
)

// Dependencies are transitive: in a deep graph each object has thousands of them, and the instances of one resource
// have the same. So a list is kept once, under the hash of its content, and consists of numbers that stand for
// addresses. Neither lists nor numbers are ever removed: earlier versions need them.

// depsHash is how long the key of a list is, in bytes.
const depsHash = 16

// names is the writer's memory of the addresses that have numbers.
type names struct {
	numbers map[state.Dependency]uint64 // nil: not read yet
	lists   map[listID][depsHash]byte   // lists that were written lately
}

// listID recognises a list by its place in memory: objects are immutable, and lists are shared between them.
type listID struct {
	first *state.Dependency
	n     int
}

// maxLists bounds what is remembered of lists, which keeps them in memory.
const maxLists = 1024

// forget drops what is remembered, so that it is read again.
func (n *names) forget() { *n = names{} }

// putDeps stores a list and returns its key.
func (n *names) putDeps(tx *bbolt.Tx, list []state.Dependency) ([depsHash]byte, error) {
	id := listID{&list[0], len(list)}
	if key, ok := n.lists[id]; ok {
		return key, nil
	}
	data := make([]byte, 0, 2*len(list))
	before := uint64(0)
	for _, r := range list {
		number, err := n.number(tx, r)
		if err != nil {
			return [depsHash]byte{}, err
		}
		data = binary.AppendVarint(data, int64(number)-int64(before)) // neighbours have near numbers
		before = number
	}
	sum := sha256.Sum256(data)
	key := [depsHash]byte(sum[:depsHash])
	if b := tx.Bucket(depsBucket); b.Get(key[:]) == nil {
		if err := b.Put(key[:], data); err != nil {
			return key, err
		}
	}
	if n.lists == nil || len(n.lists) >= maxLists {
		n.lists = map[listID][depsHash]byte{}
	}
	n.lists[id] = key
	return key, nil
}

// number returns the number that stands for an address, giving it one if need be.
func (n *names) number(tx *bbolt.Tx, r state.Dependency) (uint64, error) {
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
	b.FillPercent = 1 // they only grow at the end
	if err := b.Put(binary.BigEndian.AppendUint32(nil, uint32(number)), []byte(r.Value().String())); err != nil {
		return 0, err
	}
	n.numbers[r] = number
	return number, nil
}

// readNames returns the addresses that have numbers; the first has the number 1.
func readNames(tx *bbolt.Tx) ([]state.Dependency, error) {
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

// reader resolves dependencies while a state is loaded. Equal lists become one slice.
type reader struct {
	tx    *bbolt.Tx
	known []state.Dependency
	lists map[[depsHash]byte][]state.Dependency
}

func newReader(tx *bbolt.Tx) (*reader, error) {
	known, err := readNames(tx)
	return &reader{tx: tx, known: known, lists: map[[depsHash]byte][]state.Dependency{}}, err
}

func (r *reader) deps(key []byte) ([]state.Dependency, error) {
	k := [depsHash]byte(key)
	if list, ok := r.lists[k]; ok {
		return list, nil
	}
	data := r.tx.Bucket(depsBucket).Get(key)
	if data == nil {
		return nil, fmt.Errorf("the dependencies %x are not there", key)
	}
	list := make([]state.Dependency, 0, len(data))
	at := int64(0)
	for len(data) > 0 {
		step, n := binary.Varint(data)
		at += step
		if n <= 0 || at < 1 || at > int64(len(r.known)) {
			return nil, fmt.Errorf("the dependencies %x make no sense", key)
		}
		list = append(list, r.known[at-1])
		data = data[n:]
	}
	list = list[:len(list):len(list)]
	r.lists[k] = list
	return list, nil
}
