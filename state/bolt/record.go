package bolt

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sort"

	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/millipede-iac/millipede/internal/coding"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/recorded"
)

// record is the stored form of one instance: its provider instance and its objects. Objects stay encoded until they
// are needed, so that the cost of changing one does not depend on the others.
type record struct {
	key     addr.Key        // of the provider configuration's instance
	module  string          // module instance of the provider configuration
	objects []encodedObject // sorted: the current object, then the deposed ones
}

type encodedObject struct {
	deposed state.DeposedKey
	data    []byte
}

// recordFormat is the first byte of each record.
const recordFormat = 1

// The optional parts of an object, in the order in which they are written.
const (
	hasAttrs = 1 << iota
	hasFlatmap
	hasSensitive
	hasPrivate
	hasIdentity
	hasDependencies
	hasDoubt
	createBeforeDestroy
	skipDestroy
	// laterParts is the first of the parts that a later version may add. Each of them has a string at the end of the
	// object, which may be empty, in the order of their bits: so this version can skip them.
	laterParts
)

// set sets or replaces an object, or removes it if data is nil.
func (r *record) set(deposed state.DeposedKey, data []byte) {
	i := sort.Search(len(r.objects), func(i int) bool { return r.objects[i].deposed >= deposed })
	found := i < len(r.objects) && r.objects[i].deposed == deposed
	switch {
	case data == nil && found:
		r.objects = slices.Delete(r.objects, i, i+1)
	case data == nil:
	case found:
		r.objects[i].data = data
	default:
		r.objects = slices.Insert(r.objects, i, encodedObject{deposed, data})
	}
}

func (r *record) encode() []byte {
	size := 16 + len(r.module)
	for _, o := range r.objects {
		size += 16 + len(o.data)
	}
	b := append(make([]byte, 0, size), recordFormat)
	if n, ok := r.key.Int(); ok {
		b = binary.AppendVarint(append(b, 'i'), int64(n))
	} else if s, ok := r.key.Str(); ok {
		b = appendBytes(append(b, 's'), s)
	} else {
		b = append(b, 0)
	}
	b = appendBytes(b, r.module)
	b = binary.AppendUvarint(b, uint64(len(r.objects)))
	for _, o := range r.objects {
		b = appendBytes(b, string(o.deposed))
		b = appendBytes(b, o.data)
	}
	return b
}

// decodeRecord shares the memory of data.
func decodeRecord(data []byte) (record, error) {
	d := decoder{rest: data}
	var r record
	if d.byte() != recordFormat {
		return r, errors.New("a record of unknown format")
	}
	switch d.byte() {
	case 0:
	case 'i':
		r.key = addr.IntKey(int(d.varint()))
	case 's':
		r.key = addr.StringKey(string(d.bytes()))
	default:
		d.broken = true
	}
	r.module = string(d.bytes())
	n := d.uvarint()
	for i := uint64(0); i < n && !d.broken; i++ {
		r.objects = append(r.objects, encodedObject{state.DeposedKey(d.bytes()), d.bytes()})
	}
	d.rest = nil // what a later version has added at the end of a record
	return r, d.err()
}

// encodeObject encodes an object; its dependencies are stored separately.
func (n *names) encodeObject(tx *recorded.Tx, o *state.Object) ([]byte, error) {
	parts := 0
	mark := func(is bool, part int) {
		if is {
			parts |= part
		}
	}
	mark(o.Attrs != nil, hasAttrs)
	mark(o.Flatmap != nil, hasFlatmap)
	mark(len(o.Sensitive) > 0, hasSensitive)
	mark(len(o.Private) > 0, hasPrivate)
	mark(o.Identity != nil, hasIdentity)
	mark(o.Dependencies.Len() > 0, hasDependencies)
	mark(o.Doubt != nil, hasDoubt)
	mark(o.CreateBeforeDestroy, createBeforeDestroy)
	mark(o.SkipDestroy, skipDestroy)

	b := make([]byte, 0, 64+len(o.Attrs)+len(o.Private)+len(o.Identity))
	b = append(b, byte(o.Status))
	b = binary.AppendUvarint(b, uint64(parts))
	b = binary.AppendVarint(b, o.SchemaVersion)
	if parts&hasAttrs != 0 {
		b = appendBytes(b, o.Attrs)
	}
	if parts&hasFlatmap != 0 {
		flat, err := json.Marshal(o.Flatmap)
		if err != nil {
			return nil, err
		}
		b = appendBytes(b, flat)
	}
	if parts&hasSensitive != 0 {
		paths, err := encodePaths(o.Sensitive)
		if err != nil {
			return nil, err
		}
		b = appendBytes(b, paths)
	}
	if parts&hasPrivate != 0 {
		b = appendBytes(b, o.Private)
	}
	if parts&hasIdentity != 0 {
		b = appendBytes(binary.AppendVarint(b, o.IdentityVersion), o.Identity)
	}
	if parts&hasDependencies != 0 {
		key, err := n.putDeps(tx, o.Dependencies)
		if err != nil {
			return nil, err
		}
		b = append(b, key[:]...)
	}
	if parts&hasDoubt != 0 {
		doubt, err := json.Marshal(o.Doubt)
		if err != nil {
			return nil, err
		}
		b = appendBytes(b, doubt)
	}
	return b, nil
}

