package bolt

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/recorded"
)

// Load returns the current state, including the changes of the version in progress.
func (s *Store) Load(ctx context.Context, name string) (*state.State, error) {
	return s.load(ctx, name, func(w *workspace) (wanted, error) {
		number, v, err := w.latest()
		return wanted{true, number, v}, err
	})
}

// LoadEnded returns the state of the last ended version.
func (s *Store) LoadEnded(ctx context.Context, name string) (*state.State, error) {
	return s.load(ctx, name, func(w *workspace) (wanted, error) {
		number, v, err := w.latest()
		return wanted{false, number, v}, err
	})
}

// LoadVersion returns an earlier version. The cost is that of Load and, in addition, proportional to the changes
// since.
func (s *Store) LoadVersion(ctx context.Context, name string, serial uint64) (*state.State, error) {
	return s.load(ctx, name, func(w *workspace) (wanted, error) {
		number, v, err := w.newest(func(v version) bool { return v.Serial == serial })
		if errors.Is(err, journal.ErrVersion) {
			err = fmt.Errorf("serial %d of workspace %q: %w", serial, name, err)
		}
		return wanted{false, number, v}, err
	})
}

// LoadExactly returns the earlier version with this lineage, serial and time.
func (s *Store) LoadExactly(ctx context.Context, name string, info journal.VersionInfo) (*state.State, error) {
	return s.load(ctx, name, func(w *workspace) (wanted, error) {
		number, v, err := w.newest(func(v version) bool {
			return v.Serial == info.Serial && v.Lineage == info.Lineage && v.At.Equal(info.At)
		})
		if errors.Is(err, journal.ErrVersion) {
			err = fmt.Errorf("serial %d of workspace %q from %s: %w", info.Serial, name, info.At, err)
		}
		return wanted{false, number, v}, err
	})
}

// Versions lists the ended versions, newest first.
func (s *Store) Versions(ctx context.Context, name string) (list []journal.VersionInfo, err error) {
	err = s.read(ctx, func(tx *recorded.Tx) error {
		w, err := s.workspace(tx, name)
		if err != nil {
			return err
		}
		c := w.versions.Cursor()
		for k, data := c.Last(); k != nil; k, data = c.Prev() {
			v, err := decodeVersion(data)
			if err != nil {
				return damaged(s.path, err.Error())
			}
			list = append(list, v.info())
		}
		return nil
	})
	return list, err
}

// newest returns the newest of the versions that meant selects.
func (w *workspace) newest(meant func(version) bool) (uint64, version, error) {
	c := w.versions.Cursor()
	for k, data := c.Last(); k != nil; k, data = c.Prev() {
		if v, err := decodeVersion(data); err != nil || meant(v) {
			return binary.BigEndian.Uint64(k), v, err
		}
	}
	return 0, version{}, journal.ErrVersion
}

// since returns the content, at the end of a version, of each key that was changed later; nil if it did not exist.
func (w *workspace) since(number uint64) (map[string][]byte, error) {
	then := map[string][]byte{}
	c := w.undo.b.Cursor()
	for k, v := c.Seek(binary.BigEndian.AppendUint64(nil, number+1)); k != nil; k, v = c.Next() {
		if _, ok := then[string(k[8:])]; ok {
			continue // a later version changed it again
		}
		old, err := undone(w.undo, k, v)
		if err != nil {
			return nil, err
		}
		then[string(k[8:])] = old
	}
	return then, w.eachOpen(func(_ string, key, before []byte) error {
		if _, ok := then[string(key)]; !ok {
			then[string(key)] = before
		}
		return nil
	})
}

// build builds a state from all data, with the former content of keys that were changed later.
func (w *workspace) build(r *reader, v version, then map[string][]byte) (*state.State, error) {
	st := state.Empty()
	st.Lineage, st.Serial, st.EngineVersion = v.Lineage, v.Serial, v.Engine
	b := newBuilder(r, st)
	c := w.data.b.Cursor()
	keys := uint64(0)
	for k, value := c.First(); k != nil; k, value = c.Next() {
		keys++
		if _, changed := then[string(k)]; changed {
			continue
		}
		value, err := w.data.open(k, value)
		if err == nil {
			err = b.add(k, value)
		}
		if err != nil {
			return nil, err
		}
	}
	for k, value := range then {
		if value == nil {
			continue
		}
		if err := b.add([]byte(k), value); err != nil {
			return nil, err
		}
	}
	if keys != w.data.b.Sequence() {
		return nil, fmt.Errorf("of %d things there are %d", w.data.b.Sequence(), keys)
	}
	return st, nil
}
