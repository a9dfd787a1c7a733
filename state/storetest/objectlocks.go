package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/locks"
)

// writing returns a set that locks instances, with their resources, for writing.
func writing(names ...string) locks.Set {
	set := locks.Set{}
	for _, name := range names {
		at := instance(name)
		set.Add(locks.Instance(at.String()), locks.Write)
		set.Add(locks.Resource(at.Abs().String()), locks.Write)
	}
	return set
}

func askFor(t *testing.T, s journal.Store, id string, set locks.Set) {
	t.Helper()
	ok(t, s.AskLocks(t.Context(), ws, locks.Request{ID: id, Who: "who of " + id, At: now(1), Set: set}))
}

// isGranted reports whether a request is granted: then an empty commit under it succeeds.
func isGranted(t *testing.T, s journal.Store, id string) bool {
	t.Helper()
	err := s.Commit(t.Context(), journal.Commit{Workspace: ws, Fence: id,
		Changes: []state.Change{state.SetOutput{Name: "not there"}}})
	if err != nil && !errors.Is(err, journal.ErrFenced) {
		t.Error(err)
	}
	return err == nil
}

func objectsAreLocked(t *testing.T, f Fixture) {
	s := open(t, f)
	askFor(t, s, "1", writing("a"))
	askFor(t, s, "2", writing("a", "b"))
	askFor(t, s, "3", writing("b"))
	askFor(t, s, "4", writing("c"))
	askFor(t, s, "2", writing("a", "b")) // repeated: it keeps its place
	granted := func() (out []string) {
		for _, id := range []string{"1", "2", "3", "4"} {
			if isGranted(t, s, id) {
				out = append(out, id)
			}
		}
		return out
	}
	is(t, granted(), []string{"1", "4"})
	s = f.Crash(s)
	closeLater(t, s)
	is(t, granted(), []string{"1", "4"})
	why := must(s.LockBlockers(t.Context(), ws, "3", 5))
	is(t, len(why), 2)
	is(t, why[0].By.ID+" "+why[0].By.Who, "2 who of 2")
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	isError(t, s.AwaitLocks(short, ws, "2"), context.DeadlineExceeded)
	ok(t, s.LeaveLocks(t.Context(), ws, "1"))
	ok(t, s.AwaitLocks(t.Context(), ws, "2"))
	is(t, granted(), []string{"2", "4"})
	ok(t, s.LeaveLocks(t.Context(), ws, "2"))
	ok(t, s.LeaveLocks(t.Context(), ws, "2")) // nothing remains of it
	is(t, granted(), []string{"3", "4"})
	isError(t, s.AwaitLocks(t.Context(), ws, "2"), locks.ErrUnknown)
	// With another set it moves to the end.
	askFor(t, s, "5", writing("b"))
	askFor(t, s, "3", writing("b", "d"))
	is(t, isGranted(t, s, "5"), true)
	is(t, isGranted(t, s, "3"), false)
	var ids []string
	for _, r := range must(s.LockRequests(t.Context(), ws)) {
		ids = append(ids, r.ID)
	}
	is(t, ids, []string{"4", "5", "3"})
}

func unlockedIsFenced(t *testing.T, f Fixture) {
	s := open(t, f)
	commit(t, s, journal.Commit{Changes: append(put("b", 1), put("other", 1)...), EndVersion: true})
	set := writing("a")
	at := instance("b")
	set.Add(locks.Instance(at.String()), locks.Write) // but not its resource
	set.Add(locks.Output("o"), locks.Read)
	askFor(t, s, "1", set)
	refused := func(changes ...state.Change) {
		t.Helper()
		tx := journal.Commit{Workspace: ws, Fence: "1", Changes: append(put("a", 9), changes...), EndVersion: true}
		isError(t, s.Commit(t.Context(), tx), journal.ErrFenced)
	}
	refused(put("other", 2)...)
	refused(state.SetObject{Addr: instance("other")})
	refused(state.SetObject{Addr: at}) // its resource would be removed with it
	refused(state.MoveInstance{From: at, To: instance("c")})
	refused(state.SetOutput{Name: "o", Output: newWorld(3).output()})
	refused(state.SetChecks{Checks: []state.CheckResult{{Config: "check.c"}}})
	refused(state.MergeChecks{Owned: []string{"check.c"}})
	isError(t, s.Commit(t.Context(), journal.Commit{Workspace: ws, Changes: put("c", 1)}), journal.ErrFenced)
	isError(t, s.Commit(t.Context(), journal.Commit{Workspace: ws, Fence: "2", Changes: put("c", 1)}),
		journal.ErrFenced)
	isError(t, s.Replace(t.Context(), ws, "1", state.Empty(), journal.Because("push")), journal.ErrFenced)
	merge := []state.Change{state.MergeChecks{}}
	isError(t, s.Commit(t.Context(), journal.Commit{Workspace: ws, Fence: "1", Changes: merge}),
		journal.ErrFenced) // it does not end
	st := must(s.Load(t.Context(), ws))
	is(t, len(st.Addrs()), 2)
	// A change without effect needs no lock; a locked object may be changed.
	ok(t, s.Commit(t.Context(), journal.Commit{Workspace: ws, Fence: "1", Changes: slices.Concat(put("a", 9), put("b",
		2), put("other", 1))}))
	sameContent(t, must(s.LoadEnded(t.Context(), ws)), st)
}

