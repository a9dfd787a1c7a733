package service_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/millipede-iac/millipede/service"
	"github.com/millipede-iac/millipede/service/record"
	"github.com/millipede-iac/millipede/service/servicetest"
)

func TestADrainLetsWhatRunsEndAndNothingNewStart(t *testing.T) {
	h := servicetest.New(t)
	one, two := h.NewWorkspace("one"), h.NewWorkspace("two")
	began, goOn := make(chan struct{}, 1), make(chan struct{})
	h.Engine.ApplyFunc = func(_ context.Context, j *service.Job) (*service.ApplyResult, error) {
		if j.Workspace.Name == "one" {
			began <- struct{}{}
			<-goOn
		}
		return &service.ApplyResult{}, nil
	}
	runs := h.NewRun(one, func(r *record.Run) { r.AutoApply = true })
	<-began
	if err := h.Halt(h.Admin, one.ID, record.Halt{Reason: "the region moves"}); err != nil {
		t.Fatal(err)
	}
	waits := h.NewRun(one, func(r *record.Run) { r.PlanOnly, r.Message = true, "later" })
	w, err := h.Waits(t.Context(), h.Admin, waits.ID)
	if err != nil || w.Kind != "stopped" || w.On != "root" || w.Since.IsZero() ||
		!strings.Contains(w.Text, "the workspace is drained by root: the region moves") {
		t.Errorf("it waits for %+v, %v", w, err)
	}
	elsewhere := h.NewRun(two, func(r *record.Run) { r.AutoApply = true })
	h.Await(elsewhere.ID, record.Applied)
	close(goOn)
	h.Await(runs.ID, record.Applied)
	h.End()
	h.Start() // a halt outlives the service
	if v, err := h.FindRun(h.Admin, waits.ID); err != nil || v.Status != record.Pending {
		t.Errorf("a run of a workspace that is drained: %v, %v", v, err)
	}
	if err := h.Lift(h.Admin, one.ID); err != nil {
		t.Fatal(err)
	}
	h.Await(waits.ID, record.PlannedAndFinished)
	if err := h.Lift(h.Admin, one.ID); !errors.Is(err, service.ErrNotFound) {
		t.Errorf("lifted twice: %v", err)
	}
}

func TestAnEmergencyStopsWhatRunsAndItGoesOnAfterwards(t *testing.T) {
	h := servicetest.New(t)
	one, two, three := h.NewWorkspace("one"), h.NewWorkspace("two"), h.NewWorkspace("three")
	began := make(chan string, 8)
	resumed := make(chan bool, 8)
	hold := func(j *service.Job) error {
		began <- j.Run.ID
		<-j.Stopping.Done()
		return service.ErrStopped
	}
	h.Engine.ApplyFunc = func(_ context.Context, j *service.Job) (*service.ApplyResult, error) {
		if !j.Resumed || j.Stopping.Err() != nil {
			return nil, hold(j)
		}
		resumed <- true
		return &service.ApplyResult{}, nil
	}
	applying := h.NewRun(one, func(r *record.Run) { r.AutoApply = true })
	canceled := h.NewRun(three, func(r *record.Run) { r.AutoApply = true })
	<-began
	<-began
	h.Engine.Mu.Lock()
	h.Engine.PlanFunc = func(_ context.Context, j *service.Job) (*service.PlanResult, error) { return nil, hold(j) }
	h.Engine.Mu.Unlock()
	planning := h.NewRun(two, func(r *record.Run) { r.PlanOnly = true })
	<-began
	if err := h.Halt(h.Admin, "", record.Halt{Reason: "wrong keys", Emergency: true}); err != nil {
		t.Fatal(err)
	}
	h.Await(planning.ID, record.PlanQueued)
	w, err := h.Waits(t.Context(), h.Admin, applying.ID)
	if err != nil || w.Kind != "stopped" || w.Text != "the service was stopped by root: wrong keys" {
		t.Errorf("it waits for %+v, %v", w, err)
	}
	if err := h.Cancel(h.Admin, canceled.ID, ""); err != nil {
		t.Fatal(err)
	}
	h.Await(canceled.ID, record.Canceled)
	h.Engine.Mu.Lock()
	h.Engine.PlanFunc = nil
	h.Engine.Mu.Unlock()
	if err := h.Lift(h.Admin, ""); err != nil {
		t.Fatal(err)
	}
	h.Await(planning.ID, record.PlannedAndFinished)
	h.Await(applying.ID, record.Applied)
	<-resumed
}

func TestWhoMayNotAdministerHaltsNothing(t *testing.T) {
	h := servicetest.New(t)
	w := h.NewWorkspace("one")
	writer, admin := member(t, h, "ann", "write", w.ID), member(t, h, "bob", "admin", w.ID)
	halt := record.Halt{Reason: "r"}
	if err := h.Halt(writer, w.ID, halt); !errors.Is(err, service.ErrForbidden) {
		t.Errorf("who writes halts: %v", err)
	}
	if err := h.Halt(admin, "", halt); !errors.Is(err, service.ErrForbidden) {
		t.Errorf("who administers a workspace halts the service: %v", err)
	}
	if err := h.Halt(admin, w.ID, record.Halt{Reason: " "}); !errors.Is(err, service.ErrInvalid) {
		t.Errorf("without a reason: %v", err)
	}
	if err := h.Halt(admin, w.ID, halt); err != nil {
		t.Error(err)
	}
	if found, err := h.Halted(writer, w.ID); err != nil || found == nil || found.By != "bob" {
		t.Errorf("%+v, %v", found, err)
	}
}
