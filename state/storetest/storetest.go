// Package storetest is the test suite for implementations of journal.Store.
//
// It does not depend on an implementation; state/bolt and state/mem run it in their tests.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
)

// Fixture is the place of one store, initially empty.
type Fixture struct {
	// Open opens the store. The suite closes it before it opens it again.
	Open func() journal.Store
	// Crash leaves the store as a process that is killed between two commits would, and opens the rest as the next
	// process finds it.
	Crash func(journal.Store) journal.Store
}

// Run runs the suite. make is called once for each test, and cleans up with t.
func Run(t *testing.T, make func(t *testing.T) Fixture) {
	for _, c := range []struct {
		claim string
		test  func(t *testing.T, f Fixture)
	}{
		{"a new store has an empty default workspace", newIsEmpty},
		{"what is committed is there, in this process, in the next, and after a crash", committedIsThere},
		{"a version ends with a serial that is one higher, in one lineage", versionsCount},
		{"changes that come to nothing end no version", nothingEndsNoVersion},
		{"the first version ends even when it is empty", firstVersionEnds},
		{"what an interrupted command left can be ended as a version", unfinishedEnds},
		{"every version stays readable as it ended", versionsStay},
		{"a state that is put whole brings its lineage and serial, and hides nothing", replaceKeeps},
		{"of versions with one serial the newest is found, and each by its lineage and time", newestOfSerial},
		{"what has changed since a version is told, with who changed it last", sinceTells},
		{"what was changed and changed back is told", sinceTellsWhatCameBack},
		{"another provider is a change of all instances of a resource", sinceProvider},
		{"what cannot be told since a version is an error", sinceUnknown},
		{"when instances were last read is kept, and goes with them", readsAreKept},
		{"verdicts are kept, and go with what they are about", verdictsAreKept},
		{"a caller may change what it loaded", loadedIsTheCallers},
		{"a lock keeps others out and tells who holds it", lockKeepsOut},
		{"a commit under a lock that is not held any more is refused whole", lostLockIsFenced},
		{"a lock does not outlive its process, and its owner is fenced off", lockDiesWithProcess},
		{"locks of objects let who is not in conflict pass, and keep their order over a crash", objectsAreLocked},
		{"a change of what is not locked is refused whole", unlockedIsFenced},
		{"a state is locked as a whole or by objects", wholeOrObjects},
		{"versions of those who change a state at once are each as if alone, in the order of their ends", interleaved},
		{"what a run left is a version when its locks are given up", leftIsAVersion},
		{"workspaces are apart", workspacesAreApart},
		{"what a workspace's name does not name is an error", noWorkspace},
		{"events come back in the order of their commits", eventsInOrder},
		{"state and events of one commit stand or fall together", togetherOrNot},
		{"a run that a crash ended still says running, with its plan and its events", crashedRun},
		{"ended runs are kept up to a number, unended ones always", runsAreKept},
		{"commits from many goroutines are all there, each goroutine's in its order", concurrentCommits},
		{"marks and values are kept", marksAndValues},
		{"a cancelled context changes nothing", cancelled},
		{"a closed store refuses", closedRefuses},
	} {
		t.Run(c.claim, func(t *testing.T) { c.test(t, make(t)) })
	}
}

const ws = journal.DefaultWorkspace

func newIsEmpty(t *testing.T, f Fixture) {
	s := open(t, f)
	is(t, must(s.Workspaces(t.Context())), []string{ws})
	st := must(s.Load(t.Context(), ws))
	if !st.IsEmpty() || st.Serial != 0 || st.Lineage != "" {
		t.Errorf("the state is not empty: %+v", st)
	}
	is(t, len(must(s.Versions(t.Context(), ws))), 0)
	is(t, must(s.Mark(t.Context(), ws)), journal.SnapshotMark{})
	is(t, must(s.Locked(t.Context(), ws)), nil)
	is(t, len(must(s.Runs(t.Context(), ws))), 0)
}

func committedIsThere(t *testing.T, f Fixture) {
	s := open(t, f)
	w := newWorld(1)
	model := state.Empty()
	for range 60 {
		changes := w.changes(model, 5)
		commit(t, s, journal.Commit{Changes: changes, EndVersion: w.rnd.IntN(4) == 0})
		model.Apply(changes...)
		switch w.rnd.IntN(6) {
		case 0:
			ok(t, s.Close())
			s = open(t, f)
		case 1:
			s = f.Crash(s)
			closeLater(t, s)
		}
		sameContent(t, must(s.Load(t.Context(), ws)), model)
	}
}

