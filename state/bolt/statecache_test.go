package bolt

import (
	"fmt"
	"testing"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/locks"
	"github.com/millipede-iac/millipede/state/recorded"
)

// things is a store without syncs, with objects.
type things struct {
	*Store
	t *testing.T
}

func newThings(t *testing.T) things {
	t.Helper()
	s, err := OpenOptions(t.TempDir()+"/state.db", journal.LockInfo{}, 0, Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return things{s, t}
}

func thing(n int) addr.Instance {
	return addr.Resource{Mode: addr.Managed, Type: "t", Name: fmt.Sprint("n", n)}.Absolute(addr.RootInstance).
		Instance(addr.NoKey)
}

func set(n int, text string) state.Change {
	return state.SetObject{Addr: thing(n), Provider: addr.ProviderInstance{Provider: addr.DefaultProvider("t")},
		Object: &state.Object{Status: state.Ready, Attrs: []byte(text)}}
}

func (s things) commit(lock string, ends bool, changes ...state.Change) {
	s.t.Helper()
	if err := s.Commit(s.t.Context(), journal.Commit{Workspace: journal.DefaultWorkspace, Fence: lock, Changes: changes,
		EndVersion: ends}); err != nil {
		s.t.Fatal(err)
	}
}

// text returns the content of an object in a state; empty if there is none.
func text(st *state.State, n int) string {
	if o := st.Object(thing(n), state.CurrentObject); o != nil {
		return string(o.Attrs)
	}
	return ""
}

// Each run decoded the whole state a dozen times, even if it changed little: eight runs on one large state took four
// times as long as one. The test damages unchanged content: it may not be decoded again.
func TestAStateIsDecodedOnceAndThenWhatHasChanged(t *testing.T) {
	s := newThings(t)
	s.commit("", true, set(1, "{}"), set(2, "{}"), set(3, "{}"), set(4, "{}"))
	load := func(how func() (*state.State, error)) *state.State {
		t.Helper()
		st, err := how()
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	now := func() (*state.State, error) { return s.Load(t.Context(), journal.DefaultWorkspace) }
	ended := func() (*state.State, error) { return s.LoadEnded(t.Context(), journal.DefaultWorkspace) }
	version := func(serial uint64) func() (*state.State, error) {
		return func() (*state.State, error) { return s.LoadVersion(t.Context(), journal.DefaultWorkspace, serial) }
	}
	load(ended)
	if err := s.update(func(tx *recorded.Tx) error {
		data := tx.Bucket(workspacesBucket).Bucket([]byte(journal.DefaultWorkspace)).Bucket(dataBucket)
		return data.Put(keyOf(instanceKind, "t.n4"), []byte("no record"))
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.AskLocks(t.Context(), journal.DefaultWorkspace, locks.Request{ID: "1",
		Set: locks.Set{locks.All: locks.Write}}); err != nil {
		t.Fatal(err)
	}
	s.commit("1", false, set(1, `{"a":1}`))
	if st := load(now); text(st, 1) != `{"a":1}` || text(st, 2) != "{}" {
		t.Errorf("the objects are %s and %s", text(st, 1), text(st, 2))
	}
	if st := load(ended); text(st, 1) != "{}" || st.Serial != 1 {
		t.Errorf("the version %d has %s", st.Serial, text(st, 1))
	}
	s.commit("1", true, state.SetObject{Addr: thing(2)})
	for _, how := range []func() (*state.State, error){now, ended, version(2)} {
		if st := load(how); text(st, 1) != `{"a":1}` || text(st, 2) != "" || st.Serial != 2 || len(st.Resources) != 3 {
			t.Errorf("the objects are %s and %s, with the serial %d", text(st, 1), text(st, 2), st.Serial)
		}
	}
	if st := load(version(1)); text(st, 1) != "{}" || text(st, 2) != "{}" || st.Serial != 1 || len(st.Resources) != 4 {
		t.Errorf("the former objects are %s and %s, with the serial %d", text(st, 1), text(st, 2), st.Serial)
	}
	a, b := load(now), load(now)
	if x := a.Object(thing(3), state.CurrentObject); x == nil || x != b.Object(thing(3), state.CurrentObject) {
		t.Error("an unchanged object is in memory more than once")
	}
	s.kept = nil
	if _, err := now(); err == nil {
		t.Fatal("decoding the damaged content succeeds, so this test proves nothing")
	}
}

// The decoded state of a workspace must not be used for a later workspace of the same name: that one has versions with
// the same numbers.
func TestAWorkspaceThatIsMadeAgainHasNothingOfTheOneBefore(t *testing.T) {
	s := newThings(t)
	ctx := t.Context()
	for round := range 3 {
		if err := s.CreateWorkspace(ctx, "w"); err != nil {
			t.Fatal(err)
		}
		for n := range 2 {
			if err := s.Commit(ctx, journal.Commit{Workspace: "w", Changes: []state.Change{set(round, "{}"), set(10+n,
				"{}")},
				EndVersion: true}); err != nil {
				t.Fatal(err)
			}
			if n == 0 && round == 1 {
				continue // nobody looks
			}
			st, err := s.Load(ctx, "w")
			if err != nil || len(st.Resources) != 2+n || text(st, round) != "{}" {
				t.Errorf("in round %d the state has %v: %v", round, st.Addrs(), err)
			}
		}
		if err := s.DeleteWorkspace(ctx, "w"); err != nil {
			t.Fatal(err)
		}
	}
}
