package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/state/locks"
	"github.com/millipede-iac/millipede/state/tfstate"
)

// ledger is the oracle of a state that several runs change at the same time. It observes each call that changes the
// store, and computes the result that the call must have: which locks are held, the changes of each run, and the
// versions. Each version is the previous one with the changes of one run, so the versions are a serial order of the
// runs. The ledger checks that each object was made from the inputs that it would have had if the runs had been
// executed one after the other in this order.
type ledger struct {
	t        *team
	line     []*asked // the requests for locks, in the order in which they were made
	now      *state.State
	noted    map[string][]state.Change
	versions []madeVersion
	pushed   uint64 // serial of the last snapshot
}

// asked is a request for locks.
type asked struct {
	locks.Request
	granted bool
}

// madeVersion is a version that the state must have.
type madeVersion struct {
	state   *state.State
	run     string          // the run's ID in the journal
	touched map[string]bool // the instances that the run has changed
}

func newLedger(t *team) *ledger {
	return &ledger{t: t, now: state.Empty(), noted: map[string][]state.Change{}}
}

func (l *ledger) violate(format string, args ...any) {
	l.t.s.w.violate("serial", format, args...)
}

func (l *ledger) last() *state.State {
	if len(l.versions) == 0 {
		return state.Empty()
	}
	return l.versions[len(l.versions)-1].state
}

func (l *ledger) find(id string) *asked {
	for _, a := range l.line {
		if a.ID == id {
			return a
		}
	}
	return nil
}

// inConflict reports whether two sets of locks cannot be held at the same time.
func inConflict(x, y locks.Set) bool {
	if x.Whole() || y.Whole() {
		return true
	}
	for o, m := range x {
		if n, ok := y[o]; ok && (m != n || m == locks.Write) {
			return true
		}
	}
	return false
}

// asks records a request. It is the last one, unless a request with the same ID and set exists already.
func (l *ledger) asks(r locks.Request) {
	if a := l.find(r.ID); a != nil {
		if maps.Equal(a.Set, r.Set) {
			return
		}
		l.leaves(r.ID)
	}
	l.line = append(l.line, &asked{Request: r})
	if slices.ContainsFunc(l.line[:len(l.line)-1], func(a *asked) bool { return inConflict(a.Set, r.Set) }) {
		l.t.s.w.faults["team: waits for locks"]++
	}
}

// grants checks that the holders of locks are in conflict with no earlier request.
func (l *ledger) grants(id string) {
	a := l.find(id)
	if a == nil {
		l.violate("%s has got locks that it has not requested", id)
		return
	}
	if a.granted {
		return
	}
	a.granted = true
	if slices.ContainsFunc(l.line, func(b *asked) bool { return b != a && b.granted }) {
		l.t.s.w.faults["team: runs at the same time"]++
	}
	for _, before := range l.line {
		if before == a {
			break
		}
		if inConflict(before.Set, a.Set) {
			l.violate("%s has got its locks before %s, an earlier request in conflict with it (which has its locks: %v)", id,
				before.ID, before.granted)
		}
	}
}

// leaves records that a request was withdrawn. The run's changes become a version.
func (l *ledger) leaves(id string) {
	if len(l.noted[id]) > 0 {
		run := ""
		if r := l.t.runs[id]; r != nil {
			run = r.journal
		}
		l.ends(id, run)
	}
	l.line = slices.DeleteFunc(l.line, func(a *asked) bool { return a.ID == id })
	l.compare()
}

// commits checks a commit: the changed objects must be locked, and the created objects must be made from existing ones.
func (l *ledger) commits(tx journal.Commit, before, after *state.State, err error) {
	lockID := tx.Fence
	a := l.find(lockID)
	if errors.Is(err, journal.ErrFenced) && a != nil {
		l.violate("a commit of %s was refused: %v", lockID, err)
	}
	if err != nil {
		return
	}
	if len(l.line) == 0 && a == nil { // there are no requests for locks
		if len(tx.Changes) > 0 {
			l.now.Apply(tx.Changes...)
			l.violate("the state was changed under the lock %q, although no run has locked objects", lockID)
		}
		return
	}
	if a == nil {
		if len(tx.Changes)+len(tx.Events) > 0 || tx.EndVersion {
			l.violate("%q has changed the state without locks", lockID)
		}
		return
	}
	l.grants(lockID)
	for _, d := range state.Differences(before, after) {
		o := locks.Instance(d.Instance.String())
		switch {
		case d.Checks:
			continue
		case d.Output != "":
			o = locks.Output(d.Output)
		}
		if !a.Set.Writes(o) {
			l.violate("%s has changed %s without a lock on it", lockID, o)
		}
	}
	l.now.Apply(tx.Changes...)
	l.noted[lockID] = append(l.noted[lockID], tx.Changes...)
	if r := l.t.runs[lockID]; r != nil && slices.ContainsFunc(tx.Events, func(e journal.Event) bool {
		return e.Kind == journal.Finish
	}) {
		for _, c := range tx.Changes {
			if set, is := c.(state.SetObject); is && set.Deposed == state.CurrentObject {
				l.mustBeMadeFrom(r, set.Addr, after.Object(set.Addr, state.CurrentObject), after)
			}
		}
	}
	if tx.EndVersion || tx.EndUnfinished && len(l.noted[lockID]) > 0 {
		l.ends(lockID, tx.Run)
	}
	l.compare()
}

