package service_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/coordinator/timeline"
	"github.com/millipede-iac/millipede/service/events"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/servicetest"
	"github.com/millipede-iac/millipede/service/tables"
	"github.com/millipede-iac/millipede/service/work"
)

func TestADrainLetsWhatRunsEndAndNothingNewStart(t *testing.T) {
	h := servicetest.New(t)
	one, two := h.NewWorkspace("one"), h.NewWorkspace("two")
	began, goOn := make(chan struct{}, 1), make(chan struct{})
	h.Engine.ApplyFunc = func(_ context.Context, j *work.Job) (*work.ApplyResult, error) {
		if j.Workspace.Name == "one" {
			began <- struct{}{}
			<-goOn
		}
		return &work.ApplyResult{}, nil
	}
	runs := h.NewRun(one, func(r *record.Run) { r.AutoApply = true })
	<-began
	if err := h.Halts.Halt(h.Admin, one.ID, record.Halt{Reason: "the region moves"}); err != nil {
		t.Fatal(err)
	}
	waits := h.NewRun(one, func(r *record.Run) { r.PlanOnly, r.Message = true, "later" })
	w, err := h.Runs.Waits(t.Context(), h.Admin, waits.ID)
	if err != nil || w.Kind != "stopped" || w.On != "root" || w.Since.IsZero() ||
		!strings.Contains(w.Text, "the workspace is drained by root: the region moves") {
		t.Errorf("the run waits for %+v, %v", w, err)
	}
	elsewhere := h.NewRun(two, func(r *record.Run) { r.AutoApply = true })
	h.Await(elsewhere.ID, record.Applied)
	close(goOn)
	h.Await(runs.ID, record.Applied)
	h.End()
	h.Start() // a halt outlives the service
	if v, err := h.Runs.Find(h.Admin, waits.ID); err != nil || v.Status != record.Pending {
		t.Errorf("queueing a run in a drained workspace: %v, %v", v, err)
	}
	if err := h.Halts.Lift(h.Admin, one.ID); err != nil {
		t.Fatal(err)
	}
	h.Await(waits.ID, record.PlannedAndFinished)
	if err := h.Halts.Lift(h.Admin, one.ID); !errors.Is(err, tables.ErrNotFound) {
		t.Errorf("lifting the drain twice: %v", err)
	}
}

func TestAnEmergencyStopsWhatRunsAndItGoesOnAfterwards(t *testing.T) {
	h := servicetest.New(t)
	one, two, three := h.NewWorkspace("one"), h.NewWorkspace("two"), h.NewWorkspace("three")
	began := make(chan string, 8)
	resumed := make(chan bool, 8)
	hold := func(j *work.Job) error {
		began <- j.Run.ID
		<-j.Stopping.Done()
		return work.ErrStopped
	}
	h.Engine.ApplyFunc = func(_ context.Context, j *work.Job) (*work.ApplyResult, error) {
		if !j.Resumed || j.Stopping.Err() != nil {
			return nil, hold(j)
		}
		resumed <- true
		return &work.ApplyResult{}, nil
	}
	applying := h.NewRun(one, func(r *record.Run) { r.AutoApply = true })
	canceled := h.NewRun(three, func(r *record.Run) { r.AutoApply = true })
	<-began
	<-began
	h.Engine.Mu.Lock()
	h.Engine.PlanFunc = func(_ context.Context, j *work.Job) (*work.PlanResult, error) { return nil, hold(j) }
	h.Engine.Mu.Unlock()
	planning := h.NewRun(two, func(r *record.Run) { r.PlanOnly = true })
	<-began
	if err := h.Halts.Halt(h.Admin, "", record.Halt{Reason: "wrong keys", Emergency: true}); err != nil {
		t.Fatal(err)
	}
	h.Await(planning.ID, record.PlanQueued)
	w, err := h.Runs.Waits(t.Context(), h.Admin, applying.ID)
	if err != nil || w.Kind != "stopped" || w.Text != "the service was stopped by root: wrong keys" {
		t.Errorf("the run waits for %+v, %v", w, err)
	}
	if err := h.Runs.Cancel(h.Admin, canceled.ID, ""); err != nil {
		t.Fatal(err)
	}
	h.Await(canceled.ID, record.Canceled)
	h.Engine.Mu.Lock()
	h.Engine.PlanFunc = nil
	h.Engine.Mu.Unlock()
	if err := h.Halts.Lift(h.Admin, ""); err != nil {
		t.Fatal(err)
	}
	h.Await(planning.ID, record.PlannedAndFinished)
	h.Await(applying.ID, record.Applied)
	<-resumed
}

