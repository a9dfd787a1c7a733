package service

import (
	"testing"

	"github.com/millipede-iac/millipede/service/store"
	"github.com/millipede-iac/millipede/state/seal"
)

// A step of a run was durable, and its workspace was deleted before the queue read the run again: it published an event
// for a run that no longer existed, and the process of the service ended.
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
	before := s.queue.changes
	s.queue.changed("run-deleted")
	if s.queue.changes == before {
		t.Error("who waits for news of the run is not told")
	}
	if err := st.Close(); err != nil {
		t.Error(err)
	}
}
