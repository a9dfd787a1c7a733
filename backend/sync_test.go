package backend_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/backend"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/lang/diag"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/mem"
	"github.com/millipede-iac/millipede/state/tfstate"
)

const ws = "default"

// world is a store and a backend that are synchronised.
type world struct {
	t     *testing.T
	store *mem.Store
	b     backend.Backend
	sync  *backend.Sync
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, store: mem.New(mem.Options{}), b: backend.NewMemory()}
	w.sync = &backend.Sync{Store: w.store, Backend: w.b, Version: "1.12.6"}
	return w
}

// pull pulls without an error, and returns the message.
func (w *world) pull() string {
	w.t.Helper()
	message, err := w.sync.Pull(w.t.Context(), ws, "")
	ok(w.t, err)
	return message
}

func (w *world) push() {
	w.t.Helper()
	ok(w.t, w.sync.Push(w.t.Context(), ws))
}

// commit ends a version with the number n in the object of this name.
func (w *world) commit(name string, n int) {
	w.t.Helper()
	ok(w.t, w.store.Commit(w.t.Context(), journal.Commit{Workspace: ws, Changes: put(name, n), EndVersion: true}))
}

func (w *world) load() *state.State {
	w.t.Helper()
	s, err := w.store.Load(w.t.Context(), ws)
	ok(w.t, err)
	return s
}

// others returns the state of the snapshot, as another engine reads it.
func (w *world) others() *state.State {
	w.t.Helper()
	s, err := backend.State(w.t.Context(), w.b, ws)
	ok(w.t, err)
	return s
}

// write writes a state into the snapshot, as another engine does: without the parts that it does not know.
func (w *world) write(s *state.State, serial uint64) {
	w.t.Helper()
	s = s.Clone()
	s.Serial = serial
	for _, a := range s.Addrs() {
		if o := s.Object(a, ""); o.Doubt != nil {
			c := *o
			c.Status, c.Doubt = state.Ready, nil
			change := state.SetObject{Addr: a, Provider: s.ProviderOf(a), Object: &c}
			if c.Attrs == nil {
				change.Object = nil
			}
			s.Apply(change)
		}
	}
	var buf bytes.Buffer
	ok(w.t, tfstate.Write(&buf, s, "1.12.0", tfstate.Indented))
	ok(w.t, w.b.Write(w.t.Context(), ws, buf.Bytes()))
}

func TestAFirstPullAdoptsWhatIsThere(t *testing.T) {
	w := newWorld(t)
	is(t, w.pull(), "")
	s := state.Empty()
	s.Lineage = "theirs"
	s.Apply(put("a", 1)...)
	w.write(s, 7)
	is(t, w.pull(), "")
	got := w.load()
	is(t, []any{got.Lineage, got.Serial, got.SameContent(s)}, []any{"theirs", 7, true})
	w.commit("a", 2)
	w.push()
	is(t, []any{w.others().Lineage, w.others().Serial}, []any{"theirs", 8})
}

func TestTurnsAreTakenWithoutAWord(t *testing.T) {
	w := newWorld(t)
	for n := range 5 {
		is(t, w.pull(), "")
		w.commit("ours", n)
		w.push()
		s := w.others()
		s.Apply(put("theirs", n)...)
		w.write(s, s.Serial+1)
	}
	is(t, w.pull(), "")
	is(t, []any{w.load().Serial, len(w.load().Addrs())}, []any{10, 2})
}

func TestWhatHasNotChangedIsNotWritten(t *testing.T) {
	w := newWorld(t)
	w.pull()
	w.push()
	if w.others() != nil {
		t.Error("a state without changes was written to the backend")
	}
	w.commit("a", 1)
	w.push()
	s := w.others()
	w.write(state.Empty(), 99) // must survive: the store has nothing new
	w.push()
	is(t, w.others().Serial, 99)
	w.write(s, 1)
}