func TestWhoMayNotAdministerHaltsNothing(t *testing.T) {
	h := servicetest.New(t)
	w := h.NewWorkspace("one")
	writer, admin := h.Member("ann", "write", w.ID), h.Member("bob", "admin", w.ID)
	halt := record.Halt{Reason: "r"}
	if err := h.Halts.Halt(writer, w.ID, halt); !errors.Is(err, tables.ErrForbidden) {
		t.Errorf("somebody with the role write drains the workspace: %v", err)
	}
	if err := h.Halts.Halt(admin, "", halt); !errors.Is(err, tables.ErrForbidden) {
		t.Errorf("the administrator of a workspace drains the service: %v", err)
	}
	if err := h.Halts.Halt(admin, w.ID, record.Halt{Reason: " "}); !errors.Is(err, tables.ErrInvalid) {
		t.Errorf("a drain without a reason: %v", err)
	}
	if err := h.Halts.Halt(admin, w.ID, halt); err != nil {
		t.Error(err)
	}
	if found, err := h.Halts.Find(writer, w.ID); err != nil || found == nil || found.By != "bob" {
		t.Errorf("%+v, %v", found, err)
	}
}

// There was no drain of a pool: its workers had to be stopped one by one.
func TestADrainedPoolGetsNothingNewAlsoAfterARestartAndRunsSayThatTheyWaitForIt(t *testing.T) {
	h := servicetest.New(t)
	drained := func() []string {
		h.Capacity.Mu.Lock()
		defer h.Capacity.Mu.Unlock()
		return h.Capacity.Drained
	}
	w := h.NewWorkspace("one")
	admin := h.Member("bob", "admin", w.ID)
	ctx := t.Context()
	if err := h.Pools.Drain(ctx, admin, "eu", "r"); !errors.Is(err, tables.ErrForbidden) {
		t.Errorf("the administrator of a workspace drains a pool: %v", err)
	}
	if err := h.Pools.Drain(ctx, h.Admin, "eu", " "); !errors.Is(err, tables.ErrInvalid) {
		t.Errorf("a drain without a reason: %v", err)
	}
	if err := h.Pools.Drain(ctx, h.Admin, "e u", "r"); !errors.Is(err, tables.ErrInvalid) {
		t.Errorf("a drain of a pool without a name: %v", err)
	}
	for _, pool := range []string{"us", "eu"} {
		if err := h.Pools.Drain(ctx, h.Admin, pool, "the region moves"); err != nil {
			t.Fatal(err)
		}
	}
	recorder := timeline.NewRecorder(timeline.Head{Ended: timeline.None})
	goOn := make(chan struct{})
	watched(h, recorder, goOn)
	at := h.Stream().Now()
	r := h.NewRun(w, func(r *record.Run) { r.AutoApply = true }) // a pool's drain is no halt of runs
	awaitEvent(t, h, at, events.TimelineBegun, r.ID)
	recorder.Note(func(_ *timeline.Head, _ *int64, s *[]timeline.Shortage) {
		*s = []timeline.Shortage{{Kind: "worker", Name: "eu", Vertices: 2}}
	})
	wait, err := h.Runs.Waits(ctx, h.Admin, r.ID)
	if err != nil || wait.Kind != "worker" || wait.On != "eu" ||
		wait.Text != "2 operations wait for the pool eu, which was drained by root: the region moves" {
		t.Errorf("the run waits for %+v, %v", wait, err)
	}
	close(goOn)
	h.Await(r.ID, record.Applied)
	h.End()
	h.Capacity.Drained = nil
	h.Start()
	r = h.NewRun(w, func(r *record.Run) { r.AutoApply = true })
	h.Await(r.ID, record.Applied) // the queue has started
	if got := drained(); !slices.Equal(got, []string{"eu", "us"}) {
		t.Errorf("after the restart the drained pools are %q", got)
	}
	if err := h.Pools.Lift(ctx, admin, "eu"); !errors.Is(err, tables.ErrForbidden) {
		t.Errorf("the administrator of a workspace lifts the drain of a pool: %v", err)
	}
	if err := h.Pools.Lift(ctx, h.Admin, "eu"); err != nil {
		t.Fatal(err)
	}
	if err := h.Pools.Lift(ctx, h.Admin, "eu"); !errors.Is(err, tables.ErrNotFound) {
		t.Errorf("lifting the drain twice: %v", err)
	}
	all, err := h.Pools.Drained(admin)
	if got := drained(); err != nil || !slices.Equal(got, []string{"us"}) || len(all) != 1 || all["us"].By != "root" {
		t.Errorf("at the end the drained pools are %q, and %+v are shown: %v", got, all, err)
	}
}
