package bolt

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/recorded"
)

// The buckets of a workspace for observations of plans. They are created when needed.
var (
	readsBucket    = []byte("reads")    // address of an instance -> when it was read; allKey -> when all others were
	verdictsBucket = []byte("verdicts") // address of an instance -> journal.Verdict
)

// Reads returns when the instances were last read.
func (s *Store) Reads(ctx context.Context, name string) (reads journal.Reads, err error) {
	if err := s.settled(ctx); err != nil {
		return reads, err
	}
	err = s.read(ctx, func(tx *recorded.Tx) error {
		w, err := s.workspace(tx, name)
		if err != nil {
			return err
		}
		if reads, err = w.reads(); err != nil {
			return damaged(s.path, err.Error())
		}
		return nil
	})
	return reads, err
}

func (w *workspace) reads() (journal.Reads, error) {
	reads := journal.Reads{Each: map[string]time.Time{}}
	b := w.b.Bucket(readsBucket)
	if b == nil {
		return reads, nil
	}
	err := b.ForEach(func(k, v []byte) error {
		var at time.Time
		if err := at.UnmarshalBinary(v); err != nil {
			return fmt.Errorf("when %q was read: %w", k, err)
		}
		if bytes.Equal(k, allKey) {
			reads.All = at
		} else {
			reads.Each[string(k)] = at
		}
		return nil
	})
	return reads, err
}

// allKey is the key of the time when all other instances were read: no address contains such a byte.
var allKey = []byte{0}

// NoteReads records that instances were read. With all, the cost is that of removing the records of single
// instances.
func (s *Store) NoteReads(ctx context.Context, name string, at time.Time, all bool, list []string) error {
	return s.later(ctx, func(tx *recorded.Tx) error {
		w, err := s.workspace(tx, name)
		if err != nil {
			return err
		}
		noted := journal.Reads{Each: map[string]time.Time{}}
		if all && w.b.Bucket(readsBucket) != nil {
			if noted, err = w.reads(); err != nil {
				return damaged(s.path, err.Error())
			}
			if err := w.b.DeleteBucket(readsBucket); err != nil {
				return err
			}
		}
		noted.Note(at.UTC(), all, list)
		b, err := w.b.CreateBucketIfNotExists(readsBucket)
		if err != nil {
			return err
		}
		put := func(key []byte, at time.Time) error {
			value, err := at.MarshalBinary()
			if err != nil {
				return err
			}
			return b.Put(key, value)
		}
		if all {
			if err := put(allKey, noted.All); err != nil {
				return err
			}
		}
		for _, instance := range slices.Sorted(maps.Keys(noted.Each)) {
			if err := put([]byte(instance), noted.Each[instance]); err != nil {
				return err
			}
		}
		return nil
	})
}

// Verdicts returns the verdicts about instances.
func (s *Store) Verdicts(ctx context.Context, name string) (list map[string]journal.Verdict, err error) {
	if err := s.unlock(ctx); err != nil {
		return nil, err
	}
	if err := s.settled(ctx); err != nil {
		return nil, err
	}
	list = map[string]journal.Verdict{}
	err = s.read(ctx, func(tx *recorded.Tx) error {
		w, err := s.workspace(tx, name)
		if err != nil {
			return err
		}
		verdicts, ok := s.verdicts(w, name)
		if !ok {
			return nil
		}
		return verdicts.b.ForEach(func(k, sealed []byte) error {
			v, err := verdicts.open(k, sealed)
			if err != nil || len(v) != len(journal.Verdict{}) {
				return damaged(s.path, fmt.Sprintf("the verdict about %q cannot be read", k))
			}
			list[string(k)] = journal.Verdict(v)
			return nil
		})
	})
	return list, err
}

// verdicts returns the bucket of the verdicts, if there is one.
func (s *Store) verdicts(w *workspace, name string) (box, bool) {
	b := w.b.Bucket(verdictsBucket)
	return s.box(b, string(workspacesBucket), name, string(verdictsBucket)), b != nil
}

// NoteVerdicts records verdicts.
func (s *Store) NoteVerdicts(ctx context.Context, name string, list map[string]journal.Verdict) error {
	if err := s.unlockForWriting(ctx); err != nil {
		return err
	}
	return s.later(ctx, func(tx *recorded.Tx) error {
		w, err := s.workspace(tx, name)
		if err != nil {
			return err
		}
		if _, err := w.b.CreateBucketIfNotExists(verdictsBucket); err != nil {
			return err
		}
		verdicts, _ := s.verdicts(w, name)
		for _, instance := range slices.Sorted(maps.Keys(list)) { // in the order of the bucket, which is much faster
			v := list[instance]
			if err := verdicts.put([]byte(instance), v[:]); err != nil {
				return err
			}
		}
		return nil
	})
}

// forget removes the observations about an instance that no longer exists.
func (w *workspace) forget(instance []byte) error {
	for _, name := range [][]byte{readsBucket, verdictsBucket} {
		if b := w.b.Bucket(name); b != nil {
			if err := b.Delete(instance); err != nil {
				return err
			}
		}
	}
	return nil
}
