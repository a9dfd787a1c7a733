package state_test

import (
	"testing"

	"github.com/millipede-iac/millipede/state"
)

// Three functions computed the object before a doubt. One of them panicked if the object was unknown.
func TestAnObjectBeforeItsDoubtIsWhatItWas(t *testing.T) {
	for claim, c := range map[string]struct {
		object *state.Object
		want   state.Status
	}{
		"that was tainted": {&state.Object{Status: state.InDoubt,
			Doubt: &state.Doubt{Before: state.Tainted}}, state.Tainted},
		"of which the doubt says nothing": {&state.Object{Status: state.InDoubt, Doubt: &state.Doubt{}},
			state.Ready},
		"in doubt, and nobody knows over what": {&state.Object{Status: state.InDoubt}, state.Ready},
		"that is not in doubt is as it is":     {&state.Object{Status: state.Tainted}, state.Tainted},
	} {
		was := c.object.BeforeDoubt()
		if was.Status != c.want || was.Doubt != nil {
			t.Errorf("an object %s: %v, %v", claim, was.Status, was.Doubt)
		}
		if c.object.Status == state.InDoubt && was == c.object {
			t.Errorf("an object %s was changed itself", claim)
		}
	}
	if (*state.Object)(nil).BeforeDoubt() != nil {
		t.Error("a missing object became an object")
	}
}