// ends records that the changes of a request have become a version.
func (l *ledger) ends(id, run string) {
	next := l.last().Clone()
	next.Apply(l.noted[id]...)
	touched := map[string]bool{}
	for _, c := range l.noted[id] {
		if set, is := c.(state.SetObject); is {
			touched[set.Addr.String()+" "] = true
		}
	}
	delete(l.noted, id)
	if next.SameContent(l.last()) && len(l.versions) > 0 {
		return
	}
	l.versions = append(l.versions, madeVersion{next, run, touched})
	l.t.s.w.faults["team: versions"]++
	list, err := l.t.s.store.Versions(context.Background(), "default")
	if err != nil {
		panic(err)
	}
	if len(list) != len(l.versions) {
		l.violate("the store has %d versions, not %d", len(list), len(l.versions))
		return
	}
	if list[0].Serial != uint64(len(l.versions)) || list[0].Run != run {
		l.violate("the last version is number %d, of the run %q, not number %d, of %q", list[0].Serial, list[0].Run,
			len(l.versions), run)
	}
}

// compare compares the content of the store with the ledger.
func (l *ledger) compare() {
	ctx := context.Background()
	now, err := l.t.s.store.Load(ctx, "default")
	if err != nil {
		panic(err)
	}
	if !now.SameContent(l.now) {
		l.violate("the state differs from the sum of the commits: %s", differing(l.now, now))
	}
	ended, err := l.t.s.store.LoadEnded(ctx, "default")
	if err != nil {
		panic(err)
	}
	if !ended.SameContent(l.last()) {
		l.violate("the last version differs from the changes of the ended runs: %s", differing(l.last(), ended))
	}
}

func differing(want, have *state.State) (text string) {
	for _, d := range state.Differences(want, have) {
		text += fmt.Sprintf(" %s%s", d.Instance, d.Output)
	}
	return text
}

// read checks the state that a plan reads: it must be a version, without changes of runs in progress.
func (l *ledger) read(st *state.State) {
	if !st.SameContent(l.last()) {
		l.violate("a plan reads a state that is not the last version: %s", differing(l.last(), st))
	}
}

// thingAttrs are the attributes of an object as a state has them.
type thingAttrs struct {
	ID   string   `json:"id"`
	Name string   `json:"name"`
	Size int      `json:"size"`
	Refs []string `json:"refs"`
}

func attrsOf(o *state.Object) (a thingAttrs, ok bool) {
	if o == nil || o.Attrs == nil || o.Status != state.Ready {
		return a, false
	}
	return a, json.Unmarshal(o.Attrs, &a) == nil
}

// mustBeMadeFrom checks that a run has made an object from the objects in a state.
func (l *ledger) mustBeMadeFrom(r *teamRun, where addr.Instance, o *state.Object, st *state.State) {
	have, ok := attrsOf(o)
	i := slices.IndexFunc(r.blocks, func(b thingBlock) bool { return b.address() == where.String() })
	if !ok || i < 0 || have.Name != r.blocks[i].own(l.t.s.name) {
		return
	}
	b := r.blocks[i]
	size := b.size
	current := func(j int) (thingAttrs, bool) {
		of := at(r.blocks, j)
		if of < 0 {
			return thingAttrs{}, false
		}
		return attrsOf(st.Object(instanceOf(r.blocks[of]), state.CurrentObject))
	}
	if b.as >= 0 {
		from, ok := current(b.as)
		if !ok {
			return // it is in doubt, or its creation has failed halfway: its content is unknown
		}
		size = from.Size
	}
	if have.Size != size {
		l.violate("%s has made %s with the size %d; by the objects in the state it must be %d", r.id, where, have.Size,
			size)
	}
	var refs []string
	for _, j := range b.refs {
		from, ok := current(j)
		if !ok {
			return
		}
		refs = append(refs, from.ID)
	}
	if !slices.Equal(have.Refs, refs) {
		l.violate("%s has made %s with references to %v; by the objects in the state they must be %v", r.id, where, have.Refs,
			refs)
	}
}

