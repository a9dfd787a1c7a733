package bolt

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/recorded"
)

// Since returns the changes since a version. It reads only the undo records of the later versions and the current
// contents of their keys.
func (s *Store) Since(ctx context.Context, name, lineage string, serial uint64) (list []journal.Difference, err error) {
	if err := s.unlock(ctx); err != nil {
		return nil, err
	}
	err = s.read(ctx, func(tx *recorded.Tx) error {
		w, err := s.workspace(tx, name)
		if err != nil {
			return err
		}
		number, found, err := w.only(lineage, serial)
		switch {
		case err != nil:
			return damaged(s.path, err.Error())
		case !found:
			return fmt.Errorf("serial %d of workspace %q: %w", serial, name, journal.ErrVersion)
		}
		if list, err = s.differences(tx, w, number); err != nil {
			return damaged(s.path, err.Error())
		}
		return nil
	})
	return list, err
}

// only returns the number of the one version with this lineage and serial.
func (w *workspace) only(lineage string, serial uint64) (number uint64, found bool, err error) {
	if lineage == "" && serial == 0 {
		return 0, true, nil
	}
	c := w.versions.Cursor()
	for k, data := c.First(); k != nil; k, data = c.Next() {
		v, err := decodeVersion(data)
		if err != nil {
			return 0, false, err
		}
		if v.Serial != serial || v.Lineage != lineage {
			continue
		}
		if found {
			return 0, false, nil
		}
		number, found = binary.BigEndian.Uint64(k), true
	}
	return number, found, nil
}

// differences returns the differences between the data and the version with a number.
func (s *Store) differences(tx *recorded.Tx, w *workspace, number uint64) ([]journal.Difference, error) {
	steps, versions, err := w.steps(number)
	if err != nil {
		return nil, err
	}
	r, err := newReader(tx)
	if err != nil {
		return nil, err
	}
	p := part{w: w, steps: steps, earlier: newBuilder(r, state.Empty()), later: newBuilder(r, state.Empty())}
	by := map[string]uint64{}
	var touched []addr.Instance
	for key, list := range steps {
		now, err := w.data.get([]byte(key))
		if err != nil {
			return nil, err
		}
		by[key] = lastChange(list, now)
		if key[0] == instanceKind {
			a, diags := addr.ParseInstance(key[1:])
			if diags.HasErrors() {
				return nil, diags.Err()
			}
			touched = append(touched, a)
			by[key] = cmp.Or(by[key], list[len(list)-1].version)
		}
		if by[key] == 0 {
			continue
		}
		if err := p.add([]byte(key)); err != nil {
			return nil, err
		}
	}
	var list []journal.Difference
	for _, d := range state.Differences(p.earlier.s, p.later.s, touched...) {
		var last uint64
		switch {
		case d.Checks:
			last = by[string(checksKind)]
		case d.Output != "":
			last = by[string(keyOf(outputKind, d.Output))]
		default:
			last = by[string(keyOf(instanceKind, d.Instance.String()))]
			if d.Now != nil { // the provider is that of all instances of a resource
				last = max(last, by[string(keyOf(resourceKind, d.Instance.Abs().String()))])
			}
		}
		list = append(list, journal.Difference{Difference: d, By: versions[last]})
	}
	return list, nil
}

// step is the former content of a key before a version changed it; nil if there was none. The version may have
// changed it back.
type step struct {
	version uint64
	before  []byte
}

// lastChange returns the number of the last version that changed a key, which has the current content; 0 if there
// is none.
func lastChange(list []step, now []byte) uint64 {
	after := now
	for _, s := range slices.Backward(list) {
		if (s.before == nil) != (after == nil) || !bytes.Equal(s.before, after) {
			return s.version
		}
	}
	return 0
}

// steps returns, for each key that versions after this one changed, their steps, oldest first; and the versions by
// number. The version in progress is not among them; for versions under locks of objects only their makers are
// known.
func (w *workspace) steps(number uint64) (map[string][]step, map[uint64]journal.VersionInfo, error) {
	steps, versions := map[string][]step{}, map[uint64]journal.VersionInfo{}
	c := w.undo.b.Cursor()
	for k, sealed := c.Seek(binary.BigEndian.AppendUint64(nil, number+1)); k != nil; k, sealed = c.Next() {
		n, key := binary.BigEndian.Uint64(k), string(k[8:])
		if _, known := versions[n]; !known {
			if data := w.versions.Get(k[:8]); data != nil {
				v, err := decodeVersion(data)
				if err != nil {
					return nil, nil, err
				}
				versions[n] = v.info()
			}
		}
		before, err := undone(w.undo, k, sealed)
		if err != nil {
			return nil, nil, err
		}
		steps[key] = append(steps[key], step{n, before})
	}
	numbers := map[string]uint64{} // after all others, one for each request with changes
	err := w.eachOpen(func(request string, key, before []byte) error {
		n, known := numbers[request]
		if !known {
			n = math.MaxUint64 - uint64(len(numbers))
			numbers[request] = n
			if r, _, ok := w.requests.Get(w.name, request); ok {
				versions[n] = journal.VersionInfo{Run: r.Run, Who: r.Who}
			}
		}
		steps[string(key)] = append(steps[string(key)], step{n, before})
		return nil
	})
	return steps, versions, err
}

// part builds the differing parts of two versions of the state.
type part struct {
	w              *workspace
	steps          map[string][]step
	earlier, later *builder
}

// add adds a changed key. With an instance it adds the provider of its resource, and with the provider of a
// resource all its instances.
func (p *part) add(key []byte) error {
	if err := p.both(key); err != nil {
		return err
	}
	switch key[0] {
	case instanceKind:
		a, diags := addr.ParseInstance(string(key[1:]))
		if diags.HasErrors() {
			return diags.Err()
		}
		return p.both(keyOf(resourceKind, a.Abs().String()))
	case resourceKind:
		single := keyOf(instanceKind, string(key[1:]))
		if p.w.data.has(single) {
			if err := p.both(single); err != nil {
				return err
			}
		}
		keyed := append(bytes.Clone(single), '[')
		c := p.w.data.b.Cursor()
		for k, _ := c.Seek(keyed); bytes.HasPrefix(k, keyed); k, _ = c.Next() {
			if err := p.both(k); err != nil {
				return err
			}
		}
	}
	return nil
}

// both adds the content of a key to both versions.
func (p *part) both(key []byte) error {
	now, err := p.w.data.get(key)
	if err != nil {
		return err
	}
	then := now
	if list := p.steps[string(key)]; len(list) > 0 {
		then = list[0].before
	}
	if then != nil {
		if err := p.earlier.add(key, then); err != nil {
			return err
		}
	}
	if now != nil {
		return p.later.add(key, now)
	}
	return nil
}
