package bolt_test

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/millipede-iac/millipede/state/bolt"
	"github.com/millipede-iac/millipede/state/features"
	"github.com/millipede-iac/millipede/state/journal"
)

// programs of two neighbouring versions.
var (
	levelOne = bolt.Options{NoSync: true, Program: "1.0.0", Levels: features.Levels{Oldest: 1, Newest: 1}}
	levelTwo = bolt.Options{NoSync: true, Program: "2.0.0", Levels: features.Levels{Oldest: 1, Newest: 2}}
	laterOne = bolt.Options{NoSync: true, Program: "3.0.0", Levels: features.Levels{Oldest: 2, Newest: 3}}
)

// openAs opens a store as a program, and returns what it then says about its level.
func openAs(t *testing.T, path string, o bolt.Options) (features.Record, error) {
	t.Helper()
	s, err := bolt.OpenOptions(path, journal.LockInfo{}, 0, o)
	if err != nil {
		return features.Record{}, err
	}
	r := s.Features()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return r, nil
}

func TestAStoreCanBeOpenedByTheVersionBeforeUntilItsLevelIsRaised(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	for i, step := range []struct {
		program bolt.Options
		level   int // to raise to
		want    features.Record
		fails   error
		says    string
	}{
		{levelOne, 0, features.Record{Level: 1, By: "1.0.0", Opened: "1.0.0"}, nil, ""},
		{levelTwo, 0, features.Record{Level: 1, By: "1.0.0", Opened: "2.0.0"}, nil, ""}, // upgraded, and one step back
		{levelOne, 0, features.Record{Level: 1, By: "1.0.0", Opened: "1.0.0"}, nil, ""},
		{laterOne, 0, features.Record{}, bolt.ErrOlder, "Millipede 1.0.0"},
		{levelOne, 2, features.Record{}, bolt.ErrNewer, ""},
		{levelTwo, 2, features.Record{Level: 2, By: "2.0.0", Opened: "2.0.0"}, nil, ""}, // the upgrade is finished
		{levelTwo, 0, features.Record{Level: 2, By: "2.0.0", Opened: "2.0.0"}, nil, ""},
		{levelOne, 0, features.Record{}, bolt.ErrNewer, "level 2, which Millipede 2.0.0 has set"},
		{laterOne, 0, features.Record{Level: 2, By: "2.0.0", Opened: "3.0.0"}, nil, ""},
	} {
		o := step.program
		o.Level = step.level
		got, err := openAs(t, path, o)
		if !errors.Is(err, step.fails) || got != step.want {
			t.Fatalf("step %d: %+v, %v", i, got, err)
		}
		if err != nil && !strings.Contains(err.Error(), step.says) {
			t.Errorf("step %d: %q is not said: %v", i, step.says, err)
		}
	}
}

// A program that knows no levels looks at the format alone.
func TestARaisedStoreHasAFormatThatProgramsWithoutLevelsRefuse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	o := levelTwo
	for level, want := range map[int]int{1: 1, 2: 4} {
		o.Level = level
		p := path + "-" + string(rune('0'+level))
		if _, err := openAs(t, p, o); err != nil {
			t.Fatal(err)
		}
		format := 0
		onFile(t, p, func(tx *bbolt.Tx) error {
			return json.Unmarshal(tx.Bucket([]byte("meta")).Get([]byte("format")), &format)
		})
		if format != want {
			t.Errorf("a store of level %d has format %d", level, format)
		}
	}
}

// Stores of the versions before levels have no record of one.
func TestAStoreWithoutALevelHasTheFirst(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	if _, err := openAs(t, path, levelOne); err != nil {
		t.Fatal(err)
	}
	onFile(t, path, func(tx *bbolt.Tx) error { return tx.Bucket([]byte("meta")).Delete([]byte("features")) })
	if got, err := openAs(t, path, levelTwo); err != nil || got != (features.Record{Level: 1, Opened: "2.0.0"}) {
		t.Errorf("it says %+v, %v", got, err)
	}
}

func onFile(t *testing.T, path string, do func(*bbolt.Tx) error) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(do), db.Close()); err != nil {
		t.Fatal(err)
	}
}