func TestARemovedSnapshotEmptiesTheStateAndSaysHowToGetItBack(t *testing.T) {
	w := newWorld(t)
	w.commit("a", 1)
	w.push()
	before := w.load()
	ok(t, w.b.Write(t.Context(), ws, nil))
	is(t, w.pull(), `inmem:default was removed, so the state is empty now. The previous state had one instance and `+
		`is kept: "coordinator state restore 1" restores it.`)
	is(t, w.load().IsEmpty(), true)
	is(t, w.pull(), "")
	kept, err := w.store.LoadVersion(t.Context(), ws, before.Serial)
	ok(t, err)
	is(t, kept.SameContent(before), true)
	w.commit("new", 1)
	w.push()
	is(t, w.others().Lineage != before.Lineage, true)
}

// Both wrote a version with serial 0 and without a lineage, which names the time before the first version: the changes
// since it were all that had ever been made.
func TestAfterARemovalTheChangesSinceItAreNone(t *testing.T) {
	for name, remove := range map[string]func(w *world){
		"removed": func(w *world) {
			ok(t, w.b.Write(t.Context(), ws, nil))
			w.pull()
		},
		"emptied": func(w *world) { ok(t, w.sync.Empty(t.Context(), ws, "moved")) },
	} {
		w := newWorld(t)
		serials := map[uint64]bool{0: true}
		for n := range 3 {
			w.commit("a", n)
			w.push()
			remove(w)
			now := w.load()
			if now.Lineage != "" || serials[now.Serial] {
				t.Errorf("%s: the version has the lineage %q and the serial %d", name, now.Lineage, now.Serial)
			}
			serials[now.Serial] = true
			for serial := range serials {
				list, err := w.store.Since(t.Context(), ws, "", serial)
				ok(t, err)
				if (len(list) == 0) != (serial == now.Serial) {
					t.Errorf("%s: since serial %d of up to %d there are the changes %v", name, serial, now.Serial, list)
				}
			}
			w.push()
			is(t, w.others() == nil, true)
			is(t, w.pull(), "")
		}
	}
}

func TestAnotherStateOrAnOlderOneIsAdoptedAndToldOf(t *testing.T) {
	w := newWorld(t)
	w.commit("a", 1)
	w.push()
	old := w.others()
	w.commit("a", 2)
	w.push()
	w.write(old, 1)
	if m := w.pull(); !strings.Contains(m, "serial 1, it was 2") || !strings.Contains(m, "restore 2") {
		t.Error(m)
	}
	is(t, w.load().SameContent(old), true)
	old.Lineage = "other"
	w.write(old, 1)
	if m := w.pull(); !strings.Contains(m, "lineage other") {
		t.Error(m)
	}
}

func TestWhatACrashKeptFromTheSnapshotIsWrittenNext(t *testing.T) {
	w := newWorld(t)
	w.commit("a", 1)
	is(t, w.pull(), "") // nothing was ever written
	w.push()
	w.commit("a", 2) // crash before Push
	is(t, w.pull(), "")
	w.push()
	is(t, w.others().Serial, 2)
	// A crash before the version ended.
	ok(t, w.store.Commit(t.Context(), journal.Commit{Workspace: ws, Changes: put("b", 1)}))
	is(t, w.pull(), "")
	w.push()
	is(t, []any{w.others().Serial, len(w.others().Addrs())}, []any{3, 2})
	// A crash between the writing and the mark.
	marked, err := w.store.Mark(t.Context(), ws)
	ok(t, err)
	w.commit("a", 3)
	w.push()
	ok(t, w.store.SetMark(t.Context(), ws, marked))
	is(t, w.pull(), "")
	now, err := w.store.Mark(t.Context(), ws)
	ok(t, err)
	is(t, now.Serial, 4)
	// Removed while the store has changes: the store's state is written.
	w.commit("a", 4)
	ok(t, w.b.Write(t.Context(), ws, nil))
	is(t, w.pull(), "")
	w.push()
	is(t, w.others().Serial, 5)
}

// Push compared the newest version with the mark by lineage and serial only. The state in terraform.tfstate.backup is
// one serial behind, and "state push -force" adds one: the result had the lineage and serial of the snapshot, so it was
// stored, and the backend kept the state that it should have replaced.
func TestAnOlderStateThatIsPutBackIsWrittenAlthoughItsSerialIsThatOfTheSnapshot(t *testing.T) {
	w := newWorld(t)
	w.commit("a", 1)
	w.push()
	older := w.load().Clone()
	w.commit("a", 2)
	w.push()
	older.Serial = w.load().Serial
	ok(t, w.sync.Replace(t.Context(), ws, "", older, journal.Because("state push")))
	w.push()
	if !w.others().SameContent(older) {
		t.Errorf("the snapshot has %v", w.others())
	}
	if message := w.pull(); message != "" || !w.load().SameContent(older) {
		t.Errorf("the message of the pull is %q", message)
	}
}

