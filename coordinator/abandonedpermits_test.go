package coordinator

import (
	"context"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/coordinator/loop"
	"github.com/millipede-iac/millipede/coordinator/placement"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"

	statemem "github.com/millipede-iac/millipede/state/mem"
	"github.com/millipede-iac/millipede/wire"
	"github.com/millipede-iac/millipede/wire/mem"
)

func TestAnAbandonedPermitIsFreedOnlyWhenNothingCanRunUnderIt(t *testing.T) {
	ctx := context.Background()
	now := time.Unix(1_700_000_000, 0)
	dispatch := func(id string) []journal.Event {
		return []journal.Event{
			{Kind: journal.Want, At: now},
			{Kind: journal.Dispatch, At: now, Attempt: "a1", Pool: "eu", Permits: []string{"narrow/x",
				journal.PermitName("default", id)}},
		}
	}
	also := func(es []journal.Event, k journal.Kind) []journal.Event {
		return append(es, journal.Event{Kind: k, At: now})
	}
	ended := func(es []journal.Event) []journal.Event {
		es[len(es)-1].Over = true
		return es
	}
	doubtful := []state.Change{state.SetObject{
		Addr: addr.Resource{Mode: addr.Managed, Type: "t", Name: "a"}.Absolute(
			addr.RootInstance).Instance(addr.NoKey),
		Object: &state.Object{Status: state.InDoubt, Doubt: &state.Doubt{Run: "run1", Attempt: "a1",
			Operation: "create"}},
	}}
	for claim, c := range map[string]struct {
		run     string
		at      time.Time
		events  []journal.Event
		changes []state.Change
		claimed bool
		free    bool
	}{
		"of a plan":                          {run: "read-1", free: true},
		"of another coordinator":             {run: "foreign"},
		"of another coordinator, too old":    {run: "foreign", at: now.Add(-25 * time.Hour), free: true},
		"under which nothing was dispatched": {run: "run1", events: dispatch("p2"), free: true},
		"whose attempt nobody has claimed":   {run: "run1", events: dispatch("p1"), free: true},
		"whose attempt a worker has claimed": {run: "run1", events: dispatch("p1"), claimed: true},
		"whose attempt is done": {run: "run1", events: also(dispatch("p1"), journal.Finish),
			claimed: true, free: true},
		"whose attempt is in doubt": {run: "run1", events: also(dispatch("p1"), journal.Suspect),
			changes: doubtful, claimed: true},
		"whose attempt is in doubt, without a claim": {run: "run1", events: also(dispatch("p1"), journal.Suspect),
			changes: doubtful},
		"whose attempt is in doubt, for a day by now": {run: "run1", at: now.Add(-25 * time.Hour),
			events: also(dispatch("p1"), journal.Suspect), changes: doubtful, free: true},
		"whose attempt is in doubt, and runs no more": {run: "run1",
			events: ended(also(dispatch("p1"), journal.Suspect)), changes: doubtful, claimed: true, free: true},
		"whose attempt was in doubt and is resolved": {run: "run1", events: also(dispatch("p1"), journal.Suspect),
			claimed: true, free: true},
	} {
		system, store := mem.New(mem.Options{}), statemem.New(statemem.Options{})
		beginRun(t, store, 1)
		if len(c.events) > 0 {
			if err := store.Commit(ctx, journal.Commit{Workspace: "default", Run: "run1", Events: c.events,
				Changes: c.changes}); err != nil {
				t.Fatal(err)
			}
		}
		conn := system.Connect("c")
		ref := wire.TaskRef{Pool: "eu", Coordinator: "c1", Run: "run1", Attempt: "a1"}
		if c.claimed {
			if _, err := conn.Claim(ctx, ref, wire.Claim{Nonce: "n", Worker: "w"}); err != nil {
				t.Fatal(err)
			}
		}
		if c.at.IsZero() {
			c.at = now
		}
		o := &Orphans{Store: store, Claims: conn, Now: func() time.Time { return now },
			NewID: func() string { return "tomb" }}
		if got := o.Decide(ctx, "default", wire.PermitRequest{ID: "p1", Run: c.run, At: c.at}); got != c.free {
			t.Errorf("a permit %s: freed %v", claim, got)
		}
		if got, err := conn.Claim(ctx, ref, wire.Claim{Nonce: "late"}); c.free && c.events != nil && !c.claimed &&
			c.at == now && claim == "whose attempt nobody has claimed" && (err != nil || !got.Tombstone) {
			t.Errorf("a permit %s: a worker could still start it", claim)
		}
		_ = conn.Close()
	}
}

