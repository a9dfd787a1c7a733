package bolt

import (
	"fmt"
	"testing"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/recorded"
)

// Only changed parts of the state may be read. The test damages the others.
func TestWhatHasChangedIsToldWithoutReadingWhatHasNot(t *testing.T) {
	s, err := OpenOptions(t.TempDir()+"/state.db", journal.LockInfo{}, 0, Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	set := func(n int, text string) state.Change {
		return state.SetObject{
			Addr: addr.Resource{Mode: addr.Managed, Type: "t", Name: fmt.Sprint("n", n)}.
				Absolute(addr.RootInstance).Instance(addr.NoKey),
			Provider: addr.ProviderInstance{Provider: addr.DefaultProvider("t")},
			Object:   &state.Object{Status: state.Ready, Attrs: []byte(text)},
		}
	}
	commit := func(changes ...state.Change) {
		t.Helper()
		tx := journal.Commit{Workspace: journal.DefaultWorkspace, Changes: changes, EndVersion: true}
		if err := s.Commit(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
	}
	commit(set(1, "{}"), set(2, "{}"))
	st, err := s.Load(t.Context(), journal.DefaultWorkspace)
	if err != nil {
		t.Fatal(err)
	}
	commit(set(1, `{"a":1}`))
	if err := s.update(func(tx *recorded.Tx) error {
		data := tx.Bucket(workspacesBucket).Bucket([]byte(journal.DefaultWorkspace)).Bucket(dataBucket)
		return data.Put(keyOf(instanceKind, "t.n2"), []byte("no record"))
	}); err != nil {
		t.Fatal(err)
	}
	s.kept = nil
	if _, err := s.Load(t.Context(), journal.DefaultWorkspace); err == nil {
		t.Fatal("decoding the damaged content succeeds, so this test proves nothing")
	}
	list, err := s.Since(t.Context(), journal.DefaultWorkspace, st.Lineage, st.Serial)
	if err != nil || len(list) != 1 || list[0].Instance.String() != "t.n1" {
		t.Errorf("%v, %v", list, err)
	}
}