func TestAStateThatWentOnInTwoPlacesIsNotDecidedSilently(t *testing.T) {
	w := newWorld(t)
	w.commit("a", 1)
	w.push()
	theirs := w.others()
	w.commit("ours", 1) // and a crash
	theirs.Apply(put("theirs", 1)...)
	w.write(theirs, 2)
	_, err := w.sync.Pull(t.Context(), ws, "")
	if diags, is := diag.As(err); !is || diags[0].Summary != "State changed in two places" {
		t.Errorf("the error is %v", err)
	}
	is(t, []any{len(w.load().Addrs()), w.others().Serial}, []any{2, 2})
	ok(t, w.b.Write(t.Context(), ws, nil)) // moved away
	is(t, w.pull(), "")
	w.push()
	is(t, w.others().SameContent(w.load()), true)
}

// The diagnostic advises "state push -force", which failed with the same diagnostic.
func TestAStateThatWentOnInTwoPlacesIsKeptTwiceForWhoReplacesItInAnyCase(t *testing.T) {
	w := newWorld(t)
	w.commit("a", 1)
	w.push()
	theirs := w.others()
	w.commit("ours", 1) // and a crash
	_, err := w.sync.Pull(t.Context(), ws, "")
	ok(t, err)
	theirs.Apply(put("theirs", 1)...)
	w.write(theirs, 2)
	w.sync.Settle = true
	says, err := w.sync.Pull(t.Context(), ws, "")
	ok(t, err)
	if !strings.Contains(says, "the serial 2, that of the snapshot with the serial 3") {
		t.Errorf("the message is %q", says)
	}
	ours, err := w.store.LoadVersion(t.Context(), ws, 2)
	ok(t, err)
	is(t, []any{len(ours.Addrs()), w.load().SameContent(theirs)}, []any{2, true})
	w.push()
	is(t, []any{w.others().Serial, w.others().SameContent(theirs)}, []any{3, true})
	w.sync.Settle = false
	is(t, w.pull(), "")
}

func TestASnapshotThatCannotBeReadIsLeftAlone(t *testing.T) {
	w := newWorld(t)
	w.commit("a", 1)
	w.push()
	ok(t, w.b.Write(t.Context(), ws, []byte(`{"version":4,`)))
	_, err := w.sync.Pull(t.Context(), ws, "")
	diags, is := diag.As(err)
	if !is || diags[0].Summary != "Unsupported state file format" || !strings.Contains(diags[0].Detail, "restore 1") {
		t.Errorf("the error is %v", err)
	}
	if len(w.load().Addrs()) != 1 {
		t.Error("the state was lost")
	}
}

// A disk that was full for a moment left terraform.tfstate with 0 bytes. The empty file counted as a file that the user
// had removed on purpose, so the next apply created all objects again, although the store had them.
func TestASnapshotThatWasEmptiedIsDamageAndNoRemoval(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "terraform.tfstate")
	w.b = backend.NewLocal(backend.LocalOptions{Dir: dir})
	w.sync.Backend = w.b
	ok(t, os.WriteFile(file, nil, 0o600)) // nothing is in the store: the state is empty, as OpenTofu has it
	is(t, w.pull(), "")
	w.commit("a", 1)
	w.push()
	for _, locked := range []bool{false, true} {
		ok(t, os.WriteFile(file, nil, 0o600))
		if locked {
			lock(t, w.b, ws, journal.LockInfo{ID: "1"})
		}
		_, err := w.sync.Pull(t.Context(), ws, "")
		diags, list := diag.As(err)
		if !list || diags[0].Summary != "The state file is empty" || !strings.Contains(diags[0].Detail, "restore 1") {
			t.Errorf("locked: %t: the error is %v", locked, err)
		}
		is(t, len(w.load().Addrs()), 1)
	}
	ok(t, w.b.Unlock(t.Context(), ws, "1"))

	w.commit("b", 1) // the store went on: its next version takes the place of the damage
	is(t, w.pull(), "")
	w.push()
	is(t, len(w.others().Addrs()), 2)

	ok(t, os.Remove(file)) // that is a decision
	is(t, strings.Contains(w.pull(), "was removed, so the state is empty now"), true)
	is(t, w.load().IsEmpty(), true)
}