// A coordinator that was suspended during the end of its run kept permits, and coordinators of other states could not
// free them.
func TestARunThatAnotherProcessHasEndedKeepsNoPermits(t *testing.T) {
	ctx := context.Background()
	store := statemem.New(statemem.Options{})
	beginRun(t, store, 1)
	key := loop.PermitKey{Limit: "default", ID: "run1-0"}
	r := &Runner{Options: Options{Store: store, RunID: "run1"}}
	if got := r.kept(ctx, []loop.PermitKey{key}); len(got) != 1 || got[0] != key {
		t.Fatalf("for a run in progress the coordinator keeps %v", got)
	}
	if err := store.EndRun(ctx, "", "run1", "interrupted", time.Now()); err != nil {
		t.Fatal(err)
	}
	if got := r.kept(ctx, []loop.PermitKey{key}); len(got) != 1 {
		t.Errorf("for a run that can be resumed the coordinator keeps %v", got)
	}
	if err := store.EndRun(ctx, "", "run1", "done", time.Now()); err != nil {
		t.Fatal(err)
	}
	if got := r.kept(ctx, []loop.PermitKey{key}); len(got) != 0 {
		t.Errorf("for a run that has ended the coordinator keeps %v", got)
	}
}

// The journal was read once for each permit that a process had left. With a large run that takes longer than a permit
// waits.
func TestARunThatIsResumedKnowsWhichPermitsOfEarlierProcessesAreFree(t *testing.T) {
	past, err := loop.PastOf(2, []journal.Event{
		{Vertex: 0, Kind: journal.Want}, {Vertex: 0, Kind: journal.Dispatch, Attempt: "a", Permits: []string{"default/r-0"}},
		{Vertex: 1, Kind: journal.Want}, {Vertex: 1, Kind: journal.Dispatch, Attempt: "b", Permits: []string{"default/r-1"}},
		{Vertex: 1, Kind: journal.Finish, Attempt: "b"},
	})
	if err != nil {
		t.Fatal(err)
	}
	f := newFormer("r", "p2", past)
	for _, c := range []struct {
		limit, run, id string
		free           bool
	}{
		{"default", "r", "r-0", false}, {"default", "r", "r-1", true}, {"narrow", "r", "r-0", true},
		{"default", "r", "r-p1-0", true}, {"default", "r", "r-p2-0", false}, {"default", "another", "r-1", false},
	} {
		if free := f.decide(t.Context(), c.limit, wire.PermitRequest{Run: c.run, ID: c.id}); free != c.free {
			t.Errorf("%+v: free is %v", c, free)
		}
	}
}

// The permit of an operation of which nothing would ever be heard again was held for a day, whatever the operator knew
// about how long operations take.
func TestAPermitThatPoolsShareIsFreeOnceTheTermOfItsOperationHasPassed(t *testing.T) {
	ctx, began := context.Background(), time.Unix(1_700_000_000, 0)
	rules := &placement.Rules{DoubtTerm: 2 * time.Hour, Limits: []placement.Limit{{Name: "own", Max: 1, Key: "pool"}}}
	for claim, c := range map[string]struct {
		limit string
		after time.Duration
		names time.Duration // how long ago a worker has named it; zero: never
		free  bool
	}{
		"before its term has passed":                {"default", time.Hour, 0, false},
		"after its term":                            {"default", 2 * time.Hour, 0, true},
		"of its own pool, after its term":           {"own-eu", 2 * time.Hour, 0, false},
		"after its term, while a worker names it":   {"default", 3 * time.Hour, time.Second, false},
		"a term after a worker has named it last":   {"default", 5 * time.Hour, 2 * time.Hour, true},
		"of its own pool, a day after it was asked": {"own-eu", 25 * time.Hour, 0, true},
	} {
		system, store := mem.New(mem.Options{}), statemem.New(statemem.Options{})
		conn := system.Connect("c")
		beginRun(t, store, 1)
		if err := store.Commit(ctx, journal.Commit{Workspace: "default", Run: "run1", Events: []journal.Event{
			{Kind: journal.Want, At: began}, {Kind: journal.Dispatch, At: began, Attempt: "a1", Pool: "eu",
				Permits: []string{journal.PermitName("own-eu", "p1"), journal.PermitName("default", "p1")}}}}); err != nil {
			t.Fatal(err)
		}
		ref := wire.TaskRef{Pool: "eu", Coordinator: "c1", Run: "run1", Attempt: "a1"}
		if _, err := conn.Claim(ctx, ref, wire.Claim{Nonce: "n", Worker: "w"}); err != nil {
			t.Fatal(err)
		}
		o := &Orphans{Store: store, Claims: conn, Rules: rules, NewID: func() string { return "tomb" },
			Now: func() time.Time { return began.Add(c.after) },
			Workers: func(context.Context) ([]wire.Worker, error) {
				if c.names == 0 {
					return nil, nil
				}
				return []wire.Worker{{Heartbeat: wire.Heartbeat{Attempts: []wire.AttemptID{"a1"}}, Since: c.names}}, nil
			}}
		if got := o.Decide(ctx, c.limit, wire.PermitRequest{ID: "p1", Run: "run1", At: began}); got != c.free {
			t.Errorf("a permit %s: freed %v", claim, got)
		}
		_ = conn.Close()
	}
}
