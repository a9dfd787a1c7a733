package service

import (
	"testing"

	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/state/seal"
)

// If the workspace of a run was deleted after a step of the run was stored, and before the queue read the run again,
// the queue published an event for a run that no longer existed, and the process of the service ended.
func TestARunThatIsDeletedBehindItsStepEndsNothing(t *testing.T) {
	key, err := seal.NewKey(seal.NewSecret())
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(t.TempDir(), key)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Options{Store: st, Plans: 1, Applies: 1, MaxConfiguration: 1, MaxState: 1})
	if err != nil {
		t.Fatal(err)
	}
	before := s.queue.LastChange()
	s.queue.Changed("run-deleted")
	if s.queue.LastChange() == before {
		t.Error("clients that wait for a change of the run are not woken")
	}
	if err := st.Close(); err != nil {
		t.Error(err)
	}
}
