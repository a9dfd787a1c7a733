package coordinator

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/coordinator/hub"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"

	statemem "github.com/millipede-iac/millipede/state/mem"
	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/mem"
)

func TestTheHoldersOfALimitAreTheDoubtsThatTheStateStillHas(t *testing.T) {
	ctx := t.Context()
	now := time.Unix(1_700_000_000, 0)
	system, store := mem.New(mem.Options{}), statemem.New(statemem.Options{})
	conn := system.Connect("c1")
	defer conn.Close()
	if _, err := conn.DeclareLimit(ctx, wire.Limit{Name: "default", Slots: 9}); err != nil {
		t.Fatal(err)
	}
	hold := func(run, id string) {
		if _, err := conn.Acquire(ctx, "default", wire.PermitRequest{ID: id, Coordinator: "c1", Run: run,
			At: now}); err != nil {
			t.Fatal(err)
		}
	}
	beginRun(t, store, 5)
	tx := journal.Commit{Workspace: "default", Run: "run1"}
	name := func(v int) addr.Instance {
		return addr.Resource{Mode: addr.Managed, Type: "t", Name: "a"}.Absolute(
			addr.RootInstance).Instance(addr.IntKey(v))
	}
	for v, last := range []journal.Event{
		{Kind: journal.Suspect},             // holds its permit
		{Kind: journal.Suspect, Over: true}, // nothing goes on
		{Kind: journal.Suspect},             // resolved: the state has nothing in doubt
		{Kind: journal.Finish},              // done
		{Kind: journal.Suspect},             // its permit was given back
	} {
		id := string(rune('0' + v))
		if v != 4 {
			hold("run1", id)
		}
		last.Vertex, last.At = v, now
		tx.Events = append(tx.Events,
			journal.Event{Vertex: v, Kind: journal.Want, At: now},
			journal.Event{Vertex: v, Kind: journal.Dispatch, At: now, Address: name(v).String(), Attempt: "a" + id,
				Pool: "eu", Permits: []string{journal.PermitName("default", id)}}, last)
		if v != 2 && v != 3 {
			tx.Changes = append(tx.Changes, state.SetObject{Addr: name(v), Object: &state.Object{
				Status: state.InDoubt, Doubt: &state.Doubt{Run: "run1", Attempt: "a" + id, Operation: "update"}}})
		}
	}
	if err := store.Commit(ctx, tx); err != nil {
		t.Fatal(err)
	}
	hold("run-of-another-coordinator", "x")
	defer conn.OnPermitUses(func() []wire.PermitUse {
		return []wire.PermitUse{{Limit: "default", ID: "x", By: "ann", Pool: "us", InDoubt: true}}
	})()
	hold(readOnly+"1", "y")
	hold("run2", "own")

	x := newExecutor(Options{Hub: hub.New(conn, "c1"), Earlier: store, Workspace: "default", RunID: "run2"}, newInbox())
	x.ctx = ctx
	got, holders, err := x.blockers("default")
	if want := []string{"t.a[0]"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	var runs []string
	for _, h := range holders {
		runs = append(runs, fmt.Sprintf("%s of %s (%s, pool %s): %d, %d in doubt", h.Run, h.Coordinator, h.By, h.Pool,
			h.Permits, h.InDoubt))
	}
	slices.Sort(runs)
	if want := []string{"read-1 of c1 (, pool ): 1, 0 in doubt",
		"run-of-another-coordinator of c1 (ann, pool us): 1, 1 in doubt",
		"run1 of c1 (, pool eu): 3, 0 in doubt"}; !slices.Equal(runs, want) {
		t.Errorf("the holders are %q; want %q", runs, want)
	}
	if got, _, err := x.blockers("unknown"); err != nil || len(got) != 0 {
		t.Errorf("for an unknown limit: %v, %v", got, err)
	}
}