func wholeOrObjects(t *testing.T, f Fixture) {
	s := open(t, f)
	commit(t, s, journal.Commit{Changes: put("left", 1)}) // by an interrupted run
	askFor(t, s, "1", writing("a"))
	is(t, must(s.Versions(t.Context(), ws))[0].Cause, "interrupted")
	var held *journal.Held
	if err := s.Lock(t.Context(), ws, journal.LockInfo{ID: "whole"}); !errors.As(err, &held) {
		t.Errorf("it was locked as a whole: %v", err)
	} else {
		is(t, held.Holder.Who, "who of 1")
	}
	ok(t, s.Commit(t.Context(), journal.Commit{Workspace: ws, EndUnfinished: true})) // no version is in progress
	ok(t, s.LeaveLocks(t.Context(), ws, "1"))
	ok(t, s.Lock(t.Context(), ws, journal.LockInfo{ID: "whole"}))
	err := s.AskLocks(t.Context(), ws, locks.Request{ID: "2", Set: writing("a")})
	if !errors.As(err, &held) {
		t.Errorf("objects were locked: %v", err)
	}
	ok(t, s.Unlock(t.Context(), ws, "whole"))
	askFor(t, s, "2", writing("a"))
	ok(t, s.LeaveLocks(t.Context(), ws, "2"))
	is(t, len(must(s.LockRequests(t.Context(), ws))), 0)
}

// part is a run that changes a part of the state: its own objects in the model.
type part struct {
	id    string
	asked bool
	runs  int
	noted []state.Change
}

// interleaved lets several runs change independent parts of a state, in any order, and compares with a model in
// which each makes all its changes at its end.
func interleaved(t *testing.T, f Fixture) {
	const parts = 3
	for seed := range uint64(4) {
		name := fmt.Sprint("w", seed)
		s := open(t, f)
		ok(t, s.CreateWorkspace(t.Context(), name))
		w := newWorld(100 + seed)
		now := state.Empty()
		versions := []*state.State{state.Empty()}
		made := []journal.VersionInfo{{}}
		whose := func(text string) int {
			sum := 0
			for _, b := range []byte(text) {
				sum += int(b)
			}
			return sum % parts
		}
		all := make([]part, parts)
		for range 120 {
			n := w.rnd.IntN(parts)
			p := &all[n]
			switch {
			case !p.asked:
				p.runs++
				p.id, p.asked, p.noted = fmt.Sprint("part", n, "-", p.runs), true, nil
				ok(t, s.AskLocks(t.Context(), name, locks.Request{ID: p.id, Who: "w" + p.id, At: nowAt, Set: ownSet(n, whose)}))
				ok(t, s.BeginRun(t.Context(), p.id, journal.Run{ID: name + p.id, Workspace: name, Command: "apply",
					Status: journal.Running}, nil))
			case w.rnd.IntN(6) == 0:
				last := versions[len(versions)-1]
				end := state.MergeChecks{Checks: w.checks(), Owned: []string{fmt.Sprint("check.c", n)}}
				now.Apply(end)
				after := last.Clone()
				after.Apply(append(p.noted, end)...)
				ok(t, s.Commit(t.Context(), journal.Commit{Workspace: name, Fence: p.id, Changes: []state.Change{end},
					Run:        name + p.id,
					EndVersion: true}))
				if !after.SameContent(last) || len(versions) == 1 {
					versions = append(versions, after)
					made = append(made, journal.VersionInfo{Serial: uint64(len(made)), Cause: "apply", Run: name + p.id,
						Who: "w" + p.id})
				}
				ok(t, s.EndRun(t.Context(), p.id, name+p.id, "done", nowAt))
				ok(t, s.LeaveLocks(t.Context(), name, p.id))
				p.asked = false
			default:
				c := w.changeOf(now, func(o string) bool { return whose(o) == n })
				now.Apply(c)
				p.noted = append(p.noted, c)
				ok(t, s.Commit(t.Context(), journal.Commit{Workspace: name, Fence: p.id, Changes: []state.Change{c},
					Run: name + p.id}))
			}
			if w.rnd.IntN(4) == 0 { // each load uses the cache of earlier ones
				sameContent(t, must(s.LoadEnded(t.Context(), name)), versions[len(versions)-1])
				sameContent(t, must(s.Load(t.Context(), name)), now)
			}
			if w.rnd.IntN(30) == 0 {
				s = f.Crash(s)
				closeLater(t, s)
			}
		}
		sameContent(t, must(s.Load(t.Context(), name)), now)
		sameContent(t, must(s.LoadEnded(t.Context(), name)), versions[len(versions)-1])
		infos := must(s.Versions(t.Context(), name))
		is(t, len(infos), len(versions)-1)
		for i, info := range infos {
			want := made[len(made)-1-i]
			is(t, fmt.Sprint(info.Serial, info.Cause, info.Run, info.Who), fmt.Sprint(want.Serial, want.Cause, want.Run,
				want.Who))
		}
		for n, then := range versions[1:] {
			sameContent(t, must(s.LoadVersion(t.Context(), name, uint64(n+1))), then)
		}
		making := map[string]string{} // the objects being changed, with their runs
		last := versions[len(versions)-1]
		for _, p := range all {
			mine := last.Clone()
			if p.asked {
				mine.Apply(p.noted...)
			}
			for _, d := range state.Differences(last, mine) {
				making[toldOf(d)] = p.id
			}
		}
		for n, then := range versions {
			var want, got []string
			for _, d := range state.Differences(then, now) {
				j := journal.Difference{Difference: d}
				for i := len(versions) - 1; i > n && j.By.Serial == 0; i-- {
					if changedBetween(versions[i-1], versions[i], d) {
						j.By = made[i]
					}
				}
				if id := making[toldOf(d)]; id != "" {
					j.By = journal.VersionInfo{Run: name + id, Who: "w" + id}
				}
				want = append(want, told(j))
			}
			lineage := ""
			if n > 0 {
				lineage = infos[0].Lineage
			}
			for _, d := range must(s.Since(t.Context(), name, lineage, uint64(n))) {
				if !d.Back {
					got = append(got, told(d))
				}
			}
			is(t, got, want)
		}
		ok(t, s.Close())
	}
}

