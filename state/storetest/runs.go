package storetest

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/state/journal"
)

func eventsInOrder(t *testing.T, f Fixture) {
	s := open(t, f)
	beginRun(t, s, "r")
	beginRun(t, s, "other")
	var want []journal.Event
	for i := range 30 {
		var events []journal.Event
		for j := range i % 4 {
			events = append(events, journal.Event{
				Kind: journal.Dispatch, Vertex: i, Phase: j, At: now(i), Address: "test_thing.a",
				Attempt: "a1", Pool: "eu",
				Worker: "w", Permits: []string{"p1", "p2"}, Action: "create", Took: time.Duration(i),
				Waited: time.Duration(2 * i), Sequence: uint64(i), Detail: "d",
			})
		}
		commit(t, s, journal.Commit{Run: "r", Events: events})
		commit(t, s, journal.Commit{Run: "other", Events: []journal.Event{{Kind: journal.Skip}}})
		want = append(want, events...)
	}
	for range 2 {
		if got := must(s.Events(t.Context(), "r")); !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v\nwant %+v", got, want)
		}
		s = f.Crash(s)
		closeLater(t, s)
	}
}

func togetherOrNot(t *testing.T, f Fixture) {
	s := open(t, f)
	tx := journal.Commit{Workspace: ws, Changes: put("a", 1), Run: "nobody's",
		Events: []journal.Event{{Kind: journal.Want}}, EndVersion: true}
	isError(t, s.Commit(t.Context(), tx), journal.ErrNoRun)
	is(t, must(s.Load(t.Context(), ws)).IsEmpty(), true)
	is(t, len(must(s.Versions(t.Context(), ws))), 0)
	beginRun(t, s, "r")
	tx.Run = "r"
	commit(t, s, tx)
	s = f.Crash(s)
	closeLater(t, s)
	sameContent(t, must(s.Load(t.Context(), ws)), after(put("a", 1)))
	is(t, len(must(s.Events(t.Context(), "r"))), 1)
	is(t, must(s.Versions(t.Context(), ws))[0].Cause, "apply") // the run's command
}

func crashedRun(t *testing.T, f Fixture) {
	s := open(t, f)
	r := journal.Run{
		ID: "r", Workspace: ws, Coordinator: "c", Command: "apply", Started: now(1), Status: "running",
		Who: "me", Vertices: 7, BaseSerial: 3,
	}
	plan := bytes.Repeat([]byte("a plan "), 10000)
	ok(t, s.BeginRun(t.Context(), "", r, plan))
	if s.BeginRun(t.Context(), "", r, nil) == nil {
		t.Error("a run was begun twice")
	}
	commit(t, s, journal.Commit{Run: "r", Events: []journal.Event{{Kind: journal.Want, At: now(2)}}})
	s = f.Crash(s)
	closeLater(t, s)
	got, gotPlan, err := s.RunPlan(t.Context(), "r")
	ok(t, err)
	is(t, got, r)
	is(t, bytes.Equal(gotPlan, plan), true)
	is(t, len(must(s.Events(t.Context(), "r"))), 1)

	ok(t, s.EndRun(t.Context(), "", "r", "done", now(9)))
	r.Status, r.Ended = "done", now(9)
	is(t, must(s.Runs(t.Context(), ws)), []journal.Run{r})
	isError(t, s.EndRun(t.Context(), "", "x", "done", now(9)), journal.ErrNoRun)
	_, _, err = s.RunPlan(t.Context(), "x")
	isError(t, err, journal.ErrNoRun)
	_, err = s.Events(t.Context(), "x")
	isError(t, err, journal.ErrNoRun)
}

func runsAreKept(t *testing.T, f Fixture) {
	s := open(t, f)
	begin := func(i int) string {
		id := fmt.Sprintf("r%03d", i)
		ok(t, s.BeginRun(t.Context(), "", journal.Run{ID: id, Workspace: ws, Started: now(i), Status: "running"}, nil))
		return id
	}
	begin(0) // never ends
	for i := 1; i <= journal.KeptRuns+5; i++ {
		if i%2 == 0 {
			ok(t, s.EndRun(t.Context(), "", begin(i), "done", now(i)))
			continue
		}
		ok(t, s.Commit(t.Context(), journal.Commit{Workspace: ws, Run: begin(i), Changes: put("a", i), EndVersion: true,
			End: &journal.Ending{Status: "done", At: now(i)}}))
	}
	runs := must(s.Runs(t.Context(), ws))
	is(t, len(runs), journal.KeptRuns+1)
	is(t, runs[0].ID, fmt.Sprintf("r%03d", journal.KeptRuns+5))
	is(t, runs[0].Status, "done")
	is(t, runs[0].Ended, now(journal.KeptRuns+5))
	is(t, runs[len(runs)-2].ID, "r006")
	is(t, runs[len(runs)-1].ID, "r000")
	_, err := s.Events(t.Context(), "r005")
	isError(t, err, journal.ErrNoRun)
	isError(t, s.Commit(t.Context(), journal.Commit{Workspace: ws, Run: "x", Changes: put("a", -1),
		End: &journal.Ending{Status: "done", At: now(1)}}), journal.ErrNoRun)
	sameContent(t, must(s.Load(t.Context(), ws)), after(put("a", journal.KeptRuns+5)))
}

func beginRun(t *testing.T, s journal.Store, id string) {
	t.Helper()
	r := journal.Run{ID: id, Workspace: ws, Command: "apply", Started: now(0), Status: "running"}
	ok(t, s.BeginRun(t.Context(), "", r, []byte("plan")))
}
