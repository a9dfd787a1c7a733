package store

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/millipede-iac/millipede/state/features"
	"github.com/millipede-iac/millipede/state/recorded"
)

// Features returns the level of the store, and which versions of Millipede have set it and opened the store last.
func (s *Store) Features() features.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.about
}

// Raise raises the store to the newest level of this program, and returns what it then says about its level. It is
// durable when it returns: the version before cannot open the store any more.
func (s *Store) Raise() (features.Record, error) {
	about, changed, err := s.Features().Raise(s.opts.Levels.Newest, s.opts.Program, s.opts.Levels)
	if err != nil || !changed {
		return about, err
	}
	if err := s.Update(func(tx *Tx) error { return putFeatures(tx.tx.Bucket(metaBucket), about) }); err != nil {
		return s.Features(), err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.about = about
	return about, nil
}

// Features returns the level of the store; there is false before its first transaction.
func (t *Tx) Features() (r features.Record, there bool, err error) {
	meta := t.tx.Bucket(metaBucket)
	if meta == nil {
		return r, false, nil
	}
	r, err = readFeatures(meta)
	return r, true, err
}

func putFeatures(meta *recorded.Bucket, r features.Record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	level := binary.BigEndian.AppendUint32(nil, uint32(r.Level)) //nolint:gosec // it is small
	return errors.Join(meta.Put(featuresKey, data), meta.Put(formatKey, level))
}

// readFeatures returns the level of a file. One of the versions before levels has a format alone.
func readFeatures(meta *recorded.Bucket) (r features.Record, err error) {
	format := meta.Get(formatKey)
	if len(format) != 4 {
		return r, errors.New("the file has no valid format version")
	}
	if data := meta.Get(featuresKey); data != nil {
		if err := json.Unmarshal(data, &r); err != nil {
			return r, fmt.Errorf("reading the level of its features: %w", err)
		}
	}
	r.Level = int(binary.BigEndian.Uint32(format))
	return r, nil
}
