package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"

	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/recorded"
)

// keptState is a cache of the decoded state of a workspace at the end of its last version. A run loads the state
// several times, and many runs share one large state: each load returns a copy that shares all objects, and only
// later changes are decoded.
type keptState struct {
	workspace string
	number    uint64 // of the version
	// record is the encoded version. It is unique to the version, even among workspaces that were deleted and
	// created again.
	record []byte
	state  *state.State // never changed
	reader *reader      // the reader that decoded it
}

// wanted says which state of a workspace to load: that of an ended version, or the current data, with the last
// ended version.
type wanted struct {
	now    bool
	number uint64
	version
}

// load returns the state that choose selects. The cost is proportional to the changes since the cached one, or
// since the requested version; the first time to the size of the state.
func (s *Store) load(ctx context.Context, name string, choose func(*workspace) (wanted, error)) (st *state.State,
	err error) {
	if err := s.unlock(ctx); err != nil {
		return nil, err
	}
	// Loads are serialised, so that a state requested several times is decoded once. Transactions that begin now
	// are never older than the cached state.
	s.keeping.Lock()
	defer s.keeping.Unlock()
	err = s.read(ctx, func(tx *recorded.Tx) error {
		w, err := s.workspace(tx, name)
		if err != nil {
			return err
		}
		want, err := choose(w)
		if errors.Is(err, journal.ErrVersion) {
			return err
		}
		if err == nil {
			st, err = s.loadFrom(tx, w, want)
		}
		if err != nil {
			return damaged(s.path, err.Error())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return st, nil
}

// loadFrom makes a state from the cached one. The caller holds s.keeping.
func (s *Store) loadFrom(tx *recorded.Tx, w *workspace, want wanted) (*state.State, error) {
	last, ended, err := w.latest()
	if err != nil {
		return nil, err
	}
	var then map[string][]byte // the contents of different keys, as far as they are known
	if want.now || want.number < last || last == 0 {
		if then, err = w.since(want.number); err != nil {
			return nil, err
		}
	}
	if want.now {
		if then, err = w.present(then); err != nil {
			return nil, err
		}
	}
	if last == 0 { // there is nothing to cache
		r, err := newReader(tx)
		if err != nil {
			return nil, err
		}
		return w.build(r, want.version, then)
	}
	k, err := s.keep(tx, w, last, ended)
	if err != nil {
		return nil, err
	}
	st := k.state.Clone()
	st.Lineage, st.Serial, st.EngineVersion = want.Lineage, want.Serial, want.Engine
	return st, newBuilder(k.reader, st).putAll(then)
}

// keep updates the cached state to the end of the last version. The caller holds s.keeping.
func (s *Store) keep(tx *recorded.Tx, w *workspace, last uint64, v version) (*keptState, error) {
	then, err := w.since(last)
	if err != nil {
		return nil, err
	}
	now := &keptState{workspace: w.name, number: last, record: bytes.Clone(w.record(last))}
	if k := s.kept; k != nil && k.workspace == w.name && bytes.Equal(w.record(k.number), k.record) {
		if now.reader, err = k.reader.after(tx); err != nil {
			return nil, err
		}
		changed, err := w.since(k.number)
		if err != nil {
			return nil, err
		}
		if uint64(len(changed)) <= w.data.b.Sequence()/2 {
			if changed, err = w.present(changed); err != nil {
				return nil, err
			}
			for key := range changed {
				if before, is := then[key]; is {
					changed[key] = before
				}
			}
			now.state = k.state
			if k.number != last {
				now.state = k.state.Clone()
				err = newBuilder(now.reader, now.state).putAll(changed)
			}
			if err != nil {
				return nil, err
			}
			s.kept = now
			return now, nil
		}
	}
	if now.reader, err = newReader(tx); err == nil {
		now.state, err = w.build(now.reader, v, then)
	}
	if err != nil {
		return nil, err
	}
	s.kept = now
	return now, nil
}

// record returns the encoded version with a number; nil if there is none.
func (w *workspace) record(number uint64) []byte {
	return w.versions.Get(binary.BigEndian.AppendUint64(nil, number))
}

// present returns the current contents of keys.
func (w *workspace) present(keys map[string][]byte) (map[string][]byte, error) {
	for key := range keys {
		now, err := w.data.get([]byte(key))
		if err != nil {
			return nil, err
		}
		keys[key] = now
	}
	return keys, nil
}

// putAll sets the contents of keys; nil removes one.
func (b *builder) putAll(all map[string][]byte) error {
	for key, value := range all {
		if err := b.put([]byte(key), value); err != nil {
			return err
		}
	}
	return nil
}
