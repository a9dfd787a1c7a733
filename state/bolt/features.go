package bolt

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/millipede-iac/millipede/state/features"
	"github.com/millipede-iac/millipede/state/recorded"
)

var featuresKey = []byte("features") // in meta: a features.Record

// Features returns the level of the store, and which versions of Millipede have set it and opened the store last.
func (s *Store) Features() features.Record { return s.about }

// storedFeatures returns what the file says about its features; false if it says nothing, as those of earlier versions.
func storedFeatures(tx *recorded.Tx) (r features.Record, known bool, err error) {
	data := tx.Bucket(metaBucket).Get(featuresKey)
	if data == nil {
		return r, false, nil
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, false, fmt.Errorf("reading the level of the features: %w", err)
	}
	return r, true, nil
}

// readFeatures returns the level of the file. Its format counts, too: earlier programs know nothing else.
func readFeatures(tx *recorded.Tx, path string) (features.Record, error) {
	format := 0
	if err := json.Unmarshal(tx.Bucket(metaBucket).Get(formatKey), &format); err != nil || format < 1 {
		return features.Record{}, damaged(path, "the version of its format cannot be read")
	}
	r, _, err := storedFeatures(tx)
	if err != nil {
		return r, damaged(path, err.Error())
	}
	r.Level = max(r.Level, format-sharedFormat+1, 1)
	return r, nil
}

func putFeatures(tx *recorded.Tx, r features.Record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return tx.Bucket(metaBucket).Put(featuresKey, data)
}

// noteFeatures raises the level as the options say, and records which program opens the file. It writes nothing if both
// are recorded.
func (s *Store) noteFeatures() error {
	about, changed, err := s.about.Raise(s.opts.Level, s.opts.Program, s.opts.Levels)
	if err != nil {
		return err
	}
	if s.opts.Program != "" && about.Opened != s.opts.Program {
		about.Opened, changed = s.opts.Program, true
	}
	if !changed {
		return nil
	}
	err = s.update(func(tx *recorded.Tx) error { return errors.Join(putFeatures(tx, about), fixFormat(tx)) })
	if err == nil {
		s.about = about
	}
	return err
}
