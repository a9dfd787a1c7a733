package estate

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/locks"
	"github.com/millipede-iac/millipede/state/mem"
)

// sharer is an operation that shares a store with others. No process continues the runs of the requests in the store.
func sharer(t *testing.T, store journal.Store) *Operation {
	var shared SharedStores
	return &Operation{estate: testEstate(t, t.TempDir()), State: &Opened{
		Workspace: "default", home: shared.home("home"), store: &openedStore{Store: &stored{Store: store.(*mem.Store)}},
		sharing: &Sharing{Request: "own", Alive: func(string) bool { return false }},
	}}
}

// An operation that settles runs waits for operations at workers, for minutes. The next operation waited for a mutex,
// and did not react to a request to stop.
func TestWhoWaitsUntilAnotherHasSettledHearsThatItIsToStop(t *testing.T) {
	r := sharer(t, mem.New(mem.Options{}))
	stop, ask, _ := operation.NewStop(t.Context())
	r.estate.Stop = stop
	if err := r.State.home.settling.lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	ask(operation.ErrInterrupted)
	diags := r.settleLeft(t.Context(), true)
	if !diags.HasErrors() || diags[0].Summary != "Operation interrupted" {
		t.Errorf("the operation ended with %v", diags.Err())
	}
}

// A run that is cancelled keeps its locks until the next run settles it. If runs no longer shared the state by then, no
// run could lock it: the error named the request as the holder, and then said that there was no holder.
func TestWhoHasTheStateAloneTakesBackWhatRunsHaveLeftLocked(t *testing.T) {
	e := testEstate(t, t.TempDir())
	must(t, put(t.Context(), e, "first"))
	store := e.Stores.(*stores).all[homeOf(t, e).Store()]
	for _, id := range []string{"left", "cut off"} {
		q := locks.Request{ID: id, Set: locks.Set{locks.Output(id): locks.Write}}
		if err := store.AskLocks(t.Context(), "default", q); err != nil {
			t.Fatal(err)
		}
	}
	begin := func(id string, events ...journal.Event) {
		run := journal.Run{ID: "run " + id, Workspace: "default", Status: journal.Running, Vertices: 1}
		if err := store.BeginRun(t.Context(), id, run, nil); err != nil {
			t.Fatal(err)
		}
		if err := store.Commit(t.Context(), journal.Commit{Workspace: "default", Fence: id, Run: run.ID,
			Events: events}); err != nil {
			t.Fatal(err)
		}
	}
	begin("left")
	begin("cut off", journal.Event{Kind: journal.Want}, journal.Event{Kind: journal.Dispatch, Attempt: "a"})
	diags := put(t.Context(), e, "second")
	if !diags.HasErrors() || !strings.Contains(diags.Err().Error(), "the run run cut off") {
		t.Fatalf("the operation has not noticed a run that may still be in progress: %v", diags.Err())
	}
	done := journal.Event{Kind: journal.Finish, Attempt: "a"}
	if err := store.Commit(t.Context(), journal.Commit{Workspace: "default", Fence: "cut off", Run: "run cut off",
		Events: []journal.Event{done}}); err != nil {
		t.Fatal(err)
	}
	must(t, put(t.Context(), e, "second"))
	if left, err := store.LockRequests(t.Context(), "default"); err != nil || len(left) > 0 {
		t.Errorf("the remaining requests are %v (%v)", left, err)
	}
}

// An operation that settles a run from before the state was shared waits for the lock of the whole state, and meanwhile
// no other operation settles runs. If an operation with locks was then cut off, both waited for ever.
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
		r.State.home.registerRequest("whole", true)
		began := time.Now()
		must(t, r.awaitWhole(t.Context(), "whole"))
		if took := time.Since(began); took > 2*lookEvery {
			t.Errorf("the operation waited for %s", took)
		}
	})
}