func instanceOf(b thingBlock) addr.Instance {
	i, diags := addr.ParseInstance(b.address())
	if diags.HasErrors() {
		panic(diags.Err())
	}
	return i
}

// mustBeAsPlanned checks the version of a run that was completed: each object that the run has changed is as the run's
// configuration says, evaluated with the other objects of that version, as if the run had been alone. An interrupted
// run has a version with a part of its changes. If it is resumed, its last version has all of them.
func (l *ledger) mustBeAsPlanned(r *teamRun) {
	if r.journal == "" {
		return // the run was not begun
	}
	var version *state.State
	for _, v := range l.versions {
		if v.run == r.journal {
			version = v.state
		}
	}
	if version == nil {
		return // the run has changed nothing
	}
	for _, c := range r.changes {
		if c.Deposed != state.CurrentObject {
			continue
		}
		o := version.Object(c.Addr, state.CurrentObject)
		switch c.Action {
		case plan.Delete, plan.Forget:
			if o != nil {
				l.violate("the plan of %s deletes %s, but its version still has it", r.id, c.Addr)
			}
		case plan.Create, plan.Update, plan.DeleteThenCreate, plan.CreateThenDelete:
			if o == nil {
				l.violate("the plan of %s makes %s, but its version does not have it", r.id, c.Addr)
				continue
			}
			l.mustBeMadeFrom(r, c.Addr, o, version)
		}
	}
	if r.round.refresh { // an object that the run removes may not be in its plan
		return
	}
	for _, name := range r.outputs {
		want := cty.NilVal
		for _, b := range r.blocks {
			if o, ok := attrsOf(version.Object(instanceOf(b), state.CurrentObject)); ok && b.index%2 == 0 &&
				name == fmt.Sprintf("o%d", b.index) {
				want = cty.NumberIntVal(int64(o.Size))
			}
		}
		have := version.Outputs[name]
		if (have == nil) != (want == cty.NilVal) || have != nil && !have.Value.RawEquals(want) {
			l.violate("%s has changed the output %s, but in its version the value is not %#v", r.id, name, want)
		}
	}
}

// mustNotBeDone checks that a run whose plan is refused as stale has not executed that plan.
func (l *ledger) mustNotBeDone(r *teamRun) {
	if r.journal == "" {
		return
	}
	run, _, err := l.t.s.store.RunPlan(context.Background(), r.journal)
	if err == nil && run.Status == "done" {
		l.violate("the plan of %s was refused as stale, but had been executed", r.id)
	}
}

// writer returns the run that has locked an object in order to change it. name is the object's name in the cloud.
func (l *ledger) writer(name string) string {
	parts := strings.Split(name, "-")
	for _, a := range l.line {
		if a.granted && a.Set.Writes(locks.Instance(typeIn(honest)+"."+parts[1])) {
			return a.ID
		}
	}
	return ""
}

// mustNotBeNeeded checks that no object that stays refers to an object that a run deletes. A targeted run may leave
// dependents unchanged.
func (l *ledger) mustNotBeNeeded(e *cloudRequest) {
	list := l.t.s.records()
	i := slices.IndexFunc(list, func(r record) bool { return r.attrs.ID == e.id })
	if i < 0 {
		return
	}
	var by *teamRun
	for _, a := range l.line {
		if r := l.t.runs[a.ID]; r != nil && a.granted && r.writes[list[i].resource.String()] {
			by = r
		}
	}
	if by != nil && l.t.s.w.trace != nil {
		for _, c := range by.changes {
			l.t.s.w.note("%s: %v %s", by.id, c.Action, c.Addr)
		}
	}
	if by == nil || by.round.targeted {
		return
	}
	for _, r := range list {
		if slices.Contains(r.attrs.Refs, e.id) && !by.writes[r.resource.String()] {
			l.violate("%s deletes %s, but leaves %s unchanged, which refers to it", by.id, e.name, r.attrs.Name)
		}
	}
}

