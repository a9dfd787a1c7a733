package operation_test

import (
	"testing"
	"time"

	"github.com/millipede-iac/millipede/coordinator/operation"
	"github.com/millipede-iac/millipede/graph/plan"
	"github.com/millipede-iac/millipede/lang/addr"
	"github.com/millipede-iac/millipede/state"
	"github.com/millipede-iac/millipede/state/journal"
	"github.com/millipede-iac/millipede/wire"
)

// suspect marks the object at an address as in doubt.
func (e *estate) suspect(address, operation string) addr.Instance {
	e.t.Helper()
	at, diags := addr.ParseInstance(address)
	e.clean(diags)
	st := e.state()
	o := state.Object{}
	if st.Object(at, state.CurrentObject) != nil {
		o = *st.Object(at, state.CurrentObject)
	}
	o.Status = state.InDoubt
	o.Doubt = &state.Doubt{Run: "gone", Attempt: "a1", Pool: "default", Operation: operation, Before: state.Ready}
	e.check(e.store.Commit(e.t.Context(), journal.Commit{Workspace: "default", Changes: []state.Change{
		state.SetObject{Addr: at, Provider: st.ProviderOf(at), Object: &o}}}))
	return at
}

// resolve ends the doubt at an address.
func (e *estate) resolve(at addr.Instance, id string) {
	e.t.Helper()
	tx, diags := e.session.Resolve(e.t.Context(), e.state(), at, id, "somebody")
	e.clean(diags)
	e.check(e.store.Commit(e.t.Context(), inDefault(tx)))
}

// revoked reports whether no worker can start the attempt any more.
func (e *estate) revoked() bool {
	e.t.Helper()
	c, err := e.session.Hub.ReadClaim(e.t.Context(), wire.TaskRef{Pool: "default", Coordinator: "c", Run: "gone",
		Attempt: "a1"})
	return err == nil && c.Tombstone
}

const two = `
resource "fake_thing" "a" { name = "a" }
resource "fake_thing" "b" { name = "b" }
`

// The task of an attempt in doubt may still be in its stream. A worker that took it after the user had stated that
// nothing was created would create the object that the next run creates, too.
func TestWhatIsResolvedCannotBeginAnyMore(t *testing.T) {
	e := newEstate(t)
	e.apply(two)
	e.resolve(e.suspect("fake_thing.a", "update"), "")
	if !e.revoked() {
		t.Error("the attempt is not revoked")
	}
	e.equal("state", existing(e.state()), []string{"fake_thing.a", "fake_thing.b"})
}

// A worker fetched the task after the user had looked at the cloud, and before the user resolved the doubt.
func TestAWordAboutAnOperationThatHasBegunMeanwhileIsNotTakenAtOnce(t *testing.T) {
	e := newEstate(t)
	e.session.Embedded = false
	e.apply(two)
	at := e.suspect("fake_thing.a", "update")
	_, err := e.session.Hub.Claim(t.Context(), wire.TaskRef{Pool: "default", Run: "gone", Attempt: "a1"},
		wire.Claim{Nonce: "n", Worker: "w9"})
	e.check(err)
	tx, diags := e.session.Resolve(t.Context(), e.state(), at, "", "somebody")
	if !says(diags, "has begun") {
		t.Errorf("the resolution was accepted: %v", diags)
	}
	e.check(e.store.Commit(t.Context(), inDefault(tx)))
	e.equal("state", existing(e.state()), []string{"fake_thing.a in doubt", "fake_thing.b"})
	e.resolve(at, "")
	e.equal("state", existing(e.state()), []string{"fake_thing.a", "fake_thing.b"})
}

func TestAPlanOverADoubtLeavesNothingThatCanBegin(t *testing.T) {
	e := newEstate(t)
	e.apply(two)
	e.suspect("fake_thing.a", "update")
	_, diags := e.tryApply(e.plan(plan.Options{}))
	e.clean(diags)
	if !e.revoked() {
		t.Error("the attempt is not revoked")
	}
	e.equal("state", existing(e.state()), []string{"fake_thing.a", "fake_thing.b"})
}