// decodeObject copies the data that it keeps: data is invalid after the transaction.
func (r *reader) decodeObject(data []byte) (*state.Object, error) {
	own := append([]byte(nil), data...) // one copy, shared by the parts
	d := decoder{rest: own}
	o := &state.Object{Status: state.Status(d.byte())}
	parts := d.uvarint()
	o.SchemaVersion = d.varint()
	if parts&hasAttrs != 0 {
		o.Attrs = d.bytes()
	}
	if parts&hasFlatmap != 0 {
		d.json(&o.Flatmap)
	}
	if parts&hasSensitive != 0 {
		paths, err := decodePaths(d.bytes())
		if err != nil {
			return nil, err
		}
		o.Sensitive = paths
	}
	if parts&hasPrivate != 0 {
		o.Private = d.bytes()
	}
	if parts&hasIdentity != 0 {
		o.IdentityVersion = d.varint()
		o.Identity = d.bytes()
	}
	if parts&hasDependencies != 0 {
		if key := d.take(depsHash); key != nil {
			list, err := r.deps(key)
			if err != nil {
				return nil, err
			}
			o.Dependencies = list
		}
	}
	if parts&hasDoubt != 0 {
		o.Doubt = &state.Doubt{}
		d.json(o.Doubt)
	}
	o.CreateBeforeDestroy = parts&createBeforeDestroy != 0
	o.SkipDestroy = parts&skipDestroy != 0
	for range bits.OnesCount64(parts / laterParts) {
		d.bytes()
	}
	return o, d.err()
}

// storedStep is a step of a path: an attribute, or an index that is a string, a number or an element of a set.
type storedStep struct {
	Attr  string          `json:"a,omitempty"`
	Index json.RawMessage `json:"i,omitempty"` // value and type, as cty's JSON has it for a dynamic value
}

func encodePaths(paths []cty.Path) ([]byte, error) {
	out := make([][]storedStep, len(paths))
	for i, p := range paths {
		out[i] = make([]storedStep, len(p))
		for j, s := range p {
			switch s := s.(type) {
			case cty.GetAttrStep:
				out[i][j].Attr = s.Name
			case cty.IndexStep:
				index, err := ctyjson.Marshal(s.Key, cty.DynamicPseudoType)
				if err != nil {
					return nil, fmt.Errorf("a sensitive path: %w", err)
				}
				out[i][j].Index = index
			}
		}
	}
	return json.Marshal(out)
}

func decodePaths(data []byte) ([]cty.Path, error) {
	var in [][]storedStep
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, fmt.Errorf("sensitive paths: %w", err)
	}
	out := make([]cty.Path, len(in))
	for i, p := range in {
		out[i] = make(cty.Path, len(p))
		for j, s := range p {
			if s.Index == nil {
				out[i][j] = cty.GetAttrStep{Name: s.Attr}
				continue
			}
			key, err := coding.DecodeJSON(s.Index, cty.DynamicPseudoType)
			if err != nil {
				return nil, fmt.Errorf("sensitive paths: %w", err)
			}
			out[i][j] = cty.IndexStep{Key: key}
		}
	}
	return out, nil
}

func appendBytes[T ~string | ~[]byte](b []byte, data T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(data))), data...)
}

// decoder decodes values from the front of rest. After the first missing value, all results are zero.
type decoder struct {
	rest   []byte
	broken bool
	cause  error
}

func (d *decoder) err() error {
	switch {
	case d.cause != nil:
		return d.cause
	case d.broken:
		return errors.New("a record is cut off")
	case len(d.rest) > 0:
		return errors.New("a record is longer than it says")
	}
	return nil
}

func (d *decoder) take(n uint64) []byte {
	if d.broken || n > uint64(len(d.rest)) {
		d.broken = true
		return nil
	}
	b := d.rest[:n:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) byte() byte {
	if b := d.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.broken = true
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.rest)
	if n <= 0 {
		d.broken = true
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) bytes() []byte { return d.take(d.uvarint()) }

func (d *decoder) json(into any) {
	if b := d.bytes(); !d.broken {
		if err := json.Unmarshal(b, into); err != nil {
			d.broken, d.cause = true, err
		}
	}
}