func versionsCount(t *testing.T, f Fixture) {
	s := open(t, f)
	commit(t, s, journal.Commit{Changes: put("a", 1)})
	st := must(s.Load(t.Context(), ws))
	is(t, st.Serial, 0)
	commit(t, s, journal.Commit{EndVersion: true, Cause: "apply"})
	st = must(s.Load(t.Context(), ws))
	is(t, st.Serial, 1)
	lineage := st.Lineage
	if lineage == "" {
		t.Error("no lineage")
	}
	commit(t, s, journal.Commit{Changes: put("a", 2), EndVersion: true, Cause: "import"})
	st = must(s.Load(t.Context(), ws))
	is(t, st.Serial, 2)
	is(t, st.Lineage, lineage)
	list := must(s.Versions(t.Context(), ws))
	is(t, len(list), 2)
	is(t, list[0].Serial, 2)
	is(t, list[0].Cause, "import")
	is(t, list[1].Serial, 1)
	is(t, list[1].Cause, "apply")
	is(t, list[1].Lineage, lineage)
	commit(t, s, journal.Commit{Changes: put("a", 3)})
	is(t, must(s.Load(t.Context(), ws)).Serial, 2)
}

func nothingEndsNoVersion(t *testing.T, f Fixture) {
	s := open(t, f)
	commit(t, s, journal.Commit{EndUnfinished: true})
	is(t, must(s.Load(t.Context(), ws)).Serial, 0)
	commit(t, s, journal.Commit{Changes: put("a", 1), EndVersion: true})
	commit(t, s, journal.Commit{Changes: put("a", 1), EndVersion: true})
	commit(t, s, journal.Commit{EndUnfinished: true})
	is(t, must(s.Load(t.Context(), ws)).Serial, 1)
	commit(t, s, journal.Commit{Changes: append(put("a", 2), put("b", 1)...)})
	commit(t, s, journal.Commit{Changes: append(put("a", 1), remove("b")...), EndVersion: true})
	is(t, must(s.Load(t.Context(), ws)).Serial, 1)
	commit(t, s, journal.Commit{Changes: put("a", 2), EndVersion: true})
	is(t, must(s.Load(t.Context(), ws)).Serial, 2)
	sameContent(t, must(s.LoadVersion(t.Context(), ws, 1)), after(put("a", 1)))
}

func firstVersionEnds(t *testing.T, f Fixture) {
	s := open(t, f)
	for range 2 {
		commit(t, s, journal.Commit{EndVersion: true})
		st := must(s.Load(t.Context(), ws))
		is(t, st.Serial, 1)
		is(t, st.Lineage != "", true)
	}
}

func unfinishedEnds(t *testing.T, f Fixture) {
	s := open(t, f)
	commit(t, s, journal.Commit{Changes: put("a", 1), EndVersion: true})
	commit(t, s, journal.Commit{Changes: put("b", 1)})
	s = f.Crash(s)
	closeLater(t, s)
	commit(t, s, journal.Commit{EndUnfinished: true, Cause: "interrupted"})
	is(t, must(s.Versions(t.Context(), ws))[0].Cause, "interrupted")
	sameContent(t, must(s.LoadVersion(t.Context(), ws, 2)), after(append(put("a", 1), put("b", 1)...)))
}

func versionsStay(t *testing.T, f Fixture) {
	s := open(t, f)
	w := newWorld(2)
	model := state.Empty()
	var ended []*state.State
	for range 12 {
		for range 3 {
			changes := w.changes(model, 4)
			commit(t, s, journal.Commit{Changes: changes})
			model.Apply(changes...)
			sameContent(t, must(s.Load(t.Context(), ws)), model)
			if n := len(ended); n > 0 { // each load uses the cache of earlier ones
				sameContent(t, must(s.LoadVersion(t.Context(), ws, uint64(n))), ended[n-1])
			}
		}
		// Changes that are reverted must not matter either.
		there := put("fleeting", w.rnd.IntN(100))
		commit(t, s, journal.Commit{Changes: there})
		commit(t, s, journal.Commit{Changes: remove("fleeting"), EndVersion: true})
		if len(ended) == 0 || !ended[len(ended)-1].SameContent(model) {
			ended = append(ended, model.Clone())
		}
	}
	changes := w.changes(model, 8) // of a version in progress
	commit(t, s, journal.Commit{Changes: changes})
	model.Apply(changes...)
	s = f.Crash(s)
	closeLater(t, s)
	is(t, len(must(s.Versions(t.Context(), ws))), len(ended))
	for i, want := range ended {
		got := must(s.LoadVersion(t.Context(), ws, uint64(i+1)))
		is(t, got.Serial, uint64(i+1))
		sameContent(t, got, want)
	}
	sameContent(t, must(s.Load(t.Context(), ws)), model)
	_, err := s.LoadVersion(t.Context(), ws, 99)
	isError(t, err, journal.ErrVersion)
}

