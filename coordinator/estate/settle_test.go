package estate

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/locks"
	"github.com/millipede-iac/millipede/state/mem"
)

// sharer is an operation that shares a store with others. Nobody goes on with what requests are for.
func sharer(t *testing.T, store journal.Store) *Operation {
	var hands Hands
	return &Operation{estate: testEstate(t, t.TempDir()), State: &Opened{
		Workspace: "default", home: hands.home("home"), store: &openedStore{Store: &stored{Store: store.(*mem.Store)}},
		sharing: &Sharing{Request: "own", Alive: func(string) bool { return false }},
	}}
}

// One that settles waits for operations at workers, for minutes. Who came after it waited for a mutex, and heard of no
// request to stop.
func TestWhoWaitsUntilAnotherHasSettledHearsThatItIsToStop(t *testing.T) {
	r := sharer(t, mem.New(mem.Options{}))
	stop, ask, _ := operation.NewStop(t.Context())
	r.estate.Stop = stop
	if err := r.State.home.settling.take(t.Context()); err != nil {
		t.Fatal(err)
	}
	ask(operation.ErrInterrupted)
	diags := r.settleLeft(t.Context(), true)
	if !diags.HasErrors() || diags[0].Summary != "Operation interrupted" {
		t.Errorf("it was told %v", diags.Err())
	}
}

// Who settles a run of before the state was shared waits for all of the state, and nobody else settles meanwhile: when
// somebody who had locks was cut off then, both waited for ever.
func TestWhoWaitsForTheWholeStateSettlesWhatOthersLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New(mem.Options{})
		r := sharer(t, store)
		for _, id := range []string{"left", "whole"} {
			q := locks.Request{ID: id, Set: locks.Set{locks.All: locks.Write}}
			if err := store.AskLocks(t.Context(), "default", q); err != nil {
				t.Fatal(err)
			}
		}
		r.State.home.ours("whole", true)
		began := time.Now()
		must(t, r.awaitWhole(t.Context(), "whole"))
		if took := time.Since(began); took > 2*lookEvery {
			t.Errorf("it waited for %s", took)
		}
	})
}
