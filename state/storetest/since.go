package storetest

import (
	"fmt"
	"testing"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
)

// told formats a difference: the subject, then its last change.
func told(d journal.Difference) string {
	what := d.Instance.String()
	switch {
	case d.Checks:
		what = "the checks"
	case d.Output != "":
		what = "output " + d.Output
	}
	return fmt.Sprintf("%s by %d %q %q %q", what, d.By.Serial, d.By.Cause, d.By.Run, d.By.Who)
}

func sinceTells(t *testing.T, f Fixture) {
	s := open(t, f)
	w := newWorld(7)
	model := state.Empty()
	versions := []*state.State{state.Empty()}
	lineage := ""
	var made []journal.VersionInfo
	for n := range 10 {
		info := journal.LockInfo{ID: fmt.Sprint("l", n), Who: fmt.Sprint("user", n)}
		ok(t, s.Lock(t.Context(), ws, info))
		run := journal.Run{ID: fmt.Sprint("run", n), Workspace: ws, Command: "apply", Started: now(n), Status: "running"}
		ok(t, s.BeginRun(t.Context(), info.ID, run, nil))
		changes := w.changes(model, 5)
		ok(t, s.Commit(t.Context(), journal.Commit{Workspace: ws, Fence: info.ID, Changes: changes[:2], Run: run.ID}))
		ok(t, s.Commit(t.Context(), journal.Commit{Workspace: ws, Fence: info.ID, Changes: changes[2:], Run: run.ID,
			EndVersion: true}))
		ok(t, s.EndRun(t.Context(), info.ID, run.ID, "done", now(n)))
		ok(t, s.Unlock(t.Context(), ws, info.ID))
		model.Apply(changes...)
		list := must(s.Versions(t.Context(), ws))
		if len(list) == len(versions) {
			versions = append(versions, model.Clone())
			made = append(made, list[0])
			lineage = list[0].Lineage
			is(t, list[0].Run+list[0].Who, run.ID+info.Who)
		}
	}
	// One change belongs to the version in progress.
	commit(t, s, journal.Commit{Changes: put("making", 1)})
	model.Apply(put("making", 1)...)
	s = f.Crash(s)
	closeLater(t, s)
	for n, then := range versions {
		var want []string
		for _, d := range state.Differences(then, model) {
			j := journal.Difference{Difference: d}
			for i := len(versions) - 1; i > n; i-- {
				if changedBetween(versions[i-1], versions[i], d) {
					j.By = made[i-1]
					break
				}
			}
			if changedBetween(versions[len(versions)-1], model, d) {
				j.By = journal.VersionInfo{}
			}
			want = append(want, told(j))
		}
		of := lineage
		if n == 0 {
			of = ""
		}
		var got []string
		for _, d := range must(s.Since(t.Context(), ws, of, uint64(n))) {
			if !d.Back {
				got = append(got, told(d))
			}
			if d.Output != "" || d.Checks {
				continue
			}
			if !d.Then.Same(then.Instance(d.Instance)) || !d.Now.Same(model.Instance(d.Instance)) ||
				d.Then != nil && d.ThenBy != then.ProviderOf(d.Instance) ||
				d.Now != nil && d.NowBy != model.ProviderOf(d.Instance) {
				t.Errorf("since %d %s is told to be %+v, %+v", n, d.Instance, d.Then, d.Now)
			}
		}
		is(t, got, want)
	}
}

// changedBetween reports whether two states differ in the subject of a difference.
func changedBetween(then, now *state.State, in state.Difference) bool {
	for _, d := range state.Differences(then, now) {
		if d.Instance == in.Instance && d.Output == in.Output && d.Checks == in.Checks {
			return true
		}
	}
	return false
}

// sinceTellsWhatCameBack: instances that were changed and changed back were not reported, so a plan was applied that
// had read the object in between.
func sinceTellsWhatCameBack(t *testing.T, f Fixture) {
	s := open(t, f)
	commit(t, s, journal.Commit{Changes: append(put("a", 1), put("b", 1)...), EndVersion: true})
	lineage := must(s.Load(t.Context(), ws)).Lineage
	commit(t, s, journal.Commit{Changes: append(put("a", 2), put("b", 2)...), EndVersion: true})
	commit(t, s, journal.Commit{Changes: put("a", 1), EndVersion: true})
	// Also within one version, if that changes anything else.
	for _, n := range []int{2, 1} {
		commit(t, s, journal.Commit{Changes: append(put("a", 1), put("c", n)...)})
		commit(t, s, journal.Commit{Changes: put("b", n)})
	}
	commit(t, s, journal.Commit{Changes: put("b", 2), EndVersion: true})
	var got []string
	for serial := range uint64(4) {
		for _, d := range must(s.Since(t.Context(), ws, lineage, serial+1)) {
			got = append(got, fmt.Sprintf("%d: %s, back: %v", serial+1, told(d), d.Back))
		}
	}
	is(t, got, []string{
		`1: test_thing.a by 3 "" "" "", back: true`, `1: test_thing.b by 2 "" "" "", back: false`,
		`1: test_thing.c by 4 "" "" "", back: false`, `2: test_thing.a by 3 "" "" "", back: false`,
		`2: test_thing.b by 4 "" "" "", back: true`, `2: test_thing.c by 4 "" "" "", back: false`,
		`3: test_thing.b by 4 "" "" "", back: true`, `3: test_thing.c by 4 "" "" "", back: false`,
	})
}

func sinceProvider(t *testing.T, f Fixture) {
	s := open(t, f)
	at := func(k addr.Key) addr.Instance { return instance("a").Abs().Instance(k) }
	set := func(k addr.Key, p addr.ProviderInstance) state.Change {
		return state.SetObject{Addr: at(k), Provider: p, Object: &state.Object{Status: state.Ready, Attrs: []byte("{}")}}
	}
	ab := append(put("ab", 1), set(addr.IntKey(0), provider), set(addr.IntKey(1), provider))
	commit(t, s, journal.Commit{Changes: ab, EndVersion: true})
	lineage := must(s.Load(t.Context(), ws)).Lineage
	west := provider
	west.Alias = "west"
	// Setting the provider of one instance sets that of its resource.
	commit(t, s, journal.Commit{Changes: []state.Change{set(addr.IntKey(0), west)}, EndVersion: true})
	list := must(s.Since(t.Context(), ws, lineage, 1))
	is(t, len(list), 2)
	for i, d := range list {
		is(t, d.Instance, at(addr.IntKey(i)))
		is(t, d.ThenBy.Alias+"-"+d.NowBy.Alias, "-west")
		is(t, d.By.Serial, 2)
	}
}

func sinceUnknown(t *testing.T, f Fixture) {
	s := open(t, f)
	commit(t, s, journal.Commit{Changes: put("a", 1), EndVersion: true})
	st := must(s.Load(t.Context(), ws))
	_, err := s.Since(t.Context(), ws, st.Lineage, 7)
	isError(t, err, journal.ErrVersion)
	_, err = s.Since(t.Context(), ws, "another", 1)
	isError(t, err, journal.ErrVersion)
	// A pushed state may have an earlier serial.
	ok(t, s.Replace(t.Context(), ws, "", st, journal.Because("state push")))
	_, err = s.Since(t.Context(), ws, st.Lineage, 1)
	isError(t, err, journal.ErrVersion)
	_, err = s.Since(t.Context(), "nowhere", "", 0)
	isError(t, err, journal.ErrNoWorkspace)
}