func replaceKeeps(t *testing.T, f Fixture) {
	s := open(t, f)
	w := newWorld(3)
	model := state.Empty()
	changes := w.changes(model, 30)
	model.Apply(changes...)
	commit(t, s, journal.Commit{Changes: changes, EndVersion: true})

	other := state.Empty()
	other.Apply(w.changes(other, 30)...)
	other.Lineage, other.Serial, other.EngineVersion = "other", 40, "1.2.3"
	ok(t, s.Replace(t.Context(), ws, "", other, journal.Because("state push")))
	ok(t, s.Close())
	s = open(t, f)
	got := must(s.Load(t.Context(), ws))
	sameContent(t, got, other)
	is(t, got.Lineage, "other")
	is(t, got.Serial, 40)
	is(t, got.EngineVersion, "1.2.3")
	sameContent(t, must(s.LoadVersion(t.Context(), ws, 1)), model)
	is(t, must(s.Versions(t.Context(), ws))[0].Cause, "state push")

	commit(t, s, journal.Commit{Changes: put("later", 1), EndVersion: true})
	got = must(s.Load(t.Context(), ws))
	is(t, got.Serial, 41)
	is(t, got.Lineage, "other")
	sameContent(t, must(s.LoadVersion(t.Context(), ws, 40)), other)

	commit(t, s, journal.Commit{Changes: put("unfinished", 1)})
	unfinished := must(s.Load(t.Context(), ws))
	ok(t, s.Replace(t.Context(), ws, "", state.Empty(),
		journal.Cause{Text: "the snapshot was removed", Elsewhere: true}))
	sameContent(t, must(s.LoadVersion(t.Context(), ws, 42)), unfinished)
	is(t, must(s.Load(t.Context(), ws)).IsEmpty(), true)
	commit(t, s, journal.Commit{Changes: put("new", 1), EndVersion: true})
	got = must(s.Load(t.Context(), ws))
	is(t, got.Serial, 1)
	if got.Lineage == "other" || got.Lineage == "" {
		t.Errorf("the lineage is %q", got.Lineage)
	}
}

func newestOfSerial(t *testing.T, f Fixture) {
	s := open(t, f)
	for _, n := range []int{1, 2} {
		st := after(put("a", n))
		st.Lineage, st.Serial = fmt.Sprint("l", n), 7
		ok(t, s.Replace(t.Context(), ws, "", st, journal.Because("push")))
	}
	got := must(s.LoadVersion(t.Context(), ws, 7))
	is(t, got.Lineage, "l2")
	sameContent(t, got, after(put("a", 2)))
	versions := must(s.Versions(t.Context(), ws))
	is(t, len(versions), 2)
	for i, v := range versions {
		sameContent(t, must(s.LoadExactly(t.Context(), ws, v)), after(put("a", 2-i)))
		v.At = v.At.Add(1)
		_, err := s.LoadExactly(t.Context(), ws, v)
		isError(t, err, journal.ErrVersion)
	}
	is(t, len(must(s.Versions(t.Context(), ws))), 2)
}

func loadedIsTheCallers(t *testing.T, f Fixture) {
	s := open(t, f)
	commit(t, s, journal.Commit{Changes: put("a", 1), EndVersion: true})
	must(s.Load(t.Context(), ws)).Apply(remove("a")...)
	must(s.LoadVersion(t.Context(), ws, 1)).Apply(remove("a")...)
	sameContent(t, must(s.Load(t.Context(), ws)), after(put("a", 1)))
	sameContent(t, must(s.LoadVersion(t.Context(), ws, 1)), after(put("a", 1)))
}

