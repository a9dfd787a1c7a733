package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"

	"go.etcd.io/bbolt"

	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
)

// keptState is the state of a workspace at the end of its last version, decoded. A run loads the state several times,
// and many runs do with one large state: who loads it gets a copy that shares all objects, and only what has changed
// since is decoded.
type keptState struct {
	workspace string
	number    uint64 // of the version
	// record is what the file has of the version. No other version has the same, not even one of a workspace that was
	// deleted and made again.
	record []byte
	state  *state.State // never changed
	reader *reader      // with which it was decoded
}

// wanted says which state of a workspace is to be loaded: that of an ended version, or what exists now, with the
// version that ended last.
type wanted struct {
	now    bool
	number uint64
	version
}

// load returns the state that choose asks for. It costs what has changed since the one that is kept, or since the
// earlier version that is asked for; the first time it costs as much as the state is large.
func (s *Store) load(ctx context.Context, name string, choose func(*workspace) (wanted, error)) (st *state.State,
	err error) {
	if err := s.unlock(ctx); err != nil {
		return nil, err
	}
	// Loads wait for each other, so that what several ask for is decoded once. Transactions that begin now are never
	// older than what is kept.
	s.keeping.Lock()
	defer s.keeping.Unlock()
	err = s.read(ctx, func(tx *bbolt.Tx) error {
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

// loadFrom makes a state of the one that is kept. The caller holds s.keeping.
func (s *Store) loadFrom(tx *bbolt.Tx, w *workspace, want wanted) (*state.State, error) {
	last, ended, err := w.latest()
	if err != nil {
		return nil, err
	}
	var then map[string][]byte // what keys have that differ, as far as is known
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
	if last == 0 { // there is nothing to keep
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

// keep brings what is kept to the end of the last version. The caller holds s.keeping.
func (s *Store) keep(tx *bbolt.Tx, w *workspace, last uint64, v version) (*keptState, error) {
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

// record returns what the file has of a version; nil for nothing.
func (w *workspace) record(number uint64) []byte {
	return w.versions.Get(binary.BigEndian.AppendUint64(nil, number))
}

// present returns what keys have now.
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

// putAll puts what keys have; nil for nothing.
func (b *builder) putAll(all map[string][]byte) error {
	for key, value := range all {
		if err := b.put([]byte(key), value); err != nil {
			return err
		}
	}
	return nil
}