var nowAt = now(1)

func toldOf(d state.Difference) string { return told(journal.Difference{Difference: d}) }

// ownSet returns a set that locks a part: resources by their addresses, outputs by their names, and one check.
func ownSet(n int, whose func(string) int) locks.Set {
	set := locks.Set{}
	set.Add(locks.Check(fmt.Sprint("check.c", n)), locks.Write)
	for _, name := range names {
		if whose(name) == n {
			set.Add(locks.Output(name), locks.Write)
		}
	}
	w := newWorld(0)
	for range 3000 { // more than enough for each address that there can be
		a := w.instance()
		if whose(a.Abs().String()) == n {
			set.Add(locks.Instance(a.String()), locks.Write)
			set.Add(locks.Resource(a.Abs().String()), locks.Write)
		}
	}
	return set
}

// changeOf makes a change within a part.
func (w world) changeOf(s *state.State, own func(string) bool) state.Change {
	for {
		c := w.change(s)
		switch c := c.(type) {
		case state.SetOutput:
			if own(c.Name) {
				return c
			}
		case state.SetObject:
			if own(c.Addr.Abs().String()) {
				return c
			}
		case state.MoveInstance:
			if own(c.From.Abs().String()) && own(c.To.Abs().String()) {
				return c
			}
		}
	}
}

func leftIsAVersion(t *testing.T, f Fixture) {
	s := open(t, f)
	askFor(t, s, "1", writing("a"))
	askFor(t, s, "2", writing("b"))
	ok(t, s.BeginRun(t.Context(), "1", journal.Run{ID: "run", Workspace: ws, Status: journal.Running}, nil))
	ok(t, s.Commit(t.Context(), journal.Commit{Workspace: ws, Fence: "1", Changes: put("a", 1)}))
	ok(t, s.Commit(t.Context(), journal.Commit{Workspace: ws, Fence: "2", Changes: put("b", 1), EndVersion: true,
		Cause: "apply"}))
	s = f.Crash(s)
	closeLater(t, s)
	is(t, must(s.LockRequests(t.Context(), ws))[0].Run, "run")
	ok(t, s.LeaveLocks(t.Context(), ws, "1"))
	list := must(s.Versions(t.Context(), ws))
	is(t, len(list), 2)
	is(t, list[0].Cause+" "+list[0].Run+" "+list[0].Who, "interrupted run who of 1")
	is(t, len(must(s.LoadVersion(t.Context(), ws, 1)).Addrs()), 1)
	is(t, len(must(s.LoadVersion(t.Context(), ws, 2)).Addrs()), 2)
	// A command that records the outcome of a run has its own request, and the version is that run's. The store in
	// memory recorded the run of the request, which had none.
	askFor(t, s, "3", writing("c"))
	tx := journal.Commit{Workspace: ws, Fence: "3", Changes: put("c", 1), Run: "run", EndVersion: true,
		Cause: "resolve"}
	ok(t, s.Commit(t.Context(), tx))
	last := must(s.Versions(t.Context(), ws))[0]
	is(t, last.Cause+" "+last.Run+" "+last.Who, "resolve run who of 3")
}
