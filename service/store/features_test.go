package store_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/state/features"
	"github.com/millipede-iac/millipede/state/seal"
)

func TestTheVersionBeforeCanOpenTheDataUntilTheUpgradeIsFinished(t *testing.T) {
	dir := t.TempDir()
	key, err := seal.NewKey(seal.NewSecret())
	if err != nil {
		t.Fatal(err)
	}
	older := store.Options{Program: "1.0.0", Levels: features.Levels{Oldest: 1, Newest: 1}}
	newer := store.Options{Program: "2.0.0", Levels: features.Levels{Oldest: 1, Newest: 2}}
	later := store.Options{Program: "3.0.0", Levels: features.Levels{Oldest: 2, Newest: 3}}
	for i, step := range []struct {
		program store.Options
		finish  bool
		want    features.Record
		fails   error
		says    string
	}{
		{older, false, features.Record{Level: 1, By: "1.0.0", Opened: "1.0.0"}, nil, ""},
		{newer, false, features.Record{Level: 1, By: "1.0.0", Opened: "2.0.0"}, nil, ""},
		{older, true, features.Record{Level: 1, By: "1.0.0", Opened: "1.0.0"}, nil, ""}, // back, with nothing to raise
		{later, false, features.Record{}, store.ErrOlder, "Millipede 1.0.0"},
		{newer, true, features.Record{Level: 2, By: "2.0.0", Opened: "2.0.0"}, nil, ""},
		{newer, true, features.Record{Level: 2, By: "2.0.0", Opened: "2.0.0"}, nil, ""},
		{older, false, features.Record{}, store.ErrNewer, "level 2, which Millipede 2.0.0 has set"},
		{later, false, features.Record{Level: 2, By: "2.0.0", Opened: "3.0.0"}, nil, ""},
	} {
		s, err := store.OpenOptions(dir, key, step.program)
		if !errors.Is(err, step.fails) {
			t.Fatalf("step %d: %v", i, err)
		}
		if err != nil {
			if !strings.Contains(err.Error(), step.says) {
				t.Errorf("step %d: %q is not said: %v", i, step.says, err)
			}
			continue
		}
		got := s.Features()
		if step.finish {
			if got, err = s.Raise(); err != nil || got != s.Features() {
				t.Errorf("step %d: raised to %+v, %v", i, got, err)
			}
		}
		if got != step.want {
			t.Errorf("step %d: the data says %+v", i, got)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
