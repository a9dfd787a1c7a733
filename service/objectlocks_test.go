package service_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/servicetest"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/service/work"
)

// sharing is a workspace whose runs lock objects. Its applies end when the test tells them to, or when the service
// ends; they ignore cancellations.
type sharing struct {
	*servicetest.Harness
	t *testing.T
	w *service.WorkspaceView
	// began has the job of each apply that begins.
	began chan *work.Job
	// ends has a channel for the end of each apply, by the message of its run.
	ends map[string]chan struct{}
}

func shares(t *testing.T) *sharing {
	t.Helper()
	h := servicetest.New(t)
	x := &sharing{Harness: h, t: t, began: make(chan *work.Job, 10), ends: map[string]chan struct{}{}}
	yes := true
	var err error
	if x.w, err = h.Workspaces.Change(h.Admin, h.NewWorkspace("one").ID, service.WorkspaceSettings{
		ObjectLocks: &yes}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "c"} {
		x.ends[name] = make(chan struct{})
	}
	h.Engine.ApplyFunc = func(ctx context.Context, j *work.Job) (*work.ApplyResult, error) {
		x.began <- j
		suspended := make(chan struct{})
		defer context.AfterFunc(j.Stopping, func() {
			if errors.Is(context.Cause(j.Stopping), work.ErrSuspended) {
				close(suspended)
			}
		})()
		select {
		case <-x.ends[j.Run.Message]:
			return &work.ApplyResult{}, nil
		case <-suspended:
			return nil, work.ErrStopped
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return x
}

// order queues a run with auto-apply.
func (x *sharing) order(message string) *record.Run {
	return x.NewRun(x.w, func(r *record.Run) { r.AutoApply, r.Message = true, message })
}

// applies orders a run, and returns it and its job once its apply has begun.
func (x *sharing) applies(message string) (*record.Run, *work.Job) {
	x.t.Helper()
	return x.order(message), <-x.began
}

// refuses checks that an action is refused because of a run.
func (x *sharing) refuses(what string, because *record.Run, err error) {
	x.t.Helper()
	if !errors.Is(err, tables.ErrConflict) || !strings.Contains(err.Error(), because.ID) {
		x.t.Errorf("%s while the run %s is in progress: %v", what, because.ID, err)
	}
}

// waits returns the objects for which a run waits, once it waits.
func (x *sharing) waits(r *record.Run) service.Wait {
	x.t.Helper()
	changes := uint64(0)
	for {
		wait, err := x.Runs.Waits(x.t.Context(), x.Admin, r.ID)
		if err != nil {
			x.t.Fatal(err)
		}
		if wait.Kind != "" {
			return wait
		}
		changes = x.Runs.Changed(x.t.Context(), changes)
	}
}

func TestAPersonHasTheStateWhenNoRunHasObjectsAndRunsWaitForThePerson(t *testing.T) {
	x := shares(t)
	old := put(t, x.Harness, x.w, 1, "a")
	put(t, x.Harness, x.w, 2, "b")
	a, _ := x.applies("a")
	b, _ := x.applies("b") // at the same time
	nobody := func(because *record.Run) {
		t.Helper()
		_, err := x.Workspaces.Lock(x.Admin, x.w.ID, "surgery")
		x.refuses("a lock", because, err)
		text := stateOf(3, "c")
		_, err = x.States.Create(x.Admin, x.w.ID, service.NewState{Serial: 3, Lineage: "l", MD5: service.Sum(text),
			State: text})
		x.refuses("a push", because, err)
		_, err = x.States.Restore(x.Admin, old.ID)
		x.refuses("going back", because, err)
		_, err = x.Workspaces.ForceUnlock(x.Admin, x.w.ID)
		x.refuses("a break of the lock", because, err)
		no := false
		_, err = x.Workspaces.Change(x.Admin, x.w.ID, service.WorkspaceSettings{ObjectLocks: &no})
		x.refuses("the setting", because, err)
	}
	nobody(a)
	close(x.ends["a"])
	x.Await(a.ID, record.Applied)
	nobody(b) // the lock of the workspace stands for all who are under way
	close(x.ends["b"])
	x.Await(b.ID, record.Applied)
	if _, err := x.Workspaces.Lock(x.Admin, x.w.ID, "surgery"); err != nil {
		t.Fatal(err)
	}
	c := x.order("c")
	if wait := x.waits(c); wait.Kind != "lock" || !strings.Contains(wait.Text, "surgery") {
		t.Errorf("the run waits for %+v", wait)
	}
	if _, err := x.States.Restore(x.Admin, old.ID); err != nil {
		t.Errorf("the holder of the lock restores a version: %v", err)
	}
	if len(x.began) > 0 {
		t.Error("the run has begun while a person holds the lock")
	}
	if _, err := x.Workspaces.Unlock(x.Admin, x.w.ID); err != nil {
		t.Fatal(err)
	}
	<-x.began
	close(x.ends["c"])
	x.Await(c.ID, record.Applied)
}

func TestARunThatIsLeftWhileAnotherWaitsForItsObjectsIsNotAliveAnyMore(t *testing.T) {
	x := shares(t)
	a, _ := x.applies("a")
	b, job := x.applies("b")
	if !job.Alive(a.ID) || !job.Alive(b.ID) || job.Alive("run-of-nobody") {
		t.Error("the service does not report which runs are alive")
	}
	job.Waits(work.ForObjects, a.ID, "thing.a, which a has")
	if wait := x.waits(b); wait.Kind != "objects" || wait.On != a.ID || wait.Text != "thing.a, which a has" {
		t.Errorf("the run waits for %+v", wait)
	}
	job.Waits(work.ForWorker, "eu", "a question waits for a worker of the pool eu, which has none")
	if wait := x.waits(b); wait.Kind != "worker" || wait.On != "eu" || wait.Since.IsZero() ||
		!strings.Contains(wait.Text, "which has none") {
		t.Errorf("the run waits for %+v", wait)
	}
	if err := x.Pools.Drain(t.Context(), x.Admin, "eu", "the region moves"); err != nil {
		t.Fatal(err)
	}
	if wait := x.waits(b); !strings.Contains(wait.Text, "the pool eu, which was drained by root: the region moves") {
		t.Errorf("the run waits for %+v", wait)
	}
	if err := errors.Join(x.Runs.Cancel(x.Admin, a.ID, ""), x.Runs.ForceCancel(x.Admin, a.ID, "")); err != nil {
		t.Fatal(err)
	}
	x.Await(a.ID, record.ForceCanceled)
	if job.Alive(a.ID) {
		t.Error("a run that was canceled by force is still alive")
	}
	_, err := x.Workspaces.Lock(x.Admin, x.w.ID, "")
	x.refuses("a lock", b, err)
	job.Waits("", "", "")
	if wait, err := x.Runs.Waits(t.Context(), x.Admin, b.ID); err != nil || wait.Kind != "" {
		t.Errorf("the run continues, but waits for %+v, %v", wait, err)
	}
	close(x.ends["b"])
	if v := x.Await(b.ID, record.Applied); v.On.Lock.Held() {
		t.Errorf("at the end the workspace is locked by %s", v.On.Lock.ID)
	}
}

// While a doubt is resolved, its run has locked the whole state, although that run has ended: others wait, and then
// continue at the same time. While runs have locked objects, no doubt is resolved.
func TestADoubtIsResolvedWhileNobodyHasObjects(t *testing.T) {
	x := shares(t)
	apply := x.Engine.ApplyFunc
	x.Engine.Mu.Lock()
	x.Engine.ApplyFunc = func(ctx context.Context, j *work.Job) (*work.ApplyResult, error) {
		if j.Run.Message != "doubt" {
			return apply(ctx, j)
		}
		j.Doubtful([]record.Doubt{{Address: "fleet_vm.a", Operation: "create", Worker: "w1"}})
		return nil, errors.New("an operation is in doubt")
	}
	x.Engine.Mu.Unlock()
	left := x.order("doubt")
	x.Await(left.ID, record.Errored)
	res := work.Resolution{Address: "fleet_vm.a"}
	a, _ := x.applies("a")
	x.refuses("resolving", a, x.Doubts.Resolve(t.Context(), x.Admin, x.w.ID, res))
	close(x.ends["a"])
	x.Await(a.ID, record.Applied)
	begun, end := make(chan struct{}), make(chan struct{})
	x.Engine.Mu.Lock()
	x.Engine.ResolveFunc = func(_ context.Context, j *work.Job, _ work.Resolution, _ string) error {
		close(begun)
		<-end
		j.Doubtful(nil)
		return j.State.Write(t.Context(), stateOf(1, "a"))
	}
	x.Engine.Mu.Unlock()
	resolved := make(chan error, 1)
	go func() { resolved <- x.Doubts.Resolve(t.Context(), x.Admin, x.w.ID, res) }()
	<-begun
	b, c := x.order("b"), x.order("c")
	for _, r := range []*record.Run{b, c} {
		if wait := x.waits(r); wait.Kind != "lock" || wait.On != left.ID || !strings.Contains(wait.Text, "doubt") {
			t.Errorf("the run waits for %+v", wait)
		}
	}
	if len(x.began) > 0 {
		t.Error("an apply has begun meanwhile")
	}
	close(end)
	if err := <-resolved; err != nil {
		t.Fatal(err)
	}
	<-x.began
	<-x.began // both are under way
	close(x.ends["b"])
	close(x.ends["c"])
	x.Await(b.ID, record.Applied)
	x.Await(c.ID, record.Applied)
}

// The setting could be changed while a speculative plan, which has no lock of the workspace, had the state open: the
// next run waited for the state, which the plan shared with others, and failed.
func TestTheLockingOfAStateIsNotChangedWhileAPlanHasItOpen(t *testing.T) {
	x := shares(t)
	planning, ends := make(chan struct{}), make(chan struct{})
	x.Engine.PlanFunc = func(context.Context, *work.Job) (*work.PlanResult, error) {
		close(planning)
		<-ends
		return &work.PlanResult{}, nil
	}
	no := false
	r := x.NewRun(x.w, func(r *record.Run) { r.PlanOnly = true })
	<-planning
	_, err := x.Workspaces.Change(x.Admin, x.w.ID, service.WorkspaceSettings{ObjectLocks: &no})
	x.refuses("the setting", r, err)
	close(ends)
	x.Await(r.ID, record.PlannedAndFinished)
	if _, err := x.Workspaces.Change(x.Admin, x.w.ID, service.WorkspaceSettings{ObjectLocks: &no}); err != nil {
		t.Error(err)
	}
}
