package bolt

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/recorded"
)

// manyThings returns a state with resources of n instances in total.
func manyThings(n int) *state.State {
	st := state.Empty()
	st.Lineage, st.Serial = "l", 7
	for i := range n {
		at := addr.Resource{Mode: addr.Managed, Type: "t", Name: fmt.Sprint("r", i%17)}.Absolute(addr.RootInstance).
			Instance(addr.IntKey(i))
		st.Apply(state.SetObject{Addr: at, Provider: addr.ProviderInstance{Provider: addr.DefaultProvider("t")},
			Object: &state.Object{Status: state.Ready, Attrs: fmt.Appendf(nil, `{"n":%d}`, i)}})
	}
	for i := range 20 {
		st.Outputs[fmt.Sprint("o", i)] = &state.Output{Value: cty.True}
	}
	st.Checks = []state.CheckResult{{Config: "check.c", Status: state.CheckPass}}
	return st
}

// The objects of a pushed state were written in random order: each key was inserted in the middle of a list that grew
// with the state, so that 100,000 objects took minutes.
func TestAWholeStateIsPutInTheOrderOfItsKeys(t *testing.T) {
	s, st := newThings(t), manyThings(300)
	if err := s.Replace(t.Context(), journal.DefaultWorkspace, "", st, journal.Because("push")); err != nil {
		t.Fatal(err)
	}
	got, err := s.Load(t.Context(), journal.DefaultWorkspace)
	if err != nil || !got.SameContent(st) {
		t.Fatalf("%v: there is %v", err, state.Differences(st, got))
	}
	err = s.update(func(tx *recorded.Tx) error {
		w, err := s.workspace(tx, journal.DefaultWorkspace)
		if err != nil {
			return err
		}
		e, err := s.edit(tx, w, nil)
		if err != nil {
			return err
		}
		all := e.entries(st)
		if !slices.IsSortedFunc(all, func(x, y entry) int { return bytes.Compare(x.key, y.key) }) ||
			uint64(len(all)) != w.data.b.Sequence() {
			t.Errorf("the %d keys, of %d, were not written in their order", len(all), w.data.b.Sequence())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// BenchmarkReplace writes a whole state, and replaces it by another one.
func BenchmarkReplace(b *testing.B) {
	for _, n := range []int{10_000, 40_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			st := manyThings(n)
			for b.Loop() {
				s, err := OpenOptions(b.TempDir()+"/state.db", journal.LockInfo{}, 0, Options{NoSync: true})
				if err != nil {
					b.Fatal(err)
				}
				if err := s.Replace(b.Context(), journal.DefaultWorkspace, "", st, journal.Because("push")); err != nil {
					b.Fatal(err)
				}
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