func lockKeepsOut(t *testing.T, f Fixture) {
	s := open(t, f)
	mine := journal.LockInfo{ID: "1", Who: "me@here", Operation: "apply", Created: now(1)}
	ok(t, s.Lock(t.Context(), ws, mine))
	is(t, *must(s.Locked(t.Context(), ws)), mine)
	var held *journal.Held
	if err := s.Lock(t.Context(), ws, journal.LockInfo{ID: "2"}); !errors.As(err, &held) || held.Holder != mine {
		t.Errorf("the second lock: %v", err)
	}
	isError(t, s.Unlock(t.Context(), ws, "2"), journal.ErrLockID)
	isError(t, s.Commit(t.Context(), journal.Commit{Workspace: ws, Changes: put("a", 1)}), journal.ErrFenced)
	isError(t, s.Commit(t.Context(), journal.Commit{Workspace: ws, Fence: "2", Changes: put("a", 1)}),
		journal.ErrFenced)
	isError(t, s.Replace(t.Context(), ws, "2", state.Empty(), journal.Cause{}), journal.ErrFenced)
	ok(t, s.Commit(t.Context(), journal.Commit{Workspace: ws, Fence: "1", Changes: put("a", 2)}))
	sameContent(t, must(s.Load(t.Context(), ws)), after(put("a", 2)))

	ok(t, s.CreateWorkspace(t.Context(), "other"))
	ok(t, s.Lock(t.Context(), "other", journal.LockInfo{ID: "2"}))
	if err := s.DeleteWorkspace(t.Context(), "other"); !errors.As(err, &held) {
		t.Errorf("deleting a locked workspace: %v", err)
	}
	ok(t, s.Unlock(t.Context(), ws, "1"))
	is(t, must(s.Locked(t.Context(), ws)), nil)
	ok(t, s.Lock(t.Context(), ws, journal.LockInfo{ID: "3"}))
}

func lostLockIsFenced(t *testing.T, f Fixture) {
	s := open(t, f)
	beginRun(t, s, "r")
	ok(t, s.Lock(t.Context(), ws, journal.LockInfo{ID: "1"}))
	ok(t, s.Unlock(t.Context(), ws, "1")) // by force
	tx := journal.Commit{Workspace: ws, Fence: "1", Changes: put("a", 1), Run: "r",
		Events: []journal.Event{{Kind: journal.Want}}, End: &journal.Ending{Status: "done", At: now(1)}}
	isError(t, s.Commit(t.Context(), tx), journal.ErrFenced)
	ok(t, s.Lock(t.Context(), ws, journal.LockInfo{ID: "2"}))
	isError(t, s.Commit(t.Context(), tx), journal.ErrFenced)
	isError(t, s.BeginRun(t.Context(), "1", journal.Run{ID: "late", Workspace: ws}, nil), journal.ErrFenced)
	isError(t, s.EndRun(t.Context(), "1", "r", "cancelled", now(1)), journal.ErrFenced)
	is(t, len(must(s.Runs(t.Context(), ws))), 1)
	is(t, must(s.Load(t.Context(), ws)).IsEmpty(), true)
	is(t, len(must(s.Events(t.Context(), "r"))), 0)
}

func lockDiesWithProcess(t *testing.T, f Fixture) {
	s := open(t, f)
	ok(t, s.Lock(t.Context(), ws, journal.LockInfo{ID: "1"}))
	s = f.Crash(s)
	closeLater(t, s)
	is(t, must(s.Locked(t.Context(), ws)), nil)
	isError(t, s.Commit(t.Context(), journal.Commit{Workspace: ws, Fence: "1", Changes: put("a", 1)}),
		journal.ErrFenced)
	isError(t, s.Unlock(t.Context(), ws, "1"), journal.ErrLockID)
	ok(t, s.Lock(t.Context(), ws, journal.LockInfo{ID: "2"}))
	ok(t, s.Commit(t.Context(), journal.Commit{Workspace: ws, Fence: "2", Changes: put("a", 1)}))
}