// pushes checks a snapshot: it must be a version, and not older than the previous snapshot.
func (l *ledger) pushes(data []byte) {
	st, diags := tfstate.Parse(data)
	if diags.HasErrors() || st == nil {
		l.violate("the snapshot cannot be read: %v", diags.Err())
		return
	}
	if st.Serial < l.pushed {
		l.violate("the snapshot of version %d was written over that of version %d", st.Serial, l.pushed)
	}
	l.pushed = st.Serial
	if st.Serial == 0 || st.Serial > uint64(len(l.versions)) {
		l.violate("the snapshot has the serial %d, but there are %d versions", st.Serial, len(l.versions))
	}
}

// checkEnd checks at the end that no locks are left, and that the store can still return every version.
func (l *ledger) checkEnd() {
	ctx := context.Background()
	store := l.t.s.store
	left, err := store.LockRequests(ctx, "default")
	if err != nil {
		panic(err)
	}
	for _, r := range left {
		l.violate("at the end %s still has locks", r.ID)
	}
	list, err := store.Versions(ctx, "default")
	if err != nil || len(list) == 0 {
		l.violate("at the end there are no versions: %v", err)
		return
	}
	if l.pushed != list[0].Serial {
		l.violate("at the end the snapshot has version %d, but the last version is %d", l.pushed, list[0].Serial)
	}
	for i, v := range l.versions {
		st, err := store.LoadVersion(ctx, "default", uint64(i+1))
		if err != nil || !st.SameContent(v.state) {
			l.violate("the store returns another version %d than was made (%v)", i+1, err)
		}
		l.since(list, i)
	}
	if n := len(l.versions); n > 1 && len(left) == 0 {
		l.goBack(l.t.s.w.chance.IntN(n-1) + 1)
	}
}

// since checks the store's list of the changes since a version, and of the version that made each change last. Objects
// that were changed and changed back are included.
func (l *ledger) since(list []journal.VersionInfo, i int) {
	last := map[string]uint64{} // the version that changed each thing last
	for k := i + 1; k < len(l.versions); k++ {
		for _, d := range state.Differences(l.versions[k-1].state, l.versions[k].state) {
			last[d.Instance.String()+" "+d.Output] = uint64(k + 1)
		}
	}
	want, back := map[string]uint64{}, map[string]uint64{}
	for _, d := range state.Differences(l.versions[i].state, l.last()) {
		name := d.Instance.String() + " " + d.Output
		want[name] = last[name]
	}
	have := map[string]uint64{}
	changed, err := l.t.s.store.Since(context.Background(), "default", list[0].Lineage, uint64(i+1))
	for _, d := range changed {
		if name := d.Instance.String() + " " + d.Output; d.Back {
			back[name] = d.By.Serial
		} else {
			have[name] = d.By.Serial
		}
	}
	if err != nil || !maps.Equal(have, want) {
		l.violate("the changes since version %d are %v, not %v (%v)", i+1, have, want, err)
	}
	for name, by := range last {
		instance := !strings.HasPrefix(name, ". ") && !strings.HasPrefix(name, " ")
		if _, differs := want[name]; instance && !differs && back[name] != by {
			l.violate("since version %d %swas changed back by version %d, and by %d as is told", i+1, name, by, back[name])
		}
	}
	for name, by := range back { // one version may have changed a thing and changed it back
		if by <= uint64(i+1) || by > uint64(len(l.versions)) || !l.versions[by-1].touched[name] {
			l.violate("since version %d nothing has changed %sand changed it back, and version %d is said to", i+1, name, by)
		}
	}
}

// goBack restores an earlier version.
func (l *ledger) goBack(serial int) {
	ctx := context.Background()
	store := l.t.s.store
	was := l.versions[serial-1].state.Clone()
	last, err := store.Load(ctx, "default")
	if err != nil {
		panic(err)
	}
	was.Serial, was.Lineage = last.Serial+1, last.Lineage
	if err := store.Replace(ctx, "default", "", was, journal.Because("restore")); err != nil {
		l.violate("version %d cannot be restored: %v", serial, err)
		return
	}
	now, err := store.Load(ctx, "default")
	if err != nil || !now.SameContent(was) {
		l.violate("restoring version %d results in another state (%v)", serial, err)
	}
	for i, v := range l.versions {
		if st, err := store.LoadVersion(ctx, "default", uint64(i+1)); err != nil || !st.SameContent(v.state) {
			l.violate("after version %d was restored, the store returns another version %d than was made (%v)", serial, i+1, err)
		}
	}
}