func TestADeletionInDoubtIsResolvedByLooking(t *testing.T) {
	for there, want := range map[bool][]string{true: {"fake_thing.a", "fake_thing.b"}, false: {"fake_thing.b"}} {
		e := newEstate(t)
		e.apply(two)
		at := e.suspect("fake_thing.a", "delete")
		if !there {
			e.cloud.remove("a")
		}
		e.resolve(at, "")
		e.equal("state", existing(e.state()), want)
	}
}

// The apply built the graph of the configuration again, with fewer vertices than the plan had: one for each resource
// without a block that still exists.
func TestAnObjectWithoutABlockThatIsGoneAlreadyDoesNotStopTheApply(t *testing.T) {
	e := newEstate(t)
	e.apply(two)
	e.configure(`resource "fake_thing" "a" { name = "a" }`)
	e.cloud.remove("b")
	_, diags := e.tryApply(e.plan(plan.Options{}))
	e.clean(diags)
	e.equal("state", existing(e.state()), []string{"fake_thing.a"})
}

// Only the last run may be resumed. It counted as an older one if the clock of the machine that had begun the run
// before was ahead.
func TestTheLastRunIsTheNewestWhateverTheClocksSay(t *testing.T) {
	e := newEstate(t)
	e.apply(two)
	before, err := e.store.Runs(t.Context(), "default")
	e.check(err)
	e.session.Now = func() time.Time { return time.Now().Add(-time.Hour) }
	e.apply(two + `
resource "fake_thing" "c" { name = "c" }`)
	runs, err := e.store.Runs(t.Context(), "default")
	e.check(err)
	if len(runs) != 2 || runs[1].ID != before[0].ID {
		t.Errorf("the runs are %+v", runs)
	}
}

// A process whose lock was broken during planning ended the run of the process that had broken the lock, and began its
// own.
func TestWhoHasLostTheLockNeitherBeginsARunNorEndsThatOfAnother(t *testing.T) {
	e := newEstate(t)
	e.apply(two)
	e.configure(`resource "fake_thing" "c" { name = "c" }`)
	p := e.plan(plan.Options{})
	e.check(e.store.Lock(t.Context(), "default", journal.LockInfo{ID: "another", Who: "somebody else"}))
	e.check(e.store.BeginRun(t.Context(), "another", journal.Run{ID: "theirs", Workspace: "default",
		Started: time.Now(), Status: "running"}, nil))
	applied, diags := e.session.Apply(t.Context(), operation.ApplyOptions{Plan: p, Command: "apply", LockID: "mine"})
	if applied != nil || !says(diags, "the state lock was lost") {
		t.Errorf("%v, %v", applied, diags)
	}
	runs, err := e.store.Runs(t.Context(), "default")
	e.check(err)
	if runs[0].ID != "theirs" || runs[0].Status != "running" {
		t.Errorf("the run is %+v", runs[0])
	}
}

// A run ended while an operation in doubt held its permit. The doubt was resolved, and another run did the remaining
// work, under other permits.
func TestTheNextApplyGivesBackThePermitsOfARunThatNobodyGoesOnWith(t *testing.T) {
	e := newEstate(t)
	e.apply(two)
	request := wire.PermitRequest{ID: "left-0", Coordinator: "c", Run: "left", At: time.Now()}
	before := e.system.Connect("before")
	_, err := before.Acquire(t.Context(), "default", request)
	e.check(err)
	e.check(before.Close())
	e.check(e.store.BeginRun(t.Context(), "", journal.Run{ID: "left", Workspace: "default", Coordinator: "c",
		Status: "interrupted", Vertices: 1}, nil))
	e.check(e.store.Commit(t.Context(), journal.Commit{Workspace: "default", Run: "left", Events: []journal.Event{
		{Kind: journal.Want}, {Kind: journal.Dispatch, Attempt: "a1", Permits: []string{"default/left-0"}},
		{Kind: journal.Suspect}, {Kind: journal.Retract}}}))
	e.apply(two)
	limits, err := e.session.Hub.Limits(t.Context())
	e.check(err)
	if n := len(limits[0].Held); n != 0 {
		t.Errorf("%d permits are held", n)
	}
}

// inDefault is a commit of the workspace "default", without a lock.
func inDefault(c journal.Commit) journal.Commit {
	c.Workspace = "default"
	return c
}