func workspacesAreApart(t *testing.T, f Fixture) {
	s := open(t, f)
	ok(t, s.CreateWorkspace(t.Context(), "stage"))
	ok(t, s.CreateWorkspace(t.Context(), "a"))
	is(t, must(s.Workspaces(t.Context())), []string{"a", ws, "stage"})
	isError(t, s.CreateWorkspace(t.Context(), "a"), journal.ErrWorkspaceExists)
	isError(t, s.CreateWorkspace(t.Context(), ws), journal.ErrWorkspaceExists)
	ok(t, s.Commit(t.Context(), journal.Commit{Workspace: "stage", Changes: put("a", 1), EndVersion: true}))
	ok(t, s.SetMark(t.Context(), "stage", journal.SnapshotMark{Lineage: "l"}))
	is(t, must(s.Load(t.Context(), ws)).IsEmpty(), true)
	sameContent(t, must(s.Load(t.Context(), "stage")), after(put("a", 1)))
	ok(t, s.BeginRun(t.Context(), "", journal.Run{ID: "r", Workspace: "stage", Status: "running"}, nil))
	is(t, len(must(s.Runs(t.Context(), ws))), 0)

	ok(t, s.DeleteWorkspace(t.Context(), "stage"))
	isError(t, s.DeleteWorkspace(t.Context(), ws), journal.ErrDefaultWorkspace)
	s = f.Crash(s)
	closeLater(t, s)
	is(t, must(s.Workspaces(t.Context())), []string{"a", ws})
	_, err := s.Events(t.Context(), "r")
	isError(t, err, journal.ErrNoRun)
	ok(t, s.CreateWorkspace(t.Context(), "stage"))
	is(t, must(s.Load(t.Context(), "stage")).IsEmpty(), true)
	is(t, len(must(s.Versions(t.Context(), "stage"))), 0)
	is(t, must(s.Mark(t.Context(), "stage")), journal.SnapshotMark{})
}

func noWorkspace(t *testing.T, f Fixture) {
	s := open(t, f)
	ctx := t.Context()
	for method, call := range map[string]func() error{
		"Load":            func() error { _, err := s.Load(ctx, "x"); return err },
		"LoadVersion":     func() error { _, err := s.LoadVersion(ctx, "x", 1); return err },
		"Versions":        func() error { _, err := s.Versions(ctx, "x"); return err },
		"Commit":          func() error { return s.Commit(ctx, journal.Commit{Workspace: "x"}) },
		"Replace":         func() error { return s.Replace(ctx, "x", "", state.Empty(), journal.Cause{}) },
		"Lock":            func() error { return s.Lock(ctx, "x", journal.LockInfo{}) },
		"Unlock":          func() error { return s.Unlock(ctx, "x", "1") },
		"Locked":          func() error { _, err := s.Locked(ctx, "x"); return err },
		"Mark":            func() error { _, err := s.Mark(ctx, "x"); return err },
		"SetMark":         func() error { return s.SetMark(ctx, "x", journal.SnapshotMark{}) },
		"BeginRun":        func() error { return s.BeginRun(ctx, "", journal.Run{ID: "r", Workspace: "x"}, nil) },
		"Runs":            func() error { _, err := s.Runs(ctx, "x"); return err },
		"DeleteWorkspace": func() error { return s.DeleteWorkspace(ctx, "x") },
	} {
		if err := call(); !errors.Is(err, journal.ErrNoWorkspace) {
			t.Errorf("%s: %v", method, err)
		}
	}
}

