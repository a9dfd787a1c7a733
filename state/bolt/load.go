package bolt

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
)

// Load returns the state as it is now, with the changes of the version that is being made.
func (s *Store) Load(ctx context.Context, name string) (st *state.State, err error) {
	if err := s.unlock(ctx); err != nil {
		return nil, err
	}
	st = state.Empty()
	err = s.read(ctx, func(tx *bbolt.Tx) error {
		w, err := s.workspace(tx, name)
		if err != nil {
			return err
		}
		_, v, err := w.latest()
		if err != nil {
			return damaged(s.path, err.Error())
		}
		return s.build(tx, w, v, nil, st)
	})
	if err != nil {
		return nil, err
	}
	return st, nil
}

// LoadVersion returns an earlier version. It costs as much as Load, and more for each change since.
func (s *Store) LoadVersion(ctx context.Context, name string, serial uint64) (st *state.State, err error) {
	if err := s.unlock(ctx); err != nil {
		return nil, err
	}
	st = state.Empty()
	err = s.read(ctx, func(tx *bbolt.Tx) error {
		w, err := s.workspace(tx, name)
		if err != nil {
			return err
		}
		number, v, err := w.find(serial)
		switch {
		case errors.Is(err, journal.ErrVersion):
			return fmt.Errorf("serial %d of workspace %q: %w", serial, name, err)
		case err != nil:
			return damaged(s.path, err.Error())
		}
		since, err := w.since(number)
		if err != nil {
			return damaged(s.path, err.Error())
		}
		return s.build(tx, w, v, since, st)
	})
	if err != nil {
		return nil, err
	}
	return st, nil
}

// Versions lists the ended versions, newest first.
func (s *Store) Versions(ctx context.Context, name string) (list []journal.VersionInfo, err error) {
	err = s.read(ctx, func(tx *bbolt.Tx) error {
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

// find returns the newest version with this serial.
func (w *workspace) find(serial uint64) (uint64, version, error) {
	c := w.versions.Cursor()
	for k, data := c.Last(); k != nil; k, data = c.Prev() {
		if v, err := decodeVersion(data); err != nil || v.Serial == serial {
			return binary.BigEndian.Uint64(k), v, err
		}
	}
	return 0, version{}, journal.ErrVersion
}

// since returns the content, at the end of a version, of each key that was changed later; nil for none.
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

// build makes a state from the data, with the former content of keys that were changed later.
func (s *Store) build(tx *bbolt.Tx, w *workspace, v version, then map[string][]byte, st *state.State) error {
	st.Lineage, st.Serial, st.EngineVersion = v.Lineage, v.Serial, v.Engine
	r, err := newReader(tx)
	if err != nil {
		return damaged(s.path, err.Error())
	}
	b := newBuilder(r, st)
	c := w.data.b.Cursor()
	keys := uint64(0)
	for k, value := c.First(); k != nil && err == nil; k, value = c.Next() {
		keys++
		if _, changed := then[string(k)]; !changed {
			if value, err = w.data.open(k, value); err == nil {
				err = b.add(k, value)
			}
		}
	}
	for k, value := range then {
		if value != nil && err == nil {
			err = b.add([]byte(k), value)
		}
	}
	if err == nil && keys != w.data.b.Sequence() {
		err = fmt.Errorf("of %d things there are %d", w.data.b.Sequence(), keys)
	}
	if err != nil {
		return damaged(s.path, err.Error())
	}
	return nil
}
