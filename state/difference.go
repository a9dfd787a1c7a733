package state

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash"
	"maps"
	"reflect"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/addr"
)

// Difference is one difference between two states: an instance of a resource, a root output, or the check results;
// or an instance that was changed and changed back in between.
type Difference struct {
	// Instance is the address of an instance that differs, if Output is empty and Checks is false. Then and Now are
	// its contents; nil if it does not exist. ThenBy and NowBy are its providers.
	Instance      addr.Instance
	Then, Now     *Instance
	ThenBy, NowBy addr.ProviderInstance
	// Output is the name of a root output that differs.
	Output string
	// Checks is set if the check results differ.
	Checks bool
	// Back is set if nothing differs: the instance was changed in between, and changed back.
	Back bool
}

// Differences returns the differences between two states: instances sorted by address, then outputs, then checks.
// Instances in touched are listed even if they are equal in both. The time is proportional to the size of the
// states, except for resources that one state shares with the other.
func Differences(then, now *State, touched ...addr.Instance) []Difference {
	var out []Difference
	listed := make(map[addr.Instance]bool, len(touched))
	for _, a := range touched {
		listed[a] = false
	}
	differ := func(a addr.Instance, i, j *Instance, back bool) {
		if len(touched) > 0 {
			listed[a] = true
		}
		d := Difference{Instance: a, Then: i, Now: j, Back: back}
		if i != nil {
			d.ThenBy = then.ProviderOf(a)
		}
		if j != nil {
			d.NowBy = now.ProviderOf(a)
		}
		out = append(out, d)
	}
	none := &Resource{}
	for abs, r := range then.Resources {
		q := now.Resources[abs]
		if q == r {
			continue
		}
		if q == nil {
			q = none
		}
		for k, i := range r.Instances {
			if j := q.Instances[k]; j == nil || r.Provider != q.Provider || !i.equal(j) {
				differ(abs.Instance(k), i, j, false)
			}
		}
	}
	for abs, q := range now.Resources {
		r := then.Resources[abs]
		if r == q {
			continue
		}
		if r == nil {
			r = none
		}
		for k, j := range q.Instances {
			if r.Instances[k] == nil {
				differ(abs.Instance(k), nil, j, false)
			}
		}
	}
	for _, a := range touched {
		if !listed[a] {
			differ(a, then.Instance(a), now.Instance(a), true)
		}
	}
	slices.SortFunc(out, func(a, b Difference) int { return a.Instance.Compare(b.Instance) })
	names := map[string]bool{}
	for _, of := range []*State{then, now} {
		for name := range of.Outputs {
			names[name] = true
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(names), cmp.Compare) {
		o, p := then.Outputs[name], now.Outputs[name]
		if o == nil || p == nil || !o.equal(p) {
			out = append(out, Difference{Output: name})
		}
	}
	if !slices.EqualFunc(then.Checks, now.Checks, CheckResult.equal) {
		out = append(out, Difference{Checks: true})
	}
	return out
}

// Matters reports whether the difference is relevant to a reader or writer of the instance. Dependencies, the way
// of destroying, and the layout of the JSON, which another engine may have written, are not relevant.
func (d Difference) Matters() bool {
	return d.ThenBy.Config() != d.NowBy.Config() || d.ThenBy.Key != d.NowBy.Key || !d.Then.Same(d.Now)
}

// Same reports whether the objects of two instances are equal for readers and writers; see Difference.Matters.
func (i *Instance) Same(j *Instance) bool {
	if i == nil || j == nil {
		return i == j
	}
	return i.Current.Same(j.Current) && maps.EqualFunc(i.Deposed, j.Deposed, (*Object).Same)
}

// Same reports whether two objects are equal for readers and writers; see Difference.Matters.
func (o *Object) Same(p *Object) bool {
	if o == p {
		return true
	}
	if o == nil || p == nil {
		return false
	}
	return o.Status == p.Status && o.SchemaVersion == p.SchemaVersion && sameJSON(o.Attrs, p.Attrs) &&
		maps.Equal(o.Flatmap, p.Flatmap) && bytes.Equal(o.Private, p.Private) && sameJSON(o.Identity, p.Identity) &&
		slices.EqualFunc(o.Sensitive, p.Sensitive, func(a, b cty.Path) bool { return a.Equals(b) }) &&
		o.Doubt.equal(p.Doubt)
}

// sameJSON reports whether two texts are JSON of the same value.
func sameJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, errX := parsed(a)
	y, errY := parsed(b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}

func parsed(text []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// Depends reports whether a recorded dependency of one of the instance's objects is this resource.
func (i *Instance) Depends(on Dependency) bool {
	if i == nil {
		return false
	}
	if i.Current != nil && i.Current.Dependencies.Has(on) {
		return true
	}
	for _, o := range i.Deposed {
		if o.Dependencies.Has(on) {
			return true
		}
	}
	return false
}

// Digest identifies the content of an instance. It is the zero value if the instance does not exist.
type Digest [sha256.Size]byte

// Digest returns a digest that is equal for two instances if, and only if, they are the Same.
func (i *Instance) Digest() Digest {
	if i == nil {
		return Digest{}
	}
	h := sha256.New()
	i.Current.digest(h, CurrentObject)
	for _, k := range i.DeposedKeys() {
		i.Deposed[k].digest(h, k)
	}
	return Digest(h.Sum(nil))
}

func (o *Object) digest(h hash.Hash, key DeposedKey) {
	if o == nil {
		return
	}
	part := func(b []byte) {
		h.Write(binary.AppendUvarint(nil, uint64(len(b))))
		h.Write(b)
	}
	part([]byte(key))
	part([]byte{byte(o.Status)})
	part(binary.AppendVarint(nil, o.SchemaVersion))
	part(canonical(o.Attrs))
	part(binary.AppendUvarint(nil, uint64(len(o.Flatmap))))
	for _, k := range slices.Sorted(maps.Keys(o.Flatmap)) {
		part([]byte(k))
		part([]byte(o.Flatmap[k]))
	}
	part(o.Private)
	part(canonical(o.Identity))
	for _, p := range o.Sensitive {
		part(fmt.Appendf(nil, "%#v", p))
	}
	if o.Doubt != nil {
		part([]byte(o.Doubt.Attempt))
	}
}

// canonical returns the canonical form of a JSON value; invalid JSON is returned unchanged.
func canonical(text []byte) []byte {
	v, err := parsed(text)
	if err != nil {
		return text
	}
	out, err := json.Marshal(v)
	if err != nil {
		return text
	}
	return out
}