func concurrentCommits(t *testing.T, f Fixture) {
	s := open(t, f)
	beginRun(t, s, "r")
	const writers, each = 8, 25
	var group sync.WaitGroup
	for g := range writers {
		group.Go(func() {
			for i := range each {
				err := s.Commit(context.Background(), journal.Commit{
					Workspace: ws,
					Changes:   put(fmt.Sprint("g", g), i), Run: "r",
					Events: []journal.Event{{Kind: journal.Want, Vertex: g, Phase: i}},
				})
				if err != nil {
					t.Error(err)
				}
				// A failed one does not affect others.
				if err := s.Commit(context.Background(), journal.Commit{Workspace: ws, Fence: "nobody's",
					Changes: put("bad", i)}); !errors.Is(err, journal.ErrFenced) {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	s = f.Crash(s)
	closeLater(t, s)
	var changes []state.Change
	for g := range writers {
		changes = append(changes, put(fmt.Sprint("g", g), each-1)...)
	}
	sameContent(t, must(s.Load(t.Context(), ws)), after(changes))
	phases := map[int][]int{}
	for _, e := range must(s.Events(t.Context(), "r")) {
		phases[e.Vertex] = append(phases[e.Vertex], e.Phase)
	}
	for g := range writers {
		if len(phases[g]) != each || !slices.IsSorted(phases[g]) {
			t.Errorf("goroutine %d's events are %v", g, phases[g])
		}
	}
}

func marksAndValues(t *testing.T, f Fixture) {
	s := open(t, f)
	mark := journal.SnapshotMark{Lineage: "l", Serial: 3, SHA256: "00"}
	ok(t, s.SetMark(t.Context(), ws, mark))
	ok(t, s.PutValue(t.Context(), "schemas", "aws", []byte{1, 2}))
	ok(t, s.PutValue(t.Context(), "schemas", "aws", []byte{3}))
	ok(t, s.PutHint(t.Context(), "schemas", "time", []byte{4}))
	is(t, must(s.GetValue(t.Context(), "schemas", "time")), []byte{4})
	ok(t, s.PutValue(t.Context(), "marks", "aws", []byte{}))
	s = f.Crash(s)
	closeLater(t, s)
	is(t, must(s.Mark(t.Context(), ws)), mark)
	is(t, must(s.GetValue(t.Context(), "schemas", "aws")), []byte{3})
	is(t, must(s.GetValue(t.Context(), "schemas", "time")), []byte{4})
	is(t, must(s.GetValue(t.Context(), "marks", "aws")) != nil, true)
	is(t, must(s.GetValue(t.Context(), "schemas", "x")) == nil, true)
	is(t, must(s.GetValue(t.Context(), "x", "x")) == nil, true)
}

func cancelled(t *testing.T, f Fixture) {
	s := open(t, f)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	isError(t, s.Commit(ctx, journal.Commit{Workspace: ws, Changes: put("a", 1)}), context.Canceled)
	_, err := s.Load(ctx, ws)
	isError(t, err, context.Canceled)
	is(t, must(s.Load(t.Context(), ws)).IsEmpty(), true)
}

func closedRefuses(t *testing.T, f Fixture) {
	s := open(t, f)
	ok(t, s.Close())
	ok(t, s.Close())
	isError(t, s.Commit(t.Context(), journal.Commit{Workspace: ws, Changes: put("a", 1)}), journal.ErrClosed)
	_, err := s.Load(t.Context(), ws)
	isError(t, err, journal.ErrClosed)
	is(t, must(open(t, f).Load(t.Context(), ws)).IsEmpty(), true)
}

// open opens the fixture's store until the end of the test.
func open(t *testing.T, f Fixture) journal.Store {
	t.Helper()
	s := f.Open()
	closeLater(t, s)
	return s
}

func closeLater(t *testing.T, s journal.Store) {
	t.Cleanup(func() { ok(t, s.Close()) })
}

func now(seconds int) time.Time { return time.Date(2026, 1, 2, 3, 4, seconds, 0, time.UTC) }

var provider = addr.ProviderConfig{Provider: addr.DefaultProvider("test")}.Instance(addr.RootInstance, addr.NoKey)

// put returns the changes that create a small object with this number in it.
func put(name string, n int) []state.Change {
	return []state.Change{state.SetObject{
		Addr: instance(name), Provider: provider,
		Object: &state.Object{Status: state.Ready, Attrs: fmt.Appendf(nil, `{"n":%d}`, n)},
	}}
}

func remove(name string) []state.Change { return []state.Change{state.SetObject{Addr: instance(name)}} }

func instance(name string) addr.Instance {
	return addr.Resource{Mode: addr.Managed, Type: "test_thing", Name: name}.Absolute(
		addr.RootInstance).Instance(addr.NoKey)
}

func after(changes []state.Change) *state.State {
	s := state.Empty()
	s.Apply(changes...)
	return s
}

func commit(t *testing.T, s journal.Store, tx journal.Commit) {
	t.Helper()
	tx.Workspace = ws
	ok(t, s.Commit(t.Context(), tx))
}

func sameContent(t *testing.T, got, want *state.State) {
	t.Helper()
	if got.SameContent(want) {
		return
	}
	for _, a := range want.Addrs() {
		if i, j := got.Instance(a), want.Instance(a); i == nil || !i.Current.Equal(j.Current) {
			t.Fatalf("%s is %+v, want %+v", a, i, j)
		}
	}
	for _, a := range got.Addrs() {
		if want.Instance(a) == nil {
			t.Fatalf("%s should not be there", a)
		}
	}
	for name, o := range want.Outputs {
		if p := got.Outputs[name]; p == nil || p.Value == cty.NilVal || !p.Value.RawEquals(o.Value) {
			t.Fatalf("output %s is %#v, want %#v", name, p, o)
		}
	}
	t.Fatalf("the states differ:\n%+v\n%+v", got, want)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // the test fails with the stack
	}
	return v
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func isError(t *testing.T, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("the error is %v, want %v", got, want)
	}
}

func is(t *testing.T, got, want any) {
	t.Helper()
	if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
		t.Errorf("got %s, want %s", g, w)
	}
}