func TestAnotherPlaceIsNoRemoval(t *testing.T) {
	w := newWorld(t)
	w.commit("a", 1)
	w.push()
	dir := t.TempDir()
	w.b = backend.NewLocal(backend.LocalOptions{Dir: dir})
	w.sync.Backend = w.b
	is(t, w.pull(), "")
	w.push()
	is(t, w.others().Serial, 1)
}

func TestDoubtsSurviveAnotherEngineUnlessItChangedTheObject(t *testing.T) {
	doubt := func(name string, attrs []byte) state.Change {
		return state.SetObject{Addr: instance(name), Provider: provider, Object: &state.Object{
			Status: state.InDoubt, Attrs: attrs, Doubt: &state.Doubt{Attempt: name, Operation: "create",
				Before: state.Ready},
		}}
	}
	w := newWorld(t)
	ok(t, w.store.Commit(t.Context(), journal.Commit{Workspace: ws, EndVersion: true, Changes: []state.Change{
		doubt("unseen", nil), doubt("untouched", []byte(`{"n":1}`)), doubt("changed", []byte(`{"n":1}`)),
		doubt("removed", []byte(`{"n":1}`)),
	}}))
	w.push()
	is(t, w.others().SameContent(w.load()), true)
	s := w.others()
	s.Apply(append(put("changed", 2), state.SetObject{Addr: instance("removed")})...)
	w.write(s, 2)
	is(t, w.pull(), "Another engine changed the state while 2 instances in doubt; the doubts are kept.")
	got := map[string]state.Status{}
	for _, a := range w.load().Addrs() {
		got[a.Resource.Name] = w.load().Object(a, "").Status
	}
	is(t, got, map[string]state.Status{"unseen": state.InDoubt, "untouched": state.InDoubt, "changed": state.Ready})
}

func TestAWorkspaceThatOnlyTheBackendKnowsIsMet(t *testing.T) {
	w := newWorld(t)
	if _, err := w.sync.Pull(t.Context(), "stage", ""); !errors.Is(err, journal.ErrNoWorkspace) {
		t.Errorf("the error is %v", err)
	}
	ok(t, w.b.Create(t.Context(), "stage"))
	_, err := w.sync.Pull(t.Context(), "stage", "")
	ok(t, err)
	names, err := w.store.Workspaces(t.Context())
	ok(t, err)
	is(t, names, []string{"default", "stage"})
}

func TestAPullUnderALostLockChangesNothing(t *testing.T) {
	w := newWorld(t)
	s := state.Empty()
	s.Apply(put("a", 1)...)
	w.write(s, 1)
	_, err := w.sync.Pull(t.Context(), ws, "lost")
	isError(t, err, journal.ErrFenced)
	is(t, w.load().IsEmpty(), true)
}

func TestOutputsOfAnotherStateAreReadThroughTheContract(t *testing.T) {
	w := newWorld(t)
	s := state.Empty()
	s.Apply(state.SetOutput{Name: "o", Output: &state.Output{Value: cty.StringVal("v"), Sensitive: true}})
	w.write(s, 1)
	o := w.others().Outputs["o"]
	is(t, []any{o.Value.AsString(), o.Sensitive}, []any{"v", true})
}

var provider = addr.ProviderConfig{Provider: addr.DefaultProvider("test")}.Instance(addr.RootInstance, addr.NoKey)

func instance(name string) addr.Instance {
	return addr.Resource{Mode: addr.Managed, Type: "test_thing", Name: name}.Absolute(
		addr.RootInstance).Instance(addr.NoKey)
}

func put(name string, n int) []state.Change {
	return []state.Change{state.SetObject{
		Addr: instance(name), Provider: provider,
		Object: &state.Object{Status: state.Ready, Attrs: fmt.Appendf(nil, `{"n":%d}`, n)},
	}}
}
