package features_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/state/features"
)

func TestAProgramOpensTheStoresOfItsLevelsAndSaysWhoWroteOthers(t *testing.T) {
	own := features.Levels{Oldest: 2, Newest: 3}
	for level, want := range map[int]struct {
		is   error
		says []string
	}{
		1: {features.ErrOlder, []string{"level 1", "Millipede 0.1.0", "2 to 3", "finish-upgrade"}},
		2: {}, 3: {},
		4: {features.ErrNewer, []string{"level 4", "Millipede 0.1.0", "2 to 3", "Use that version"}},
	} {
		err := features.Record{Level: level, By: "0.1.0"}.Check(own)
		if !errors.Is(err, want.is) {
			t.Errorf("level %d: %v", level, err)
		}
		for _, text := range want.says {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("level %d: %q is not said: %v", level, text, err)
			}
		}
	}
}

func TestALevelIsOnlyRaisedAndOnlyAsFarAsTheProgramKnows(t *testing.T) {
	own := features.Levels{Oldest: 1, Newest: 2}
	at := features.Record{Level: 1, By: "a", Opened: "b"}
	if got, changed, err := at.Raise(1, "c", own); got != at || changed || err != nil {
		t.Errorf("to its own level: %+v, %t, %v", got, changed, err)
	}
	if got, changed, err := at.Raise(2, "c", own); got != (features.Record{Level: 2, By: "c", Opened: "c"}) || !changed ||
		err != nil {
		t.Errorf("to the next level: %+v, %t, %v", got, changed, err)
	}
	if _, _, err := at.Raise(3, "c", own); !errors.Is(err, features.ErrNewer) {
		t.Errorf("to a level that the program does not know: %v", err)
	}
}
